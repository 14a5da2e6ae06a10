#include "video/frame_painter.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "envs/shown_observation.h"
#include "tests/video/pictures.h"
#include "video/drawing.h"

namespace engram {
namespace {

using namespace test;

const Canvas kRoom =
    board_of({"###########", "# g        ", "#         #", "#         #", "####   ####", "   # + #   ", "   #####   "});

TaskInfo make_task(std::vector<std::string> actions, const ObservationSpec& observation, int steps) {
  TaskInfo task;
  task.name = "room";
  task.action.names = std::move(actions);
  task.observation = observation;
  task.max_episode_steps = steps;
  return task;
}

TaskInfo room_task() { return make_task({"north", "south", "west", "east"}, crop_spec(5), 45); }

FrameContents room_contents() {
  FrameContents contents;
  contents.step = 9;
  contents.phase = "search";
  contents.board = kRoom;
  contents.observation = crop_of(kRoom, 5, 5, 5);
  contents.seen = show_plainly(crop_spec(5), {}, contents.observation);
  contents.last_action = 3;
  contents.last_reward = 1;
  contents.total_reward = 4;
  contents.decision = Decision{0, {0.5f, 0.25f, 0.25f, 0}, {1, 2, 3, 4}};
  return contents;
}

bool has_colour(const RgbImage& image, const Box& box, Rgb colour) {
  for (int y = box.y; y < box.bottom(); ++y) {
    for (int x = box.x; x < box.right(); ++x) {
      if (image.at(x, y) == colour) return true;
    }
  }
  return false;
}

bool holds(const Box& box, int x, int y) { return x >= box.x && x < box.right() && y >= box.y && y < box.bottom(); }

// Pixels from the left end of the track that are not the track's colour.
int bar_length(const RgbImage& image, const Box& track) {
  int length = 0;
  while (length < track.width && !(image.at(track.x + length, track.y + track.height / 2) == palette::kTrack)) ++length;
  return length;
}

TEST_CASE("the board's colours stand at their places, at every scale and shape") {
  for (const int scale : {1, 2, 3}) {
    const FramePainter painter(room_task(), "by hand", 7, 11, scale);
    const RgbImage frame = painter.paint(room_contents());
    CHECK(frame.width == painter.width());
    CHECK(frame.height == painter.height());
    CHECK(frame.width % 2 == 0);
    CHECK(frame.height % 2 == 0);
    for (int row = 0; row < 7; ++row) {
      for (int column = 0; column < 11; ++column) {
        CHECK(middle(frame, painter.board_cell(row, column)) == kRoom.at(row, column));
      }
    }
    const Box seen = painter.observation(room_contents().seen);
    CHECK(middle(frame, seen) == kPlayer);
    CHECK(frame.at(seen.x + 1, seen.y + seen.height / 2) == kWall);
  }
}

TEST_CASE("frames of all board sizes are even and hold everything") {
  const TaskInfo corridor = make_task({"+x", "+y", "-x", "-y"}, {ElementType::kFloat32, single_part({2})}, 100);
  for (const int columns : {1, 2, 3, 11, 12, 51, 101, 501, 1501}) {
    const FramePainter painter(corridor, "", 3, columns, 1);
    CHECK(painter.width() % 2 == 0);
    CHECK(painter.height() % 2 == 0);
    CHECK(painter.width() <= 1000);
    CHECK(painter.board_cell(2, columns - 1).right() <= painter.width());
    CHECK(painter.footer().bottom() < painter.height());
    CHECK(painter.probability_track(3).right() < painter.width());
    CHECK(painter.probability_track(3).bottom() < painter.footer().y);
    CHECK(painter.board_cell(2, columns - 1).bottom() < painter.footer().y);
  }
}

TEST_CASE("bars are proportional to the probabilities, and the chosen action stands out") {
  const FramePainter painter(room_task(), "by hand", 7, 11, 2);
  const RgbImage frame = painter.paint(room_contents());
  const double width = painter.probability_track(0).width;
  const double expected[] = {0.5, 0.25, 0.25, 0};
  for (int action = 0; action < 4; ++action) {
    CHECK(bar_length(frame, painter.probability_track(action)) / width ==
          doctest::Approx(expected[action]).epsilon(0.01));  // a pixel is 0.3% of a track
  }
  const Box chosen = painter.probability_track(0), other = painter.probability_track(1);
  CHECK(frame.at(chosen.x + 2, chosen.y + 2) == palette::kAccent);
  CHECK(frame.at(other.x + 2, other.y + 2) == palette::kBar);
}

TEST_CASE("the banner appears at the end alone, in the outcome's colour") {
  const FramePainter painter(room_task(), "by hand", 7, 11, 1);
  FrameContents contents = room_contents();
  const RgbImage before = painter.paint(contents);
  CHECK_FALSE(has_colour(before, painter.footer(), palette::kSuccess));
  CHECK_FALSE(has_colour(before, painter.footer(), palette::kFailure));
  CHECK(has_colour(before, painter.footer(), palette::kTrack));

  contents.decision.reset();
  for (const bool success : {true, false}) {
    contents.outcome = EpisodeOutcome{success, 4};
    const RgbImage end = painter.paint(contents);
    CHECK(end.at(painter.footer().x, painter.footer().y) == (success ? palette::kSuccess : palette::kFailure));
    CHECK(has_colour(end, painter.footer(), palette::kOnColour));  // its text
    CHECK_FALSE(has_colour(end, painter.footer(), success ? palette::kFailure : palette::kSuccess));
    for (int action = 0; action < 4; ++action) CHECK(bar_length(end, painter.probability_track(action)) == 0);
  }
}

TEST_CASE("actions without a policy behind them have no place for probabilities") {
  const FramePainter painter(room_task(), "by hand", 7, 11, 1);
  FrameContents contents = room_contents();
  for (const bool has_policy : {true, false}) {
    contents.has_policy = has_policy;
    contents.decision = Decision{0, {}, {}};
    const RgbImage frame = painter.paint(contents);
    for (int action = 0; action < 4; ++action)
      CHECK(has_colour(frame, painter.probability_track(action), palette::kTrack) == has_policy);
    CHECK(has_colour(frame, {0, 0, painter.width(), painter.height()}, palette::kAccent));  // the chosen action
  }
}

TEST_CASE("the value of the state stands beside the label, in no action's row, and nothing else changes") {
  for (const int scale : {1, 2}) {
    const FramePainter painter(room_task(), "by hand", 7, 11, scale);
    FrameContents contents = room_contents();
    contents.decision->q_values.clear();
    const RgbImage without = painter.paint(contents);
    contents.decision->state_value = 0.83f;
    const RgbImage frame = painter.paint(contents);
    REQUIRE((frame.width == without.width && frame.height == without.height));
    const Box place = painter.state_value(), first = painter.probability_track(0);
    CHECK(place.x > first.right());
    CHECK(place.right() < frame.width);
    CHECK(place.bottom() <= first.y);
    CHECK(has_colour(frame, place, palette::kText));
    for (int y = 0; y < frame.height; ++y)
      for (int x = 0; x < frame.width; ++x)
        if (!holds(place, x, y) && !(frame.at(x, y) == without.at(x, y))) FAIL("another pixel: " << x << ", " << y);
    contents.decision->state_value = -123.45f;
    CHECK_FALSE(painter.paint(contents).pixels == frame.pixels);
  }
}

TEST_CASE("of many actions the likeliest have a row, and the chosen one, so that no frame is taller for more") {
  const auto names = [](int actions) { return std::vector<std::string>(static_cast<std::size_t>(actions), "square"); };
  const FramePainter painter(make_task(names(64), crop_spec(5), 45), "by hand", 7, 11, 1);
  CHECK(painter.height() ==
        FramePainter(make_task(names(FramePainter::kMostActionRows), crop_spec(5), 45), "", 7, 11, 1).height());
  FrameContents contents = room_contents();
  contents.decision = Decision{3, std::vector<float>(64, 0.001f), {}};
  contents.decision->probabilities[40] = 0.5f;
  contents.decision->probabilities[50] = 0.25f;
  const Box first = painter.probability_track(0), second = painter.probability_track(1);
  RgbImage frame = painter.paint(contents);
  CHECK(bar_length(frame, first) == first.width / 2);
  CHECK(bar_length(frame, second) == second.width / 4);
  // The chosen one alone is in the accent's colour, wherever it stands.
  const auto accents = [&](int row) {
    const Box track = painter.probability_track(row);
    return has_colour(frame, {track.x - 100, track.y, 100, track.height}, palette::kAccent);
  };
  for (const int chosen : {40, 63}) {
    contents.decision->action = chosen;
    frame = painter.paint(contents);
    for (int row = 1; row < FramePainter::kMostActionRows - 1; ++row) CHECK_FALSE(accents(row));
    CHECK(accents(0) == (chosen == 40));
    CHECK(accents(FramePainter::kMostActionRows - 1) == (chosen == 63));
  }
  contents.decision->probabilities.clear();
  contents.has_policy = false;
  frame = painter.paint(contents);
  CHECK(accents(0));
}

TEST_CASE("the progress bar grows with the steps") {
  const FramePainter painter(room_task(), "by hand", 7, 11, 1);
  FrameContents contents = room_contents();
  for (const int step : {0, 9, 45}) {
    contents.step = step;
    const RgbImage frame = painter.paint(contents);
    const Box footer = painter.footer();
    CHECK(bar_length(frame, footer) == step * footer.width / 45);
  }
}

TEST_CASE("every number of the contents changes the picture, and nothing else does") {
  const FramePainter painter(room_task(), "by hand", 7, 11, 1);
  const FrameContents contents = room_contents();
  const auto pixels = [&painter](const FrameContents& changed) { return painter.paint(changed).pixels; };
  const auto reference = pixels(contents);
  CHECK(pixels(contents) == reference);
  const auto differs = [&](auto change) {
    FrameContents changed = contents;
    change(changed);
    return pixels(changed) != reference;
  };
  CHECK(differs([](FrameContents& c) { c.episodes = 2; }));
  CHECK(differs([](FrameContents& c) { c.step = 10; }));
  CHECK(differs([](FrameContents& c) { c.phase = "apples"; }));
  CHECK(differs([](FrameContents& c) { c.last_action = 2; }));
  CHECK(differs([](FrameContents& c) { c.cue = Cue{"target", {}}; }));
  CHECK_FALSE(differs([](FrameContents& c) { c.memory = {{.label = "layer 1", .rows = {{1}}}}; }));  // no panel
  CHECK(differs([](FrameContents& c) { c.last_reward = -1; }));
  CHECK(differs([](FrameContents& c) { c.total_reward = 5; }));
  CHECK(differs([](FrameContents& c) { c.decision->action = 1; }));
  CHECK(differs([](FrameContents& c) { c.decision->q_values[2] = 3.25f; }));
  CHECK(differs([](FrameContents& c) { c.decision->q_values.clear(); }));
  CHECK(differs([](FrameContents& c) { c.decision->state_value = 1; }));
}

TEST_CASE("the cue's colour stands beside what the agent sees, and only while there is a cue") {
  for (const int scale : {1, 2}) {
    const FramePainter painter(room_task(), "by hand", 7, 11, scale);
    FrameContents contents = room_contents();
    const Rgb colour{0, 0, 255};
    const Box seen = painter.observation(contents.seen);
    const Box around{seen.right() + 4, 0, painter.width() - seen.right() - 4, painter.height()};
    CHECK_FALSE(has_colour(painter.paint(contents), around, colour));
    contents.cue = Cue{"target", colour};
    const RgbImage frame = painter.paint(contents);
    CHECK(middle(frame, painter.cue_square()) == colour);
    CHECK(painter.cue_square().bottom() <= seen.y);
    contents.cue = Cue{"goal at +y", {}};
    CHECK_FALSE(has_colour(painter.paint(contents), around, colour));
  }
}

TEST_CASE("a panel for the memory stands between the picture and the footer") {
  const FramePainter plain(room_task(), "by hand", 7, 11, 1), painter(room_task(), "by hand", 7, 11, 1, {1, 2, 100});
  CHECK(painter.width() == plain.width());
  CHECK(painter.height() > plain.height() + painter.memory().height());
  FrameContents contents = room_contents();
  // An episode of 45 steps; the moment's own is known, too, once it is decided on.
  std::vector<float> values(45, 1.0f);
  values[0] = 0;
  contents.memory = {{.label = "layer 1 attention", .rows = {values}},
                     {.label = "layer 1 gate", .rows = {values, values}},
                     {.label = "layer 1 state", .rows = std::vector<std::vector<float>>(100, values)}};
  const RgbImage frame = painter.paint(contents);
  const Box strip = painter.memory().strip(0);
  const auto at = [&](int step) { return frame.at(strip.x + strip.width * (2 * step + 1) / 90, strip.y + 8); };
  REQUIRE(contents.decision);
  CHECK(at(0) == memory_shade(Shades::kRange, 0));
  CHECK(at(contents.step) == memory_shade(Shades::kRange, 1));
  CHECK(at(contents.step + 1) == palette::kTrack);
  CHECK(painter.memory().strip(2).bottom() < painter.footer().y);
  const RgbImage without = plain.paint(contents);
  for (int y = 0; y < plain.footer().y - 8; ++y)
    for (int x = 0; x < plain.width(); ++x)
      if (!(frame.at(x, y) == without.at(x, y))) FAIL("the panel changes the picture at " << x << ", " << y);
}

TEST_CASE("contents that do not fit the task are refused") {
  const FramePainter painter(room_task(), "by hand", 7, 11, 1);
  FrameContents contents = room_contents();
  contents.decision->probabilities.pop_back();
  CHECK_THROWS_AS(painter.paint(contents), std::invalid_argument);
  contents = room_contents();
  contents.decision->action = 4;
  CHECK_THROWS_AS(painter.paint(contents), std::invalid_argument);
  contents = room_contents();
  contents.last_action = -1;
  CHECK_THROWS_AS(painter.paint(contents), std::invalid_argument);
  contents = room_contents();
  contents.board.resize(3, 3, kFloor);
  CHECK_THROWS_AS(painter.paint(contents), std::invalid_argument);
}

}  // namespace
}  // namespace engram
