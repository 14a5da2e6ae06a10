// What the rows of engram bench kernels share: shapes, tensors as the kernels and as LibTorch take them, errors against
// the double references.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/bench/kernel_row.h"

namespace engram {

// Vectors of `width` elements, padded with zeros to `padded`.
struct KernelShape {
  int batch, time, heads, width, padded;

  std::int64_t part() const { return static_cast<std::int64_t>(heads) * padded; }
  double vectors() const { return 1.0 * batch * time * heads; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(width)); }
  // The references are slow: of many rows and heads, which do not depend on each other, they compute four and two.
  int checked_every_row() const { return std::max(1, batch / 4); }
  int checked_every_head() const { return std::max(1, heads / 2); }
  int checked_rows() const { return (batch + checked_every_row() - 1) / checked_every_row(); }
  int checked_heads() const { return (heads + checked_every_head() - 1) / checked_every_head(); }
  std::string text() const;
};

inline constexpr double kElementBytes = 2;  // of bfloat16
// RMS(error) / RMS(reference) of the kernels in bfloat16, as their contracts promise.
inline constexpr ForwardBackward kBfloat16Bound{0.005, 0.008};

inline torch::TensorOptions on_gpu(torch::ScalarType type) { return torch::TensorOptions(torch::kCUDA).dtype(type); }

// bfloat16 [B, T, H, padded] each.
struct Vectors {
  torch::Tensor q, k, v;
};
// Slices of rows of `columns`, as the learner's products leave them; 0: each by itself.
Vectors zero_vectors(const KernelShape& shape, std::int64_t columns);

// Standard normal: float32 [B, T, H, width], and bfloat16 [B, T, H, padded].
torch::Tensor random_vectors(const KernelShape& shape);
torch::Tensor random_padded(const KernelShape& shape);

// x without its padding, as LibTorch's operations take it.
torch::Tensor plain(const torch::Tensor& x_BTHP, const KernelShape& shape);
// Detached copies that take gradients.
std::vector<torch::Tensor> leaves(std::vector<torch::Tensor> tensors);

// What the references take and give, in double on the CPU: of x [B, T, H, padded] or [B, T, H] the checked rows and
// heads, without padding.
torch::Tensor checked(const torch::Tensor& x, const KernelShape& shape);
// The same with all heads and elements, and for states and rings as well.
torch::Tensor all_heads_checked(const torch::Tensor& x, const KernelShape& shape);
std::vector<double> numbers(const torch::Tensor& x);
torch::Tensor tensor_of(const std::vector<double>& x, torch::IntArrayRef shape);

// Greatest RMS(error) / RMS(reference) of results that are compared one by one; NaN where one is.
class WorstError {
 public:
  explicit WorstError(const KernelShape& shape) : shape_(shape) {}
  void compare(const torch::Tensor& actual, const std::vector<double>& expected);
  // The same for tensors in double on the CPU.
  void compare(const torch::Tensor& actual, const torch::Tensor& expected);
  double get() const { return worst_; }

 private:
  KernelShape shape_;
  double worst_ = 0;
};

// The row with its work: that of a Bench with check(), forward(stream), backward(stream), plain_forward() and
// plain_forward_and_backward().
template <class Bench>
KernelRow with_work(KernelRow row, const std::shared_ptr<Bench>& bench) {
  row.check = [bench] { return bench->check(); };
  row.forward = [bench](cudaStream_t stream) { bench->forward(stream); };
  row.backward = [bench](cudaStream_t stream) { bench->backward(stream); };
  row.torch_forward = [bench] {
    const torch::NoGradGuard no_grad;
    bench->plain_forward();
  };
  row.torch_forward_and_backward = [bench] { bench->plain_forward_and_backward(); };
  return row;
}

// A row for each of the shapes.
inline std::vector<std::function<KernelRow()>> rows_of(const std::vector<KernelShape>& shapes,
                                                       KernelRow (*row)(const KernelShape& shape)) {
  std::vector<std::function<KernelRow()>> rows;
  for (const KernelShape& shape : shapes) rows.push_back([shape, row] { return row(shape); });
  return rows;
}

}  // namespace engram
