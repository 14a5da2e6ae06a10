#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/block/elementwise.h"
#include "tests/kernels/block/block_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr std::int64_t kSeedTick[2] = {7, 11};

struct Shape {
  std::int64_t rows;
  int width, stride;
  int x_stride = stride;
};

std::string text(const Shape& s, Dtype dtype) {
  return joined(s.rows, " rows of ", s.width, " in ", s.x_stride, " and ", s.stride, " ", name_of(dtype));
}

DropoutAdd dropout_of(const Shape& s, Dtype dtype, const DropoutKey& dropout, const void* x, const void* residual) {
  return {s.rows, s.width, s.x_stride, s.stride, dtype, dropout, x, residual};
}

// Odd numbers of rows and channels, with gaps and without, less than a block and many blocks.
const std::vector<Shape> kShapes = {{1, 1, 1},        {1, 5, 5},      {3, 7, 8},       {17, 50, 50},
                                    {33, 50, 56},     {65, 59, 64},   {129, 100, 100}, {129, 100, 104},
                                    {1000, 111, 112}, {31, 333, 336}, {7, 1000, 1024}, {9001, 100, 104}};
const std::vector<Shape> kSmallShapes = {{3, 7, 8}, {17, 50, 50}, {33, 50, 56}};

// What follows the width is zero in y, and not read of x and the residual.
void check_dropout(const Shape& s, Dtype dtype, double probability, bool add, Rng rng, double tolerance) {
  INFO(text(s, dtype), " dropout ", probability, add ? " added" : "");
  Numbers x = normals(rng, s.rows * s.x_stride, dtype);
  const Numbers residual = normals(rng, s.rows * s.stride, dtype);
  const DeviceBuffer<std::int64_t> seed_tick(std::vector<std::int64_t>{kSeedTick[0], kSeedTick[1]});
  const DropoutKey on_host(kSeedTick, 5, probability);
  Numbers expected(residual.size()), factor(residual.size());  // zeros behind the width
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (int c = 0; c < s.width; ++c) {
      const std::int64_t at = row * s.stride + c;
      factor[at] = dropout_factor(on_host, s.width, row, c);
      expected[at] = x[row * s.x_stride + c] * factor[at] + (add ? residual[at] : 0);
    }
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<int>(i % s.x_stride) >= s.width) x[i] = kNaN;
  const DeviceBytes on_device = upload(x, dtype), other = upload(residual, dtype);
  const auto run = [&](DeviceBytes& y, const DeviceBytes& from, const DeviceBytes& added) {
    const DropoutKey dropout(seed_tick.data(), 5, probability);
    dropout_add(dropout_of(s, dtype, dropout, from.data(), add ? added.data() : nullptr), y.data(), nullptr);
    return download(y, dtype);
  };
  DeviceBytes y = poisoned(expected.size(), dtype);
  const Numbers actual = run(y, on_device, other);
  CHECK(relative_error(actual, expected) <= tolerance);
  DeviceBytes over_x = upload(x, dtype), over_residual = upload(residual, dtype);
  if (s.x_stride == s.stride) CHECK(run(over_x, over_x, other) == actual);
  if (add) CHECK(run(over_residual, on_device, over_residual) == actual);
  // Dropped is exactly zero, or exactly the residual; what is behind the width is zero.
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) wrong += factor[i] == 0 && actual[i] != expected[i];
  CHECK(wrong == 0);
}
void check_dropout(const Shape& s, Dtype dtype, double probability, bool add) {
  const Rng rng(static_cast<unsigned>(s.rows), Purpose::kTest, 2, static_cast<unsigned>(s.width));
  check_dropout(s, dtype, probability, add, rng, rounded_once(dtype));
}

double silu(double x) { return x / (1 + std::exp(-x)); }

