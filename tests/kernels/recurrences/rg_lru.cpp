// RG-LRU's gates on a GPU against the definition in double precision.
#include "kernels/recurrences/rg_lru/rg_lru.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Both logits beside each other in rows of 2 width + gap elements, their gradients in rows of 2 width.
struct Case {
  int rows, width, gap;
  Dtype dtype;
  bool some_are_first;
  Numbers recurrence_logit, input_logit, u, decay, d_keep, d_write;

  Case(int of_rows, int of_width, int of_gap, Dtype type, bool first)
      : rows(of_rows), width(of_width), gap(of_gap), dtype(type), some_are_first(first) {
    Rng rng(static_cast<unsigned>(rows), Purpose::kTest, static_cast<unsigned>(width), static_cast<unsigned>(gap));
    const std::size_t size = std::size_t{1} * rows * width;
    recurrence_logit = normals(rng, size, dtype, 2), input_logit = normals(rng, size, dtype, 2);
    u = normals(rng, size, Dtype::kFloat32), decay = normals(rng, width, Dtype::kFloat32, 2);
    d_keep = normals(rng, size, Dtype::kFloat32), d_write = normals(rng, size, Dtype::kFloat32);
  }
  int stride() const { return 2 * width + gap; }
  bool is_first(int row) const { return some_are_first && row % 5 == 2; }
  Numbers joined_rows() const {  // NaN in the gap
    Numbers all(std::size_t{1} * rows * stride(), kNaN);
    for (int row = 0; row < rows; ++row) {
      const std::size_t at = std::size_t{1} * row * width, to = std::size_t{1} * row * stride();
      std::copy_n(recurrence_logit.begin() + at, width, all.begin() + to);
      std::copy_n(input_logit.begin() + at, width, all.begin() + to + width);
    }
    return all;
  }
};

struct Result {
  Numbers keep, write, d_recurrence_logit, d_input_logit, d_u, d_decay;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Result definition(const Case& in) {
  const std::size_t size = in.u.size();
  Result out{Numbers(size), Numbers(size), Numbers(size), Numbers(size), Numbers(size), Numbers(in.width)};
  for (std::size_t k = 0; k < size; ++k) {
    const std::size_t channel = k % in.width;
    const bool is_first = in.is_first(static_cast<int>(k / in.width));
    const double decay = in.decay[channel], factor = -8 * std::log1p(std::exp(-decay)),
                 r = sigmoid(in.recurrence_logit[k]), i = sigmoid(in.input_logit[k]), log_keep = factor * r,
                 keep = std::exp(log_keep), square = -std::expm1(2 * log_keep),
                 root = is_first ? 1 : std::sqrt(std::max(square, 1e-12));
    out.keep[k] = keep, out.write[k] = root * i * in.u[k];
    double d_log = in.d_keep[k] * keep;
    if (!is_first && square >= 1e-12) d_log -= in.d_write[k] * i * in.u[k] * keep * keep / root;
    out.d_recurrence_logit[k] = d_log * factor * r * (1 - r);
    out.d_input_logit[k] = in.d_write[k] * root * in.u[k] * i * (1 - i);
    out.d_u[k] = in.d_write[k] * root * i;
    out.d_decay[channel] += d_log * r * 8 * sigmoid(-decay);
  }
  return out;
}

struct OnGpu {
  DeviceBytes keep, write, d_joined, d_u, d_decay;

