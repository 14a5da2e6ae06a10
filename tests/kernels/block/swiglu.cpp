#include "kernels/block/swiglu/swiglu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/block/swiglu/reference.h"
#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

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
  void upload_rows() { x_ = upload(x, kDtype), d_y_ = upload(d_y, kDtype); }

  FusedSwiGlu input() const { return {c.rows, c.width, c.stride, c.inner, weights_.data(), x_.data()}; }
  // All passes, into poisoned memory.
  void run() {
    poison(y, c.rows * c.stride, kDtype), poison(d_x, c.rows * c.stride, kDtype);
    for (DeviceBytes* weight : {&d_gate, &d_up, &d_down})
      poison(*weight, static_cast<std::size_t>(c.inner) * c.width, Dtype::kFloat32);
    poison(scratch_, fused_swiglu_weight_gradient_scratch_bytes(input()));
    fused_swiglu_forward(input(), y.data(), nullptr);
    fused_swiglu_backward(input(), {d_y_.data(), d_x.data()}, nullptr);
    fused_swiglu_weight_gradient(input(), {d_y_.data(), floats(d_gate), floats(d_up), floats(d_down)}, scratch_.data(),
                                 nullptr);
  }
  std::vector<Bytes> bits() {
    run();
    return bits_of(y, d_x, d_gate, d_up, d_down);
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

// All rows, or where they are many those around the tiles' borders, the last and some between.
std::vector<std::int64_t> rows_to_check(std::int64_t count) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < count; ++row)
    if (count <= 300 || row < 10 || row >= count - 70 || ((row + 1) % 64 < 2 && row < 600) || row % 997 == 0)
      rows.push_back(row);
  return rows;
}

bool skip_here() {
  return skip_without_hopper([] { return supports_fused_swiglu(112, 512); });
}

// Hidden units and their gradients are rounded once, and so are y and x's gradient: about 0.0017 each.
constexpr double kForwardBound = 0.005, kBackwardBound = 0.008;

void check(const SwiGluCase& c) {
  INFO(c.name());
  SwiGluProblem problem(c);
  problem.run();
  // Plain: products one by one, between which gate, up, hidden and their gradients are rounded to bfloat16.
  const SwiGluReferenceInput& weights = problem.reference;
  const auto rows = [&](const Numbers& x) { return rows_of(x, rows_to_check(c.rows), c.stride, 0, c.width); };
  const Numbers x = rows(problem.x), d_y = rows(problem.d_y);
  check_beside_plain("y", rows(download(problem.y, Dtype::kBfloat16)), swiglu_reference(weights, x),
                     swiglu_reference(weights, x, to_bf16), kForwardBound);
  check_beside_plain("d_x", rows(download(problem.d_x, Dtype::kBfloat16)),
                     swiglu_reference_backward(weights, x, d_y).x_MD,
                     swiglu_reference_backward(weights, x, d_y, to_bf16).x_MD, kBackwardBound);
  if (c.rows <= 3000) {  // the reference's time
    const Numbers all_x = columns(problem.x, c.stride, 0, c.width),
                  all_d_y = columns(problem.d_y, c.stride, 0, c.width);
    const SwiGluReferenceGradient d = swiglu_reference_backward(weights, all_x, all_d_y),
                                  plain = swiglu_reference_backward(weights, all_x, all_d_y, to_bf16);
    const auto check_weight = [](const char* name, const DeviceBytes& actual, const Numbers& expected,
                                 const Numbers& by_products) {
      check_beside_plain(name, download(actual, Dtype::kFloat32), expected, by_products, kBackwardBound);
    };
    check_weight("gate", problem.d_gate, d.gate_ID, plain.gate_ID);
    check_weight("up", problem.d_up, d.up_ID, plain.up_ID);
    check_weight("down", problem.d_down, d.down_DI, plain.down_DI);
  }
  // After the width: zero.
  if (c.width < c.stride)
    for (const DeviceBytes* out : {&problem.y, &problem.d_x})
      CHECK(columns(download(*out, Dtype::kBfloat16), c.stride, c.width, c.stride - c.width) ==
            Numbers(c.rows * (c.stride - c.width), 0));
}

}  // namespace

TEST_CASE("the fused SwiGLU and its gradients equal the formula's") {
  if (skip_here()) return;
  for (const std::int64_t rows : {1, 63, 64, 65, 191, 193, 1000, 2999, 49984}) check({rows, 100, 112, 512});
  for (const int stride : {16, 32, 48, 64, 80, 96, 112, 128})
    for (const int inner : {64, 192, 256, 512})
      for (const int width : {stride, stride - 3}) check({133, width, stride, inner});
}

TEST_CASE("NaN in one row of the fused SwiGLU reaches no other row") {
  if (skip_here()) return;
  constexpr int kRow = 70;
  SwiGluProblem problem({197, 100, 112, 128});
  const auto clean = problem.bits();
  std::fill_n(problem.x.begin() + kRow * problem.c.stride, problem.c.width, kNaN);
  std::fill_n(problem.d_y.begin() + (kRow + 1) * problem.c.stride, problem.c.width, kNaN);
  problem.upload_rows();
  const auto other = problem.bits();
  const std::size_t row_bytes = 2 * problem.c.stride, begin = kRow * row_bytes, end = (kRow + 2) * row_bytes;
  for (int i = 0; i < 2; ++i) {  // y and x's gradient
    CHECK(std::equal(clean[i].begin(), clean[i].begin() + begin, other[i].begin()));
    CHECK(std::equal(clean[i].begin() + end, clean[i].end(), other[i].begin() + end));
  }
}

TEST_CASE("the fused SwiGLU gives the same bits 1,000 times") {
  if (skip_here()) return;
  SwiGluProblem problem({1000, 100, 112, 512});
  CHECK(different_runs([&] { return problem.bits(); }) == 0);
}

TEST_CASE("the fused SwiGLU refuses other shapes") {
  if (skip_here()) return;
  for (const auto& [stride, inner] : {std::pair(112, 32), {112, 96}, {104, 64}, {144, 64}, {0, 64}, {112, 0}})
    CHECK(!supports_fused_swiglu(stride, inner));
  const SwiGluProblem problem({3, 10, 16, 64});
  for (const auto& [width, stride, inner] : {std::tuple(17, 16, 64), {0, 16, 64}, {10, 24, 64}, {10, 16, 65}}) {
    FusedSwiGlu wrong = problem.input();
    wrong.width = width, wrong.stride = stride, wrong.inner = inner;
    CHECK_THROWS_AS(fused_swiglu_forward(wrong, nullptr, nullptr), std::runtime_error);
    CHECK_THROWS_AS(fused_swiglu_backward(wrong, {}, nullptr), std::runtime_error);
  }
  SwiGluPacking first{}, second{};
  first.width = second.width = 10, first.inner = second.inner = 64, first.stride = 16, second.stride = 32;
  CHECK_THROWS_AS(fused_swiglu_pack({first, second}, nullptr), std::runtime_error);
}

TEST_CASE("small shapes: fused SwiGLU") {  // what compute-sanitizer sees
  if (skip_here()) return;
  for (const SwiGluCase& c :
       {SwiGluCase{1, 100, 112, 64}, {130, 50, 64, 128}, {200, 100, 112, 320}, {65, 128, 128, 64}})
    check(c);
}
