// The short convolution on a GPU against the definition in double precision.
#include "kernels/block/short_convolution/short_convolution.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/rng.h"
#include "tests/kernels/block/block_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr int kWidth = kShortConvolutionWidth, kState = kWidth - 1;

struct Case {
  int batch, time, channels;
  Dtype dtype;
  bool has_bias, reads_last;
  Numbers x_BTC, state_BSC, weight_CW, bias_C, d_y_BTC, d_last_BSC;
  std::vector<std::int64_t> length_B;

  Case(int rows, int steps, int width, Dtype type, bool bias, bool last)
      : batch(rows), time(steps), channels(width), dtype(type), has_bias(bias), reads_last(last) {
    Rng rng(static_cast<unsigned>(rows), Purpose::kTest, static_cast<unsigned>(steps), static_cast<unsigned>(width));
    // As they are in the kernel's type, so that the definition begins from the same numbers.
    const auto draw = [&](std::size_t count, Dtype of) {
      Numbers all(count);
      for (double& x : all) x = 2 * rng.uniform() - 1;
      return decode(encode(all, of), of);
    };
    const std::size_t row = std::size_t{1} * rows * width;
    x_BTC = draw(row * steps, dtype), state_BSC = draw(row * kState, Dtype::kFloat32);
    weight_CW = draw(std::size_t{1} * width * kWidth, Dtype::kFloat32), bias_C = draw(width, Dtype::kFloat32);
    d_y_BTC = draw(row * steps, Dtype::kFloat32), d_last_BSC = draw(row * kState, Dtype::kFloat32);
    for (const int length : lengths_down_to_none(rng, rows, steps)) length_B.push_back(length);
  }
  std::size_t at(int row, int steps, int t, int c) const { return (std::size_t{1} * row * steps + t) * channels + c; }
};

struct Result {
  Numbers y_BTC, last_BSC, d_x_BTC, d_state_BSC, d_weight_CW, d_bias_C;
};

// By the sums of short_convolution.h, over a row's state and inputs one after the other.
Result definition(const Case& in) {
  Result out{Numbers(in.x_BTC.size()),     Numbers(in.state_BSC.size()), Numbers(in.x_BTC.size()),
             Numbers(in.state_BSC.size()), Numbers(in.weight_CW.size()), Numbers(in.bias_C.size())};
  for (int row = 0; row < in.batch; ++row)
    for (int c = 0; c < in.channels; ++c) {
      Numbers all(kState + in.time), d_all(kState + in.time);
      for (int i = 0; i < kState + in.time; ++i)
        all[i] = i < kState ? in.state_BSC[in.at(row, kState, i, c)] : in.x_BTC[in.at(row, in.time, i - kState, c)];
      for (int t = 0; t < in.time; ++t) {
        const double d_y = in.d_y_BTC[in.at(row, in.time, t, c)];
        double y = in.has_bias ? in.bias_C[c] : 0;
        for (int j = 0; j < kWidth; ++j) {
          const double weight = in.weight_CW[c * kWidth + j];
          y += weight * all[t + j], d_all[t + j] += weight * d_y;
          out.d_weight_CW[c * kWidth + j] += all[t + j] * d_y;
        }
        out.y_BTC[in.at(row, in.time, t, c)] = y;
        out.d_bias_C[c] += d_y;
      }
      for (int s = 0; s < kState; ++s) {
        const auto kept = static_cast<std::size_t>(in.length_B[row] + s);
        out.last_BSC[in.at(row, kState, s, c)] = all[kept];
        if (in.reads_last) d_all[kept] += in.d_last_BSC[in.at(row, kState, s, c)];
      }
      for (int i = 0; i < kState + in.time; ++i)
        (i < kState ? out.d_state_BSC[in.at(row, kState, i, c)] : out.d_x_BTC[in.at(row, in.time, i - kState, c)]) =
            d_all[i];
    }
  return out;
}

struct OnGpu {
  DeviceBytes y_BTC, last_BSC, d_x_BTC, d_state_BSC, d_weight_CW, d_bias_C;

