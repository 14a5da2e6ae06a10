// What stands around the memories of a block (kernels/block/mixer.h) against its definition in double precision on the
// same numbers, the gradients by central differences of that.
#include "kernels/block/mixer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

using Doubles = std::vector<double>;

// float32: some ten roundings of 6e-8, and __expf. bfloat16 rounds results at 2^-9, and dropped inputs once more.
double bound(Dtype dtype) { return dtype == Dtype::kFloat32 ? 3e-6 : 6e-3; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }

Doubles differences(const std::function<double(const Doubles&)>& f, Doubles x) {
  constexpr double kStep = 1e-5;
  Doubles slope(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double own = x[i];
    x[i] = own + kStep;
    const double above = f(x);
    x[i] = own - kStep;
    slope[i] = (above - f(x)) / (2 * kStep);
    x[i] = own;
  }
  return slope;
}

struct Matrix {
  int rows, columns;
  Dtype dtype;
  Doubles x;

  Matrix(int row_count, int column_count, Dtype type)
      : rows(row_count), columns(column_count), dtype(type), x(static_cast<std::size_t>(row_count) * column_count) {}
  double& at(int row, int column) { return x[static_cast<std::size_t>(row) * columns + column]; }
  double at(int row, int column) const { return x[static_cast<std::size_t>(row) * columns + column]; }
  // Heads of `width` elements `padded` apart from `first` on.
  void fill_heads(Rng& rng, int first, int heads, int width, int padded) {
    for (int row = 0; row < rows; ++row)
      for (int head = 0; head < heads; ++head)
        for (int c = 0; c < width; ++c) at(row, first + head * padded + c) = rounded(normal(rng), dtype);
  }
  DeviceBuffer<unsigned char> device() const { return DeviceBuffer<unsigned char>(encode(x, dtype)); }
  double error(const DeviceBuffer<unsigned char>& got) const {
    return relative_error(decode(got.to_host(), dtype, columns, columns), x);
  }
};

DeviceBuffer<unsigned char> poisoned(std::size_t bytes) {
  return DeviceBuffer<unsigned char>(std::vector<unsigned char>(bytes, 0xFF));
}

struct Case {
  int rows, heads, width;
};
const std::vector<Case> kCases = {{1, 1, 5}, {77, 2, 50}, {9, 3, 100}, {33, 4, 8}};

// silu(x) / |silu(x)|
Doubles unit(const double* x, int width) {
  Doubles y(static_cast<std::size_t>(width));
  double square = 1e-6;
  for (int c = 0; c < width; ++c) y[c] = silu(x[c]), square += y[c] * y[c];
  for (double& v : y) v /= std::sqrt(square);
  return y;
}

