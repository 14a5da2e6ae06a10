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

  std::string name() const { return joined(rows, " rows of ", width, " in ", stride, ", inner ", inner); }
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
    const Numbers twice(std::size_t{2} * c.inner * c.width, kNaN);
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
  void forward() { fused_swiglu_forward(input(), y.data(), nullptr); }
  void backward() { fused_swiglu_backward(input(), {d_y_.data(), d_x.data()}, nullptr); }
  void weight_gradient() {
    fused_swiglu_weight_gradient(input(), {d_y_.data(), floats(d_gate), floats(d_up), floats(d_down)}, scratch_.data(),
                                 nullptr);
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

// By products one by one, between which gate, up, hidden and their gradients are rounded to bfloat16.
struct SwiGluErrors {
  ErrorsBesidePlain y, d_x;
};

// After forward() and backward(), in these rows.
inline SwiGluErrors row_errors(const SwiGluProblem& p, const std::vector<std::int64_t>& rows) {
  const SwiGluCase& c = p.c;
  const Numbers x = rows_of(p.x, rows, c.stride, 0, c.width), d_y = rows_of(p.d_y, rows, c.stride, 0, c.width);
  const auto of = [&](const DeviceBytes& bytes) {
    return rows_of(download(bytes, Dtype::kBfloat16), rows, c.stride, 0, c.width);
  };
  return {errors_beside_plain(of(p.y), swiglu_reference(p.reference, x), swiglu_reference(p.reference, x, to_bf16)),
          errors_beside_plain(of(p.d_x), swiglu_reference_backward(p.reference, x, d_y).x_MD,
                              swiglu_reference_backward(p.reference, x, d_y, to_bf16).x_MD)};
}

// After weight_gradient(): of gate, up and down.
inline std::vector<ErrorsBesidePlain> weight_errors(const SwiGluProblem& p) {
  const Numbers x = columns(p.x, p.c.stride, 0, p.c.width), d_y = columns(p.d_y, p.c.stride, 0, p.c.width);
  const SwiGluReferenceGradient d = swiglu_reference_backward(p.reference, x, d_y),
                                by_products = swiglu_reference_backward(p.reference, x, d_y, to_bf16);
  const auto of = [](const DeviceBytes& bytes) { return download(bytes, Dtype::kFloat32); };
  return {errors_beside_plain(of(p.d_gate), d.gate_ID, by_products.gate_ID),
          errors_beside_plain(of(p.d_up), d.up_ID, by_products.up_ID),
          errors_beside_plain(of(p.d_down), d.down_DI, by_products.down_DI)};
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
