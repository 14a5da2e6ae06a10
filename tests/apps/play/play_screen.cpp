#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/play/screen.h"
#include "envs/shown_observation.h"
#include "envs/vec/vec_env.h"

using namespace engram;

namespace {

using Lines = std::vector<std::string>;

Canvas canvas(int rows, int columns, Rgb colour = {1, 2, 3}) {
  Canvas result;
  result.resize(rows, columns, colour);
  return result;
}

// What is left of a line without its colours.
std::string plain(const std::string& line) {
  std::string text;
  for (std::size_t at = 0; at < line.size(); ++at)
    if (line[at] == '\033')
      at = line.find('m', at);
    else
      text += line[at];
  return text;
}

PlayScreen example() {
  PlayScreen screen;
  screen.title = "a task";
  screen.pictures = {{"the board", canvas(3, 6)}, {"an agent sees", canvas(2, 2)}};
  screen.lines = {"in hand: nothing"};
  screen.status = {"step 0 of 9"};
  screen.keys = {"up/k: north", "q: quit"};
  return screen;
}

}  // namespace

TEST_CASE("a known board is these bytes") {
  Canvas board = canvas(2, 3, {255, 0, 0});
  board.set(0, 2, {0, 255, 0});
  board.set(1, 1, {204, 204, 204});
  CHECK(picture_lines(board, {}, 2, ColourDepth::k24Bit) ==
        Lines{"\033[48;2;255;0;0m    \033[48;2;0;255;0m  \033[0m",
              "\033[48;2;255;0;0m  \033[48;2;204;204;204m  \033[48;2;255;0;0m  \033[0m"});
  CHECK(picture_lines(board, {}, 1, ColourDepth::k256) ==
        Lines{"\033[48;5;196m  \033[48;5;46m \033[0m", "\033[48;5;196m \033[48;5;252m \033[48;5;196m \033[0m"});
}

TEST_CASE("of 256 colours the nearest is taken, of the cube or of the greys") {
  CHECK(nearest_of_256({0, 0, 0}) == 16);
  CHECK(nearest_of_256({255, 255, 255}) == 231);
  CHECK(nearest_of_256({95, 135, 175}) == 16 + 36 * 1 + 6 * 2 + 3);
  CHECK(nearest_of_256({8, 8, 8}) == 232);
  CHECK(nearest_of_256({25, 25, 25}) == 234);
  CHECK(nearest_of_256({228, 148, 109}) == 16 + 36 * 4 + 6 * 2 + 1);
}

TEST_CASE("24 bits are for terminals that say so, and no colours for people who do") {
  CHECK(colour_depth("truecolor", "") == ColourDepth::k24Bit);
  CHECK(colour_depth("24bit", "") == ColourDepth::k24Bit);
  for (const char* const other : {"", "1", "yes", "256color"}) CHECK(colour_depth(other, "") == ColourDepth::k256);
  for (const char* const set : {"1", "0", "no"}) CHECK(colour_depth("truecolor", set) == ColourDepth::kNone);
}

TEST_CASE("without colours a board is letters, shades are digits, and nothing else is sent") {
  const Rgb wall{25, 25, 25}, agent{9, 9, 200}, dark{0, 0, 0}, bright{200, 200, 0};
  const std::vector<ColourMeaning> meanings = {{'#', wall, "wall"}, {'@', agent, "agent"}, {'0', dark, "odds", bright}};
  Canvas board = canvas(2, 4, wall);
  board.set(0, 1, agent);
  board.set(0, 2, {100, 100, 0});
  board.set(0, 3, bright);
  board.set(1, 0, dark);
  board.set(1, 1, {255, 255, 255});  // no meaning
  CHECK(picture_lines(board, meanings, 2, ColourDepth::kNone) == Lines{"# @ 5 9 ", "0   # # "});
  board.set_arrow({0, 1, Facing::kLeft});
  CHECK(picture_lines(board, meanings, 1, ColourDepth::kNone) == Lines{"#<59", "0 ##"});
  CHECK(picture_lines(board, meanings, 1, ColourDepth::k256)[0] ==
        "\033[48;5;234m \033[48;5;20m\033[38;5;231m<\033[48;5;58m \033[48;5;184m \033[0m");

  board.set(0, 1, {255, 255, 255});
  CHECK(picture_lines(board, meanings, 1, ColourDepth::k256)[0].find("\033[48;5;231m\033[38;5;16m<") !=
        std::string::npos);

  PlayScreen screen = example();
  screen.pictures = {{"the board", board}};
  screen.colours = meanings;
  for (const std::string& line : screen.compose(80, 24, ColourDepth::kNone))
    CHECK(line.find('\033') == std::string::npos);
}

