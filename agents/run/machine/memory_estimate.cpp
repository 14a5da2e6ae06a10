#include "agents/run/machine/memory_estimate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "agents/play/evaluator.h"
#include "agents/play/rollout.h"
#include "agents/run/config/experience_size.h"
#include "agents/run/trained/trained_agent.h"
#include "base/error.h"
#include "base/machine/machine_memory.h"
#include "memory/backbones/fast_weights/shm.h"
#include "memory/core/counted_backbone.h"
#include "nn/device/device.h"

namespace engram {
namespace {

constexpr double kFloatBytes = 4;
constexpr double kProgramBytes = 200e6;  // LibTorch and the program, that do nothing yet
// Of a step of a batch beside its observation: actions, rewards, ends and masks (EpisodeBatch).
constexpr double kBatchRowBytes = 36;
// Numbers that an update holds for each output and input of a linear map, in a step of an episode: what is kept for the
// backward pass, and gradients on the way back. Measured at width 64 in episodes of 201 steps: 0.7 (none), 0.9 (LSTM,
// GRU), 1.1 to 1.7 (Transformers, DeltaNet, HQLT, LRU, retnet, mLSTM, Mamba-2, FFM), 2.2 (gated DeltaNet), 2.7 (GLA).
constexpr double kNumbersPerUnit = 1.4;
// SHM's matrix memory is there at every step.
constexpr double kStatesPerStep = 1.3;
// Copies of a row's memory in a step: the memory itself, and what the step computes of it.
constexpr double kMemoryCopies = 3;

// What is counted of a network, without a byte of it.
struct NetworkCounts {
  // Numbers of the parameters, and of those that are trained.
  double parameters = 0, trained = 0;
  double units = 0;  // outputs and inputs of its linear maps, summed
};

struct Counts {
  NetworkCounts backbone, others;
  double state_bytes = 0;  // of one row's memory
};

Counts counts_of(const Config& config) {
  const auto make = [&] {
    return AgentNetwork(config.network, config.memory, config.task.info(), config.run.seed, config.learner);
  };
  const AgentNetwork network = made_to_count(config.memory, make);
  Counts counts;
  for (const auto& item : network.named_parameters()) {
    NetworkCounts& part = item.key().starts_with("backbone.") ? counts.backbone : counts.others;
    const torch::Tensor& parameter = item.value();
    const auto numbers = static_cast<double>(parameter.numel());
    part.parameters += numbers;
    if (parameter.requires_grad()) part.trained += numbers;
    if (parameter.dim() < 2 || numbers == 0) continue;
    const auto outputs = static_cast<double>(parameter.size(0));
    part.units += outputs + numbers / outputs;
  }
  counts.state_bytes = static_cast<double>(network.backbone().cost().state_bytes);
  return counts;
}

// On the CPU also the best weights and, while these play, the last ones; a GPU's run keeps both in the host's memory.
double network_bytes(const NetworkCounts& counts, torch::Device device) {
  const double copies = device.is_cuda() ? 1 : 3;
  return kFloatBytes * (copies * counts.parameters + 3 * counts.trained);
}

MemoryEstimate estimate_of(const Config& config, const Counts& counts, torch::Device device) {
  const TaskInfo task = config.task.info();
  const double longest = task.max_episode_steps;
  const auto observation = static_cast<double>(task.observation.bytes());
  const ExperienceSize experience = experience_size(config);
  const double row = observation + 12;  // with action, reward and log-probability
  const double recorded = longest + 2.0 * (Rollout::between_looks(device) + 1);
  const double environments = config.run.num_envs + kEvaluationEnvs;
  const double number = compute_dtype(config, device) == torch::kBFloat16 ? kFloatBytes / 2 : kFloatBytes;
  const double state =
      config.memory.as<ShmOptions>() != nullptr ? kStatesPerStep * counts.state_bytes / kFloatBytes : 0;
  const double computed = number * (kNumbersPerUnit * (counts.backbone.units + counts.others.units) + state);
  MemoryEstimate estimate{
      {{"program", device.is_cuda() ? 0 : kProgramBytes, ""},
       {"backbone", network_bytes(counts.backbone, device), "memory.width"},
       {"encoder and heads", network_bytes(counts.others, device), "network.hidden_width"},
       {"replay", static_cast<double>(experience.row_bytes * experience.rows), experience.rows_key},
       {"environments", environments * (recorded * row + kMemoryCopies * counts.state_bytes), "run.num_envs"},
       {"update",
        static_cast<double>(experience.batch_episodes) * (longest + 1) * (observation + kBatchRowBytes + computed),
        experience.batch_key}}};
  std::ranges::stable_sort(estimate.parts, std::greater(), &MemoryPart::bytes);
  return estimate;
}

// The config with another value of a whole number; nothing where that contradicts others.
std::optional<Config> with_value(const Config& config, const std::string& key, std::int64_t value) {
  Config changed = config;
  try {
    OptionList options = changed.options();
    options.set(key, std::to_string(value));
    changed.memory.check();
    return changed;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// The largest value of the option, below its own, with which the run fits; nothing where there is none.
std::optional<std::int64_t> largest_fitting(const Config& config, const std::string& key, torch::Device device,
                                            double available) {
  constexpr std::int64_t kMostHeads = 1 << 10;  // which divide a width: not every one is legal
  const auto legal_up_to = [&](std::int64_t value) -> std::int64_t {
    for (std::int64_t lower = value; lower > std::max<std::int64_t>(0, value - kMostHeads); --lower)
      if (with_value(config, key, lower)) return lower;
    return 0;
  };
  const bool resizes = key == "memory.width" || key == "network.hidden_width";
  const Counts counts = counts_of(config);
  const auto fits = [&](std::int64_t value) {
    const std::int64_t legal = legal_up_to(value);
    if (legal == 0) return true;
    const Config changed = *with_value(config, key, legal);
    return estimate_of(changed, resizes ? counts_of(changed) : counts, device).total() <= available;
  };
  std::int64_t low = 0, high = std::stoll(value_text(config.values(), key));  // low fits, high does not
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  const std::int64_t most = legal_up_to(low);
  return most > 0 ? std::optional(most) : std::nullopt;
}

}  // namespace

double MemoryEstimate::total() const {
  double bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.bytes;
  return bytes;
}

std::string MemoryEstimate::text() const {
  constexpr std::size_t kShown = 3;
  std::string text = memory_text(total());
  for (std::size_t i = 0; i < std::min(kShown, parts.size()); ++i)
    text += (i == 0 ? ": " : ", ") + parts[i].what + " " + memory_text(parts[i].bytes);
  return text;
}

MemoryEstimate estimate_memory(const Config& config, torch::Device device) {
  return estimate_of(config, counts_of(config), device);
}

void check_memory(const Config& config, torch::Device device, double available) {
  const MemoryEstimate estimate = estimate_memory(config, device);
  if (estimate.total() / kMemoryFactor <= available) return;
  const std::vector<OptionValue> values = config.values();
  std::string also;  // what had to be smaller, too
  for (const MemoryPart& part : estimate.parts) {
    const std::string value = value_text(values, part.key);
    if (value.empty()) continue;
    const std::string now = part.key + " " + value;
    if (const auto most = largest_fitting(config, part.key, device, available))
      throw UserError(now + " is too much for this machine: the run would take about " + memory_text(estimate.total()) +
                      ", " + memory_text(part.bytes) + " of it for the " + part.what + ", and " +
                      memory_text(available) + " are there; " + part.key + " " + std::to_string(*most) + " fits");
    also += (also.empty() ? "" : ", ") + now;
  }
  throw UserError("the run would take about " + memory_text(estimate.total()) + " and " + memory_text(available) +
                  " are there; no smaller value of one of its sizes alone makes it fit: " + also);
}

void check_memory_of_machine(const Config& config, torch::Device device, int at_once) {
  const std::optional<std::int64_t> bytes = device.is_cuda() ? device_memory_bytes(device) : available_memory();
  if (bytes) check_memory(config, device, static_cast<double>(*bytes) / at_once);
}

}  // namespace engram