void check_swiglu(std::int64_t rows, int inner, Dtype dtype) {
  INFO(text({rows, inner, inner}, dtype));
  Rng rng(static_cast<unsigned>(rows), Purpose::kTest, 3, static_cast<unsigned>(inner));
  const Numbers gate_up = normals(rng, rows * 2 * inner, dtype, 3), d_hidden = normals(rng, rows * inner, dtype);
  Numbers hidden(rows * inner), gradient(rows * 2 * inner);
  for (std::int64_t i = 0; i < rows * inner; ++i) {
    const std::int64_t gate = i / inner * 2 * inner + i % inner, up = gate + inner;
    const auto function = [](const Numbers& in) { return Numbers{silu(in[0]) * in[1]}; };
    hidden[i] = function({gate_up[gate], gate_up[up]})[0];
    const Numbers d = numeric_gradient(function, {gate_up[gate], gate_up[up]}, {d_hidden[i]});
    gradient[gate] = d[0], gradient[up] = d[1];
  }
  const DeviceBytes in = upload(gate_up, dtype), d = upload(d_hidden, dtype);
  DeviceBytes out = poisoned(hidden.size(), dtype), d_in = poisoned(gate_up.size(), dtype);
  swiglu_forward(rows, inner, dtype, in.data(), out.data(), nullptr);
  swiglu_backward(rows, inner, dtype, in.data(), d.data(), d_in.data(), nullptr);
  CHECK(relative_error(download(out, dtype), hidden) <= rounded_once(dtype));
  const Numbers actual = download(d_in, dtype);
  for (const int first : {0, inner})  // of the gate, of what is gated
    CHECK(relative_error(columns(actual, 2 * inner, first, inner), columns(gradient, 2 * inner, first, inner)) <=
          rounded_once(dtype));
}

struct ReluBias {
  std::int64_t rows;
  int columns;
  Dtype dtype;
  bool relu, in_place;
  float slope;
  std::int64_t y_stride, dy_stride, dx_stride;
  Numbers y, dy;
  DeviceBytes given_y, given_dy, y_bytes, dy_bytes, dx_bytes, bias, scratch;

  ReluBias(std::int64_t n, int width, Dtype type, bool with_relu, bool over_dy, float leak = 0)
      : rows(n),
        columns(width),
        dtype(type),
        relu(with_relu),
        in_place(over_dy),
        slope(leak),
        y_stride(width + 8),
        dy_stride(width + 16),
        dx_stride(over_dy ? dy_stride : width) {
    Rng rng(static_cast<unsigned>(n), Purpose::kTest, 4, static_cast<unsigned>(width));
    y = normals(rng, n * y_stride, type), dy = normals(rng, n * dy_stride, type);
    for (double& element : y) element = std::max(element, 0.0) + slope * std::min(element, 0.0);
  }
  void run() {
    if (given_y.size() == 0) given_y = upload(y, dtype), given_dy = upload(dy, dtype);
    copy(y_bytes, given_y), copy(dy_bytes, given_dy);
    poison(dx_bytes, rows * dx_stride, dtype), poison(bias, columns, Dtype::kFloat32);
    const ReluBiasGradient gradient{.rows = rows,
                                    .columns = columns,
                                    .dtype = dtype,
                                    .y = relu ? y_bytes.data() : nullptr,
                                    .slope = slope,
                                    .y_stride = y_stride,
                                    .dy = dy_bytes.data(),
                                    .dy_stride = dy_stride,
                                    .dx = in_place ? dy_bytes.data() : dx_bytes.data(),
                                    .dx_stride = dx_stride,
                                    .bias = floats(bias)};
    poison(scratch, relu_bias_backward_scratch_bytes(gradient));
    relu_bias_backward(gradient, scratch.data(), nullptr);
    add_up({relu_bias_sum(gradient, scratch.data())}, nullptr);
  }
  Numbers dx() const {
    return engram::testing::columns(download(in_place ? dy_bytes : dx_bytes, dtype), dx_stride, 0, columns);
  }
};

