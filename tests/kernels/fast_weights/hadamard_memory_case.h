// Random problems of Stable Hadamard Memory, and how a result is compared with the definition in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"
#include "kernels/fast_weights/hadamard_memory/reference.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

struct HadamardMemoryCase {
  int batch, time, width;
  bool reads_last = true;    // the loss is one of the last M as well
  double calibration = 0.6;  // standard deviation of theta c
  bool is_bounded = false;   // by a limit that many elements reach

  std::string name() const {
    return joined("B ", batch, " T ", time, " H ", width, reads_last ? "" : " of h alone", " calibrations of ",
                  calibration, is_bounded ? " bounded" : "");
  }
};

// Float numbers: what a kernel reads. NaN behind each row's length; the first row has all steps, the last none.
struct HadamardMemoryProblem {
  explicit HadamardMemoryProblem(const HadamardMemoryCase& c)
      : input{c.batch, c.time, c.width, {}, {}, {}, {}, {}, {}, {}, std::numeric_limits<double>::infinity()},
        reads_last(c.reads_last) {
    Rng rng(7, Purpose::kTest, static_cast<std::uint32_t>(c.width), static_cast<std::uint32_t>(c.time));
    const std::size_t width = c.width, vectors = width * c.batch * c.time, matrices = width * width * c.batch;
    const auto draw = [&](std::size_t size, double scale) { return normals(rng, size, Dtype::kFloat32, scale); };
    input.length_B = lengths_down_to_none(rng, c.batch, c.time);
    input.theta_BTH = draw(vectors, std::sqrt(c.calibration));
    input.c_BTH = draw(vectors, std::sqrt(c.calibration));
    input.value_BTH = draw(vectors, 1);
    input.key_BTH = draw(vectors, 1);
    input.query_BTH = draw(vectors, 1);
    input.first_BHH = draw(matrices, 1);
    output_gradient = {draw(vectors, 1), draw(matrices, reads_last ? 1 : 0)};
    for (Numbers* const x_BTH :
         {&input.theta_BTH, &input.c_BTH, &input.value_BTH, &input.key_BTH, &input.query_BTH, &output_gradient.h_BTH})
      for (std::size_t i = 0; i < vectors; ++i)
        if (behind(i)) (*x_BTH)[i] = kNaN;
    if (c.is_bounded) choose_limit();
  }
  // Whether an element of [B, T, H] is behind its row's length.
  bool behind(std::size_t i) const { return is_behind(input.length_B, input.time, i / input.width); }

  HadamardMemoryReferenceInput input;
  HadamardMemoryReferenceOutput output_gradient;
  bool reads_last;

 private:
  // One that no element comes so near to that a float's rounding decides on which side of it the element is.
  void choose_limit() {
    for (input.limit = 1.5; hadamard_memory_reference(input).distance_to_limit < 1e-5; input.limit += 0x1p-10)
      REQUIRE(input.limit < 2);
  }
};

struct HadamardMemoryResult {
  std::vector<float> h_BTH, last_BHH;
  std::vector<float> theta_BTH, c_BTH, value_BTH, key_BTH, query_BTH, first_BHH;  // gradients

  std::vector<Bytes> bits() const {
    return bits_of(h_BTH, last_BHH, theta_BTH, c_BTH, value_BTH, key_BTH, query_BTH, first_BHH);
  }
};

