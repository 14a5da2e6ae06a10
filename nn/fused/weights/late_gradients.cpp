#include "nn/fused/weights/late_gradients.h"

#include "nn/fused/weights/side_work.h"

namespace engram {

std::vector<torch::Tensor> late_gradients(torch::Device device, const std::function<void()>& backward,
                                          const std::function<std::vector<torch::Tensor>()>& gradients) {
  if (!device.is_cuda()) {
    backward();
    return gradients();
  }
  cuda::LateWeightGradients late;
  backward();
  std::vector<torch::Tensor> all = gradients();
  late.join(all);
  return all;
}

}  // namespace engram