void check_relu_bias(std::int64_t rows, int width, Dtype dtype, bool relu, bool in_place, float slope = 0) {
  INFO(text({rows, width, width}, dtype));
  CAPTURE(slope);
  ReluBias problem(rows, width, dtype, relu, in_place, slope);
  Numbers dx = columns(problem.dy, problem.dy_stride, 0, width), bias(width);
  const Numbers y = columns(problem.y, problem.y_stride, 0, width);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    if (relu && !(y[i] > 0)) dx[i] *= slope;
    bias[i % width] += dx[i];
    dx[i] = rounded(dx[i], dtype);
  }
  problem.run();
  CHECK(problem.dx() == dx);
  CHECK(relative_error(download(problem.bias, Dtype::kFloat32), bias) <= 1e-5);  // a float sum over all rows
}

// In place: y is written over z.
void check_scaled_add(std::int64_t rows, int width, Dtype dtype) {
  INFO(text({rows, width, width}, dtype));
  Rng rng(static_cast<unsigned>(rows), Purpose::kTest, 7, static_cast<unsigned>(width));
  const Numbers z = normals(rng, rows * width, dtype), x = normals(rng, rows * width, dtype),
                dy = normals(rng, rows * width, dtype), scale = normals(rng, width, Dtype::kFloat32);
  Numbers y(z.size()), dx(z.size()), d_scale(width);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const std::size_t c = i % width;
    y[i] = z[i] + scale[c] * x[i];
    dx[i] = scale[c] * dy[i];
    d_scale[c] += dy[i] * x[i];
  }
  const DeviceBytes device_x = upload(x, dtype), device_scale = upload(scale, Dtype::kFloat32),
                    device_dy = upload(dy, dtype);
  const ScaledAdd input{rows, width, dtype, floats(device_scale), device_x.data()};
  DeviceBytes sum = upload(z, dtype), device_dx = poisoned(z.size(), dtype), scratch,
              scale_gradient = poisoned(width, Dtype::kFloat32);
  poison(scratch, scaled_add_backward_scratch_bytes(input));
  scaled_add(input, sum.data(), sum.data(), nullptr);
  scaled_add_backward(input, device_dy.data(), device_dx.data(), scratch.data(), nullptr);
  add_up({scaled_add_sum(input, scratch.data(), floats(scale_gradient))}, nullptr);
  CHECK(relative_error(download(sum, dtype), y) <= rounded_once(dtype));
  CHECK(relative_error(download(device_dx, dtype), dx) <= rounded_once(dtype));
  CHECK(relative_error(download(scale_gradient, Dtype::kFloat32), d_scale) <= 1e-5);
}

// float32 rounds at 6e-8 and sums of thousands at a few times that; bfloat16 rounds the result at 2^-9.
double bound(Dtype dtype) { return dtype == Dtype::kFloat32 ? 2e-6 : 3e-3; }

double gelu(double z) { return z / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z))); }
double gelu_slope(double z) { return (gelu(z + 1e-5) - gelu(z - 1e-5)) / 2e-5; }

void check_gelu(int rows, int columns, int width, Dtype dtype) {
  INFO(text({rows, width, columns}, dtype));
  Rng rng(6, Purpose::kTest, rows, columns);
  const Numbers x = normals(rng, std::size_t{1} * rows * columns, dtype), dy = normals(rng, x.size(), dtype);
  const Numbers bias = normals(rng, width, Dtype::kFloat32);
  Numbers y(x.size()), dx(x.size()), d_bias(width);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % columns;
    const double z = x[i] + (c < bias.size() ? bias[c] : 0.0);
    y[i] = gelu(z);
    dx[i] = dy[i] * gelu_slope(z);
    if (c < bias.size()) d_bias[c] += dx[i];
  }
  const DeviceBytes device_x = upload(x, dtype), device_bias = upload(bias, Dtype::kFloat32);
  const GeluBias input{rows, columns, width, dtype, device_x.data(), floats(device_bias)};
  DeviceBytes out = poisoned(x.size(), dtype), gradient = upload(dy, dtype), scratch,
              bias_gradient = poisoned(width, Dtype::kFloat32);
  poison(scratch, gelu_bias_backward_scratch_bytes(input));
  gelu_bias_forward(input, out.data(), nullptr);
  gelu_bias_backward(input, gradient.data(), gradient.data(), scratch.data(), nullptr);
  add_up({gelu_bias_sum(input, scratch.data(), floats(bias_gradient))}, nullptr);
  CHECK(relative_error(download(out, dtype), y) < bound(dtype));
  CHECK(relative_error(download(gradient, dtype), dx) < bound(dtype));
  // Of what was computed in float, before it was rounded.
  CHECK(relative_error(download(bias_gradient, Dtype::kFloat32), d_bias) < bound(Dtype::kFloat32));
}

}  // namespace

