// AgentNetwork: observation encoder, memory backbone, and the heads that the agent's learner asks for.
// D is the backbone's width, A the number of actions, or of the numbers of a continuous one; [...] stands for any
// leading shape, the same in all arguments.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/learn/learner_config.h"
#include "agents/run/config/options.h"
#include "base/support.h"
#include "envs/vec/vec_env.h"
#include "memory/core/registry.h"
#include "nn/layers/dropout.h"
#include "nn/layers/encoder.h"
#include "nn/layers/heads.h"
#include "nn/layers/joint_encoder.h"
#include "storage/tensors/state_archive.h"

namespace engram {

class AgentNetwork : public torch::nn::Module {
 public:
  // With the heads of `learner`. Weights are drawn from torch's default generator. Throws UserError for an image
  // smaller than 3 x 3, or options of the backbone that contradict each other. `seed` is the dropout's.
  AgentNetwork(const NetworkOptions& options, const BackboneConfig& backbone, const TaskInfo& task,
               std::uint64_t seed = 0, const LearnerConfig& learner = LearnerConfig("sac"));

  // The backbone's input: observation [..., *observation shape], previous_action int64 [...] (A: none) or of a
  // continuous one float32 [..., A] (NaN: none), previous_reward [...] -> [..., D]. Encoder::kParts: the observation is
  // encoded (nn/layers/encoder.h); where previous action or reward are seen, their embeddings (a table, of a continuous
  // action linear, relu; linear, relu) are appended to that and a linear map takes all of it to D. Encoder::kJoint: all
  // of it by nn/layers/joint_encoder.h, the previous action as a one-hot vector (zeros: none), the mark as one of two.
  // A continuous action's numbers are seen as the task took them, within its bounds; 0 where there is none. Dropout
  // last. In training mode all dropouts of the network draw afresh from here on.
  torch::Tensor encode(const torch::Tensor& observation, const torch::Tensor& previous_action,
                       const torch::Tensor& previous_reward);
  SequenceModel& backbone() { return *backbone_; }
  const SequenceModel& backbone() const { return *backbone_; }

  // Backbone outputs of whole episodes from their first step on, for learning: encoded [B, T, D] -> [B, T, D].
  torch::Tensor features(const torch::Tensor& encoded_BTD, const torch::Tensor& lengths_B);
  // Those of one step, for acting, which writes into `memory`: [B, D] -> [B, D].
  torch::Tensor step(const torch::Tensor& encoded_BD, MemoryState& memory);

  // On a GPU: the type of activations and matrix products while learning, kFloat32 (as at first) or kBFloat16, with
  // kernels and without. Parameters stay float32, products are summed in float32.
  void compute_in(torch::ScalarType dtype) { compute_dtype_ = dtype; }
  // Whether learning and step() take the project's kernels (on a GPU) and loops (on a CPU) where there are some (as at
  // first), or LibTorch's operations, which is what they are measured against.
  void use_kernels(bool use) { use_kernels_ = use; }
  bool uses_kernels() const { return use_kernels_; }

  // Which way learning on `device` goes: backbone, heads and encoder.
  std::vector<Road> roads(torch::Device device) const;

  // One head by its name: [..., D] -> [..., its outputs]; without gradients by the kernels that learning takes, where
  // they take it alone. Throws std::out_of_range where there is none.
  torch::Tensor head(const std::string& name, const torch::Tensor& hidden);
  // All heads on the same features [..., D], for learning, in the order of the learner's list: those that learn, and
  // those that follow one of them, without gradient. On a GPU each has float32 [..., its outputs or more], zeros after
  // these.
  HeadGroup::Outputs heads(const torch::Tensor& features);
  // What these heads are: those that learn, in the order of the outputs, and behind them those that follow.
  std::vector<HeadSpec> head_specs() const;
  // target <- (1 - tau) target + tau followed, of all heads that follow another.
  void update_targets(double tau);
  // How actions come from the heads, a rule of the caller's own, for features on `device`.
  std::shared_ptr<ActionRule> make_action_rule(torch::Device device) const { return learner_.action_rule(device); }

