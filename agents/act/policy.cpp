#include "agents/act/policy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/sample_action.h"

namespace engram {

Policy::Policy(std::shared_ptr<AgentNetwork> network, torch::ScalarType dtype, int num_envs, std::uint64_t seed,
               MemorySpan span, torch::Device rows_device, std::uint32_t first_row)
    : network_(std::move(network)),
      device_(network_->parameters().front().device()),
      dtype_(dtype),
      seed_(seed),
      span_(span),
      first_row_(first_row),
      memory_(network_->backbone().initial_state(num_envs)) {
  const auto options = torch::TensorOptions(rows_device);
  stream_N_ = torch::empty({static_cast<std::int64_t>(num_envs * sizeof(Rng))}, options.dtype(torch::kUInt8));
  const std::int64_t numbers = network_->continuous() ? 2 * network_->num_actions() : network_->num_actions();
  probabilities_NA_ = torch::zeros({num_envs, numbers}, options.dtype(torch::kFloat32));
  diverged_ = torch::zeros({1}, options.dtype(torch::kInt32));
  draw_from(0);
}

Policy::Policy(const Policy& other)
    : network_(other.network_),
      device_(other.device_),
      dtype_(other.dtype_),
      seed_(other.seed_),
      span_(other.span_),
      first_row_(other.first_row_),
      memory_(other.memory_.clone()),
      stream_N_(other.stream_N_.clone()),
      probabilities_NA_(other.probabilities_NA_.clone()),
      diverged_(other.diverged_.clone()) {}

// In place: a captured step reads the streams where they are.
void Policy::draw_from(std::uint32_t stream) {
  const torch::Tensor bytes = torch::empty({stream_N_.numel()}, torch::kUInt8);
  for (std::int64_t row = 0; row < probabilities_NA_.size(0); ++row) {
    const Rng rng(seed_, Purpose::kAction, first_row_ + static_cast<std::uint32_t>(row), stream);
    std::memcpy(bytes.data_ptr<std::uint8_t>() + row * static_cast<std::int64_t>(sizeof rng), &rng, sizeof rng);
  }
  stream_N_.copy_(bytes);
}

void Policy::visit_state(StateArchive& archive, std::int64_t max_position) {
  archive.tensor("random", stream_N_);
  for (std::size_t i = 0; i < memory_.tensors.size(); ++i)
    archive.tensor("memory" + std::to_string(i), memory_.tensors[i]);
  if (!archive.restoring()) return;
  // The integers in a memory are positions, which index it.
  for (const torch::Tensor& tensor : memory_.tensors)
    if (tensor.scalar_type() == torch::kInt64 && ((tensor < 0) | (tensor > max_position)).any().item<bool>())
      archive.refuse("memory", "a row is at a step that no episode has");
}

std::string in_a_graph(const AgentNetwork& network, torch::ScalarType dtype, torch::Device device) {
  const bool kernels = network.uses_kernels() && network.backbone().supports_step(dtype, device);
  return std::string("the network's operations in a CUDA graph") + (kernels ? ", the backbone's by kernels" : "");
}

NetworkPolicy::NetworkPolicy(std::shared_ptr<AgentNetwork> network, torch::ScalarType dtype, int num_envs,
                             std::uint64_t seed, MemorySpan span, torch::Device rows_device, std::uint32_t first_row)
    : Policy(std::move(network), dtype, num_envs, seed, span, rows_device, first_row),
      rule_(network_->make_action_rule(device_)) {
  if (device_.is_cuda()) prepared_ = std::make_shared<cuda::PreparedWeights>(network_->parameters());
}

void NetworkPolicy::refresh_weights() {
  if (prepared_) prepared_->refresh();
}

std::string NetworkPolicy::description() const {
  if (!device_.is_cuda()) return "the network's operations on the CPU";
  return in_a_graph(*network_, dtype_, device_);
}

void NetworkPolicy::take_step(const ActingRows& rows, ActionChoice choice, MemoryView* view) {
  const torch::NoGradGuard no_grad;
  const std::int64_t num_actions = network_->num_actions();
  if (rows.size() != probabilities_NA_.size(0))
    throw std::invalid_argument("a policy of " + std::to_string(probabilities_NA_.size(0)) + " rows acts in " +
                                std::to_string(rows.size()) + " environments");
  const torch::Tensor fresh_N = rows.fresh_N.to(device_);
  if (span_ == MemorySpan::kStep)
    for (torch::Tensor& tensor : memory_.tensors) tensor.zero_();
  else if (device_.is_cuda())
    forget_rows_on_gpu(memory_, fresh_N);
  else if (std::memchr(fresh_N.const_data_ptr(), 1, static_cast<std::size_t>(fresh_N.numel())) != nullptr)
    memory_.reset_rows(fresh_N.to(torch::kBool));

  const ComputeIn scope = compute_in();
  const cuda::PreparedWeights::InUse prepared(prepared_.get());
  torch::Tensor previous_action_N = rows.action_N.to(device_), previous_reward_N = rows.reward_N.to(device_);
  if (network_->sees_previous_action() && network_->continuous())
    previous_action_N = numbers_of(previous_action_N).masked_fill(fresh_N.to(torch::kBool).unsqueeze(-1), NAN);
  else if (network_->sees_previous_action())
    previous_action_N = previous_action_N.to(torch::kInt64).masked_fill(fresh_N.to(torch::kBool), num_actions);
  // A copy of observations of the CPU, which their environments rewrite.
  const torch::Tensor input_ND = network_->encode(rows.observation_N.to(device_), previous_action_N, previous_reward_N);
  features_ND_ =
      view == nullptr ? network_->step(input_ND, memory_) : network_->backbone().step(input_ND, memory_, *view);
  const torch::Tensor logits_NA = rule_->logits(*network_, features_ND_);
  if (network_->continuous())
    choose_numbers(rows, logits_NA, choice);
  else if (rows.action_N.is_cuda())
    choose_actions_on_gpu(rows, logits_NA.to(torch::kFloat32), choice, stream_N(), probabilities_NA_, diverged_);
  else
    choose(rows, logits_NA, choice);
}

void NetworkPolicy::choose(const ActingRows& rows, const torch::Tensor& logits_NA, ActionChoice choice) {
  probabilities_NA_.copy_(logits_NA.softmax(-1));
  const std::int64_t num_actions = probabilities_NA_.size(1);
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    const float* const probabilities = probabilities_NA_.const_data_ptr<float>() + row * num_actions;
    if (!std::all_of(probabilities, probabilities + num_actions, [](float p) { return std::isfinite(p); }))
      throw DivergedError("the policy's action probabilities are not finite: training has diverged");
    rows.action_N.data_ptr<std::int32_t>()[row] = choice == ActionChoice::kGreedy
                                                      ? greedy_action(probabilities, num_actions)
                                                      : sample_action(probabilities, num_actions, stream_N()[row]);
  }
  rows.fresh_N.zero_();
}

