#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/block/row_norm.h"
#include "tests/kernels/block/block_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kDropout = 0.3;
constexpr std::int64_t kSeedTick[2] = {5, 9};
constexpr std::uint32_t kPlace = 3, kGradientPlace = 4;

struct Case {
  NormKind kind;
  std::int64_t rows;
  int width, stride;
  Dtype dtype;
  bool bias, residual;
  unsigned seed;
  bool drops = false;  // the branch of a residual sum, and the gradient of one
  int branch_gap = 0;  // between rows of the branch and of dy, after the stride

  std::string name() const {
    return joined(kind == NormKind::kRms ? "RMS" : "layer", " norm of ", rows, " rows of ", width, " in ", stride, " ",
                  name_of(dtype));
  }
  int other_stride() const { return stride + branch_gap; }
};

struct Problem {
  Numbers x, weight, bias, dy, residual;
};

// What dropout multiplies element (row, column) with.
double factor(const Case& c, std::uint32_t place, std::int64_t row, std::int64_t column) {
  return dropout_factor({kSeedTick, place, c.drops ? kDropout : 0}, c.width, row, column);
}

// Rows c.other_stride() apart with NaN after the width, of rows c.stride apart.
DeviceBytes upload_spread(const Case& c, const Numbers& x) {
  return upload(spread(columns(x, c.stride, 0, c.width), c.width, c.other_stride()), c.dtype);
}

Problem make_problem(const Case& c) {
  Rng rng(c.seed, Purpose::kTest, 1, 0);
  Problem p;
  p.x = normal_rows(rng, c.rows, c.width, c.stride, c.dtype, 2);
  for (std::int64_t i = 0; i < c.rows * c.stride; ++i)
    if (i % c.stride < c.width) p.x[i] = rounded(p.x[i] + 0.5, c.dtype);
  p.weight = normals(rng, c.width, Dtype::kFloat32);
  if (c.bias) p.bias = normals(rng, c.width, Dtype::kFloat32);
  p.dy = normal_rows(rng, c.rows, c.width, c.stride, c.dtype);
  if (c.residual) p.residual = normal_rows(rng, c.rows, c.width, c.stride, c.dtype);
  return p;
}

// One row; inputs: x, weight, bias beside each other.
Numbers norm_row(NormKind kind, const Numbers& inputs, std::size_t width) {
  double mean = 0, square = 0;
  if (kind == NormKind::kLayer)
    for (std::size_t i = 0; i < width; ++i) mean += inputs[i] / static_cast<double>(width);
  for (std::size_t i = 0; i < width; ++i) square += (inputs[i] - mean) * (inputs[i] - mean);
  const double deviation = std::sqrt(square / static_cast<double>(width) + static_cast<float>(kEpsilon));
  Numbers y(width);
  for (std::size_t i = 0; i < width; ++i)
    y[i] = inputs[width + i] * (inputs[i] - mean) / deviation + inputs[2 * width + i];
  return y;
}

struct Result {
  Numbers y, dx, dropped, d_weight, d_bias;
};

Result reference(const Case& c, const Problem& p) {
  const std::size_t width = c.width;
  Result r{Numbers(p.x.size()), Numbers(p.x.size()), Numbers(p.x.size()), Numbers(width), Numbers(c.bias ? width : 0)};
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int64_t at = row * c.stride;
    Numbers inputs = part(p.x, at, c.width);
    inputs.insert(inputs.end(), p.weight.begin(), p.weight.end());
    inputs.insert(inputs.end(), p.bias.begin(), p.bias.end());
    inputs.resize(3 * width);
    const Numbers y = norm_row(c.kind, inputs, width);
    std::copy(y.begin(), y.end(), r.y.begin() + at);
    const Numbers dy = part(p.dy, at, c.width);
    // x by differences; weight and bias are linear.
    Numbers x = part(p.x, at, c.width);
    const Numbers dx = numeric_gradient(
        [&](const Numbers& own) {
          std::copy(own.begin(), own.end(), inputs.begin());
          return norm_row(c.kind, inputs, width);
        },
        x, dy);
    std::copy(x.begin(), x.end(), inputs.begin());
    for (std::size_t i = 0; i < width; ++i) {
      r.dx[at + i] = dx[i] + (c.residual ? p.residual[at + i] : 0);
      r.dropped[at + i] = factor(c, kGradientPlace, row, static_cast<std::int64_t>(i)) * r.dx[at + i];
      const double normalized = p.weight[i] == 0 ? 0 : (y[i] - (c.bias ? p.bias[i] : 0)) / p.weight[i];
      r.d_weight[i] += dy[i] * normalized;
      if (c.bias) r.d_bias[i] += dy[i];
    }
  }
  return r;
}

