#include "agents/policy.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/sample_action.h"

namespace engram {
namespace {

// A copy of the environments' views, so that nothing on the device depends on when they are rewritten.
torch::Tensor observation_tensor(const VecEnv& environments) {
  const ObservationSpec& spec = environments.info().observation;
  std::vector<std::int64_t> shape{environments.size()};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  const auto observation = torch::empty(shape, spec.type == ElementType::kUint8 ? torch::kUInt8 : torch::kFloat32);
  std::ranges::copy(environments.observation_N(), static_cast<std::byte*>(observation.data_ptr()));
  return observation;
}

}  // namespace

Policy::Policy(std::shared_ptr<AgentNetwork> network, torch::Device device, int num_envs, std::uint64_t seed,
               std::uint32_t stream, Remembering remembering)
    : network_(std::move(network)),
      device_(device),
      seed_(seed),
      remembering_(remembering),
      memory_(network_->backbone().initial_state(num_envs)),
      fresh_N_(num_envs, 1),
      rng_N_(num_envs) {
  draw_from(stream);
  step_.action_N.resize(num_envs);
}

void Policy::draw_from(std::uint32_t stream) {
  for (std::size_t row = 0; row < rng_N_.size(); ++row)
    rng_N_[row] = Rng(seed_, Purpose::kAction, static_cast<std::uint32_t>(row), stream);
}

void Policy::reset_all() { std::ranges::fill(fresh_N_, std::uint8_t{1}); }

void Policy::reset_row(int row) { fresh_N_.at(row) = 1; }

const Policy::Step& Policy::act(const VecEnv& environments, ActionChoice choice) {
  return take_step(environments, choice, nullptr);
}

const Policy::Step& Policy::act_and_view(const VecEnv& environments, ActionChoice choice, MemoryView& view) {
  return take_step(environments, choice, &view);
}

const Policy::Step& Policy::take_step(const VecEnv& environments, ActionChoice choice, MemoryView* view) {
  const torch::NoGradGuard no_grad;
  const auto size = static_cast<std::int64_t>(fresh_N_.size());
  const std::int64_t num_actions = network_->num_actions();
  if (environments.size() != size)
    throw std::invalid_argument("a policy of " + std::to_string(size) + " rows acts in " +
                                std::to_string(environments.size()) + " environments");

  const auto previous_action_N = torch::empty({size}, torch::kInt64);
  const auto previous_reward_N = torch::empty({size});
  for (std::int64_t row = 0; row < size; ++row) {
    const bool fresh = fresh_N_[row] != 0;
    previous_action_N.data_ptr<std::int64_t>()[row] = fresh ? num_actions : step_.action_N[row];
    previous_reward_N.data_ptr<float>()[row] = fresh ? 0 : environments.reward_N()[row];
  }
  if (remembering_ == Remembering::kNothing) {
    for (torch::Tensor& tensor : memory_.tensors) tensor.zero_();
  } else if (std::ranges::count(fresh_N_, 0) < size) {
    const auto fresh = torch::from_blob(fresh_N_.data(), {size}, torch::kUInt8).to(torch::kBool);
    memory_.reset_rows(fresh.to(device_));
  }
  std::ranges::fill(fresh_N_, std::uint8_t{0});

  const auto encoded_ND = network_->encode(observation_tensor(environments).to(device_), previous_action_N.to(device_),
                                           previous_reward_N.to(device_));
  const auto input_ND = encoded_ND.to(network_->parameters().front().dtype());
  SequenceModel& backbone = network_->backbone();
  const auto features_ND = view == nullptr ? backbone.step(input_ND, memory_) : backbone.step(input_ND, memory_, *view);
  const auto probabilities_NA = network_->actor_logits(features_ND).softmax(-1);
  const auto [q1_NA, q2_NA] = network_->critics(features_ND);
  // One transfer for all three.
  const auto all = torch::cat({features_ND, probabilities_NA, torch::minimum(q1_NA, q2_NA)}, -1)
                       .to(torch::TensorOptions(torch::kCPU).dtype(torch::kFloat32));
  const std::int64_t width = features_ND.size(-1);
  step_.features_ND = all.narrow(-1, 0, width);
  step_.probabilities_NA = all.narrow(-1, width, num_actions).contiguous();
  step_.q_NA = all.narrow(-1, width + num_actions, num_actions);

  for (std::int64_t row = 0; row < size; ++row) {
    const float* const probabilities = step_.probabilities_NA.data_ptr<float>() + row * num_actions;
    if (!std::all_of(probabilities, probabilities + num_actions, [](float p) { return std::isfinite(p); }))
      throw std::runtime_error("the policy's action probabilities are not finite: training has diverged");
    step_.action_N[row] = choice == ActionChoice::kGreedy ? greedy_action(probabilities, num_actions)
                                                          : sample_action(probabilities, num_actions, rng_N_[row]);
  }
  return step_;
}

void Policy::visit_state(StateArchive& archive, std::int64_t max_position) {
  const std::size_t size = fresh_N_.size();
  archive.array("fresh", fresh_N_);
  archive.array("random", rng_N_);
  archive.array("action", step_.action_N);
  for (std::size_t i = 0; i < memory_.tensors.size(); ++i)
    archive.tensor("memory" + std::to_string(i), memory_.tensors[i]);
  if (!archive.restoring()) return;
  if (fresh_N_.size() != size || rng_N_.size() != size || step_.action_N.size() != size)
    archive.refuse("fresh", "it is of another number of environments");
  for (const std::int32_t action : step_.action_N)
    if (action < 0 || action >= network_->num_actions())
      archive.refuse("action", std::to_string(action) + " is not an action");
  // The integers in a memory are positions, which index it.
  for (const torch::Tensor& tensor : memory_.tensors)
    if (tensor.scalar_type() == torch::kInt64 && ((tensor < 0) | (tensor > max_position)).any().item<bool>())
      archive.refuse("memory", "a row is at a step that no episode has");
}

}  // namespace engram