// What kernels(problem, gradient of h, and of the last M or null, h, last M, gradients) computes of it in `Memory`.
template <class Memory, class Kernels>
HadamardMemoryResult run_hadamard_memory(const HadamardMemoryProblem& given, const Kernels& kernels) {
  const HadamardMemoryReferenceInput& in = given.input;
  std::vector<float> theta = single(in.theta_BTH), c = single(in.c_BTH), value = single(in.value_BTH),
                     key = single(in.key_BTH), query = single(in.query_BTH), first = single(in.first_BHH),
                     d_h = single(given.output_gradient.h_BTH), d_last = single(given.output_gradient.last_BHH);
  std::vector<std::int64_t> lengths(in.length_B.begin(), in.length_B.end());
  const std::vector<float> vectors = unwritten(theta.size()), matrices = unwritten(first.size());
  HadamardMemoryResult r{vectors, matrices, vectors, vectors, vectors, vectors, vectors, matrices};
  Memory memory;
  const HadamardMemory problem{in.batch,
                               in.time,
                               in.width,
                               memory(theta),
                               memory(c),
                               memory(value),
                               memory(key),
                               memory(query),
                               memory(first),
                               memory(lengths),
                               static_cast<float>(in.limit)};
  kernels(problem, memory(d_h), given.reads_last ? memory(d_last) : nullptr, memory(r.h_BTH), memory(r.last_BHH),
          HadamardMemoryGradient{memory(r.theta_BTH), memory(r.c_BTH), memory(r.value_BTH), memory(r.key_BTH),
                                 memory(r.query_BTH), memory(r.first_BHH)});
  memory.fetch();
  return r;
}

template <class Run>
void check_hadamard_memory(const HadamardMemoryCase& c, const Run& run) {
  CAPTURE(c.name());
  const HadamardMemoryProblem problem(c);
  const HadamardMemoryResult result = run(problem);
  const HadamardMemoryReferenceOutput output = hadamard_memory_reference(problem.input);
  const HadamardMemoryReferenceGradient gradient =
      hadamard_memory_reference_backward(problem.input, problem.output_gradient);
  // Bounds of hadamard_memory.h.
  const double bound = hadamard_memory_output_bound(c.time);
  CHECK(relative_error(result.h_BTH, output.h_BTH) < bound);
  CHECK(relative_error(result.last_BHH, output.last_BHH) < bound);
  CHECK(relative_error(result.theta_BTH, gradient.theta_BTH) < 1e-4);
  CHECK(relative_error(result.c_BTH, gradient.c_BTH) < 1e-4);
  CHECK(relative_error(result.value_BTH, gradient.value_BTH) < 1e-4);
  CHECK(relative_error(result.key_BTH, gradient.key_BTH) < 1e-4);
  CHECK(relative_error(result.query_BTH, gradient.query_BTH) < 1e-4);
  CHECK(relative_error(result.first_BHH, gradient.first_BHH) < 1e-4);
  // Behind the lengths everything is zero, and an empty row's M stays what it is, bit for bit.
  for (const auto* x_BTH :
       {&result.h_BTH, &result.theta_BTH, &result.c_BTH, &result.value_BTH, &result.key_BTH, &result.query_BTH})
    for (std::size_t i = 0; i < x_BTH->size(); ++i)
      if (problem.behind(i)) REQUIRE((*x_BTH)[i] == 0);
  const auto matrix = static_cast<std::ptrdiff_t>(c.width) * c.width;
  for (int row = 0; row < c.batch; ++row)
    if (problem.input.length_B[row] == 0)
      CHECK(std::equal(result.last_BHH.begin() + row * matrix, result.last_BHH.begin() + (row + 1) * matrix,
                       problem.input.first_BHH.begin() + row * matrix));
}

// Every width that a number of columns a thread has begins or ends with, and every kind of last segment.
inline std::vector<HadamardMemoryCase> hadamard_memory_cases() {
  std::vector<HadamardMemoryCase> cases;
  for (const int width : {1, 2, 7, 8, 9, 16, 17, 32, 33, 47, 48, 49, 64, 65, 100, 128})
    for (const int time : {1, 7, 8, 9, 22}) cases.push_back({3, time, width, time % 2 != 0});
  cases.push_back({2, 118, 48, false, 2});
  cases.push_back({3, 160, 48, true, 0.3});
  for (const int width : {2, 31, 47, 60, 65}) cases.push_back({3, 21, width, width % 2 != 0, 0.6, /*is_bounded=*/true});
  return cases;
}

}  // namespace engram::testing
