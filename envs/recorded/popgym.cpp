// Recorded episodes of the games of POPGym whose steps pay differently, or that have no cards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/recorded/codes.h"
#include "envs/recorded/piles.h"
#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"
#include "envs/tasks/popgym/battleship.h"
#include "envs/tasks/popgym/concentration.h"
#include "envs/tasks/popgym/higher_lower.h"
#include "envs/tasks/popgym/labyrinth_escape.h"
#include "envs/tasks/popgym/labyrinth_explore.h"
#include "envs/tasks/popgym/minesweeper.h"
#include "envs/tasks/popgym/multiarmed_bandit.h"

namespace engram::recorded {
namespace {

// All but the observations, of a game that takes no more steps.
Recording<float> read_game(const Json& episode, int num_actions, int most_steps) {
  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, most_steps));
  Recording<float> recording = read_outcomes(episode, length);
  recording.actions = get_actions(episode, length, num_actions);
  return recording;
}

// Of a game whose observation is one of `width` values: all but the first of them are returned, one for each step.
std::vector<int> read_values(const Json& episode, int width, Recording<float>& recording) {
  std::vector<int> values = get_symbols(episode, "obs", recording.actions.size() + 1, {digits(width)});
  for (const int value : values) show_code(value, width, recording.observations);
  values.erase(values.begin());
  return values;
}

// A board's squares as a text, row by row: '.' for an empty one, '#' for one that is taken.
std::vector<int> read_board(const Json& episode, const std::string& name, int squares) {
  return get_symbols(episode, name, static_cast<std::size_t>(squares), {".#"});
}

// A maze as `side` texts, a row each, of the original's numbers: 0 free, 1 wall, 2 start, 3 goal.
template <class Task>
labyrinth::Maze read_maze(const Json& episode, typename Task::Options& options, bool has_goal) {
  const Json& grid = field_of(episode, "grid");
  const std::string takes = "an odd number of rows, 5..19, of as many digits 0..3, with one start in an outer wall" +
                            std::string(has_goal ? " and one goal" : " and no goal");
  const std::size_t side = grid.is_array() ? grid.size() : 0;
  if (side < labyrinth::kMinSize + 1 || side > labyrinth::kMaxSide || side % 2 == 0) refuse("grid", grid, takes);
  options.size = static_cast<int>(side) - 1;
  labyrinth::Maze maze{};
  int starts = 0, goals = 0;
  for (std::size_t y = 0; y < side; ++y) {
    const std::string row = grid[y].is_string() ? grid[y].template get<std::string>() : "";
    if (row.size() != side || row.find_first_not_of("0123") != std::string::npos) refuse("grid", grid[y], takes);
    for (std::size_t x = 0; x < side; ++x) {
      const labyrinth::Place place{static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)};
      const bool outer = x == 0 || y == 0 || x == side - 1 || y == side - 1;
      if (row[x] != '1' && row[x] != '3') maze.open.add(place);
      if (row[x] == '2' && outer) maze.start = place, ++starts;
      if (row[x] == '3') maze.end = place, ++goals;
    }
  }
  if (starts != 1 || goals != (has_goal ? 1 : 0)) refuse("grid", grid, takes);
  return maze;
}

// Of either labyrinth.
template <class Task>
std::optional<std::string> replay_labyrinth(const Json& episode, bool has_goal) {
  typename Task::Options options;
  const labyrinth::Maze maze = read_maze<Task>(episode, options, has_goal);
  options.episode_length = get_int(episode, "episode_length", 2, 1'000'000);
  const typename Task::Params params = Task::make_params(options, 0, Purpose::kTest);
  Recording<float> recording = read_game(episode, Task::kNumActions, params.max_steps);
  for (const Json& observation : get_array(episode, "obs", recording.actions.size() + 1)) {
    constexpr std::size_t kParts = labyrinth::kView * labyrinth::kView + 1;
    const std::string parts = observation.is_string() ? observation.get<std::string>() : "";
    if (parts.size() != kParts || parts.find_first_not_of("01234") != std::string::npos)
      refuse("obs", observation, "texts of " + std::to_string(kParts) + " digits 0..4");
    for (const char part : parts) show_code(part - '0', labyrinth::kKinds, recording.observations);
  }
  return play<Task>(params, Task::start(maze), recording);
}

}  // namespace

std::optional<std::string> replay_labyrinth_escape(const Json& episode) {
  return replay_labyrinth<LabyrinthEscape>(episode, /*has_goal=*/true);
}

std::optional<std::string> replay_labyrinth_explore(const Json& episode) {
  return replay_labyrinth<LabyrinthExplore>(episode, /*has_goal=*/false);
}