  // All parameters, those of the target heads included, and the position of the dropout's draws.
  void visit_state(StateArchive& archive);

  // Seed and tick of all dropouts (base/dropout.h), int64 [2] on that device, where it stays.
  const torch::Tensor& dropout_seed_tick(torch::Device device) { return dropout_clock_->seed_tick(device); }

  // What is drawn from here on is drawn by torch's default generator of that device (DropoutClock::draw_seed()).
  void draw_dropout_seed(torch::Device device) { dropout_clock_->draw_seed(device); }

  // Everything that an optimiser trains: all but the target heads (which are among parameters(), without gradient).
  std::vector<torch::Tensor> trainable_parameters() const;
  std::int64_t num_actions() const { return num_actions_; }
  bool continuous() const { return log_deviation_.defined(); }
  // Of a continuous action, in the task's units: the means that outputs [..., A] of a head stand for, of which -1 and 1
  // are the bounds; and the logarithms of the standard deviations [A], learnt numbers that are the same everywhere, at
  // first those of half the range between the bounds.
  torch::Tensor action_means(const torch::Tensor& outputs) const {
    return torch::addcmul(centre_, half_range_, outputs);
  }
  torch::Tensor action_log_deviations() const { return log_deviation_ + half_range_.log(); }
  // Or, by its absence, that a step is an episode's first.
  bool sees_previous_action() const { return seen_.previous_action_width > 0 || seen_.first_step_mark; }
  bool sees_previous_reward() const { return seen_.previous_reward_width > 0; }

 private:
  HeadGroup all_heads() const;
  void add_encoder(const std::vector<ObservationPart>& parts, std::int64_t width, bool continuous);
  void add_action_scale(const std::vector<ActionNumber>& numbers);
  // What the joint encoder sees beside an observation: a part, and its numbers [M, elements] in the reward's type.
  struct SeenBeside {
    ObservationPart part;
    torch::Tensor (*numbers)(const AgentNetwork& network, const torch::Tensor& previous_action,
                             const torch::Tensor& previous_reward);
  };
  std::vector<SeenBeside> seen_beside(bool continuous) const;
  // All of it, side by side; and, of the other encoder, the encoded observation with what is beside it. [M, ...]
  torch::Tensor beside(const torch::Tensor& previous_action, const torch::Tensor& previous_reward) const;
  // Whether there is no previous action, [M, 1]; the numbers of a continuous one, [M, A].
  torch::Tensor is_none(const torch::Tensor& previous_action) const;
  torch::Tensor bounded_or_zero(const torch::Tensor& previous_action) const;
  torch::Tensor join_previous(const torch::Tensor& encoded, const torch::Tensor& previous_action,
                              const torch::Tensor& previous_reward);

  std::int64_t num_actions_;
  torch::Tensor centre_, half_range_, log_deviation_;  // [A], of a continuous action's numbers
  const NetworkOptions seen_;
  torch::ScalarType compute_dtype_ = torch::kFloat32;
  bool use_kernels_ = true;
  std::vector<SeenBeside> beside_;
  std::optional<JointEncoder> joint_;  // or the parts' encoder and the layers after it
  std::optional<ObservationEncoder> encoder_;
  torch::nn::Embedding previous_action_{nullptr};  // where its width is not 0: of discrete actions
  torch::nn::Linear previous_numbers_{nullptr};    // or of a continuous one
  torch::nn::Linear previous_reward_{nullptr};     // where its width is not 0
  torch::nn::Linear joined_{nullptr};              // where something beside the observation is seen
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<SequenceModel> backbone_;
  std::shared_ptr<DropoutClock> dropout_clock_;
  LearnerConfig learner_;
  struct NamedHead {
    HeadSpec spec;
    Head head;
  };
  const NamedHead& find_head(const std::string& name) const;
  std::vector<NamedHead> heads_;
};

}  // namespace engram
