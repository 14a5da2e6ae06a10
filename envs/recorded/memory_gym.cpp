// Recorded episodes of Memory Gym's grid tasks.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/recorded/codes.h"
#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"
#include "envs/tasks/memory_gym/mortar_mayhem.h"
#include "envs/tasks/memory_gym/mystery_path.h"

namespace engram::recorded {
namespace {

using memory_gym::Cell;

// All but the observations, of an episode of no more steps.
Recording<float> read_steps(const Json& episode, int most_steps) {
  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, most_steps));
  Recording<float> recording = read_outcomes(episode, length);
  recording.actions = get_symbols(episode, "actions", length, {"0123"});
  return recording;
}

// In double precision, in which the original adds rewards up.
double read_reward(const Json& episode, const std::string& name) {
  get_float(episode, name);  // refuses what no reward can be
  return field_of(episode, name).get<double>();
}

// Whole numbers 0 .. most[i] of an array of as many.
template <std::size_t kCount>
std::array<int, kCount> read_numbers(const std::string& name, const Json& value, const std::array<int, kCount>& most) {
  std::string takes = "arrays of integers up to";
  for (const int number : most) takes.append(" ").append(std::to_string(number));
  if (!value.is_array() || value.size() != kCount) refuse(name, value, takes);
  std::array<int, kCount> numbers{};
  for (std::size_t i = 0; i < kCount; ++i) {
    if (!value[i].is_number_unsigned() || value[i].get<std::uint64_t>() > static_cast<std::uint64_t>(most[i]))
      refuse(name, value, takes);
    numbers[i] = value[i].get<int>();
  }
  return numbers;
}

Cell cell_at(int x, int y) { return {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)}; }

// The path of an episode, from its origin to its goal.
struct RecordedPath {
  memory_gym::Path segment[MysteryPath::kMostSegments] = {};
  Cell origin, goal;
};

RecordedPath read_path(const Json& episode, bool endless, int columns) {
  const std::string takes = std::string("two or more cells of the board, each beside the one before, none twice") +
                            (endless ? ", from the first column to the last" : "");
  const Json& listed = field_of(episode, "path");
  if (!listed.is_array() || listed.size() < 2) refuse("path", listed, takes);
  std::vector<Cell> cells;
  for (const Json& listed_cell : listed) {
    const auto [x, y] = read_numbers<2>("path", listed_cell, {columns - 1, MysteryPath::kSide - 1});
    cells.push_back(cell_at(x, y));
  }
  RecordedPath path;
  path.origin = cells.front();
  path.goal = cells.back();
  if (endless && (path.origin.x != 0 || path.goal.x != columns - 1)) refuse("path", listed, takes);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    memory_gym::Path& segment = path.segment[cells[i].x / MysteryPath::kSegmentColumns];
    const int cell = MysteryPath::cell_of(cells[i].x % MysteryPath::kSegmentColumns, cells[i].y);
    int on = i + 1 == cells.size() ? 0 : memory_gym::kDirections;
    for (int direction = 0; on == memory_gym::kDirections && direction < memory_gym::kDirections; ++direction)
      if (cells[i].x + memory_gym::step_x(direction) == cells[i + 1].x &&
          cells[i].y + memory_gym::step_y(direction) == cells[i + 1].y)
        on = direction;
    if (on == memory_gym::kDirections || segment.has(cell)) refuse("path", listed[i], takes);
    segment.add(cell, on);
  }
  return path;
}

}  // namespace

