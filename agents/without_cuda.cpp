// What stands for the GPU's parts in a build without GPU support: nothing is supported there, and what is called only
// where something is throws.
#include "base/without_cuda.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agents/act/make_policy.h"
#include "agents/learn/optimizer/fused_lists.h"
#include "agents/learn/ppo/advantages.h"
#include "agents/learn/ppo/fused_loss.h"
#include "agents/learn/recorded_step.h"
#include "agents/learn/sac/fused_loss.h"
#include "agents/play/device_work.h"
#include "agents/play/episode_store.h"
#include "agents/play/recorded_env.h"

namespace engram {

using torch::Tensor;

// Work runs at once, and every step of learning is launched.
struct DeviceWork::State {};
DeviceWork::DeviceWork(torch::Device) {}
DeviceWork::~DeviceWork() = default;
DeviceWork::DeviceWork(DeviceWork&&) noexcept = default;
DeviceWork& DeviceWork::operator=(DeviceWork&&) noexcept = default;
void DeviceWork::run(const std::function<void()>& work) { work(); }
void DeviceWork::repeat(int, int count, const std::function<void(int)>& work) { work(count); }

class RecordedStep::Recordings {};
RecordedStep::RecordedStep(torch::Device) {}
RecordedStep::~RecordedStep() = default;
RecordedStep::Tensors RecordedStep::run(const Tensors& inputs, const Work& work) { return work(inputs); }
void RecordedStep::launch_every_step() {}

void EpisodeStore::keep_on_gpu(const RecordingMemory&, const std::vector<KeptEpisode>&) const { not_built("episodes"); }
void EpisodeStore::gather_on_gpu(const EpisodeGather&, const std::vector<StoredEpisode>&) const {
  not_built("episodes");
}
void EpisodeStore::put_advantages_on_gpu(const EpisodeAdvantages&, const std::vector<StoredEpisode>&) const {
  not_built("episodes");
}
std::unique_ptr<RecordedEnv> make_recorded_cuda_env(const TaskConfig&, std::uint64_t, Purpose, int, int,
                                                    std::uint32_t) {
  not_built("environments");
}

Support supports_one_kernel(const Config&, torch::Device) { return no_support(); }
std::string one_kernel_limits() { return "no agent: " + no_support().reason(); }
std::unique_ptr<Policy> make_one_kernel_policy(const Config&, std::shared_ptr<AgentNetwork>, int, MemorySpan,
                                               std::uint32_t) {
  not_built("a policy");
}
void forget_rows_on_gpu(MemoryState&, const Tensor&) { not_built("memory"); }
void choose_actions_on_gpu(const ActingRows&, const Tensor&, ActionChoice, Rng*, const Tensor&, const Tensor&) {
  not_built("actions");
}
void choose_numbers_on_gpu(const ActingRows&, const Tensor&, ActionChoice, Rng*, const Tensor&, const Tensor&) {
  not_built("actions");
}

Support supports_fused_sac_loss(torch::Device, torch::ScalarType, std::int64_t) { return no_support(); }
SacLoss fused_sac_loss(const SacHeads&, const EpisodeBatch&, const Tensor&, double, std::int64_t) {
  not_built("a loss");
}
Support supports_fused_ppo_loss(torch::Device, torch::ScalarType, std::int64_t) { return no_support(); }
PpoLoss fused_ppo_loss(const PpoHeads&, const EpisodeBatch&, const PpoScales&, const PpoWeights&, std::int64_t) {
  not_built("a loss");
}
Tensor advantages_on_gpu(const EpisodeBatch&, const Tensor&, double, double) { not_built("advantages"); }
Tensor moments_on_gpu(const EpisodeBatch&, const Tensor&) { not_built("moments of advantages"); }
Support supports_fused_lists(const Tensor&) { return no_support(); }
Tensor fused_list_norms(const std::vector<Tensor>&) { not_built("norms"); }
WatchedUpdate fused_watch_update(const Tensor&, const Tensor&, const Tensor&) { not_built("a watch"); }
void fused_move_towards(const std::vector<Tensor>&, const std::vector<Tensor>&, double) { not_built("targets"); }
void fused_adam_step(const AdamLists&, const Tensor&, double, const Tensor&, const Tensor&) { not_built("Adam"); }

}  // namespace engram