// The norm of x alone.
void norm_forward(const RowNorm& norm, void* y) {
  residual_norm_forward(
      norm, {.dropout = {}, .branch = norm.x, .branch_stride = norm.stride, .residual = nullptr, .x = nullptr}, y,
      nullptr);
}

struct Device {
  Case c;
  DeviceBytes x, weight, bias, dy, residual, y, dx, dropped, d_weight, d_bias, scratch;
  DeviceBuffer<std::int64_t> seed_tick{std::vector<std::int64_t>(kSeedTick, kSeedTick + 2)};

  Device(const Case& of, const Problem& p)
      : c(of),
        x(upload(p.x, c.dtype)),
        weight(upload(p.weight, Dtype::kFloat32)),
        bias(upload(p.bias, Dtype::kFloat32)),
        dy(upload_spread(c, p.dy)),
        residual(upload(p.residual, c.dtype)) {}

  RowNorm norm() const {
    return {c.kind,
            c.rows,
            c.width,
            c.stride,
            static_cast<float>(kEpsilon),
            c.dtype,
            x.data(),
            floats(weight),
            c.bias ? floats(bias) : nullptr};
  }
  DropoutKey dropout(std::uint32_t place) const { return {seed_tick.data(), place, c.drops ? kDropout : 0}; }
  void run() {
    poison(y, c.rows * c.stride, c.dtype), poison(dx, c.rows * c.stride, c.dtype);
    poison(dropped, c.rows * c.stride, c.dtype);
    poison(d_weight, c.width, Dtype::kFloat32), poison(d_bias, c.bias ? c.width : 0, Dtype::kFloat32);
    poison(scratch, row_norm_backward_scratch_bytes(norm()));
    norm_forward(norm(), y.data());
    const RowNormGradient gradient{.y = dy.data(),
                                   .y_stride = c.other_stride(),
                                   .residual = c.residual ? residual.data() : nullptr,
                                   .x = dx.data(),
                                   .weight = floats(d_weight),
                                   .bias = c.bias ? floats(d_bias) : nullptr,
                                   .dropout = dropout(kGradientPlace),
                                   .dropped = dropped.data()};
    row_norm_backward(norm(), gradient, scratch.data(), nullptr);
    add_up(row_norm_sums(norm(), gradient, scratch.data()), nullptr);
  }
  Result result() const {
    return {download(y, c.dtype), download(dx, c.dtype), download(dropped, c.dtype),
            download(d_weight, Dtype::kFloat32), download(d_bias, Dtype::kFloat32)};
  }
};

// What follows the width of c's rows, which is to be zero.
void check_behind(const Case& c, const Numbers& x) {
  CHECK(columns(x, c.stride, c.width, c.stride - c.width) == Numbers(c.rows * (c.stride - c.width)));
}

void check_case(const Case& c) {
  INFO(c.name());
  const Problem p = make_problem(c);
  const Result expected = reference(c, p);
  Device device(c, p);
  device.run();
  const Result actual = device.result();
  const auto check = [&](const Numbers& result, const Numbers& wanted, double tolerance) {
    // In rows of three elements and less, gradients are small differences of terms of the size 1 (the norm leaves two
    // degrees of freedom or fewer): the error is measured against the terms.
    if (c.width <= 3)
      CHECK(root_mean_square_error(result, wanted) <= 1e-4 + tolerance * root_mean_square(wanted));
    else
      CHECK(relative_error(result, wanted) <= tolerance);
  };
  check(actual.y, expected.y, rounded_once(c.dtype));
  check(actual.dx, expected.dx, rounded_once(c.dtype));
  check(actual.dropped, expected.dropped, rounded_once(c.dtype));
  // Sums over rows, in float whatever the rows' type.
  check(actual.d_weight, expected.d_weight, 1e-5);
  check(actual.d_bias, expected.d_bias, 1e-5);
  for (const Numbers* rows : {&actual.y, &actual.dx, &actual.dropped}) check_behind(c, *rows);
}