void NetworkPolicy::choose_numbers(const ActingRows& rows, const torch::Tensor& normal_NX, ActionChoice choice) {
  if (rows.action_N.is_cuda())
    return choose_numbers_on_gpu(rows, normal_NX.to(torch::kFloat32), choice, stream_N(), probabilities_NA_, diverged_);
  probabilities_NA_.copy_(normal_NX);
  const std::int64_t numbers = network_->num_actions();
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    std::int32_t* const action = rows.action_N.data_ptr<std::int32_t>() + row * numbers;
    if (!draw_numbers(probabilities_NA_.const_data_ptr<float>() + 2 * row * numbers, static_cast<int>(numbers),
                      choice == ActionChoice::kGreedy, stream_N()[row], action))
      throw DivergedError("the policy's means and deviations are not finite: training has diverged");
  }
  rows.fresh_N.zero_();
}

NetworkPolicy::Step NetworkPolicy::last_step(torch::Device device) const {
  const torch::NoGradGuard no_grad;
  const ComputeIn scope = compute_in();
  const auto there = torch::TensorOptions(device).dtype(torch::kFloat32);
  return {features_ND_.to(there), probabilities_NA_.to(there).clone(),
          rule_->values(*network_, features_ND_).to(there)};
}

}  // namespace engram
