#include "envs/episode_file.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "envs/base64.h"
#include "envs/tasks/autoencode.h"
#include "envs/tasks/count_recall.h"
#include "envs/tasks/key_to_door.h"
#include "envs/tasks/repeat_first.h"
#include "envs/tasks/repeat_previous.h"
#include "envs/tasks/tmaze.h"
#include "envs/tasks/visual_match.h"

namespace engram {
namespace {

using Json = nlohmann::json;

// ---- Typed access to the fields of a line. Every error is a UserError that names the field. ----

std::string shorten(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

[[noreturn]] void refuse(const std::string& field, const Json& value, const std::string& right) {
  throw UserError("'" + field + "' is " + shorten(value) + "; it takes " + right);
}

const Json& field_of(const Json& episode, const std::string& name) {
  const auto found = episode.find(name);
  if (found == episode.end()) throw UserError("there is no field '" + name + "'");
  return *found;
}

int get_int(const Json& episode, const std::string& name, std::int64_t low, std::int64_t high) {
  const Json& value = field_of(episode, name);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high));
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    refuse(name, value, "an integer " + std::to_string(low) + ".." + std::to_string(high));
  return value.get<int>();
}

float as_float(const std::string& name, const Json& value) {
  if (!value.is_number() || !std::isfinite(static_cast<float>(value.get<double>()))) refuse(name, value, "a number");
  return static_cast<float>(value.get<double>());
}

float get_float(const Json& episode, const std::string& name) { return as_float(name, field_of(episode, name)); }

bool get_bool(const Json& episode, const std::string& name) {
  const Json& value = field_of(episode, name);
  if (!value.is_boolean()) refuse(name, value, "true or false");
  return value.get<bool>();
}

std::string get_text(const Json& episode, const std::string& name) {
  const Json& value = field_of(episode, name);
  if (!value.is_string()) refuse(name, value, "a text");
  return value.get<std::string>();
}

// An array of exactly `count` entries.
const Json& get_array(const Json& episode, const std::string& name, std::size_t count) {
  const Json& value = field_of(episode, name);
  if (!value.is_array()) refuse(name, value, "an array");
  if (value.size() != count)
    throw UserError("'" + name + "' has " + std::to_string(value.size()) + " entries; it takes " +
                    std::to_string(count));
  return value;
}

std::vector<int> get_actions(const Json& episode, std::size_t count, int num_actions) {
  std::vector<int> actions;
  for (const Json& action : get_array(episode, "actions", count)) {
    if (!action.is_number_unsigned() || action.get<std::uint64_t>() >= static_cast<std::uint64_t>(num_actions))
      refuse("actions", action, "integers 0.." + std::to_string(num_actions - 1));
    actions.push_back(action.get<int>());
  }
  return actions;
}

// A text of exactly `count` characters out of `allowed`, whose texts take turns; as places in these.
std::vector<int> get_symbols(const Json& episode, const std::string& name, std::size_t count,
                             const std::vector<std::string>& allowed) {
  const std::string text = get_text(episode, name);
  if (text.size() != count)
    throw UserError("'" + name + "' has " + std::to_string(text.size()) + " characters; it takes " +
                    std::to_string(count));
  std::vector<int> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& of = allowed[i % allowed.size()];
    const std::size_t number = of.find(text[i]);
    if (number == std::string::npos)
      throw UserError("'" + name + "' has " + shorten(text.substr(i, 1)) + " at character " + std::to_string(i + 1) +
                      "; it takes one of " + of);
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

// ---- An episode as recorded. ----

template <class Element>
struct Recording {
  std::vector<int> actions;           // length
  std::vector<float> rewards;         // length
  std::vector<Element> observations;  // (length + 1) x elements
  std::vector<board::Cell> players;   // length, before each step; empty where the format has none
  bool success;
};

template <class Element>
Recording<Element> read_common(const Json& episode, std::size_t length) {
  Recording<Element> recording;
  for (const Json& reward : get_array(episode, "rewards", length))
    recording.rewards.push_back(as_float("rewards", reward));
  recording.success = get_bool(episode, "success");
  return recording;
}

Recording<std::uint8_t> read_board_recording(const Json& episode) {
  const std::size_t length = static_cast<std::size_t>(get_int(episode, "length", 1, 3LL * board::kMaxPhaseSteps));
  auto recording = read_common<std::uint8_t>(episode, length);

  const std::string actions = get_text(episode, "actions");
  if (actions.size() != length)
    throw UserError("'actions' has " + std::to_string(actions.size()) + " letters; it takes " + std::to_string(length));
  for (const char letter : actions) {
    const std::size_t action = std::string("NSWE").find(letter);
    if (action == std::string::npos)
      throw UserError(std::string("'actions' holds '") + letter + "'; it takes N, S, W, E");
    recording.actions.push_back(static_cast<int>(action));
  }
  for (const Json& cell : get_array(episode, "player", length)) {
    const bool well_formed = cell.is_array() && cell.size() == 2 && cell[0].is_number_unsigned() &&
                             cell[1].is_number_unsigned() && cell[0].get<std::uint64_t>() < board::kRows &&
                             cell[1].get<std::uint64_t>() < board::kColumns;
    if (!well_formed) refuse("player", cell, "a row 0..6 and a column 0..10");
    recording.players.push_back({cell[0].get<std::uint8_t>(), cell[1].get<std::uint8_t>()});
  }
  const Json shape = {length + 1, 3, board::kCrop, board::kCrop};
  if (field_of(episode, "obs_shape") != shape) refuse("obs_shape", field_of(episode, "obs_shape"), shape.dump());
  recording.observations = decode_base64(get_text(episode, "obs_b64"));
  if (recording.observations.size() != (length + 1) * board::kObservationBytes)
    throw UserError("'obs_b64' holds " + std::to_string(recording.observations.size()) + " bytes; obs_shape takes " +
                    std::to_string((length + 1) * board::kObservationBytes));
  return recording;
}

Rgb read_colour(const Json& colours, const std::string& symbol) {
  const auto found = colours.find(symbol);
  if (found == colours.end()) throw UserError("'colours' has no entry for '" + symbol + "'");
  bool well_formed = found->is_array() && found->size() == 3;
  for (std::size_t i = 0; well_formed && i < 3; ++i)
    well_formed = (*found)[i].is_number_unsigned() && (*found)[i].get<std::uint64_t>() <= 255;
  if (!well_formed) refuse("colours", *found, "three integers 0..255 for '" + symbol + "'");
  return {(*found)[0].get<std::uint8_t>(), (*found)[1].get<std::uint8_t>(), (*found)[2].get<std::uint8_t>()};
}

board::Level read_level(const Json& episode, bool has_squares) {
  board::Level level;
  for (int phase = 0; const Json& map : get_array(episode, "grids", board::kPhases)) {
    if (!map.is_array() || map.size() != board::kRows) refuse("grids", map, "7 rows for each of the 3 phases");
    for (int row = 0; row < board::kRows; ++row) {
      if (!map[row].is_string()) refuse("grids", map[row], "a text of 11 characters for each row");
      level.maps[phase][row] = map[row].get<std::string>();
    }
    ++phase;
  }
  const Json& colours = field_of(episode, "colours");
  if (!colours.is_object()) refuse("colours", colours, "an object from characters to RGB");
  level.palette.floor = read_colour(colours, " ");
  level.palette.wall = read_colour(colours, "#");
  level.palette.player = read_colour(colours, "+");
  level.palette.apple = read_colour(colours, "a");
  if (has_squares) {
    for (int i = 0; i < 3; ++i) level.palette.square[i] = read_colour(colours, std::string(1, "bce"[i]));
  } else {
    level.palette.key = read_colour(colours, "k");
    level.palette.door = read_colour(colours, "d");
    level.palette.indicator = read_colour(colours, "i");
  }
  return level;
}

// Phase lengths, apples and rewards, common to the two tasks.
template <class Options>
void read_board_options(const Json& episode, const board::Level& level, Options& options) {
  options.explore_steps = get_int(episode, "explore_frames", 1, board::kMaxPhaseSteps);
  options.distractor_steps = get_int(episode, "distractor_frames", 0, board::kMaxPhaseSteps);
  options.reward_steps = get_int(episode, "reward_frames", 1, board::kMaxPhaseSteps);
  options.num_apples = get_int(episode, "num_apples", 0, board::kMaxApples);
  options.apple_reward = get_float(episode, "apple_reward");
  options.final_reward = get_float(episode, "final_reward");
  options.respawn_every = get_int(episode, "respawn_every", 0, board::kMaxPhaseSteps);
  int apples = 0;
  for (const std::string& row : level.maps[board::kDistractor])
    for (const char symbol : row) apples += symbol == 'a';
  if (apples != options.num_apples)
    throw UserError("'num_apples' is " + std::to_string(options.num_apples) + ", but the distractor map holds " +
                    std::to_string(apples));
}

// ---- The card games. ----

// The characters of so many kinds of cards, or of so many values of an observation's part.
std::string digits(int kinds) { return std::string("0123456789abc").substr(0, static_cast<std::size_t>(kinds)); }

// `cards` cards in the order in which they are dealt, as many of each kind.
template <class Pile>
Pile read_pile(const Json& episode, const std::string& name, int cards, int kinds) {
  Pile pile{};
  std::vector<int> count(static_cast<std::size_t>(kinds));
  for (int card = 0; const int kind : get_symbols(episode, name, static_cast<std::size_t>(cards), {digits(kinds)})) {
    pile.set(card++, kind);
    ++count[static_cast<std::size_t>(kind)];
  }
  for (int kind = 0; kind < kinds; ++kind)
    if (count[static_cast<std::size_t>(kind)] != cards / kinds)
      throw UserError("'" + name + "' holds " + std::to_string(count[static_cast<std::size_t>(kind)]) + " times '" +
                      digits(kinds)[static_cast<std::size_t>(kind)] + "'; the decks hold " +
                      std::to_string(cards / kinds));
  return pile;
}

// An observation is recorded as a number for each of its parts, which take these numbers of values. Ours has a one-hot
// code for each, one after the other.
Recording<float> read_card_recording(const Json& episode, int num_actions, const std::vector<int>& widths) {
  constexpr int kMostSteps = 2 * cards::kMaxDecks * cards::kDeckCards;
  const std::size_t length = static_cast<std::size_t>(get_int(episode, "length", 1, kMostSteps));
  Recording<float> recording;
  recording.actions = get_actions(episode, length, num_actions);
  const float answer_reward = get_float(episode, "answer_reward");
  for (const int sign : get_symbols(episode, "rewards", length, {"-0+"}))
    recording.rewards.push_back(static_cast<float>(sign - 1) * answer_reward);
  std::vector<std::string> allowed;
  for (const int width : widths) allowed.push_back(digits(width));
  for (std::size_t i = 0; const int value : get_symbols(episode, "obs", (length + 1) * widths.size(), allowed)) {
    const int width = widths[i++ % widths.size()];
    for (int at = 0; at < width; ++at) recording.observations.push_back(at == value ? 1.0f : 0.0f);
  }
  recording.success = get_bool(episode, "success");
  return recording;
}

// ---- Playing. ----

template <class Element>
std::string describe_observation(const Element* observation, std::size_t elements) {
  std::ostringstream text;
  for (std::size_t i = 0; i < elements; ++i) text << (i == 0 ? "" : i % 25 == 0 ? " | " : " ") << +observation[i];
  return text.str();
}

std::string describe_cell(board::Cell cell) {
  return "row " + std::to_string(cell.row) + ", column " + std::to_string(cell.column);
}

std::string differs(const std::string& what, std::size_t step, const std::string& expected, const std::string& came) {
  return "step " + std::to_string(step) + ": " + what + "\n  expected " + expected + "\n  came     " + came;
}

template <class Number>
std::string number_text(Number number) {
  std::ostringstream text;
  text << std::setprecision(9) << number;
  return text.str();
}

// Plays the recording from `state` and returns what differs first, if anything. `player_of(state)` is asked where the
// recording has positions. Step t (from 0) takes action t; observation t is the one before it.
template <class Task, class PlayerOf>
std::optional<std::string> play(const typename Task::Params& params, typename Task::State state,
                                const Recording<typename Task::Element>& recording, PlayerOf player_of) {
  const std::size_t length = recording.actions.size();
  const std::size_t elements = recording.observations.size() / (length + 1);
  std::vector<typename Task::Element> observation(elements);
  Rng rng(0, Purpose::kTest, 0, 0);  // the rules of a step draw nothing
  for (std::size_t t = 0; t <= length; ++t) {
    Task::observe(params, state, observation.data());
    const auto* const expected = recording.observations.data() + t * elements;
    if (std::memcmp(observation.data(), expected, elements * sizeof(*expected)) != 0)
      return differs("observation", t, describe_observation(expected, elements),
                     describe_observation(observation.data(), elements));
    if (t == length) break;
    if constexpr (!std::is_same_v<PlayerOf, std::nullopt_t>) {
      if (!board::same(player_of(state), recording.players[t]))
        return differs("player", t, describe_cell(recording.players[t]), describe_cell(player_of(state)));
    }
    const Outcome outcome = Task::step(params, state, recording.actions[t], rng);
    if (outcome.reward != recording.rewards[t])
      return differs("reward", t, number_text(recording.rewards[t]), number_text(outcome.reward));
    const bool last = t + 1 == length;
    if ((outcome.end != End::kNone) != last)
      return differs("end of the episode", t, last ? "the end" : "no end", last ? "no end" : "the end");
  }
  if (Task::success(params, state) != recording.success)
    return differs("success", length, recording.success ? "true" : "false", recording.success ? "false" : "true");
  return std::nullopt;
}

std::optional<std::string> replay_visual_match(const Json& episode) {
  const board::Level level = read_level(episode, true);
  VisualMatch::Options options;
  options.active = !get_bool(episode, "passive");
  read_board_options(episode, level, options);
  const std::string target = get_text(episode, "target");
  if (target.size() != 1) refuse("target", target, "b, c or e");
  VisualMatch::Params params = VisualMatch::make_params(options, 0, Purpose::kTest);
  const VisualMatch::State state = VisualMatch::set_level(params, level, target[0]);
  return play<VisualMatch>(params, state, read_board_recording(episode),
                           [](const VisualMatch::State& now) { return now.board.player; });
}

std::optional<std::string> replay_key_to_door(const Json& episode) {
  const board::Level level = read_level(episode, false);
  KeyToDoor::Options options;
  const std::string variant = get_text(episode, "variant");
  if (variant != "sr" && variant != "cca") refuse("variant", variant, "sr or cca");
  options.variant = variant == "sr" ? DoorVariant::kSr : DoorVariant::kCca;
  read_board_options(episode, level, options);
  KeyToDoor::Params params = KeyToDoor::make_params(options, 0, Purpose::kTest);
  const KeyToDoor::State state = KeyToDoor::set_level(params, level);
  return play<KeyToDoor>(params, state, read_board_recording(episode),
                         [](const KeyToDoor::State& now) { return now.board.player; });
}

std::optional<std::string> replay_tmaze(const Json& episode) {
  TMaze::Options options;
  options.active = get_bool(episode, "active");
  options.corridor_length = get_int(episode, "corridor_length", 1, 1'000'000);
  options.goal_reward = get_float(episode, "goal_reward");
  TMaze::Params params = TMaze::make_params(options, 0, Purpose::kTest);
  params.step_penalty = get_float(episode, "penalty");  // the file's is a step's, the option a corridor's
  const int goal_y = get_int(episode, "goal_y", -1, 1);
  if (goal_y == 0) refuse("goal_y", 0, "-1 or 1");

  const std::size_t length = static_cast<std::size_t>(get_int(episode, "length", 1, 2'000'000));
  auto recording = read_common<float>(episode, length);
  recording.actions = get_actions(episode, length, TMaze::kNumActions);
  for (const Json& observation : get_array(episode, "obs", length + 1)) {
    if (!observation.is_array() || observation.size() != 2) refuse("obs", observation, "two numbers a row");
    for (const Json& number : observation)
      recording.observations.push_back(as_float("obs", number) + 0.0f);  // -0 becomes 0
  }
  return play<TMaze>(params, TMaze::start(params, goal_y), recording, std::nullopt);
}

std::optional<std::string> replay_repeat_first(const Json& episode) {
  RepeatFirst::Options options;
  options.num_decks = get_int(episode, "num_decks", 1, cards::kMaxDecks);
  const RepeatFirst::Params params = RepeatFirst::make_params(options, 0, Purpose::kTest);
  const auto suits = read_pile<cards::SuitPile>(episode, "cards", params.cards, cards::kSuits);
  return play<RepeatFirst>(params, RepeatFirst::start(suits),
                           read_card_recording(episode, RepeatFirst::kNumActions, {cards::kSuits}), std::nullopt);
}

std::optional<std::string> replay_repeat_previous(const Json& episode) {
  RepeatPrevious::Options options;
  options.num_decks = get_int(episode, "num_decks", 1, cards::kMaxDecks);
  options.k = get_int(episode, "k", 1, options.num_decks * cards::kDeckCards - 1);
  const RepeatPrevious::Params params = RepeatPrevious::make_params(options, 0, Purpose::kTest);
  const auto suits = read_pile<cards::SuitPile>(episode, "cards", params.cards, cards::kSuits);
  return play<RepeatPrevious>(params, RepeatPrevious::start(suits),
                              read_card_recording(episode, RepeatPrevious::kNumActions, {cards::kSuits}), std::nullopt);
}

std::optional<std::string> replay_autoencode(const Json& episode) {
  Autoencode::Options options;
  options.num_decks = get_int(episode, "num_decks", 1, cards::kMaxDecks);
  const Autoencode::Params params = Autoencode::make_params(options, 0, Purpose::kTest);
  const auto suits = read_pile<cards::SuitPile>(episode, "cards", params.cards, cards::kSuits);
  return play<Autoencode>(params, Autoencode::start(suits),
                          read_card_recording(episode, Autoencode::kNumActions, {Autoencode::kModes, cards::kSuits}),
                          std::nullopt);
}

std::optional<std::string> replay_count_recall(const Json& episode) {
  CountRecall::Options options;
  options.num_decks = get_int(episode, "num_decks", 1, CountRecall::kMaxDecks);
  const std::string kind = get_text(episode, "kind");
  if (kind != "colours" && kind != "suits" && kind != "ranks") refuse("kind", kind, "colours, suits or ranks");
  options.kind = kind == "colours" ? CardKind::kColours : kind == "suits" ? CardKind::kSuits : CardKind::kRanks;
  const CountRecall::Params params = CountRecall::make_params(options, 0, Purpose::kTest);
  const auto dealt = read_pile<CountRecall::KindPile>(episode, "cards", params.cards, params.kinds);
  const auto named = read_pile<CountRecall::KindPile>(episode, "queries", params.cards, params.kinds);
  return play<CountRecall>(params, CountRecall::start(dealt, named),
                           read_card_recording(episode, CountRecall::num_actions(params), {params.kinds, params.kinds}),
                           std::nullopt);
}

// JSON whose depth is bounded: functions that walk over a value call themselves once for each level.
Json parse_line(const std::string& line) {
  constexpr int kMaxDepth = 8;
  return Json::parse(line, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) throw UserError("it is nested too deeply");
    return true;
  });
}