// The sum x = dropout(branch) [+ residual], and its norm, which must be that of the rounded sum, bit for bit.
void check_sum(const Case& c) {
  INFO(c.name());
  const Problem p = make_problem(c);
  Numbers expected(p.x.size());
  for (std::int64_t row = 0; row < c.rows; ++row)
    for (std::int64_t i = 0; i < c.width; ++i) {
      const std::int64_t at = row * c.stride + i;
      expected[at] = factor(c, kPlace, row, i) * p.x[at] + (c.residual ? p.residual[at] : 0);
    }
  Device device(c, p);
  const DeviceBytes branch = upload_spread(c, p.x);
  DeviceBytes sum = poisoned(p.x.size(), c.dtype), normed = poisoned(p.x.size(), c.dtype);
  const auto run = [&](void* x, void* y) {
    residual_norm_forward(device.norm(),
                          {.dropout = device.dropout(kPlace),
                           .branch = branch.data(),
                           .branch_stride = c.other_stride(),
                           .residual = c.residual ? device.residual.data() : nullptr,
                           .x = x},
                          y, nullptr);
  };
  run(sum.data(), normed.data());
  const Numbers x = download(sum, c.dtype);
  CHECK(relative_error(x, expected) <= rounded_once(c.dtype));
  check_behind(c, x);
  DeviceBytes again = poisoned(p.x.size(), c.dtype);
  RowNorm of_sum = device.norm();
  of_sum.x = sum.data();
  norm_forward(of_sum, again.data());
  CHECK(again.to_host() == normed.to_host());
  if (!c.residual) return;
  // The sum may be written over the residual.
  run(device.residual.data(), normed.data());
  CHECK(device.residual.to_host() == sum.to_host());
  CHECK(again.to_host() == normed.to_host());
}

std::vector<Case> cases(std::initializer_list<std::pair<int, int>> widths, std::initializer_list<int> rows) {
  std::vector<Case> all;
  unsigned seed = 1;
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer})
    for (const Dtype dtype : kDtypes)
      for (const auto& [width, stride] : widths)
        for (const int n : rows)
          if (static_cast<std::int64_t>(n) * width * width < 5'000'000)
            all.push_back({kind, n, width, stride, dtype, kind == NormKind::kLayer && seed % 3 != 0, seed % 2 == 0,
                           seed, seed % 5 < 3, seed % 7 < 3 ? 8 : 0}),
                ++seed;
  return all;
}

}  // namespace

constexpr std::initializer_list<std::pair<int, int>> kShapes = {
    {1, 8},     {2, 8},     {3, 8},     {7, 8},     {8, 16},    {50, 56},   {64, 64},     {65, 72},    {100, 104},
    {111, 128}, {128, 128}, {129, 136}, {255, 256}, {257, 264}, {500, 512}, {1000, 1024}, {1024, 1024}};

TEST_CASE("a norm of rows and its gradients equal the formula's, for odd widths, gaps and every number of rows") {
  if (skip_without_gpu()) return;
  for (const Case& c : cases(kShapes, {1, 2, 15, 33, 1000, 9001})) check_case(c);
}

TEST_CASE("a residual sum drops what the host draws, adds, and is normalised as it is stored") {
  if (skip_without_gpu()) return;
  for (const Case& c : cases(kShapes, {1, 33, 1000, 9001})) check_sum(c);
}

TEST_CASE("the output of a norm may be its input") {
  if (skip_without_gpu()) return;
  for (const Case& c : cases({{50, 56}, {300, 304}}, {37})) {
    Device device(c, make_problem(c));
    device.run();
    const Numbers expected = download(device.y, c.dtype);
    norm_forward(device.norm(), device.x.data());
    CHECK(download(device.x, c.dtype) == expected);
  }
}

TEST_CASE("NaN in one row of a norm reaches no other row") {
  if (skip_without_gpu()) return;
  for (const Case& c : cases({{50, 56}, {300, 304}}, {37})) {
    Problem p = make_problem(c);
    Device clean(c, p);
    clean.run();
    std::fill_n(p.x.begin() + 5 * c.stride, c.width, kNaN);
    std::fill_n(p.dy.begin() + 6 * c.stride, c.width, kNaN);
    Device dirty(c, p);
    dirty.run();
    const Result before = clean.result(), after = dirty.result();
    CHECK(equal_but_for(before.y, after.y, c.stride, 5, 6));
    CHECK(equal_but_for(before.dx, after.dx, c.stride, 5, 7));
    CHECK(equal_but_for(before.dropped, after.dropped, c.stride, 5, 7));
    CHECK(std::isnan(after.y[5 * c.stride]));
    CHECK(std::isnan(after.dx[6 * c.stride]));
  }
}

TEST_CASE("the same norm gives the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  for (const Case& c : cases({{100, 104}}, {2111})) {
    Device device(c, make_problem(c));
    CHECK(different_runs([&] {
            device.run();
            return bits_of(device.y, device.dx, device.dropped, device.d_weight, device.d_bias);
          }) == 0);
  }
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: norms") {
  if (skip_without_gpu()) return;
  for (const Case& c : cases({{7, 8}, {100, 104}, {255, 256}, {500, 512}, {1000, 1024}}, {3, 20})) {
    check_case(c);
    check_sum(c);
  }
}
