// Recorded episodes of the endless T-maze.
#include "envs/tasks/endless_tmaze.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"

namespace engram::recorded {

std::optional<std::string> replay_endless_tmaze(const Json& episode) {
  EndlessTMaze::Options options;
  options.corridor_length = get_int(episode, "corridor_length", 1, EndlessTMaze::kMostSteps);
  options.corridors = get_int(episode, "num_corridors", 1, EndlessTMaze::kMostCorridors);
  options.turn_reward = get_float(episode, "goal_reward");
  options.wrong_turn_reward = options.delay_reward = get_float(episode, "penalty");
  const EndlessTMaze::Params params = EndlessTMaze::make_params(options, 0, Purpose::kTest);

  std::vector<EndlessTMaze::Corridor> corridors;
  const Json& listed = field_of(episode, "corridors");
  const std::string takes = "from 1 to " + std::to_string(options.corridors) + " pairs of a length 1.." +
                            std::to_string(options.corridor_length) + " and a turn, -1 or 1";
  if (!listed.is_array() || listed.empty() || listed.size() > static_cast<std::size_t>(options.corridors))
    refuse("corridors", listed, takes);
  for (const Json& corridor : listed) {
    const bool whole = corridor.is_array() && corridor.size() == 2 && corridor[0].is_number_unsigned() &&
                       corridor[0] >= 1 && corridor[0] <= options.corridor_length && corridor[1].is_number_integer() &&
                       (corridor[1] == 1 || corridor[1] == -1);
    if (!whole) refuse("corridors", corridor, takes);
    corridors.push_back({corridor[0].get<std::int32_t>(), corridor[1] == 1});
  }

  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, params.max_steps));
  auto recording = read_common<float>(episode, length);
  recording.actions = get_symbols(episode, "actions", length, {"012"});
  recording.end = get_word(episode, "end", {"terminated", "truncated"}) == 0 ? End::kTerminated : End::kTruncated;
  for (const Json& row : get_array(episode, "obs", length + 1)) {
    if (!row.is_array() || row.size() != 3) refuse("obs", row, "three numbers a row");
    for (const Json& number : row) recording.observations.push_back(as_float("obs", number) + 0.0f);  // -0 becomes 0
  }
  return play<EndlessTMaze>(
      params, EndlessTMaze::start(corridors[0]), recording, std::nullopt,
      [&](const EndlessTMaze::Params& rules, EndlessTMaze::State& state, int action, std::size_t) {
        const std::size_t next = static_cast<std::size_t>(state.passed) + 1;
        return EndlessTMaze::step_with(rules, state, action, next < corridors.size() ? corridors[next] : corridors[0]);
      });
}

}  // namespace engram::recorded