std::optional<std::string> replay_mortar_mayhem(const Json& episode) {
  using Task = MortarMayhem;
  Task::Options options;
  constexpr MortarForm kForms[] = {MortarForm::kSequence, MortarForm::kAct, MortarForm::kEndless};
  options.form = kForms[get_word(episode, "form", {"sequence", "act", "endless"})];
  options.arena_size = get_int(episode, "arena_size", Task::kSmallestArena, Task::kLargestArena);
  options.allowed_commands = get_int(episode, "allowed_commands", Task::kFewestKinds, Task::kKinds);
  options.show_duration = get_int(episode, "show_duration", 1, Task::kLongest);
  options.show_delay = get_int(episode, "show_delay", 0, Task::kLongest);
  options.explosion_delay = get_int(episode, "explosion_delay", 1, Task::kLongest);
  options.explosion_duration = get_int(episode, "explosion_duration", 1, Task::kLongest);
  options.command_reward = read_reward(episode, "command_reward");
  options.sequence_reward = read_reward(episode, "sequence_reward");
  options.failure_reward = read_reward(episode, "failure_reward");

  const std::string text = get_text(episode, "commands");
  if (text.empty() || text.size() > static_cast<std::size_t>(Task::kMostCommands))
    refuse("commands", text, "1 to " + std::to_string(Task::kMostCommands) + " digits");
  const std::string kinds = digits(options.allowed_commands);
  Task::Commands commands{};
  for (int i = 0; const int command : get_symbols(episode, "commands", text.size(), {kinds}))
    commands.set(i++, command);
  options.commands = static_cast<int>(text.size());
  const Task::Params params = Task::make_params(options, 0, Purpose::kTest);
  const int last = options.arena_size - 1;
  const auto [x, y] = read_numbers<2>("start", field_of(episode, "start"), {last, last});
  if (options.form != MortarForm::kEndless && !Task::stays_inside(params, cell_at(x, y), commands))
    refuse("commands", text, "commands that do not leave the arena");

  Recording<float> recording = read_steps(episode, Task::max_episode_steps(params));
  for (const Json& row : get_array(episode, "obs", recording.actions.size() + 1)) {
    const std::string seen = row.is_string() ? row.get<std::string>() : "";
    const std::string places = digits(options.arena_size);
    const bool whole = seen.size() == 5 && ("-" + kinds).find(seen[0]) != std::string::npos &&
                       places.find(seen[1]) != std::string::npos && places.find(seen[2]) != std::string::npos &&
                       digits(memory_gym::kDirections).find(seen[3]) != std::string::npos &&
                       (seen[4] == '0' || seen[4] == '1');
    if (!whole) refuse("obs", row, "texts of a command or -, x, y, a direction 0..3, and 0 or 1");
    if (options.form == MortarForm::kAct)
      for (int i = 0; i < options.commands; ++i)
        show_code(commands[i], options.allowed_commands, recording.observations);
    else
      show_code(seen[0] == '-' ? -1 : seen[0] - '0', options.allowed_commands, recording.observations);
    show_code(seen[1] - '0', options.arena_size, recording.observations);
    show_code(seen[2] - '0', options.arena_size, recording.observations);
    show_code(seen[3] - '0', memory_gym::kDirections, recording.observations);
    recording.observations.push_back(seen[4] == '1' ? 1.0f : 0.0f);
  }
  return play<Task>(params, Task::start(params, cell_at(x, y), commands), recording);
}

std::optional<std::string> replay_mystery_path(const Json& episode) {
  using Task = MysteryPath;
  Task::Options options;
  options.endless = get_bool(episode, "endless");
  options.segments = get_int(episode, "segments", 1, Task::kMostSegments);
  options.stamina = get_int(episode, "stamina", 1, 1'000'000);
  options.max_steps = get_int(episode, "max_steps", 1, 1'000'000);
  options.goal_reward = read_reward(episode, "goal_reward");
  options.progress_reward = read_reward(episode, "progress_reward");
  options.fall_reward = read_reward(episode, "fall_reward");
  options.step_reward = read_reward(episode, "step_reward");
  const Task::Params params = Task::make_params(options, 0, Purpose::kTest);
  const RecordedPath path = read_path(episode, options.endless, params.columns);

  Recording<float> recording = read_steps(episode, params.max_steps);
  for (const Json& row : get_array(episode, "obs", recording.actions.size() + 1)) {
    const auto [x, y, direction, fallen] =
        read_numbers<4>("obs", row, {params.columns - 1, Task::kSide - 1, memory_gym::kDirections - 1, 1});
    show_code(x, params.columns, recording.observations);
    show_code(y, Task::kSide, recording.observations);
    show_code(direction, memory_gym::kDirections, recording.observations);
    recording.observations.push_back(static_cast<float>(fallen));
  }
  return play<Task>(params, Task::start(params, path.segment, path.origin, path.goal), recording);
}

}  // namespace engram::recorded