TEST_CASE("the colours that are to be seen are explained, those of one meaning together") {
  PlayScreen screen = example();
  screen.pictures = {{"the board", canvas(2, 2, {1, 1, 1})}};
  screen.pictures[0].picture.set(0, 0, {2, 2, 2});
  screen.pictures[0].picture.set(0, 1, {100, 0, 0});
  screen.pictures[0].picture.set_arrow({0, 0, Facing::kUp});
  screen.colours = {{'a', {1, 1, 1}, "wall"},
                    {'b', {2, 2, 2}, "wall"},
                    {'c', {3, 3, 3}, "not there"},
                    {'0', {50, 0, 0}, "odds", Rgb{250, 0, 0}}};
  const auto line_of = [&](ColourDepth depth, std::size_t columns, std::size_t rows) {
    const Lines lines = screen.compose(columns, rows, depth);
    const auto found = std::ranges::find_if(lines, [](const std::string& l) { return l.find("wall") != l.npos; });
    return found == lines.end() ? "" : *found;
  };
  CHECK(line_of(ColourDepth::kNone, 80, 24) == "a^ wall   0-9 odds");
  CHECK(line_of(ColourDepth::k24Bit, 80, 24) ==
        "\033[48;2;1;1;1m  \033[0m\033[48;2;2;2;2m\033[38;5;231m^ \033[0m wall   "
        "\033[48;2;50;0;0m  \033[0m\033[48;2;250;0;0m  \033[0m odds");
  CHECK(plain(line_of(ColourDepth::k24Bit, 15, 24)) == "  ^  wall");  // the second item on a line of its own
  // Where there is little room it goes before what is seen in words, and where the picture has none with it.
  CHECK(line_of(ColourDepth::kNone, 80, 5) == "");
  screen.pictures[0].picture.resize(40, 2, {1, 1, 1});
  CHECK(line_of(ColourDepth::kNone, 80, 24) == "");
}

TEST_CASE("every colour of every task's pictures has a meaning, and every meaning a colour and a letter of its own") {
  for (const std::string& name : task_names())
    for (const char* const full_state : {"false", "true"}) {
      CAPTURE(name);
      CAPTURE(full_state);
      TaskConfig task(name);
      task.options().set("task.full_state", full_state);
      const std::vector<ColourMeaning> meanings = task.any().colours();
      REQUIRE(!meanings.empty());
      for (std::size_t i = 0; i < meanings.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
          const bool same_text = meanings[i].meaning == meanings[j].meaning;
          CHECK((same_text || meanings[i].letter != meanings[j].letter));
          // Cards that are of one kind to the player are alike.
          CHECK(!(meanings[i].colour == meanings[j].colour));
        }
      const auto environment = make_cpu_vec_env(task, 3, Purpose::kTest, 1, 1);
      Rng rng(3, Purpose::kAction, 0, 0);
      const auto check = [&](const Canvas& picture) {
        for (int row = 0; row < picture.rows(); ++row)
          for (int column = 0; column < picture.columns(); ++column)
            if (!has_meaning(meanings, picture.at(row, column))) {
              const Rgb colour = picture.at(row, column);
              FAIL_CHECK(int{colour.red}, " ", int{colour.green}, " ", int{colour.blue});
              return;
            }
      };
      for (int episode = 0; episode < 3; ++episode) {
        environment->reset_all(static_cast<std::uint32_t>(episode));
        for (int step = 0; step < 200 && environment->end_N()[0] == End::kNone; ++step) {
          Canvas board;
          environment->draw(0, board);
          check(board);
          if (const auto seen = show_observation(task, environment->observation_N()).picture) check(*seen);
          std::int32_t action = 0;  // of a single word in every task
          draw_action(environment->info().action, rng, &action);
          environment->step({&action, 1});
        }
      }
    }
}

