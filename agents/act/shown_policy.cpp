#include "agents/act/shown_policy.h"

#include <algorithm>
#include <utility>

namespace engram {

ShownPolicy::ShownPolicy(const VecEnv& environments, std::shared_ptr<AgentNetwork> network, torch::ScalarType dtype,
                         std::uint64_t seed, std::uint32_t stream, std::uint32_t first_row)
    : rows_(rows_of(environments)),
      policy_(std::move(network), dtype, environments.size(), seed, MemorySpan::kEpisode, torch::kCPU, first_row) {
  policy_.draw_from(stream);
}

void ShownPolicy::begin_episodes() { rows_.fresh_N.fill_(1); }

ShownPolicy::Step ShownPolicy::act(ActionChoice choice) {
  policy_.act(rows_, choice);
  return shown();
}

ShownPolicy::Step ShownPolicy::follow(const std::vector<std::int32_t>& action_N) {
  policy_.act(rows_, ActionChoice::kGreedy);  // which draws nothing
  std::ranges::copy(action_N, rows_.action_N.data_ptr<std::int32_t>());
  return shown();
}

ShownPolicy::Step ShownPolicy::act_and_view(ActionChoice choice, MemoryView& view) {
  policy_.act_and_view(rows_, choice, view);
  return shown();
}

ShownPolicy::Step ShownPolicy::shown() {
  const std::int32_t* const action_N = rows_.action_N.const_data_ptr<std::int32_t>();
  return {policy_.last_step(), {action_N, action_N + rows_.action_N.numel()}};
}

}  // namespace engram
