#include "agents/run/machine/hardware.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstddef>

#include "agents/run/config/experience_size.h"
#include "agents/run/trained/trained_agent.h"
#include "base/error.h"
#include "base/text/words.h"
#include "memory/core/counted_backbone.h"
#include "nn/device/device.h"

namespace engram {
namespace {

// Multiply-adds from which on several threads are taken: an update is then a second's work and more. Updates a second
// of two threads against one, on two processors: waiting actively, 1.1, 1.7 and 2.5 times at 5e7, 3e9 and 1e10 on an
// idle machine, but 0.03 and 0.12 times at 5e7 and 6e9 beside ten other programs; waiting passively (OMP_WAIT_POLICY)
// 0.6, 1.1 and 2 times, and 0.75 and 1.0 times. So from here on threads that wait passively lose nothing.
constexpr double kWorkOfThreads = 5e9;

std::int64_t steps_together(const BackboneConfig& backbone, std::int64_t steps) {
  return backbone.name() == LstmOptions::kName || backbone.name() == GruOptions::kName ? 1 : steps;
}

// Of what stands before and behind the backbone: every weight of a linear map takes part once.
double work_around_backbone(const Config& config) {
  const torch::NoGradGuard no_grad;
  const auto make = [&] { return AgentNetwork(config.network, config.memory, config.task.info(), 0, config.learner); };
  const AgentNetwork network = made_to_count(config.memory, make);
  double work = 0;
  for (const auto& item : network.named_parameters())
    if (!item.key().starts_with("backbone.")) work += static_cast<double>(item.value().numel());
  return work;
}

}  // namespace

std::string Threads::text() const {
  const std::string number = counted(count, "CPU thread");
  return *reason == '\0' ? number : number + " (" + reason + ")";
}

double learning_work(const BackboneConfig& backbone, std::int64_t batch, std::int64_t steps) {
  const torch::NoGradGuard no_grad;
  const auto model = made_to_count(backbone, [&] { return make_backbone(backbone, steps); });
  return static_cast<double>(model->cost().multiply_adds_per_step) *
         static_cast<double>(batch * steps_together(backbone, steps));
}

double update_work(const Config& config) {
  const std::int64_t batch = experience_size(config).batch_episodes, rows = config.task.info().max_episode_steps + 1;
  return learning_work(config.memory, batch, rows) +
         work_around_backbone(config) * static_cast<double>(batch * steps_together(config.memory, rows));
}

double acting_work(const Config& config, int environments) {
  return (learning_work(config.memory, 1, 1) + work_around_backbone(config)) * environments;
}

Threads choose_threads(int wanted, double work, int limit) {
  if (wanted > 0) return {wanted};
  if (limit == 1) return {1, "one processor"};
  return work < kWorkOfThreads ? Threads{1, "small network"} : Threads{limit, "large network"};
}

Threads training_threads(const Config& config, torch::Device device, int limit) {
  if (config.run.threads > 0) return {config.run.threads};
  if (device.is_cuda()) return {limit};
  return choose_threads(0, std::max(update_work(config), acting_work(config, config.run.num_envs)), limit);
}

Threads acting_threads(int wanted, const Config& config, int environments, torch::Device device) {
  if (wanted == 0 && device.is_cuda()) return {1};
  return choose_threads(wanted, wanted > 0 ? 0 : acting_work(config, environments));
}

torch::Device use_device(const std::string& text) {
  const torch::Device device = parse_device(text);
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  return device;
}

torch::Device use_device(const std::string& text, Ranks& ranks) {
  if (ranks.alone()) return use_device(text);
  const int gpus = static_cast<int>(torch::cuda::device_count());
  const bool any_gpu = text == "cuda" || (text == "auto" && gpus > 0);
  torch::Device device = torch::kCPU;
  std::string found = "cpu";
  try {
    device = use_device(any_gpu ? "cuda:" + std::to_string(gpus == 1 ? 0 : ranks.place_on_machine()) : text);
    if (device.is_cuda()) found = "cuda " + device_identity(device);
  } catch (const UserError& error) {
    found = std::string("no ") + error.what();
  }
  check_devices(ranks.all_gather(found));
  return device;
}

void check_devices(const std::vector<std::string>& found) {
  const auto rank = [&](std::size_t index) { return "rank " + std::to_string(index); };
  const auto kind = [](const std::string& of_rank) { return of_rank.substr(0, of_rank.find(' ')); };
  for (std::size_t i = 0; i < found.size(); ++i)
    if (kind(found[i]) == "no") throw UserError(rank(i) + " has no device: " + found[i].substr(3));
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (kind(found[i]) != kind(found[0]))
      throw UserError("ranks compute all on GPUs or all on CPUs, and rank 0 has found " + kind(found[0]) + ", " +
                      rank(i) + " " + kind(found[i]) + "; --run.device cpu");
    const auto before = std::ranges::find(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(i), found[i]);
    if (kind(found[i]) == "cuda" && before != found.begin() + static_cast<std::ptrdiff_t>(i))
      throw UserError(rank(static_cast<std::size_t>(before - found.begin())) + " and " + rank(i) +
                      " would share a GPU, which takes one rank of a run: " + found[i].substr(5));
  }
}

void check_precision(const Config& config, torch::Device device) {
  if (config.run.precision == Precision::kBfloat16 && !device.is_cuda())
    throw UserError("run.precision bfloat16 is for GPUs; on the CPU take float32 or auto");
}

}  // namespace engram