TEST_CASE("a screen has its parts below one another, and pictures side by side where there is room") {
  Lines found;
  for (const std::string& line : example().compose(80, 24, ColourDepth::k24Bit)) found.push_back(plain(line));
  CHECK(found == Lines{"a task", "", "the board      an agent sees", std::string(12 + 3 + 13, ' '),
                       std::string(28, ' '), std::string(28, ' '), "", "in hand: nothing", "", "step 0 of 9",
                       "up/k: north   q: quit"});
  found.clear();
  for (const std::string& line : example().compose(20, 24, ColourDepth::k24Bit)) found.push_back(plain(line));
  CHECK(found == Lines{"a task", "", std::string(12, ' '), std::string(12, ' '), std::string(12, ' '), "",
                       "in hand: nothing", "", "step 0 of 9", "up/k: north", "q: quit"});
  // One column a cell where two do not fit.
  CHECK(plain(example().compose(12, 24, ColourDepth::k24Bit)[2]) == std::string(6, ' '));
}

TEST_CASE("a screen never takes more than there is, and says what has no room") {
  PlayScreen screen = example();
  screen.pictures = {{"the board", canvas(3, 90)}};
  // Without the line breaks.
  const auto joined = [&screen] {
    std::string all;
    for (const std::string& line : screen.compose(80, 24, ColourDepth::k24Bit))
      all.append(" ").append(line.substr(std::min(line.find_first_not_of(' '), line.size())));
    return all;
  };
  std::string all = joined();
  CHECK(all.find("No room for the picture of 3 x 90 cells: it takes 91 columns and 3 rows, and there are 80 and") !=
        std::string::npos);
  CHECK(all.find("48;2") == std::string::npos);
  screen.pictures = {{"the board", canvas(30, 3)}};
  all = joined();
  CHECK(all.find("it takes 4 columns and 30 rows, and there are 80 and 22. Enlarge") != std::string::npos);

  screen.lines.assign(50, "much to see");
  const Lines cut = screen.compose(80, 24, ColourDepth::k256);
  CHECK(std::ranges::find(cut, "(There is more: enlarge the terminal.)") != cut.end());
  CHECK(std::ranges::find(cut, "step 0 of 9") != cut.end());
  CHECK(std::ranges::find(cut, "up/k: north   q: quit") != cut.end());

  // A picture of nearly all rows stays, whatever else goes.
  screen.pictures = {{"the board", canvas(22, 3)}};
  const Lines full = screen.compose(80, 24, ColourDepth::k24Bit);
  CHECK(full.size() == 24);
  CHECK(full[0].starts_with("\033[48;2;1;2;3m"));
  CHECK(full.back() == "up/k: north   q: quit");
  // A title is there whole or not at all.
  PlayScreen titled = example();
  titled.title = std::string(100, 't');
  titled.lines.clear();
  titled.pictures = {{"the board", canvas(21, 3)}};
  const Lines untitled = titled.compose(80, 24, ColourDepth::k24Bit);
  CHECK(untitled[0].starts_with("\033[48;2;1;2;3m"));
  CHECK(titled.compose(80, 25, ColourDepth::k24Bit)[0] == std::string(79, 't'));

  for (std::size_t columns = 1; columns < 100; columns += 3)
    for (std::size_t rows = 1; rows < 30; ++rows) {
      const Lines lines = screen.compose(columns, rows, ColourDepth::k256);
      CHECK(lines.size() <= rows);
      for (const std::string& line : lines) CHECK(plain(line).size() < std::max<std::size_t>(columns, 8));
    }
}