std::optional<std::string> replay_concentration(const Json& episode) {
  Concentration::Options options;
  options.num_decks = get_int(episode, "num_decks", 1, Concentration::kMaxDecks);
  options.kind = get_word(episode, "kind", {"colours", "ranks"}) == 0 ? CardKind::kColours : CardKind::kRanks;
  const Concentration::Params params = Concentration::make_params(options, 0, Purpose::kTest);
  const auto kinds = read_pile<Concentration::KindPile>(episode, "cards", params.cards, params.kinds);
  Recording<float> recording = read_game(episode, params.cards, Concentration::max_episode_steps(params));
  // An observation is recorded by what changed since the one before: card, kind in sight, card, kind in sight ...
  std::vector<int> seen(static_cast<std::size_t>(params.cards), params.kinds);
  for (const Json& changes : get_array(episode, "obs", recording.actions.size() + 1)) {
    const auto fits = [&params](const Json& number, std::size_t at) {
      return number.is_number_unsigned() &&
             number.get<std::uint64_t>() <= static_cast<std::uint64_t>(at % 2 == 0 ? params.cards - 1 : params.kinds);
    };
    bool right = changes.is_array() && changes.size() % 2 == 0;
    for (std::size_t i = 0; right && i < changes.size(); ++i) right = fits(changes[i], i);
    if (!right)
      refuse("obs", changes,
             "pairs of a card 0.." + std::to_string(params.cards - 1) + " and what it shows, 0.." +
                 std::to_string(params.kinds));
    for (std::size_t i = 0; i < changes.size(); i += 2) seen[changes[i].get<std::size_t>()] = changes[i + 1].get<int>();
    for (const int kind : seen) show_code(kind, params.kinds + 1, recording.observations);
  }
  return play<Concentration>(params, Concentration::start(params, kinds), recording);
}

std::optional<std::string> replay_multiarmed_bandit(const Json& episode) {
  MultiarmedBandit::Options options;
  options.arms = get_int(episode, "arms", 2, MultiarmedBandit::kMaxArms);
  options.pulls = get_int(episode, "steps", 2, MultiarmedBandit::kMaxSteps);
  float probability[MultiarmedBandit::kMaxArms] = {};
  for (int arm = 0; const Json& number : get_array(episode, "probabilities", static_cast<std::size_t>(options.arms))) {
    probability[arm] = as_float("probabilities", number);
    if (!(probability[arm] >= 0 && probability[arm] <= 1)) refuse("probabilities", number, "numbers 0..1");
    ++arm;
  }
  Recording<float> recording = read_game(episode, options.arms, options.pulls);
  const std::vector<int> paid = read_values(episode, 2, recording);
  const MultiarmedBandit::Params params = MultiarmedBandit::make_params(options, 0, Purpose::kTest);
  return play<MultiarmedBandit>(params, MultiarmedBandit::start(params, probability), recording, std::nullopt,
                                [&paid](const auto& rules, auto& state, int action, std::size_t t) {
                                  return MultiarmedBandit::step_with(rules, state, action, paid[t] == 1);
                                });
}

std::optional<std::string> replay_higher_lower(const Json& episode) {
  HigherLower::Options options;
  options.num_decks = get_int(episode, "num_decks", 1, HigherLower::kMaxDecks);
  const HigherLower::Params params = HigherLower::make_params(options, 0, Purpose::kTest);
  using RankPile = cards::Pile<4, HigherLower::kMaxDecks * cards::kDeckCards>;
  const auto ranks = read_pile<RankPile>(episode, "cards", params.cards, cards::kRanks);
  Recording<float> recording = read_game(episode, HigherLower::kNumActions, HigherLower::max_episode_steps(params));
  read_values(episode, cards::kRanks, recording);
  return play<HigherLower>(params, HigherLower::start(params, ranks[0]), recording, std::nullopt,
                           [&ranks](const auto& rules, auto& state, int action, std::size_t t) {
                             return HigherLower::step_with(rules, state, action, ranks[static_cast<int>(t) + 1]);
                           });
}

std::optional<std::string> replay_minesweeper(const Json& episode) {
  Minesweeper::Options options;
  options.size = get_int(episode, "side", 2, Minesweeper::kMaxSize);
  const int fields = options.size * options.size;
  const std::vector<int> board = read_board(episode, "mines", fields);
  options.mines = static_cast<int>(std::ranges::count(board, 1));
  if (options.mines < 1 || options.mines > fields - Minesweeper::kSafeAtLeast)
    throw UserError("'mines' holds " + std::to_string(options.mines) + " mines; it takes 1.." +
                    std::to_string(fields - Minesweeper::kSafeAtLeast));
  std::uint64_t mines = 0;
  for (int field = 0; field < fields; ++field)
    mines |= static_cast<std::uint64_t>(board[static_cast<std::size_t>(field)]) << field;
  const Minesweeper::Params params = Minesweeper::make_params(options, 0, Purpose::kTest);
  Recording<float> recording = read_game(episode, fields, Minesweeper::max_episode_steps(params));
  read_values(episode, params.counts, recording);
  return play<Minesweeper>(params, Minesweeper::start(mines), recording);
}

std::optional<std::string> replay_battleship(const Json& episode) {
  Battleship::Options options;
  options.size = get_int(episode, "side", Battleship::kMinSize, Battleship::kMaxSize);
  const Battleship::Params params = Battleship::make_params(options, 0, Purpose::kTest);
  const int squares = Battleship::num_actions(params);
  Battleship::Squares ships{};
  int taken = 0;
  for (int square = 0; const int ship : read_board(episode, "ships", squares)) {
    ships.set(square++, ship);
    taken += ship;
  }
  if (taken != Battleship::kShipSquares)
    throw UserError("'ships' holds " + std::to_string(taken) + " squares; the ships have " +
                    std::to_string(Battleship::kShipSquares));
  Recording<float> recording = read_game(episode, squares, squares);
  read_values(episode, 2, recording);
  return play<Battleship>(params, Battleship::start(ships), recording);
}

}  // namespace engram::recorded
