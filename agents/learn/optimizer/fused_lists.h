// The passes of parameter_lists.h and of Adam by the project's kernels (kernels/learner/tensor_list,
// kernels/learner/adam). LibTorch's have a block for 65,536 elements of a tensor and leave most of a GPU idle.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "agents/learn/optimizer/parameter_lists.h"
#include "base/support.h"

namespace engram {

// Lists of tensors like this one: float32 on a GPU. The other functions take such lists alone, and tensors that are
// written must be contiguous.
Support supports_fused_lists(const torch::Tensor& like);

torch::Tensor fused_list_norms(const std::vector<torch::Tensor>& tensors);
WatchedUpdate fused_watch_update(const torch::Tensor& loss, const torch::Tensor& norms, const torch::Tensor& watch);
void fused_move_towards(const std::vector<torch::Tensor>& x, const std::vector<torch::Tensor>& target, double rate);

// What one step of Adam reads and writes, one entry a parameter.
struct AdamLists {
  const std::vector<torch::Tensor>&parameters, &gradients, &means, &mean_squares;
};
// learning_rate: float32 []. step: float32 [], the steps so far, of which this one is counted. skip: float32 [], 1
// where nothing may happen; undefined: never. All on the parameters' device.
void fused_adam_step(const AdamLists& lists, const torch::Tensor& learning_rate, double weight_decay,
                     const torch::Tensor& step, const torch::Tensor& skip);

}  // namespace engram
