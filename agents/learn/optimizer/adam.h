// Adam (Kingma and Ba 2015) over all tensors in one fused pass: of the project's own kernel where it takes them
// (fused_lists.h), else of LibTorch's. torch::optim::Adam runs a dozen small operations for each tensor.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "storage/tensors/state_archive.h"

namespace engram {

class Adam {
 public:
  // beta 0.9 and 0.999, epsilon 1e-8. weight_decay: decoupled (Loshchilov and Hutter 2019), p <- (1 - rate decay) p
  // before each step. learning_rate: the first one.
  Adam(std::vector<torch::Tensor> parameters, double learning_rate, double weight_decay = 0);

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  // The parameters' gradients, in order. Throws std::logic_error if one has none.
  std::vector<torch::Tensor> gradients() const;
  void set_gradients(const std::vector<torch::Tensor>& gradients);
  void zero_gradients();
  // `skip`: a float32 scalar on the parameters' device; where it is 1, nothing happens. Undefined: never skipped.
  void step(const torch::Tensor& skip = {});
  // Of the steps from now on, 0 or more; those that are recorded in a CUDA graph take it as well, because they read it
  // from the device. Does not wait for the device.
  void set_learning_rate(double learning_rate);

  // The learning rate is no part of it: whoever changes it sets it anew.
  void visit_state(StateArchive& archive);

 private:
  double weight_decay_;
  std::vector<torch::Tensor> parameters_, mean_, mean_square_;
  torch::Tensor step_;           // float32 []: number of steps taken
  torch::Tensor learning_rate_;  // []: float32 on a GPU; float64 on the CPU, where a step computes with it in float64
};

}  // namespace engram
