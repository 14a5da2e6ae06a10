// ProbeLearner: a network around a backbone, taught a ProbeTask by AdamW on its loss. On a GPU a training step is
// recorded once and replayed; the host waits once in 64 steps and draws the next sequences meanwhile.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agents/learn/recorded_step.h"
#include "experiments/probe/network.h"
#include "experiments/probe/task.h"
#include "memory/core/registry.h"
#include "storage/tensors/state_archive.h"

namespace engram {

// What the weight decay of AdamW shrinks: matrices but embeddings, or, as PyTorch's AdamW without groups does, all.
enum class Decayed { kMatrices, kAll };

struct ProbeTraining {
  int steps = 10'000;
  int batch = 128;              // sequences
  double learning_rate = 1e-3;  // the greatest; the rate rises to it in a straight line, then falls by a cosine
  double warmup = 0.1;          // part of the steps in which it rises
  double final_rate = 0;        // the last one, as a part of the greatest
  double weight_decay = 0.01;   // Loshchilov and Hutter 2019
  Decayed decayed = Decayed::kMatrices;
  double clip_gradient_norm = 1;
  int validate_every = 200;  // steps, as Grazzi et al. 2025 do
  int patience = 0;          // steps without a better validation that end the training; 0: any number
  double stop_accuracy = 1;  // in validation, that ends the training (kCrossEntropy)
  ProbeNetworkOptions network;
};

// The learning rate of each training step.
std::vector<float> rates_of_steps(const ProbeTraining& training);

struct ProbeAccuracy {
  double accuracy = 0;              // of all answers
  double loss = 0;                  // the task's, mean over all answers
  std::vector<double> by_question;  // in the order of the questions: for parity by length, for copying by item; not a
                                    // number where none was asked
};

struct ProbeValidation {
  int step;  // training steps made
  double accuracy, loss;
};

class ProbeLearner {
 public:
  // Weights and sequences follow from the seed. `task` must outlive the learner.
  ProbeLearner(const ProbeTask& task, const BackboneConfig& backbone, const ProbeTraining& training, std::uint64_t seed,
               torch::Device device);

  // All steps, with a validation on at least `validation_sequences` every `validate_every` steps and at the end. Leaves
  // the weights of the best validation, the first of equals: of the highest accuracy, or of the lowest loss unless
  // that is kCrossEntropy. It ends with stop_accuracy (kCrossEntropy) or a squared loss below 0.001, as published.
  // Returns nothing, or the number of steps after which the loss was found not to be finite; then it stops there.
  // `keep` is called after every validation that does not end the training.
  std::optional<int> train(int validation_sequences, const std::function<void()>& keep = {});
  // All that the rest of a training depends on, as it is in `keep`: restored into a new learner of the same arguments,
  // train() goes on from there and comes to the same bytes.
  void visit_state(StateArchive& archive);
  // Mean loss of the last block of steps.
  double last_loss() const { return last_loss_; }
  const std::vector<ProbeValidation>& validations() const { return validations_; }
  // The validation whose weights these are; at step 0 before any.
  ProbeValidation best() const { return best_; }

  // Over `sequences` of the split, at least.
  ProbeAccuracy evaluate(Split split, int sequences);

  ModelCost backbone_cost() const;
  const ProbeNetwork& network() const { return *network_; }

 private:
  void step(const ProbeBatch& batch);
  void launch_step(const ProbeBatch& batch);
  // Whether training has reached its end with it.
  bool validate(int step, int sequences);
  std::vector<torch::Tensor> parameters() const;  // decayed_, then plain_

  const ProbeTask& task_;
  const ProbeTraining training_;
  const std::uint64_t seed_;
  const torch::Device device_;
  std::shared_ptr<ProbeNetwork> network_;
  std::vector<torch::Tensor> decayed_, plain_;  // parameters with and without weight decay
  std::vector<torch::Tensor> decayed_moments_[2], plain_moments_[2];
  torch::Tensor rate_of_step_, step_, loss_;  // on the device
  RecordedStep recorded_;
  int steps_made_ = 0;  // at the last validation
  double last_loss_ = 0;
  std::vector<ProbeValidation> validations_;
  ProbeValidation best_{};
  std::vector<torch::Tensor> best_parameters_;
};

}  // namespace engram
