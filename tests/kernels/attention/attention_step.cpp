#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/kernels/attention/attention_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// One step of rows at random positions against the formula over a sequence of one step after a past.
void check_step(const AttentionCase& c) {
  INFO(c.name());
  AttentionProblem problem = make_attention(c);
  AttentionReferenceInput& in = problem.input;
  std::int64_t seed_tick[2];
  draw_as_device(in, c, seed_tick);
  const auto expected = attention_reference(in);
  const std::lock_guard lock(gpu_in_use);
  AttentionDevice device(c, problem);
  device.step();
  const std::int64_t step = static_cast<std::int64_t>(c.shape.heads) * c.shape.width;
  // The output is rounded, and the own key and value where the ring is bfloat16; nothing else.
  const bool exact = c.dtype == Dtype::kFloat32 && c.ring_dtype == Dtype::kFloat32;
  const AttentionResult result = device.result();
  CHECK(relative_error(result.output, expected.output_BTHW) <= (exact ? 2e-6 : 0.004));
  const auto zeros = std::count(result.output.begin(), result.output.end(), 0.0);
  CHECK(result.output_zeros == zeros + std::int64_t{c.shape.batch} * c.shape.heads * c.output_padding);

  for (const auto& [ring, wanted] : {std::pair(device.ring().key_BSHW, &expected.ring_key_BSHW),
                                     std::pair(device.ring().value_BSHW, &expected.ring_value_BSHW)}) {
    Bytes bytes(wanted->size() * dtype_bytes(c.ring_dtype));
    check_cuda(cudaMemcpy(bytes.data(), ring, bytes.size(), cudaMemcpyDeviceToHost), "copy the ring");
    Numbers actual = decode(bytes, c.ring_dtype);
    int written = 0;  // in slots that no step has filled, which stay as they were
    for (std::size_t i = 0; i < actual.size(); ++i)
      if (static_cast<std::int64_t>(i / step % c.slots) > in.position_B[i / step / c.slots]) {
        written += !std::isnan(actual[i]);
        actual[i] = 0;
      }
    CHECK(written == 0);
    // One rounding to bfloat16 is at most 2^-8 of a number, and less than half of that over many.
    const double rounding = actual.size() < 100 ? 0.004 : 0.002;
    CHECK(relative_error(actual, *wanted) <= (c.ring_dtype == Dtype::kFloat32 ? 1e-6 : rounding));
  }
}

std::vector<AttentionCase> step_cases(std::initializer_list<int> rows, std::initializer_list<int> widths,
                                      std::initializer_list<int> slots) {
  std::vector<AttentionCase> cases;
  unsigned seed = 3000;
  for (const Dtype dtype : kDtypes)
    for (const Dtype ring_dtype : kDtypes)
      for (const int n : rows)
        for (const int width : widths)
          for (const int size : slots) {
            AttentionCase c{{n, 1, 1 + static_cast<int>(seed % 3), width}, size, dtype};
            c.ragged = false, c.slots = size, c.ring_dtype = ring_dtype, c.zero_channels = width == 56 ? 6 : 0;
            if (seed % 5 == 0) c.rotary_width = seed % 2 == 0 ? 0 : width / 4 * 2;
            c.gap = seed % 4 == 0 ? 6 : 0;
            c.dropout = seed % 4 == 1 ? 0.3 : 0;
            c.chunked = seed % 3 == 0;
            c.output_padding = seed % 7 < 3 ? (width + 7) / 8 * 8 - width : 0;
            c.seed = seed++;
            cases.push_back(c);
          }
  return cases;
}

}  // namespace

TEST_CASE("a step of attention equals the formula, for every number of rows, width and ring") {
  if (skip_without_gpu()) return;
  check_each(step_cases({1, 2, 37}, {2, 16, 40, 50, 56, 64, 100, 128}, {1, 5, 63, 64, 65, 256, 781}), check_step);
}

TEST_CASE("small shapes: attention step and ring") {
  if (skip_without_gpu()) return;
  for (const AttentionCase& c : step_cases({3}, {50, 128}, {5, 65})) check_step(c);
}