std::optional<std::string> replay_episode(const Json& episode) {
  if (!episode.is_object()) throw UserError("the line is not a JSON object");
  const std::string task = get_text(episode, "env");
  if (task == VisualMatch::kName) return replay_visual_match(episode);
  if (task == KeyToDoor::kName) return replay_key_to_door(episode);
  if (task == TMaze::kName) return replay_tmaze(episode);
  if (task == RepeatFirst::kName) return replay_repeat_first(episode);
  if (task == RepeatPrevious::kName) return replay_repeat_previous(episode);
  if (task == Autoencode::kName) return replay_autoencode(episode);
  if (task == CountRecall::kName) return replay_count_recall(episode);
  refuse("env", task, "visual_match, key_to_door, tmaze, repeat_first, repeat_previous, autoencode or count_recall");
}

}  // namespace

EpisodeFileReport replay_episode_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError("cannot read '" + path + "'");
  return replay_episodes(file, path);
}

EpisodeFileReport replay_episodes(std::istream& file, const std::string& path) {
  EpisodeFileReport report;
  std::string line;
  for (int line_number = 1; std::getline(file, line); ++line_number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = path + ", line " + std::to_string(line_number);
    try {
      const Json episode = parse_line(line);
      const std::optional<std::string> mismatch = replay_episode(episode);
      ++report.episodes;
      if (!mismatch) continue;
      if (report.mismatches++ == 0)
        report.first_mismatch = "episode " + std::to_string(report.episodes) + " (" + where + ", " +
                                episode["env"].get<std::string>() + "), " + *mismatch;
    } catch (const Json::parse_error& error) {
      throw UserError(where + ": not JSON (at character " + std::to_string(error.byte) + ")");
    } catch (const Json::out_of_range&) {
      throw UserError(where + ": a number is too large");
    } catch (const UserError& error) {
      throw UserError(where + ": " + error.what());
    }
  }
  if (file.bad()) throw UserError("cannot read '" + path + "' to its end");
  if (report.episodes == 0) throw UserError("'" + path + "' holds no episode; it takes one JSON object a line");
  return report;
}

}  // namespace engram
