// A problem for the fused SwiGLU: numbers, buffers on the device that start as NaN, results.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/block/swiglu/reference.h"
#include "kernels/block/swiglu/swiglu.h"
#include "tests/kernels/block/block_test.h"

namespace engram::testing {

struct SwiGluCase {
  std::int64_t rows;
  int width, stride, inner;

  std::string name() const {
    return std::to_string(rows) + " rows of " + std::to_string(width) + " in " + std::to_string(stride) + ", inner " +
           std::to_string(inner);
  }
};

class SwiGluProblem {
 public:
  explicit SwiGluProblem(const SwiGluCase& shape)
      : c(shape), rng_(static_cast<unsigned>(c.rows), Purpose::kTest, 31, static_cast<unsigned>(c.inner + c.stride)) {
    x = normal_rows(rng_, c.rows, c.width, c.stride, kDtype);
    d_y = normal_rows(rng_, c.rows, c.width, c.stride, kDtype);
    // Gates up to about 4, so that silu bends.
    const auto weights = [&](double scale) {
      return normals(rng_, static_cast<std::size_t>(c.inner) * c.width, kDtype, scale / std::sqrt(c.width));
    };
    reference = {c.width, c.inner, weights(1.5), weights(1), weights(1)};
    pack();
    upload_rows();
  }

  void pack() {
    const DeviceBytes gate = upload(reference.gate_ID, Dtype::kFloat32), up = upload(reference.up_ID, Dtype::kFloat32),
                      down = upload(reference.down_DI, Dtype::kFloat32);
    poison(weights_, fused_swiglu_weight_bytes(c.stride, c.inner));
    // After another one of twice the size, so that what is where does not depend on the place in the list.
    const Numbers twice(std::size_t{2} * c.inner * c.width, std::nan(""));
    const DeviceBytes other = upload(twice, Dtype::kFloat32);
    DeviceBytes other_weights = poisoned(fused_swiglu_weight_bytes(c.stride, 2 * c.inner) / 2, kDtype);
    fused_swiglu_pack(
        {{c.width, c.stride, 2 * c.inner, floats(other), floats(other), floats(other), other_weights.data()},
         {c.width, c.stride, c.inner, floats(gate), floats(up), floats(down), weights_.data()}},
        nullptr);
    check_cuda(cudaStreamSynchronize(nullptr), "pack");
  }
  void upload_rows() {
    x_ = upload(x, kDtype), d_y_ = upload(d_y, kDtype);
    poison_outputs();
  }
  void poison_outputs() {
    poison(y, c.rows * c.stride, kDtype), poison(d_x, c.rows * c.stride, kDtype);
    for (DeviceBytes* weight : {&d_gate, &d_up, &d_down})
      poison(*weight, static_cast<std::size_t>(c.inner) * c.width, Dtype::kFloat32);
    poison(scratch_, fused_swiglu_weight_gradient_scratch_bytes(input()));
  }

  FusedSwiGlu input() const { return {c.rows, c.width, c.stride, c.inner, weights_.data(), x_.data()}; }
  void forward(cudaStream_t stream = nullptr) { fused_swiglu_forward(input(), y.data(), stream); }
  void backward(cudaStream_t stream = nullptr) { fused_swiglu_backward(input(), {d_y_.data(), d_x.data()}, stream); }

  void weight_gradient(cudaStream_t stream = nullptr) {
    fused_swiglu_weight_gradient(input(), {d_y_.data(), floats(d_gate), floats(d_up), floats(d_down)}, scratch_.data(),
                                 stream);
  }

  static constexpr Dtype kDtype = Dtype::kBfloat16;
  SwiGluCase c;
  SwiGluReferenceInput reference;
  Numbers x, d_y;
  DeviceBytes y, d_x;
  DeviceBytes d_gate, d_up, d_down;  // float32, of the weights

 private:
  Rng rng_;
  DeviceBytes weights_, x_, d_y_, scratch_;
};

// `rows` of a matrix of `stride` columns, the first `width` of each.
inline Numbers rows_of(const Numbers& x, const std::vector<std::int64_t>& rows, int stride, int width) {
  Numbers out;
  for (const std::int64_t row : rows) out.insert(out.end(), &x[row * stride], &x[row * stride] + width);
  return out;
}

// RMS(error) / RMS(reference), and the largest error as a multiple of what it is where gate, up, hidden and their
// gradients are rounded to bfloat16, as between products one by one.
struct SwiGluError {
  double relative = 0, largest = 0;
};

inline double to_bf16(double x) { return rounded(x, Dtype::kBfloat16); }

inline SwiGluError error_of(const Numbers& actual, const Numbers& expected, const Numbers& by_products) {
  double largest = 0, by_products_largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::fmax(largest, std::abs(actual[i] - expected[i]));
    by_products_largest = std::fmax(by_products_largest, std::abs(by_products[i] - expected[i]));
  }
  return {relative_error(actual, expected), largest / by_products_largest};
}

struct SwiGluErrors {
  SwiGluError y, d_x;
};

// After forward() and backward(), in these rows.
inline SwiGluErrors row_errors(const SwiGluProblem& p, const std::vector<std::int64_t>& rows) {
  const SwiGluCase& c = p.c;
  const Numbers x = rows_of(p.x, rows, c.stride, c.width), d_y = rows_of(p.d_y, rows, c.stride, c.width);
  const auto of = [&](const DeviceBytes& bytes) {
    return rows_of(download(bytes, Dtype::kBfloat16), rows, c.stride, c.width);
  };
  return {error_of(of(p.y), swiglu_reference(p.reference, x), swiglu_reference(p.reference, x, to_bf16)),
          error_of(of(p.d_x), swiglu_reference_backward(p.reference, x, d_y).x_MD,
                   swiglu_reference_backward(p.reference, x, d_y, to_bf16).x_MD)};
}

// After weight_gradient(): of gate, up and down.
inline std::vector<SwiGluError> weight_errors(const SwiGluProblem& p) {
  const Numbers x = columns(p.x, p.c.stride, 0, p.c.width), d_y = columns(p.d_y, p.c.stride, 0, p.c.width);
  const SwiGluReferenceGradient d = swiglu_reference_backward(p.reference, x, d_y),
                                by_products = swiglu_reference_backward(p.reference, x, d_y, to_bf16);
  const auto of = [](const DeviceBytes& bytes) { return download(bytes, Dtype::kFloat32); };
  return {error_of(of(p.d_gate), d.gate_ID, by_products.gate_ID), error_of(of(p.d_up), d.up_ID, by_products.up_ID),
          error_of(of(p.d_down), d.down_DI, by_products.down_DI)};
}

// All rows, or where they are many those around the tiles' borders, the last and some between.
inline std::vector<std::int64_t> rows_to_check(std::int64_t count) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < count; ++row)
    if (count <= 300 || row < 10 || row >= count - 70 || ((row + 1) % 64 < 2 && row < 600) || row % 997 == 0)
      rows.push_back(row);
  return rows;
}

}  // namespace engram::testing
