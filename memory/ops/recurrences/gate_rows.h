// Two maps of one input as rows for the kernels of gates, and their gradients beside each other.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace engram::cuda {

// Both as [M, D] with one stride of rows, which they have where they are parts of one matrix; else copied.
struct GateRows {
  torch::Tensor first_MD, second_MD;

  GateRows(const torch::Tensor& first, const torch::Tensor& second)
      : first_MD(first.reshape({-1, first.size(-1)})), second_MD(second.reshape({-1, first.size(-1)})) {
    const std::int64_t stride = first_MD.stride(0);
    if (stride >= first_MD.size(1) && second_MD.stride(0) == stride && first_MD.stride(1) == 1 &&
        second_MD.stride(1) == 1)
      return;
    first_MD = first_MD.contiguous(), second_MD = second_MD.contiguous();
  }
  std::int64_t rows() const { return first_MD.size(0); }
  int width() const { return static_cast<int>(first_MD.size(1)); }
  std::int64_t stride() const { return first_MD.stride(0); }
};

// Undefined numbers for the gradients of two [M, D], as the maps that these come from want them: parts of one matrix.
struct GateGradients {
  torch::Tensor first_MD, second_MD;

  explicit GateGradients(const GateRows& of) {
    const torch::Tensor both_M2D = torch::empty({of.rows(), 2, of.width()}, of.first_MD.options());
    first_MD = both_M2D.select(1, 0), second_MD = both_M2D.select(1, 1);
  }
  std::int64_t stride() const { return first_MD.stride(0); }
};

}  // namespace engram::cuda