TEST_CASE("dropout and addition equal the definition, in place and apart, for every width and gap") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const Shape& shape : kShapes)
      for (const double probability : {0.0, 0.1, 0.5})
        for (const bool add : {false, true}) check_dropout(shape, dtype, probability, add);
}

TEST_CASE("dropout and addition take x from rows of another length") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const Shape& s : {Shape{1, 1, 16, 1}, {70, 100, 112, 100}, {513, 100, 112}, {9, 50, 50, 57}, {300, 64, 64}})
      for (const bool add : {false, true})
        for (const double probability : {0.0, 0.3}) {
          const Rng rng(5, Purpose::kTest, static_cast<unsigned>(s.rows), static_cast<unsigned>(s.width));
          check_dropout(s, dtype, probability, add, rng, bound(dtype));
        }
}

TEST_CASE("gelu with a bias, and both gradients") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const auto& [rows, columns, width] : {std::array{1, 8, 5}, {700, 400, 400}, {333, 112, 100}, {50, 1600, 1600}})
      check_gelu(rows, columns, width, dtype);
}

TEST_CASE("gelu refuses shapes outside the contract") {
  if (skip_without_gpu()) return;
  GeluBias gelu{};
  gelu.rows = 3, gelu.columns = 12;
  CHECK_THROWS_AS(gelu_bias_forward(gelu, nullptr, nullptr), std::runtime_error);
}

TEST_CASE("SwiGLU and its gradients equal the formula's") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const auto& [rows, inner] : {std::pair(1, 8), {3, 40}, {17, 104}, {129, 256}, {1001, 400}, {5000, 24}})
      check_swiglu(rows, inner, dtype);
}

