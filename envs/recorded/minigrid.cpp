// Recorded episodes of MiniGrid's tasks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"
#include "envs/tasks/minigrid/door_key.h"
#include "envs/tasks/minigrid/minigrid_memory.h"
#include "envs/tasks/minigrid/red_blue_doors.h"

namespace engram::recorded {
namespace {

constexpr int kCells = minigrid::kView * minigrid::kView;

// What the character of a cell stands for: the reference's three codes.
struct Symbol {
  char character;
  std::uint8_t codes[3];
};
constexpr Symbol kSymbols[] = {{'?', {0, 0, 0}}, {'.', {1, 0, 0}}, {'#', {2, 5, 0}}, {'k', {5, 1, 0}}, {'b', {6, 1, 0}},
                               {'r', {4, 0, 0}}, {'R', {4, 0, 1}}, {'e', {4, 2, 0}}, {'E', {4, 2, 1}}, {'y', {4, 4, 0}},
                               {'Y', {4, 4, 1}}, {'L', {4, 4, 2}}, {'K', {5, 4, 0}}, {'g', {8, 1, 0}}};

std::vector<std::uint8_t> read_view(const Json& view) {
  const std::string text = view.is_string() ? view.get<std::string>() : "";
  std::vector<std::uint8_t> codes(minigrid::kObservationBytes);
  bool well_formed = text.size() == kCells;
  for (std::size_t cell = 0; well_formed && cell < kCells; ++cell) {
    const auto* const symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                            [&](Symbol known) { return known.character == text[cell]; });
    well_formed = symbol != std::end(kSymbols);
    for (std::size_t channel = 0; well_formed && channel < 3; ++channel)
      codes[channel * kCells + cell] = symbol->codes[channel];
  }
  if (!well_formed) refuse("views", view, "a text of 49 characters, each a cell's");
  return codes;
}

// max_steps: of the task.
Recording<std::uint8_t> read_recording(const Json& episode, int max_steps) {
  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, max_steps));
  Recording<std::uint8_t> recording;
  recording.actions = get_symbols(episode, "actions", length, {"0123456"});
  recording.rewards.assign(length, 0);
  recording.rewards.back() = get_float(episode, "last_reward");
  recording.end = get_word(episode, "end", {"terminated", "truncated"}) == 0 ? End::kTerminated : End::kTruncated;
  recording.success = get_bool(episode, "success");

  const Json& texts = field_of(episode, "views");
  if (!texts.is_array() || texts.empty()) refuse("views", texts, "an array of texts");
  std::vector<std::vector<std::uint8_t>> views;
  for (const Json& text : texts) views.push_back(read_view(text));
  for (const Json& number : get_array(episode, "obs", length + 1)) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= views.size())
      refuse("obs", number, "integers 0.." + std::to_string(views.size() - 1));
    const std::vector<std::uint8_t>& view = views[number.get<std::size_t>()];
    recording.observations.insert(recording.observations.end(), view.begin(), view.end());
  }
  return recording;
}

// Two or three integers 0 .. most[i].
std::vector<int> read_numbers(const Json& episode, const std::string& name, const std::vector<int>& most) {
  std::vector<int> numbers;
  std::string right;
  for (const int bound : most) right += (right.empty() ? "integers 0.." : ", 0..") + std::to_string(bound);
  for (const Json& number : get_array(episode, name, most.size())) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > static_cast<std::uint64_t>(most[numbers.size()]))
      refuse(name, field_of(episode, name), right);
    numbers.push_back(number.get<int>());
  }
  return numbers;
}

// Its cell must lie in columns first .. last and rows 1 .. size - 2.
minigrid::Agent read_agent(const Json& episode, int first, int last, int size) {
  const std::vector<int> numbers = read_numbers(episode, "agent", {last, size - 2, 3});
  if (numbers[0] < first || numbers[1] < 1) refuse("agent", episode["agent"], "a cell within the room and a direction");
  return {static_cast<std::uint8_t>(numbers[0]), static_cast<std::uint8_t>(numbers[1]),
          static_cast<std::uint8_t>(numbers[2])};
}

}  // namespace

std::optional<std::string> replay_minigrid_memory(const Json& episode) {
  MiniGridMemory::Options options;
  options.observed.codes = minigrid::CodeBytes::kOriginal;
  options.size = get_int(episode, "size", MiniGridMemory::kMinSize, MiniGridMemory::kMaxSize);
  if (options.size % 2 == 0) refuse("size", options.size, "an odd number");
  const int hall_end = get_int(episode, "hall_end", MiniGridMemory::kFirstHallEnd, options.size - 3);
  const int x = get_int(episode, "x", 1, hall_end);
  const std::vector<std::string> kinds = {"key", "ball"};
  const bool is_key = get_word(episode, "object", kinds) == 0, upper_is_key = get_word(episode, "upper", kinds) == 0;
  const MiniGridMemory::Params params = MiniGridMemory::make_params(options, 0, Purpose::kTest);
  return play<MiniGridMemory>(params, MiniGridMemory::start(params, hall_end, x, is_key, upper_is_key),
                              read_recording(episode, params.max_steps));
}

std::optional<std::string> replay_red_blue_doors(const Json& episode) {
  using Task = RedBlueDoors;
  Task::Options options;
  options.observed.codes = minigrid::CodeBytes::kOriginal;
  const int size = options.size = get_int(episode, "size", Task::kMinSize, Task::kMaxSize);
  const minigrid::Agent agent = read_agent(episode, size / 2 + 1, size / 2 + size - 2, size);
  const int red_y = get_int(episode, "red_y", 1, size - 2), blue_y = get_int(episode, "blue_y", 1, size - 2);
  const Task::Params params = Task::make_params(options, 0, Purpose::kTest);
  return play<Task>(params, Task::start(params, agent, red_y, blue_y), read_recording(episode, params.max_steps));
}

std::optional<std::string> replay_door_key(const Json& episode) {
  using Task = DoorKey;
  Task::Options options;
  options.observed.codes = minigrid::CodeBytes::kOriginal;
  const int size = options.size = get_int(episode, "size", Task::kMinSize, Task::kMaxSize);
  const int wall_x = get_int(episode, "wall_x", Task::kFirstWall, size - 3);
  const int door_y = get_int(episode, "door_y", 1, size - 3);
  const minigrid::Agent agent = read_agent(episode, 1, wall_x - 1, size);
  const std::vector<int> key = read_numbers(episode, "key", {wall_x - 1, size - 2});
  if (key[0] < 1 || key[1] < 1 || (key[0] == agent.x && key[1] == agent.y))
    refuse("key", episode["key"], "a free cell to the left of the wall");
  const Task::Params params = Task::make_params(options, 0, Purpose::kTest);
  return play<Task>(params, Task::start(params, agent, wall_x, door_y, key[0], key[1]),
                    read_recording(episode, params.max_steps));
}

}  // namespace engram::recorded