void check_features(const Case& c, Dtype dtype, double probability) {
  CAPTURE(c.rows);
  CAPTURE(c.heads);
  CAPTURE(c.width);
  CAPTURE(probability);
  CAPTURE(static_cast<int>(dtype));
  const int padded = (c.width + 7) / 8 * 8, part = c.heads * padded, beta_column = 3 * part, columns = beta_column + 8;
  const double factor = 2;
  Rng rng(11, Purpose::kTest, c.rows, c.width);
  const std::vector<std::int64_t> seed_tick{5, 6};
  const DeviceBuffer<std::int64_t> device_seed_tick(seed_tick);

  Matrix projected(c.rows, columns, dtype), d_window(c.rows, columns, dtype), d_features(c.rows, 3 * part, dtype),
      d_window_value(c.rows, part, dtype), d_beta(c.rows, c.heads, dtype);
  for (int i = 0; i < 3; ++i) {
    projected.fill_heads(rng, i * part, c.heads, c.width, padded);
    d_features.fill_heads(rng, i * part, c.heads, c.width, padded);
    if (i < 2) d_window.fill_heads(rng, i * part, c.heads, c.width, padded);
  }
  projected.fill_heads(rng, beta_column, 1, c.heads, c.heads);
  d_window_value.fill_heads(rng, 0, c.heads, c.width, padded);
  d_beta.fill_heads(rng, 0, 1, c.heads, c.heads);

  Matrix features(c.rows, 3 * part, dtype), beta(c.rows, c.heads, dtype), d_projected(c.rows, columns, dtype);
  for (int row = 0; row < c.rows; ++row)
    for (int head = 0; head < c.heads; ++head) {
      const int at = head * padded;
      Doubles x;  // q, k, v, beta
      Doubles kept;
      for (std::uint32_t i = 0; i < 3; ++i)
        for (int channel = 0; channel < c.width; ++channel) {
          x.push_back(projected.at(row, static_cast<int>(i) * part + at + channel));
          const DropoutPlace place(seed_tick.data(), i, probability);
          float drawn[kDropoutGroup];
          place.draw(((row * c.heads + head) * dropout_row(c.width) + channel) / kDropoutGroup, drawn);
          kept.push_back(place.drops() ? drawn[channel % kDropoutGroup] : 1.0);
        }
      x.push_back(projected.at(row, beta_column + head));
      kept.push_back(1);
      const auto run = [&](const Doubles& input) {
        Doubles dropped(input);
        for (std::size_t i = 0; i < dropped.size(); ++i) dropped[i] *= kept[i];
        Doubles out = unit(dropped.data(), c.width);
        const Doubles k = unit(dropped.data() + c.width, c.width);
        out.insert(out.end(), k.begin(), k.end());
        for (int i = 0; i < c.width; ++i) out.push_back(silu(dropped[2 * c.width + i]));
        out.push_back(factor * sigmoid(dropped.back()));
        return out;
      };
      const auto loss = [&](const Doubles& input) {
        const Doubles out = run(input);
        double sum = d_beta.at(row, head) * out.back();
        for (int i = 0; i < 3 * c.width; ++i) {
          const int column = i / c.width * part + at + i % c.width;
          sum += d_features.at(row, column) * out[i];
          // The window reads q and k as they are and silu(v).
          sum += i < 2 * c.width ? d_window.at(row, column) * kept[i] * input[i]
                                 : d_window_value.at(row, at + i - 2 * c.width) * out[i];
        }
        return sum;
      };
      const Doubles out = run(x), slope = differences(loss, x);
      for (int i = 0; i < 3 * c.width; ++i) {
        const int column = i / c.width * part + at + i % c.width;
        features.at(row, column) = out[i];
        d_projected.at(row, column) = slope[i];
      }
      beta.at(row, head) = out.back();
      d_projected.at(row, beta_column + head) = slope.back();
    }

  DeviceBuffer<unsigned char> device_projected = projected.device(),
                              device_features = poisoned(features.x.size() * dtype_bytes(dtype)),
                              device_beta = poisoned(beta.x.size() * dtype_bytes(dtype)),
                              device_d_projected = d_window.device();
  const DeviceBuffer<unsigned char> device_d_features = d_features.device(), device_d_beta = d_beta.device(),
                                    device_d_window_value = d_window_value.device();
  const auto place = [&](std::uint32_t index) { return DropoutPlace(device_seed_tick.data(), index, probability); };
  const MixerFeatures input{.shape = {c.rows, c.heads, c.width, padded},
                            .dtype = dtype,
                            .projected_stride = columns,
                            .beta_column = beta_column,
                            .beta_factor = static_cast<float>(factor),
                            .query_dropout = place(0),
                            .key_dropout = place(1),
                            .value_dropout = place(2),
                            .projected = device_projected.data()};
  mixer_features_forward(input, device_features.data(), device_beta.data(), nullptr);
  mixer_features_backward(input,
                          {.features = device_d_features.data(),
                           .beta = device_d_beta.data(),
                           .window_value = device_d_window_value.data(),
                           .projected = device_d_projected.data()},
                          nullptr);
  CHECK(features.error(device_features) < bound(dtype));
  CHECK(beta.error(device_beta) < bound(dtype));
  CHECK(d_projected.error(device_d_projected) < bound(dtype));
}

