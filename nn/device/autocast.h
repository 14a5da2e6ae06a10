// ComputeIn: the type of matrix products in LibTorch's own operations on a GPU, for the parts of a network that no
// kernel takes.
#pragma once

#include <torch/torch.h>

namespace engram {

// While it lives, LibTorch's products on a GPU are computed in `dtype` from float32 parameters: they and their inputs
// are cast on the way in, and gradients of the parameters are float32 (autocast). float32 and float64 mean the type
// that the tensors have, which a scope inside another one goes back to. No operation on the CPU is changed.
//
// Scopes nest. Casts of parameters are kept until the outermost scope ends: it must end before the parameters change,
// has gradients recorded in all of it or in none, and in a captured graph stands inside of the capture. A backward
// pass belongs outside.
class ComputeIn {
 public:
  ComputeIn(torch::Device device, torch::ScalarType dtype);
  ~ComputeIn();
  ComputeIn(const ComputeIn&) = delete;
  ComputeIn& operator=(const ComputeIn&) = delete;

 private:
  bool changed_ = false;
  bool casts_before_ = false;
  torch::ScalarType dtype_before_ = torch::kFloat32;
};

// The type in which products on `device` are computed now from tensors of type `dtype`.
torch::ScalarType product_dtype(torch::Device device, torch::ScalarType dtype);

}  // namespace engram