  explicit OnGpu(const Case& in) {
    Bytes first(in.rows);
    for (int row = 0; row < in.rows; ++row) first[row] = in.is_first(row) ? 1 : 0;
    const DeviceBytes joined = upload(in.joined_rows(), in.dtype), u = upload(in.u, Dtype::kFloat32),
                      decay = upload(in.decay, Dtype::kFloat32), d_keep = upload(in.d_keep, Dtype::kFloat32),
                      d_write = upload(in.d_write, Dtype::kFloat32), is_first(first);
    const std::size_t size = in.u.size(), second = in.width * dtype_bytes(in.dtype);
    keep = poisoned(size, Dtype::kFloat32), write = poisoned(size, Dtype::kFloat32);
    d_joined = poisoned(2 * size, in.dtype), d_u = poisoned(size, Dtype::kFloat32);
    d_decay = poisoned(in.width, Dtype::kFloat32);
    const RgLruGates gates{.rows = in.rows,
                           .width = in.width,
                           .dtype = in.dtype,
                           .stride = in.stride(),
                           .recurrence_logit = joined.data(),
                           .input_logit = joined.data() + second,
                           .u = floats(u),
                           .decay = floats(decay),
                           .is_first = in.some_are_first ? reinterpret_cast<const bool*>(is_first.data()) : nullptr};
    DeviceBytes scratch;
    poison(scratch, rg_lru_gates_backward_scratch_bytes(gates));
    rg_lru_gates_forward(gates, floats(keep), floats(write), nullptr);
    rg_lru_gates_backward(gates, floats(d_keep), floats(d_write),
                          {.stride = 2 * in.width,
                           .recurrence_logit = d_joined.data(),
                           .input_logit = d_joined.data() + second,
                           .u = floats(d_u),
                           .decay = floats(d_decay)},
                          scratch.data(), nullptr);
  }
};

void check(int rows, int width, int gap) {
  for (const Dtype dtype : kDtypes)
    for (const bool some_are_first : {false, true}) {
      CAPTURE(rows);
      CAPTURE(width);
      CAPTURE(gap);
      CAPTURE(some_are_first);
      CAPTURE(name_of(dtype));
      const Case in(rows, width, gap, dtype, some_are_first);
      const OnGpu actual(in);
      const Result expected = definition(in);
      const auto error = [](const DeviceBytes& x, const Numbers& of) {
        return relative_error(download(x, Dtype::kFloat32), of);
      };
      CHECK(error(actual.keep, expected.keep) < 2e-6);
      CHECK(error(actual.write, expected.write) < 2e-6);
      CHECK(error(actual.d_u, expected.d_u) < 2e-6);
      const Numbers d_joined = download(actual.d_joined, dtype);
      CHECK(relative_error(columns(d_joined, 2 * width, 0, width), expected.d_recurrence_logit) < rounded_once(dtype));
      CHECK(relative_error(columns(d_joined, 2 * width, width, width), expected.d_input_logit) < rounded_once(dtype));
      CHECK(error(actual.d_decay, expected.d_decay) < 1e-5);  // a float sum over the rows
    }
}

}  // namespace

TEST_CASE("RG-LRU's gates and their gradients equal the definition") {
  if (skip_without_gpu()) return;
  check(1, 1, 0);
  check(7, 31, 3);
  check(100, 64, 0);
  check(33, 100, 5);
  check(5000, 72, 0);
}

// A decay that keeps all: a is 1, and nothing is written but what the least root lets through.
TEST_CASE("RG-LRU's gates have a root without a slope where a is 1") {
  if (skip_without_gpu()) return;
  Case in(2, 1, 0, Dtype::kFloat32, false);
  in.decay = {40}, in.recurrence_logit = {0, 3}, in.input_logit = {0, 0}, in.u = {1, 2};
  const OnGpu actual(in);
  CHECK(download(actual.keep, Dtype::kFloat32) == Numbers{1, 1});
  const Numbers write = download(actual.write, Dtype::kFloat32), d_joined = download(actual.d_joined, Dtype::kFloat32);
  CHECK(relative_error(write, {0.5e-6, 1e-6}) < 1e-5);
  for (const double x : d_joined) CHECK(std::isfinite(x));
  CHECK(std::isfinite(download(actual.d_decay, Dtype::kFloat32)[0]));
}

TEST_CASE("RG-LRU's gates give the same bits 100 times") {
  if (skip_without_gpu()) return;
  const Case in(700, 72, 0, Dtype::kBfloat16, true);
  const OnGpu first(in);
  for (int i = 0; i < 100; ++i) {
    const OnGpu again(in);
    REQUIRE(bits_of(again.keep, again.write, again.d_joined, again.d_u, again.d_decay) ==
            bits_of(first.keep, first.write, first.d_joined, first.d_u, first.d_decay));
  }
}

TEST_CASE("RG-LRU's gates outside the contract are refused") {
  if (skip_without_gpu()) return;
  const RgLruGates taken{.rows = 2,
                         .width = 8,
                         .dtype = Dtype::kFloat32,
                         .stride = 16,
                         .recurrence_logit = nullptr,
                         .input_logit = nullptr,
                         .u = nullptr,
                         .decay = nullptr,
                         .is_first = nullptr};
  for (const auto& [change, why] :
       {std::pair<void (*)(RgLruGates&), const char*>{[](RgLruGates& gates) { gates.rows = 0; }, "no row"},
        {[](RgLruGates& gates) { gates.width = 0; }, "no channel"},
        {[](RgLruGates& gates) { gates.stride = 7; }, "rows that overlap"},
        {[](RgLruGates& gates) { gates.rows = std::int64_t{1} << 29; }, "too many"}}) {
    CAPTURE(why);
    RgLruGates refused = taken;
    change(refused);
    CHECK_THROWS_AS(rg_lru_gates_forward(refused, nullptr, nullptr, nullptr), std::runtime_error);
    CHECK_THROWS_AS(rg_lru_gates_backward_scratch_bytes(refused), std::runtime_error);
  }
  CHECK_THROWS_AS(rg_lru_gates_backward(taken, nullptr, nullptr, {.stride = 7}, nullptr, nullptr), std::runtime_error);
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: RG-LRU's gates") {
  if (skip_without_gpu()) return;
  check(9, 50, 2);
}