void check_mix(const Case& c, Dtype dtype, MixKind kind) {
  CAPTURE(c.rows);
  CAPTURE(c.heads);
  CAPTURE(c.width);
  CAPTURE(static_cast<int>(kind));
  CAPTURE(static_cast<int>(dtype));
  const int padded = (c.width + 7) / 8 * 8, part = c.heads * padded;
  const int columns = std::max(8, mixer_gate_columns(kind, c.heads, padded));
  const int gates = kind == MixKind::kVector ? c.width : kind == MixKind::kScalar ? 2 : 0;  // of a head
  const int gate_distance = kind == MixKind::kVector ? padded : gates;
  constexpr double kEpsilon = 1e-3;
  Rng rng(12, Purpose::kTest, c.rows, c.width);
  Matrix gate(c.rows, columns, dtype), fast(c.rows, part, dtype), window(c.rows, part, dtype),
      d_out(c.rows, part, dtype);
  gate.fill_heads(rng, 0, c.heads, gates, gate_distance);
  for (Matrix* const matrix : {&fast, &window, &d_out}) matrix->fill_heads(rng, 0, c.heads, c.width, padded);
  std::vector<float> weight;
  for (int i = 0; i < c.width; ++i) weight.push_back(static_cast<float>(normal(rng)));

  Matrix out(c.rows, part, dtype), d_gate(c.rows, columns, dtype), d_fast(c.rows, part, dtype),
      d_window(c.rows, part, dtype);
  Doubles d_weight(weight.size());
  for (int row = 0; row < c.rows; ++row)
    for (int head = 0; head < c.heads; ++head) {
      const int at = head * padded;
      Doubles x;  // fast, window, gates
      for (int i = 0; i < c.width; ++i) x.push_back(fast.at(row, at + i));
      for (int i = 0; i < c.width; ++i) x.push_back(kind == MixKind::kFast ? 0.0 : window.at(row, at + i));
      for (int i = 0; i < gates; ++i) x.push_back(gate.at(row, head * gate_distance + i));
      const auto normed = [&](const Doubles& input) {
        Doubles n(static_cast<std::size_t>(c.width));
        double square = 0;
        for (int i = 0; i < c.width; ++i) {
          double a = 1, b = 1;
          if (kind == MixKind::kVector) a = sigmoid(input[2 * c.width + i]), b = 1 - a;
          if (kind == MixKind::kScalar) a = sigmoid(input[2 * c.width]), b = sigmoid(input[2 * c.width + 1]);
          n[i] = a * input[i] + b * input[c.width + i];
          square += n[i] * n[i] / c.width;
        }
        for (double& v : n) v /= std::sqrt(square + kEpsilon);
        return n;
      };
      const auto loss = [&](const Doubles& input) {
        const Doubles n = normed(input);
        double sum = 0;
        for (int i = 0; i < c.width; ++i) sum += d_out.at(row, at + i) * n[i] * weight[i];
        return sum;
      };
      const Doubles n = normed(x), slope = differences(loss, x);
      for (int i = 0; i < c.width; ++i) {
        out.at(row, at + i) = n[i] * weight[i];
        d_weight[i] += d_out.at(row, at + i) * n[i];
        d_fast.at(row, at + i) = slope[i];
        d_window.at(row, at + i) = slope[c.width + i];
      }
      for (int i = 0; i < gates; ++i) d_gate.at(row, head * gate_distance + i) = slope[2 * c.width + i];
    }

  const bool has_window = kind != MixKind::kFast;
  const DeviceBuffer<unsigned char> device_gate = gate.device(), device_fast = fast.device(),
                                    device_window = window.device(), device_d_out = d_out.device();
  const DeviceBuffer<float> device_weight(weight);
  const std::size_t bytes = out.x.size() * dtype_bytes(dtype);
  DeviceBuffer<unsigned char> got = poisoned(bytes), got_fast = poisoned(bytes), got_window = poisoned(bytes),
                              got_gate = poisoned(gate.x.size() * dtype_bytes(dtype));
  DeviceBuffer<float> got_weight(std::vector<float>(weight.size(), NAN));
  const MixerMix input{.shape = {c.rows, c.heads, c.width, padded},
                       .dtype = dtype,
                       .kind = kind,
                       .projected_stride = columns,
                       .gate = device_gate.data(),
                       .fast = device_fast.data(),
                       .window = has_window ? device_window.data() : nullptr,
                       .weight = device_weight.data(),
                       .epsilon = static_cast<float>(kEpsilon)};
  mixer_mix_forward(input, got.data(), nullptr);
  CHECK(out.error(got) < bound(dtype));
  DeviceBuffer<unsigned char> scratch = poisoned(mixer_mix_backward_scratch_bytes(input.shape));
  mixer_mix_backward(input,
                     {.out = device_d_out.data(),
                      .gate = got_gate.data(),
                      .fast = got_fast.data(),
                      .window = has_window ? got_window.data() : nullptr},
                     scratch.data(), nullptr);
  mixer_mix_add_sums(input.shape, scratch.data(), got_weight.data(), nullptr);
  CHECK(d_fast.error(got_fast) < bound(dtype));
  if (has_window) CHECK(d_window.error(got_window) < bound(dtype));
  if (gates > 0) CHECK(d_gate.error(got_gate) < bound(dtype));
  const std::vector<float> sums = got_weight.to_host();
  CHECK(relative_error({sums.begin(), sums.end()}, d_weight) < bound(Dtype::kFloat32));
}

}  // namespace

TEST_CASE("the mixer's features and their gradients, with and without dropout") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const Case& c : kCases)
      for (const double probability : {0.0, 0.25}) check_features(c, dtype, probability);
}

TEST_CASE("the mix of the memories and its gradients") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const Case& c : kCases)
      for (const MixKind kind : {MixKind::kFast, MixKind::kSum, MixKind::kScalar, MixKind::kVector})
        check_mix(c, dtype, kind);
}
