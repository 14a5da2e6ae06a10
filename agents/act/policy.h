// Policy: acts in N environments in lockstep, carrying the backbone's memory of every row, on the device where the rows
// are. Collecting and evaluating act through it; films and traces through ShownPolicy.
//
// Two implementations, of which make_policy() takes the first that supports the agent:
//   OneKernelPolicy  the whole step in one kernel on a GPU (one_kernel_policy.h)
//   NetworkPolicy    any network's own step; on a GPU nothing in it waits, so that a rollout captures it in a graph
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "agents/act/action_rule.h"
#include "agents/act/network.h"
#include "agents/play/recorded_env.h"
#include "base/rng.h"
#include "memory/core/memory_view.h"
#include "nn/device/autocast.h"
#include "nn/fused/weights/prepared_weights.h"
#include "storage/tensors/state_archive.h"

namespace engram {

enum class ActionChoice { kSample, kGreedy };

// How much of its episode a row remembers. kStep: every step begins with an empty memory; previous action and reward
// are seen.
enum class MemorySpan { kEpisode, kStep };

class Policy {
 public:
  virtual ~Policy() = default;

  // Reads observations, last rewards and actions, and writes the next actions; rows where fresh_N is 1 begin an episode
  // with an empty memory, and fresh_N becomes 0. On the current stream; on a GPU nothing waits. The network's training
  // mode decides about dropout alone. On the CPU throws DivergedError if probabilities are not finite.
  virtual void act(const ActingRows& rows, ActionChoice choice) = 0;
  // The network's weights have changed since the last call. On the current stream; on a GPU nothing waits.
  virtual void refresh_weights() {}
  // Training has come so far: ActionRule::explore(). On the current stream.
  virtual void explore(std::int64_t) {}

  // Row i samples its actions from the stream (seed, Purpose::kAction, first row + i, stream), from its beginning on,
  // so that what it does depends on no other row; the greedy choice draws nothing. Waits for the device.
  void draw_from(std::uint32_t stream);
  // Whether action probabilities have not been finite: training has diverged. Waits for the device.
  bool diverged() const { return diverged_.item<std::int32_t>() != 0; }
  // What the last act() drew from, float32 on the rows' device: the probabilities of discrete actions, [N, A]; of a
  // continuous action what ActionRule::logits() says, [N, 2 A].
  const torch::Tensor& probabilities_NA() const { return probabilities_NA_; }
  const MemoryState& memory() const { return memory_; }

  AgentNetwork& network() { return *network_; }
  // While what it returns lives, casts of the weights to the products' type serve all calls of act().
  ComputeIn compute_in() const { return ComputeIn(device_, dtype_); }
  virtual std::string description() const = 0;

  // `max_position`: an upper bound of the steps that a row's memory has taken.
  void visit_state(StateArchive& archive, std::int64_t max_position);

 protected:
  // dtype: of LibTorch's products on a GPU. rows_device: where the rows are; the memory is where the network is.
  Policy(std::shared_ptr<AgentNetwork> network, torch::ScalarType dtype, int num_envs, std::uint64_t seed,
         MemorySpan span, torch::Device rows_device, std::uint32_t first_row = 0);
  // Stands where `other` stands, and goes on from there on its own.
  Policy(const Policy& other);

  Rng* stream_N() { return reinterpret_cast<Rng*>(stream_N_.data_ptr<std::uint8_t>()); }

  const std::shared_ptr<AgentNetwork> network_;
  const torch::Device device_;  // the network's
  const torch::ScalarType dtype_;
  const std::uint64_t seed_;
  const MemorySpan span_;
  const std::uint32_t first_row_;  // of the streams
  MemoryState memory_;
  torch::Tensor stream_N_;          // the bytes of Rng [N]
  torch::Tensor probabilities_NA_;  // of the last act()
  torch::Tensor diverged_;          // int32 [1]
};

class NetworkPolicy final : public Policy {
 public:
  // What the network computed for the last act(); float32.
  struct Step {
    torch::Tensor features_ND;       // backbone output h_t
    torch::Tensor probabilities_NA;  // that actions are sampled by (Policy::probabilities_NA())
    torch::Tensor value_NK;          // ActionRule::values(): K is A, or 1
  };

  // The rows are on `rows_device`, the CPU or the network's own.
  NetworkPolicy(std::shared_ptr<AgentNetwork> network, torch::ScalarType dtype, int num_envs, std::uint64_t seed,
                MemorySpan span, torch::Device rows_device, std::uint32_t first_row = 0);
  // A policy of the same network that stands where `other` stands, and goes on from there on its own.
  NetworkPolicy(const NetworkPolicy& other) = default;

  void act(const ActingRows& rows, ActionChoice choice) override { take_step(rows, choice, nullptr); }
  void refresh_weights() override;
  void explore(std::int64_t environment_steps) override { rule_->explore(environment_steps); }
  // The same, and `view` gets what the backbone, which must show its memory, read from it.
  void act_and_view(const ActingRows& rows, ActionChoice choice, MemoryView& view) { take_step(rows, choice, &view); }
  // On `device`; one that is not the network's waits for it.
  Step last_step(torch::Device device = torch::kCPU) const;
  // ActionRule::values_are_of_actions(), of value_NK.
  bool values_are_of_actions() const { return rule_->values_are_of_actions(); }

  std::string description() const override;

 private:
  void take_step(const ActingRows& rows, ActionChoice choice, MemoryView* view);
  void choose(const ActingRows& rows, const torch::Tensor& logits_NA, ActionChoice choice);
  void choose_numbers(const ActingRows& rows, const torch::Tensor& normal_NX, ActionChoice choice);

  const std::shared_ptr<ActionRule> rule_;
  std::shared_ptr<cuda::PreparedWeights> prepared_;  // on a GPU
  torch::Tensor features_ND_;
};

// What a NetworkPolicy on a GPU is made of, with products in `dtype`.
std::string in_a_graph(const AgentNetwork& network, torch::ScalarType dtype, torch::Device device);

// Of the network's operations on a GPU (policy_cuda.cpp).
// Forgets the rows of the memory where fresh_N is not 0.
void forget_rows_on_gpu(MemoryState& memory, const torch::Tensor& fresh_N);
// Chooses from float32 logits [N, A]; the contract of kernels/acting/choose_action.
void choose_actions_on_gpu(const ActingRows& rows, const torch::Tensor& logits_NA, ActionChoice choice, Rng* stream_N,
                           const torch::Tensor& probabilities_NA, const torch::Tensor& diverged);
// A continuous action from float32 means and logarithms of deviations [N, 2 A]; the contract of
// kernels/acting/choose_action/choose_numbers.h.
void choose_numbers_on_gpu(const ActingRows& rows, const torch::Tensor& normal_NX, ActionChoice choice, Rng* stream_N,
                           const torch::Tensor& kept_NX, const torch::Tensor& diverged);

}  // namespace engram
