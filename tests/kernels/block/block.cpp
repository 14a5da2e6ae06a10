// The passes of a block (kernels/block) against their definitions in double precision on the same numbers.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "kernels/block/elementwise.h"
#include "kernels/block/pack.h"
#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

using Bytes = std::vector<unsigned char>;
using Doubles = std::vector<double>;

// float32 rounds at 6e-8 and sums of thousands at a few times that; bfloat16 rounds the result at 2^-9.
double bound(Dtype dtype) { return dtype == Dtype::kFloat32 ? 2e-6 : 3e-3; }

// Rows of which the first `width` elements are random, the others zero.
Doubles random_rows(Rng& rng, std::int64_t rows, int width, int stride, Dtype dtype) {
  Doubles x(static_cast<std::size_t>(rows * stride));
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<int>(i % stride) < width) x[i] = rounded(normal(rng), dtype);
  return x;
}

std::vector<float> floats(const Doubles& x) { return {x.begin(), x.end()}; }
Doubles doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// 0xFF: NaN in either type.
DeviceBuffer<unsigned char> poisoned(std::size_t bytes) { return DeviceBuffer<unsigned char>(Bytes(bytes, 0xFF)); }
DeviceBuffer<float> poisoned_floats(std::size_t size) { return DeviceBuffer<float>(std::vector<float>(size, NAN)); }

void for_each_dtype(const std::function<void(Dtype)>& check) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
    CAPTURE(static_cast<int>(dtype));
    check(dtype);
  }
}

double gelu(double z) { return z / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z))); }
double gelu_slope(double z) { return (gelu(z + 1e-5) - gelu(z - 1e-5)) / 2e-5; }

}  // namespace

TEST_CASE("dropout_add drops what the host draws, adds, and pads with zeros") {
  if (skip_without_gpu()) return;
  const std::vector<std::int64_t> seed_tick{77, 3};
  const DeviceBuffer<std::int64_t> device_seed_tick(seed_tick);
  for_each_dtype([&](Dtype dtype) {
    for (const auto& [rows, width, x_stride, stride] :
         {std::array{1, 1, 1, 16}, {70, 100, 100, 112}, {513, 100, 112, 112}, {9, 50, 57, 50}, {300, 64, 64, 64}})
      for (const bool adds : {false, true})
        for (const double probability : {0.0, 0.3}) {
          CAPTURE(rows);
          CAPTURE(width);
          CAPTURE(adds);
          CAPTURE(probability);
          Rng rng(5, Purpose::kTest, rows, width);
          Doubles x = random_rows(rng, rows, x_stride, x_stride, dtype);
          const Doubles residual = random_rows(rng, rows, stride, stride, dtype);
          const DropoutKey host(seed_tick.data(), 4, probability), device(device_seed_tick.data(), 4, probability);
          Doubles expected(static_cast<std::size_t>(rows) * stride);
          for (int row = 0; row < rows; ++row)
            for (int c = 0; c < width; ++c) {
              float factor[kDropoutGroup];
              host.draw((row * dropout_row(width) + c) / kDropoutGroup, factor);
              const double kept = host.drops() ? factor[c % kDropoutGroup] : 1.0;
              expected[static_cast<std::size_t>(row) * stride + c] =
                  kept * x[static_cast<std::size_t>(row) * x_stride + c] +
                  (adds ? residual[static_cast<std::size_t>(row) * stride + c] : 0.0);
            }
          // What follows the width of x is not read.
          for (std::size_t i = 0; i < x.size(); ++i)
            if (static_cast<int>(i % x_stride) >= width) x[i] = NAN;
          const DeviceBuffer<unsigned char> device_x(encode(x, dtype)), device_residual(encode(residual, dtype));
          DeviceBuffer<unsigned char> y = poisoned(expected.size() * dtype_bytes(dtype));
          dropout_add({.rows = rows,
                       .width = width,
                       .x_stride = x_stride,
                       .stride = stride,
                       .dtype = dtype,
                       .dropout = device,
                       .x = device_x.data(),
                       .residual = adds ? device_residual.data() : nullptr},
                      y.data(), nullptr);
          CHECK(relative_error(decode(y.to_host(), dtype, stride, stride), expected) < bound(dtype));
        }
  });
}

TEST_CASE("an image's bytes become numbers of 0 to 1, padded with zeros") {
  if (skip_without_gpu()) return;
  for_each_dtype([&](Dtype dtype) {
    for (const auto& [rows, width, stride] : {std::array{1, 1, 16}, {700, 75, 80}, {33, 64, 64}}) {
      Bytes x(static_cast<std::size_t>(rows) * width);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<unsigned char>(i * 37 + i / 256);
      Doubles expected(static_cast<std::size_t>(rows) * stride);
      for (int row = 0; row < rows; ++row)
        for (int c = 0; c < width; ++c)
          expected[static_cast<std::size_t>(row * stride + c)] =
              rounded(static_cast<float>(x[static_cast<std::size_t>(row * width + c)]) / 255.0f, dtype);
      const DeviceBuffer<unsigned char> device_x(x);
      DeviceBuffer<unsigned char> y = poisoned(expected.size() * dtype_bytes(dtype));
      scale_bytes(rows, width, device_x.data(), stride, dtype, y.data(), nullptr);
      CHECK(decode(y.to_host(), dtype, stride, stride) == expected);
    }
  });
}