TEST_CASE("gradients behind relu and bias equal the definition, in place and apart") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const bool relu : {false, true})
      for (const bool in_place : {false, true})
        for (const auto& [rows, width] :
             {std::pair(1, 8), {3, 40}, {33, 104}, {17, 1024}, {129, 768}, {1001, 256}, {20'001, 16}})
          check_relu_bias(rows, width, dtype, relu, in_place);
  for (const Dtype dtype : kDtypes) check_relu_bias(1001, 256, dtype, true, false, 0.01f);
}

TEST_CASE("a scaled sum and its gradients equal the definition") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const auto& [rows, width] : {std::pair(1, 8), {3, 40}, {17, 1024}, {1001, 256}, {20'001, 16}})
      check_scaled_add(rows, width, dtype);
}

TEST_CASE("NaN in one row of the passes by element reaches no other row") {
  if (skip_without_gpu()) return;
  constexpr int kRows = 37, kInner = 40;
  for (const Dtype dtype : kDtypes) {
    Rng rng(1, Purpose::kTest, 5, 0);
    const auto swiglu = [&](const Numbers& gate_up, const Numbers& d_hidden) {
      const DeviceBytes in = upload(gate_up, dtype), d = upload(d_hidden, dtype);
      DeviceBytes out = poisoned(d_hidden.size(), dtype), d_in = poisoned(gate_up.size(), dtype);
      swiglu_forward(kRows, kInner, dtype, in.data(), out.data(), nullptr);
      swiglu_backward(kRows, kInner, dtype, in.data(), d.data(), d_in.data(), nullptr);
      return std::pair(download(out, dtype), download(d_in, dtype));
    };
    Numbers gate_up = normals(rng, kRows * 2 * kInner, dtype), d_hidden = normals(rng, kRows * kInner, dtype);
    const auto clean = swiglu(gate_up, d_hidden);
    std::fill_n(gate_up.begin() + 5 * 2 * kInner, 2 * kInner, kNaN);
    std::fill_n(d_hidden.begin() + 6 * kInner, kInner, kNaN);
    const auto dirty = swiglu(gate_up, d_hidden);
    CHECK(equal_but_for(clean.first, dirty.first, kInner, 5, 6));
    CHECK(equal_but_for(clean.second, dirty.second, 2 * kInner, 5, 7));
    CHECK(std::isnan(dirty.first[5 * kInner]));

    ReluBias problem(kRows, kInner, dtype, true, false);
    problem.run();
    const Numbers dx = problem.dx();
    std::fill_n(problem.dy.begin() + 5 * problem.dy_stride, kInner, kNaN);
    std::fill_n(problem.y.begin() + 5 * problem.y_stride, kInner, 1.0);
    problem.given_y = upload(problem.y, dtype), problem.given_dy = upload(problem.dy, dtype);
    problem.run();
    CHECK(equal_but_for(dx, problem.dx(), kInner, 5, 6));
    CHECK(std::isnan(problem.dx()[5 * kInner]));

    const DeviceBuffer<std::int64_t> seed_tick(std::vector<std::int64_t>{kSeedTick[0], kSeedTick[1]});
    const auto dropout = [&](const Numbers& x) {
      const DeviceBytes in = upload(x, dtype);
      DeviceBytes y = poisoned(x.size(), dtype);
      const DropoutKey dropout(seed_tick.data(), 5, 0.1);
      dropout_add(dropout_of({kRows, kInner - 1, kInner}, dtype, dropout, in.data(), nullptr), y.data(), nullptr);
      return download(y, dtype);
    };
    Numbers x = normals(rng, kRows * kInner, dtype);
    const Numbers before = dropout(x);
    std::fill_n(x.begin() + 5 * kInner, kInner, kNaN);
    CHECK(equal_but_for(before, dropout(x), kInner, 5, 6));
  }
}

TEST_CASE("the same passes by element give the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  constexpr int kRows = 2111, kWidth = 104;
  const DeviceBuffer<std::int64_t> seed_tick(std::vector<std::int64_t>{kSeedTick[0], kSeedTick[1]});
  const DropoutKey dropout(seed_tick.data(), 5, 0.1);
  for (const Dtype dtype : kDtypes) {
    Rng rng(1, Purpose::kTest, 6, 0);
    const DeviceBytes x = upload(normals(rng, kRows * 2 * kWidth, dtype), dtype);
    DeviceBytes y, d, dropped;
    CHECK(different_runs([&] {
            poison(y, kRows * kWidth, dtype), poison(d, kRows * 2 * kWidth, dtype);
            poison(dropped, kRows * kWidth, dtype);
            dropout_add(dropout_of({kRows, 100, kWidth}, dtype, dropout, x.data(), x.data()), dropped.data(), nullptr);
            swiglu_forward(kRows, kWidth, dtype, x.data(), y.data(), nullptr);
            swiglu_backward(kRows, kWidth, dtype, x.data(), y.data(), d.data(), nullptr);
            return bits_of(dropped, y, d);
          }) == 0);
    ReluBias problem(kRows, kWidth, dtype, true, false);
    CHECK(different_runs([&] {
            problem.run();
            return bits_of(problem.dx_bytes, problem.bias);
          }) == 0);
  }
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: passes by element") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes) {
    for (const Shape& shape : kSmallShapes) check_dropout(shape, dtype, 0.1, shape.rows != 3);
    check_swiglu(17, 40, dtype);
    check_relu_bias(33, 104, dtype, true, false);
    check_relu_bias(33, 16, dtype, false, true);
    check_scaled_add(33, 104, dtype);
  }
}
