// Learner: improves an agent's network by batches of episodes, one gradient update after the other. What the losses are
// is its algorithm's; what stands around them is here, once: averaging over ranks, adapters, the watch for values that
// are not finite, clipping, Adam, and on a GPU the recording of all of it.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/learn/algorithm.h"
#include "agents/learn/learner_config.h"
#include "agents/learn/low_rank_adapters.h"
#include "agents/learn/optimizer/adam.h"
#include "agents/learn/recorded_step.h"
#include "agents/play/episode.h"
#include "agents/run/config/options.h"
#include "ranks/device_sum.h"
#include "ranks/ranks.h"
#include "storage/tensors/state_archive.h"

namespace engram {

// Updates whose loss or gradients were not finite, since the beginning of the run.
struct Faults {
  std::int64_t count = 0;
  std::int64_t first_update = 0;  // from 1 on
  std::string first_tensor;       // "the loss" or "the gradient of NAME"
};

class Learner {
 public:
  // The network, which has this learner's heads, stays on its device and in its dtype from now on. Calls check() of
  // the options. With `adapters` of the network these are trained, else all of it.
  // Several `ranks`, each on a GPU of its own or all on CPUs, learn from their batches as one learner from all of these
  // together: their networks are equal and stay so. All make the same updates, of batches of the same shape where they
  // are on GPUs.
  Learner(const LearnerConfig& config, std::shared_ptr<AgentNetwork> network,
          std::optional<LowRankAdapters> adapters = {}, std::shared_ptr<Ranks> ranks = std::make_shared<Ranks>());

  // One step of all that is trained, and what the algorithm does after it. Where the loss or a gradient is not finite,
  // no trained weight changes, and faults() will tell. The network must be in training mode (std::logic_error
  // otherwise); it is left there. Nothing in here waits for the device; on a GPU the update is a RecordedStep. What it
  // returns has the names of scalar_names(), in their order, and stays valid until the next update.
  NamedScalars update(const EpisodeBatch& batch);
  // The same from a minibatch that comes in parts, one at least: the step that update() makes of one batch of all of
  // them, up to rounding. part(i) may be asked for twice, and is done with when the next one is. On GPUs each shape of
  // parts has a recording of its own; several ranks may have other parts, but all call this, or all update().
  NamedScalars update_in_parts(std::size_t parts, const std::function<EpisodeBatch(std::size_t)>& part);
  // Of a learner on policy (OnPolicy): its rate becomes that of an iteration which begins when so much of the run is
  // over, 0 to 1; an iteration begins; what it makes of a batch's steps, valid until the next call; all of the
  // iteration's have been estimated; a pass begins. Nothing waits for the device.
  void anneal(double progress);
  void begin_iteration() { on_policy().begin_iteration(); }
  AdvantageEstimate estimate_advantages(const EpisodeBatch& batch);
  void all_estimated() { on_policy().all_estimated(sum_over_ranks()); }
  void begin_pass() { on_policy().begin_pass(); }
  // The algorithm's, then gradient_norm, before clipping.
  std::vector<std::string> scalar_names() const;

  // Of the weights that are trained, or of their adapters, from the next update on; before it is first set it is the
  // options'. Optimisers of an algorithm's own, such as that of a temperature, keep theirs. Recorded updates take it as
  // well, and nothing waits for the device. No part of the state: whoever changes it sets it anew after a restore.
  void set_learning_rate(double learning_rate) { optimizer_.set_learning_rate(learning_rate); }

  // From now on no update is recorded or replayed; recorded updates are measured against such ones.
  void launch_every_update() {
    step_.launch_every_step();
    estimating_.launch_every_step();
    adding_.launch_every_step();
    averaging_.launch_every_step();
  }

  // Waits for the device. Where one of several ranks is lost, whose share the last updates lack, throws RankLost.
  Faults faults() const;

  Algorithm& algorithm() { return *algorithm_; }

  // Includes the network's state.
  void visit_state(StateArchive& archive);

 private:
  // Means over valid steps: the loss, its scalars in the order of their names, and the gradients of what is trained.
  struct Learnt {
    torch::Tensor total;
    NamedScalars scalars;
    std::vector<torch::Tensor> means;  // of the scalars, those that are means
    std::vector<torch::Tensor> gradients;
  };

  void check_training() const;
  NamedScalars with_names(const std::vector<torch::Tensor>& scalars) const;
  void see_minibatch(std::size_t parts, const std::function<EpisodeBatch(std::size_t)>& part);
  Learnt learn_from(const EpisodeBatch& batch);
  // Averages over ranks, of which this one has so many steps, and makes the step. The scalars and the gradient's norm.
  std::vector<torch::Tensor> step(const Learnt& learnt, const torch::Tensor& steps);
  void begin_sums();
  void add_to_sums(const EpisodeBatch& part);
  Learnt average_of_sums();
  void average_over_ranks(const std::vector<torch::Tensor>& means, const torch::Tensor& steps) const;
  void explaining(const std::function<void()>& work) const;
  void add_up(torch::Tensor& sums) const;
  SumOverRanks sum_over_ranks() const {
    return [this](torch::Tensor& sums) { add_up(sums); };
  }
  OnPolicy& on_policy();

  OptimizerOptions options_;
  std::shared_ptr<AgentNetwork> network_;
  std::unique_ptr<Algorithm> algorithm_;
  std::optional<LowRankAdapters> adapters_;
  torch::TensorOptions weights_;  // their device and dtype
  Adam optimizer_;
  torch::Tensor watch_;  // int64 [4], on the device: updates, faults, the first one's update and tensor
  std::shared_ptr<Ranks> ranks_;
  std::unique_ptr<DeviceSum> device_sum_;  // of several ranks on GPUs
  mutable bool summed_ = true;             // no update since the sums were last found to be whole
  // Of the parts of a minibatch, each step with its part's means: gradients, scalars, the loss; then the number of
  // steps. None before the first such minibatch.
  std::vector<torch::Tensor> sums_;
  RecordedStep step_, estimating_, adding_, averaging_;  // their graphs hold sums of ranks
};

}  // namespace engram
