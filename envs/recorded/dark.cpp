// Recorded episodes of AMAGO's dark key-to-door.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"
#include "envs/tasks/dark_rooms/dark_key_to_door.h"

namespace engram::recorded {
namespace {

dark::Cell read_cell(const Json& episode, const std::string& name, int size) {
  std::uint8_t places[2];
  for (std::size_t i = 0; const Json& place : get_array(episode, name, 2)) {
    if (!place.is_number_unsigned() || place.get<std::uint64_t>() >= static_cast<std::uint64_t>(size))
      refuse(name, place, "integers 0.." + std::to_string(size - 1));
    places[i++] = place.get<std::uint8_t>();
  }
  return {places[0], places[1]};
}

std::uint16_t read_directions(const Json& episode) {
  std::uint16_t directions = 0;
  unsigned seen = 0;
  for (int i = 0; const int direction : get_symbols(episode, "directions", dark::kActions, {"01234"})) {
    directions = static_cast<std::uint16_t>(directions | direction << 3 * i++);
    seen |= 1u << direction;
  }
  if (seen != (1u << dark::kActions) - 1)
    refuse("directions", field_of(episode, "directions"), "the digits 0 to 4, each once");
  return directions;
}

}  // namespace

std::optional<std::string> replay_dark_key_to_door(const Json& episode) {
  DarkKeyToDoor::Options options;
  options.size = get_int(episode, "size", 2, dark::kMaxSize);
  options.attempt_steps = get_int(episode, "attempt_steps", 1, 1'000'000);
  options.max_steps = get_int(episode, "steps", 1, 1'000'000);
  options.full_state = get_bool(episode, "full_state");
  const DarkKeyToDoor::Params params = DarkKeyToDoor::make_params(options, 0, Purpose::kTest);
  const dark::Cell start = read_cell(episode, "start", options.size), key = read_cell(episode, "key", options.size),
                   door = read_cell(episode, "door", options.size);
  const DarkKeyToDoor::State state{dark::begin(start, read_directions(episode)), key, door, false};

  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, options.max_steps));
  const auto elements = static_cast<std::size_t>(DarkKeyToDoor::observation_shape(params)[0]);
  Recording<float> recording;
  recording.actions = get_symbols(episode, "actions", length, {"01234"});
  for (const int reward : get_symbols(episode, "rewards", length, {"01"}))
    recording.rewards.push_back(static_cast<float>(reward));
  for (const Json& row : get_array(episode, "obs", length + 1)) {
    if (!row.is_array() || row.size() != elements) refuse("obs", row, std::to_string(elements) + " numbers a row");
    for (const Json& number : row) recording.observations.push_back(as_float("obs", number) + 0.0f);  // -0 becomes 0
  }
  recording.success = get_bool(episode, "success");
  recording.end = End::kTerminated;
  return play<DarkKeyToDoor>(params, state, recording);
}

}  // namespace engram::recorded
