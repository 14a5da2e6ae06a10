// How the operations of layers.cpp go over rows: by blocks that stay in a processor's cache, one thread's after each
// other. Sums over rows are of each thread's rows first, then over the threads in their order.
#pragma once

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "nn/cpu/kernels.h"

namespace engram::cpu {

inline constexpr std::int64_t kBlockRows = 240;

inline std::vector<float>& scratch_of(std::int64_t floats) {
  thread_local std::vector<float> scratch;
  if (static_cast<std::int64_t>(scratch.size()) < floats) scratch.resize(static_cast<std::size_t>(floats));
  return scratch;
}

// What may be left out, as an argument of a function's apply().
inline std::optional<torch::Tensor> given(const torch::Tensor& x) {
  return x.defined() ? std::optional<torch::Tensor>(x) : std::nullopt;
}

// work(first, rows, scratch)
template <class Work>
void in_blocks(std::int64_t rows, Work work, std::int64_t scratch_floats) {
  at::parallel_for(0, (rows + kBlockRows - 1) / kBlockRows, 1, [&](std::int64_t begin, std::int64_t end) {
    float* const scratch = scratch_of(scratch_floats).data();
    for (std::int64_t block = begin; block < end; ++block)
      work(block * kBlockRows, std::min(kBlockRows, rows - block * kBlockRows), scratch);
  });
}

// Sums of these shapes, a set for each part of the rows; an empty shape: none.
class Sums {
 public:
  explicit Sums(std::vector<at::IntArrayRef> shapes) : shapes_(std::move(shapes)) {}

  void begin(std::int64_t parts) {
    parts_.resize(static_cast<std::size_t>(parts));
    for (auto& part : parts_)
      for (const at::IntArrayRef shape : shapes_)
        part.push_back(shape.empty() ? torch::Tensor() : torch::zeros(shape, torch::kFloat32));
  }
  std::vector<float*> of(std::int64_t part) const {
    std::vector<float*> pointers;
    for (const torch::Tensor& sum : parts_[static_cast<std::size_t>(part)])
      pointers.push_back(sum.defined() ? sum.data_ptr<float>() : nullptr);
    return pointers;
  }
  std::vector<torch::Tensor> total() const {
    std::vector<torch::Tensor> sums = parts_.front();
    for (std::size_t part = 1; part < parts_.size(); ++part)
      for (std::size_t i = 0; i < sums.size(); ++i)
        if (sums[i].defined()) sums[i].add_(parts_[part][i]);
    return sums;
  }

 private:
  std::vector<at::IntArrayRef> shapes_;
  std::vector<std::vector<torch::Tensor>> parts_;
};

// work(first, rows, sums, scratch)
template <class Work>
void in_parts(std::int64_t rows, Sums& sums, std::int64_t scratch_floats, Work work) {
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  const std::int64_t parts = std::min<std::int64_t>(at::in_parallel_region() ? 1 : at::get_num_threads(), blocks);
  sums.begin(parts);
  at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    float* const scratch = scratch_of(scratch_floats).data();
    for (std::int64_t part = begin; part < end; ++part) {
      const std::vector<float*> own = sums.of(part);
      for (std::int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block)
        work(block * kBlockRows, std::min(kBlockRows, rows - block * kBlockRows), own.data(), scratch);
    }
  });
}

struct LayerSizes {
  std::int64_t rows, outputs, inputs;
};

// y = x weight^T + bias
inline void layer(const LayerSizes& s, const float* x, const float* weight_OI, const float* bias, float* y, bool relu,
                  float* scratch) {
  kernels().product({.rows = s.rows,
                     .columns = s.outputs,
                     .inner = s.inputs,
                     .a = x,
                     .a_row = s.inputs,
                     .a_inner = 1,
                     .b = weight_OI,
                     .b_inner = 1,
                     .b_column = s.inputs,
                     .c = y,
                     .c_row = s.outputs,
                     .bias = bias,
                     .relu = relu},
                    scratch);
}
// d_x = d_y weight (+ d_x), 0 where `positive`, if it is given, is at most 0
inline void layer_input_gradient(const LayerSizes& s, const float* d_y, const float* weight_OI, float* d_x, bool adds,
                                 const float* positive, float* scratch) {
  kernels().product({.rows = s.rows,
                     .columns = s.inputs,
                     .inner = s.outputs,
                     .a = d_y,
                     .a_row = s.outputs,
                     .a_inner = 1,
                     .b = weight_OI,
                     .b_inner = s.inputs,
                     .b_column = 1,
                     .c = d_x,
                     .c_row = s.inputs,
                     .accumulate = adds,
                     .positive = positive},
                    scratch);
}
// d_weight += d_y^T x
inline void add_weight_gradient(const LayerSizes& s, const float* d_y, const float* x, float* d_weight_OI,
                                float* scratch) {
  kernels().product({.rows = s.outputs,
                     .columns = s.inputs,
                     .inner = s.rows,
                     .a = d_y,
                     .a_row = 1,
                     .a_inner = s.outputs,
                     .b = x,
                     .b_inner = s.inputs,
                     .b_column = 1,
                     .c = d_weight_OI,
                     .c_row = s.inputs,
                     .accumulate = true},
                    scratch);
}

}  // namespace engram::cpu
