// A learner's backward pass: nothing reads its gradients before it ends, so that on a GPU the products which make the
// gradients of weights run beside all that follows them (side_work.h).
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

namespace engram {

// Runs `backward` on the device, then returns what `gradients` lists: those of all leaves, which the current stream has
// waited for. One at a time.
std::vector<torch::Tensor> late_gradients(torch::Device device, const std::function<void()>& backward,
                                          const std::function<std::vector<torch::Tensor>()>& gradients);

}  // namespace engram