TEST_CASE("gelu with a bias, and both gradients") {
  if (skip_without_gpu()) return;
  for_each_dtype([&](Dtype dtype) {
    for (const auto& [rows, columns, width] :
         {std::array{1, 8, 5}, {700, 400, 400}, {333, 112, 100}, {50, 1600, 1600}}) {
      CAPTURE(rows);
      CAPTURE(columns);
      Rng rng(6, Purpose::kTest, rows, columns);
      const Doubles x = random_rows(rng, rows, columns, columns, dtype),
                    dy = random_rows(rng, rows, columns, columns, dtype);
      const Doubles bias = random_rows(rng, 1, width, width, Dtype::kFloat32);
      Doubles y(x.size()), dx(x.size()), d_bias(static_cast<std::size_t>(width));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t c = i % columns;
        const double z = x[i] + (c < bias.size() ? bias[c] : 0.0);
        y[i] = gelu(z);
        dx[i] = dy[i] * gelu_slope(z);
        if (c < bias.size()) d_bias[c] += dx[i];
      }
      const DeviceBuffer<unsigned char> device_x(encode(x, dtype));
      const DeviceBuffer<float> device_bias(floats(bias));
      const GeluBias input{.rows = rows,
                           .columns = columns,
                           .width = width,
                           .dtype = dtype,
                           .x = device_x.data(),
                           .bias = device_bias.data()};
      DeviceBuffer<unsigned char> out = poisoned(x.size() * dtype_bytes(dtype)), gradient(encode(dy, dtype)),
                                  scratch = poisoned(gelu_bias_backward_scratch_bytes(input));
      DeviceBuffer<float> bias_gradient = poisoned_floats(bias.size());
      gelu_bias_forward(input, out.data(), nullptr);
      gelu_bias_backward(input, gradient.data(), gradient.data(), scratch.data(), nullptr);
      add_up({gelu_bias_sum(input, scratch.data(), bias_gradient.data())}, nullptr);
      CHECK(relative_error(decode(out.to_host(), dtype, columns, columns), y) < bound(dtype));
      CHECK(relative_error(decode(gradient.to_host(), dtype, columns, columns), dx) < bound(dtype));
      // Of what was computed in float, before it was rounded.
      CHECK(relative_error(doubles(bias_gradient.to_host()), d_bias) < bound(Dtype::kFloat32));
    }
  });
}

TEST_CASE("several matrices of segments are packed in one call") {
  if (skip_without_gpu()) return;
  // Two heads of 5 stored as 8 above a row of its own; and a vector.
  const PackGroups by_head{10, 5, 8}, columns{7, 7, 16}, one{1, 1, 1};
  Rng rng(9, Purpose::kTest, 0, 0);
  const Doubles head = random_rows(rng, 10, 7, 7, Dtype::kBfloat16), last = random_rows(rng, 1, 7, 7, Dtype::kBfloat16),
                vector = random_rows(rng, 1, 7, 7, Dtype::kFloat32);
  Doubles expected(17 * 16), expected_vector(16);
  for (int r = 0; r < 10; ++r)
    for (int c = 0; c < 7; ++c) expected[static_cast<std::size_t>((r / 5 * 8 + r % 5) * 16 + c)] = head[r * 7 + c];
  for (int c = 0; c < 7; ++c) expected[16 * 16 + c] = last[c], expected_vector[c] = vector[c];
  DeviceBuffer<float> device_head(floats(head)), device_last(floats(last)), device_vector(floats(vector));
  DeviceBuffer<unsigned char> packed = poisoned(expected.size() * 2),
                              packed_vector = poisoned(expected_vector.size() * 4);
  const PackedMatrix matrix{
      .dtype = Dtype::kBfloat16,
      .rows = 17,
      .columns = 16,
      .data = packed.data(),
      .segments = {{device_head.data(), 0, by_head, columns}, {device_last.data(), 16, one, columns}}};
  const PackedMatrix row{.dtype = Dtype::kFloat32,
                         .rows = 1,
                         .columns = 16,
                         .data = packed_vector.data(),
                         .segments = {{device_vector.data(), 0, one, columns}}};
  pack({matrix, row}, nullptr);
  CHECK(decode(packed.to_host(), Dtype::kBfloat16, 16, 16) == expected);
  CHECK(decode(packed_vector.to_host(), Dtype::kFloat32, 16, 16) == expected_vector);
}

TEST_CASE("shapes outside the contract are refused") {
  if (skip_without_gpu()) return;
  GeluBias gelu{};
  gelu.rows = 3, gelu.columns = 12;
  CHECK_THROWS_AS(gelu_bias_forward(gelu, nullptr, nullptr), std::runtime_error);
}
