// How far a computation is from its definition: root mean squares, which no single small element makes large.
#pragma once

#include <torch/torch.h>

namespace engram::testing {

inline double rms(const torch::Tensor& x) { return x.square().mean().sqrt().item<double>(); }

// RMS(actual - expected) / RMS(expected), in float64 on the CPU, where `expected` is. A definition of zeros makes all
// that is not zero infinitely wrong, in practice.
inline double rms_error(const torch::Tensor& actual, const torch::Tensor& expected) {
  return rms(actual.detach().to(torch::kCPU, torch::kFloat64) - expected.detach()) / (rms(expected.detach()) + 1e-30);
}

}  // namespace engram::testing