  explicit OnGpu(const Case& in) {
    const auto given = [](const Numbers& x) { return upload(x, Dtype::kFloat32); };
    const DeviceBytes x = upload(in.x_BTC, in.dtype), state = given(in.state_BSC), weight = given(in.weight_CW),
                      bias = given(in.bias_C), d_y = given(in.d_y_BTC), d_last = given(in.d_last_BSC);
    const DeviceBuffer<std::int64_t> length(in.length_B);
    poison(y_BTC, in.x_BTC.size(), Dtype::kFloat32), poison(last_BSC, in.state_BSC.size(), Dtype::kFloat32);
    poison(d_x_BTC, in.x_BTC.size(), in.dtype), poison(d_state_BSC, in.state_BSC.size(), Dtype::kFloat32);
    poison(d_weight_CW, in.weight_CW.size(), Dtype::kFloat32), poison(d_bias_C, in.bias_C.size(), Dtype::kFloat32);
    const ShortConvolutionInput input{.batch = in.batch,
                                      .time = in.time,
                                      .channels = in.channels,
                                      .dtype = in.dtype,
                                      .x_BTC = x.data(),
                                      .state_BSC = floats(state),
                                      .weight_CW = floats(weight),
                                      .bias_C = in.has_bias ? floats(bias) : nullptr,
                                      .length_B = length.data()};
    DeviceBytes scratch;
    poison(scratch, short_convolution_backward_scratch_bytes(input));
    short_convolution_forward(input, floats(y_BTC), floats(last_BSC), nullptr);
    short_convolution_backward(
        input, floats(d_y), in.reads_last ? floats(d_last) : nullptr,
        {d_x_BTC.data(), floats(d_state_BSC), floats(d_weight_CW), in.has_bias ? floats(d_bias_C) : nullptr},
        scratch.data(), nullptr);
    check_cuda(cudaDeviceSynchronize(), "run");
  }
};

void check(int rows, int steps, int channels) {
  CAPTURE(rows);
  CAPTURE(steps);
  CAPTURE(channels);
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const bool bias : {false, true}) {
      const Case in(rows, steps, channels, dtype, bias, /*last=*/!bias);
      const OnGpu actual(in);
      const Result expected = definition(in);
      CHECK(relative_error(download(actual.y_BTC, Dtype::kFloat32), expected.y_BTC) < 1e-6);
      CHECK(relative_error(download(actual.last_BSC, Dtype::kFloat32), expected.last_BSC) == 0);
      CHECK(relative_error(download(actual.d_x_BTC, dtype), expected.d_x_BTC) <
            (dtype == Dtype::kFloat32 ? 1e-6 : std::ldexp(1, -8)));
      CHECK(relative_error(download(actual.d_state_BSC, Dtype::kFloat32), expected.d_state_BSC) < 1e-6);
      CHECK(relative_error(download(actual.d_weight_CW, Dtype::kFloat32), expected.d_weight_CW) < 1e-5);
      if (bias) CHECK(relative_error(download(actual.d_bias_C, Dtype::kFloat32), expected.d_bias_C) < 1e-5);
    }
}

}  // namespace

TEST_CASE("the short convolution and its gradients equal the definition") {
  if (skip_without_gpu()) return;
  check(1, 1, 1);
  check(5, 2, 7);    // fewer steps than are seen
  check(4, 32, 33);  // one stretch, exactly
  check(3, 33, 130);
  check(9, 118, 96);
  check(2, 781, 300);
}

TEST_CASE("the same short convolution gives the same bits 20 times") {
  if (skip_without_gpu()) return;
  const Case in(20, 100, 72, Dtype::kBfloat16, /*bias=*/true, /*last=*/true);
  const auto run = [&] {
    const OnGpu on(in);
    return bits_of(on.y_BTC, on.last_BSC, on.d_x_BTC, on.d_state_BSC, on.d_weight_CW, on.d_bias_C);
  };
  const std::vector<Bytes> first = run();
  for (int i = 0; i < 20; ++i) REQUIRE(run() == first);
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: short convolution") {
  if (skip_without_gpu()) return;
  check(3, 9, 50);
}

TEST_CASE("a short convolution refuses shapes outside the contract") {
  if (skip_without_gpu()) return;
  for (const auto& [rows, steps, channels] : {std::array{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1 << 16, 33, 1 << 14}})
    CHECK_THROWS_AS(
        short_convolution_forward({rows, steps, channels, Dtype::kFloat32, nullptr, nullptr, nullptr, nullptr, nullptr},
                                  nullptr, nullptr, nullptr),
        std::runtime_error);
}
