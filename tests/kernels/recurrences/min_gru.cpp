// minGRU's gates on a GPU against the definition in double precision.
#include "kernels/recurrences/min_gru/min_gru.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Gates and candidates beside each other in rows of 2 width + gap elements, gradients in rows of 2 width.
struct Case {
  int rows, width, gap;
  Dtype dtype;
  Numbers gate, candidate, bias, d_keep, d_write;

  Case(int of_rows, int of_width, int of_gap, Dtype type) : rows(of_rows), width(of_width), gap(of_gap), dtype(type) {
    Rng rng(static_cast<unsigned>(rows), Purpose::kTest, static_cast<unsigned>(width), static_cast<unsigned>(gap));
    const std::size_t size = std::size_t{1} * rows * width;
    gate = normals(rng, size, dtype, 4), candidate = normals(rng, size, dtype);
    bias = normals(rng, width, Dtype::kFloat32);
    d_keep = normals(rng, size, Dtype::kFloat32), d_write = normals(rng, size, Dtype::kFloat32);
  }
  int stride() const { return 2 * width + gap; }
  Numbers joined_rows() const {  // NaN in the gap
    Numbers all(std::size_t{1} * rows * stride(), kNaN);
    for (int row = 0; row < rows; ++row)
      for (int c = 0; c < width; ++c) {
        all[std::size_t{1} * row * stride() + c] = gate[std::size_t{1} * row * width + c];
        all[std::size_t{1} * row * stride() + width + c] = candidate[std::size_t{1} * row * width + c];
      }
    return all;
  }
};

struct Result {
  Numbers keep, write, d_gate, d_candidate, d_bias;
};

Result definition(const Case& in) {
  Result out{Numbers(in.gate.size()), Numbers(in.gate.size()), Numbers(in.gate.size()), Numbers(in.gate.size()),
             Numbers(in.width)};
  for (std::size_t i = 0; i < in.gate.size(); ++i) {
    const double x = in.gate[i] + in.bias[i % in.width], z = 1 / (1 + std::exp(-x)), kept = 1 / (1 + std::exp(x));
    out.keep[i] = kept, out.write[i] = z * in.candidate[i];
    out.d_gate[i] = (in.d_write[i] * in.candidate[i] - in.d_keep[i]) * z * kept;
    out.d_candidate[i] = in.d_write[i] * z;
    out.d_bias[i % in.width] += out.d_gate[i];
  }
  return out;
}

struct OnGpu {
  DeviceBytes keep, write, d_joined, d_bias;

  explicit OnGpu(const Case& in) {
    const DeviceBytes joined = upload(in.joined_rows(), in.dtype), bias = upload(in.bias, Dtype::kFloat32),
                      d_keep = upload(in.d_keep, Dtype::kFloat32), d_write = upload(in.d_write, Dtype::kFloat32);
    keep = poisoned(in.gate.size(), Dtype::kFloat32), write = poisoned(in.gate.size(), Dtype::kFloat32);
    d_joined = poisoned(2 * in.gate.size(), in.dtype), d_bias = poisoned(in.width, Dtype::kFloat32);
    const auto second = [&](const DeviceBytes& x) { return x.data() + in.width * dtype_bytes(in.dtype); };
    const MinGruGates gates{in.rows, in.width, in.dtype, in.stride(), joined.data(), second(joined), floats(bias)};
    DeviceBytes scratch;
    poison(scratch, min_gru_gates_backward_scratch_bytes(gates));
    min_gru_gates_forward(gates, floats(keep), floats(write), nullptr);
    min_gru_gates_backward(
        gates, floats(d_keep), floats(d_write),
        {2 * in.width, d_joined.data(), d_joined.data() + in.width * dtype_bytes(in.dtype), floats(d_bias)},
        scratch.data(), nullptr);
  }
};

void check(int rows, int width, int gap) {
  for (const Dtype dtype : kDtypes) {
    CAPTURE(rows);
    CAPTURE(width);
    CAPTURE(gap);
    CAPTURE(name_of(dtype));
    const Case in(rows, width, gap, dtype);
    const OnGpu actual(in);
    const Result expected = definition(in);
    const auto error = [](const Numbers& x, const Numbers& of) { return relative_error(x, of); };
    CHECK(error(download(actual.keep, Dtype::kFloat32), expected.keep) < 1e-6);
    CHECK(error(download(actual.write, Dtype::kFloat32), expected.write) < 1e-6);
    const Numbers d_joined = download(actual.d_joined, dtype);
    CHECK(error(columns(d_joined, 2 * width, 0, width), expected.d_gate) < rounded_once(dtype));
    CHECK(error(columns(d_joined, 2 * width, width, width), expected.d_candidate) < rounded_once(dtype));
    CHECK(error(download(actual.d_bias, Dtype::kFloat32), expected.d_bias) < 1e-5);  // a float sum over the rows
  }
}

}  // namespace

TEST_CASE("minGRU's gates and their gradients equal the definition") {
  if (skip_without_gpu()) return;
  check(1, 1, 0);
  check(7, 31, 3);
  check(100, 64, 0);
  check(33, 100, 5);
  check(5000, 72, 0);
}

TEST_CASE("minGRU's gates keep what a gate far from 0 keeps") {
  if (skip_without_gpu()) return;
  Case in(1, 4, 0, Dtype::kFloat32);
  in.gate = {-80, -20, 20, 80}, in.bias = Numbers(4), in.candidate = Numbers(4, 1);
  const OnGpu actual(in);
  const Numbers keep = download(actual.keep, Dtype::kFloat32), write = download(actual.write, Dtype::kFloat32);
  const Result expected = definition(in);
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(std::abs(keep[i] / expected.keep[i] - 1) < 1e-5);
    CHECK(std::abs(write[i] / expected.write[i] - 1) < 1e-5);
  }
}

TEST_CASE("minGRU's gates give the same bits 100 times") {
  if (skip_without_gpu()) return;
  const Case in(700, 72, 0, Dtype::kBfloat16);
  const OnGpu first(in);
  for (int i = 0; i < 100; ++i) {
    const OnGpu again(in);
    REQUIRE(bits_of(again.keep, again.write, again.d_joined, again.d_bias) ==
            bits_of(first.keep, first.write, first.d_joined, first.d_bias));
  }
}

TEST_CASE("minGRU's gates outside the contract are refused") {
  if (skip_without_gpu()) return;
  const MinGruGates taken{2, 8, Dtype::kFloat32, 16, nullptr, nullptr, nullptr};
  for (const auto& [change, why] :
       {std::pair<void (*)(MinGruGates&), const char*>{[](MinGruGates& gates) { gates.rows = 0; }, "no row"},
        {[](MinGruGates& gates) { gates.width = 0; }, "no channel"},
        {[](MinGruGates& gates) { gates.stride = 7; }, "rows that overlap"},
        {[](MinGruGates& gates) { gates.rows = std::int64_t{1} << 29; }, "too many"}}) {
    CAPTURE(why);
    MinGruGates refused = taken;
    change(refused);
    CHECK_THROWS_AS(min_gru_gates_forward(refused, nullptr, nullptr, nullptr), std::runtime_error);
    CHECK_THROWS_AS(min_gru_gates_backward_scratch_bytes(refused), std::runtime_error);
  }
  CHECK_THROWS_AS(min_gru_gates_backward(taken, nullptr, nullptr, {7, nullptr, nullptr, nullptr}, nullptr, nullptr),
                  std::runtime_error);
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: minGRU's gates") {
  if (skip_without_gpu()) return;
  check(9, 50, 2);
}
