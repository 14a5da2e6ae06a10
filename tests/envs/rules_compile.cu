// Compiles the rules of every task for the GPU. Nothing is run: that they build, byte for byte the same text as on the
// CPU, is what is tested here.
#include "envs/registry.h"

namespace engram {
namespace {

template <class Task>
__global__ void play(typename Task::Params params, typename Task::State* states, const std::int32_t* actions,
                     typename Task::Element* observations, int elements, float* rewards, End* ends, bool* successes,
                     int num_envs, std::uint64_t seed, bool fresh) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= num_envs) return;
  Rng rng(seed, Purpose::kTest, static_cast<std::uint32_t>(i), 0);
  typename Task::State state = fresh ? Task::reset(params, rng) : states[i];
  const Outcome outcome = Task::step(params, state, actions[i], rng);
  rewards[i] = outcome.reward;
  ends[i] = outcome.end;
  successes[i] = Task::success(params, state);
  Task::observe(params, state, observations + static_cast<std::int64_t>(i) * elements);
  states[i] = state;
}

}  // namespace

// Instantiates the kernel of every task; returns how many there are.
int instantiate_rules() {
  int tasks = 0;
  AllTasks::for_each([&]<class Task>() { tasks += reinterpret_cast<const void*>(&play<Task>) != nullptr; });
  return tasks;
}

}  // namespace engram
