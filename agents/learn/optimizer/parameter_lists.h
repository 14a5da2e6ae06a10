// Passes over all parameters of a network at a time: of the project's own kernels where they take them (fused_lists.h).
#pragma once

#include <torch/torch.h>

#include <vector>

namespace engram {

// The Euclidean norm of each tensor, [number of tensors]. All have one type and one device.
torch::Tensor list_norms(const std::vector<torch::Tensor>& tensors);

// Watches over updates (kernels/learner/tensor_list): whether the loss and the gradients' norms are finite, 1 where one
// is not, and the norm of all of them. Counts the update in `watch`, int64 [4]. Everything stays on the device.
struct WatchedUpdate {
  torch::Tensor bad, norm;
};
WatchedUpdate watch_update(const torch::Tensor& loss, const torch::Tensor& norms, const torch::Tensor& watch);

// x[i] += rate (target[i] - x[i]), 0 <= rate <= 1; exactly the target at 1.
void move_towards(const std::vector<torch::Tensor>& x, const std::vector<torch::Tensor>& target, double rate);

}  // namespace engram
