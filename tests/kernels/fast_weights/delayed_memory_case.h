// Random steps of the delayed fast weights as bytes in memory, with NaN in all that a kernel must not read and around
// all that it writes; how a result is compared with the definition in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/fast_weights/delayed_memory/delayed_memory.h"
#include "kernels/fast_weights/delayed_memory/reference.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

struct DelayedMemoryCase {
  Delay delay;
  int rows, heads, width, slots;
  Dtype dtype = Dtype::kFloat32;
  int rotary_width = 0;
  bool padded = false;      // outputs of a multiple of 8; q in rows with a gap
  bool duplicates = false;  // all keys of a row are the same
  unsigned seed = 0;

  int output_width() const { return padded ? (width + 7) / 8 * 8 : width; }
  int q_head_stride() const { return output_width(); }
  int q_row_stride() const { return heads * q_head_stride() + (padded ? 24 : 0); }
  std::int64_t items() const { return std::int64_t{rows} * heads; }
  std::int64_t ring() const { return items() * slots; }
  std::string name() const {
    return std::string(delay == Delay::kStream ? "stream" : "chunk") + " N " + std::to_string(rows) + " H " +
           std::to_string(heads) + " W " + std::to_string(width) + " slots " + std::to_string(slots) + " rotary " +
           std::to_string(rotary_width) + (dtype == Dtype::kFloat32 ? " float" : " bfloat16") +
           (padded ? " padded" : "") + (duplicates ? " duplicates" : "") + " seed " + std::to_string(seed);
  }
};

// What a kernel is given, element by element, and writes into.
struct DelayedMemoryImages {
  std::vector<unsigned char> q, beta, key_ring, value_ring, beta_ring, fast, output;
  std::vector<std::int64_t> position_N;
};

// Of pointers to those of `images`, wherever they are.
template <class Pointer>
DelayedMemoryStep step_of(const DelayedMemoryCase& c, const DelayedMemoryReference& reference, Pointer&& pointer,
                          const std::int64_t* position_N, DelayedMemoryImages& images) {
  const auto floats = [&](std::vector<unsigned char>& image) { return reinterpret_cast<float*>(pointer(image)); };
  return {.delay = c.delay,
          .rows = c.rows,
          .heads = c.heads,
          .width = c.width,
          .output_width = c.output_width(),
          .slots = c.slots,
          .dtype = c.dtype,
          .scale = static_cast<float>(reference.scale),
          .rotary_width = c.rotary_width,
          .q_row_stride = c.q_row_stride(),
          .q_head_stride = c.q_head_stride(),
          .q = pointer(images.q),
          .beta_NH = pointer(images.beta),
          .position_N = position_N,
          .key_ring_NSHW = floats(images.key_ring),
          .value_ring_NSHW = floats(images.value_ring),
          .beta_ring_NSH = c.delay == Delay::kChunk ? floats(images.beta_ring) : nullptr,
          .fast_NHWW = floats(images.fast),
          .output_NHP = pointer(images.output)};
}

using DelayedMemoryRun =
    std::function<void(const DelayedMemoryCase&, const DelayedMemoryReference&, DelayedMemoryImages&)>;

// Positions at the edges of a window or chunk, and beyond any that an episode has.
inline std::vector<std::int64_t> delayed_positions(const DelayedMemoryCase& c) {
  const std::int64_t s = c.slots;
  const std::vector<std::int64_t> edges = {s - 1, 0, s, 2 * s - 1, s / 2, 3 * s, 1'000'003 * s - 1, 5 * s + s / 3, 1};
  std::vector<std::int64_t> positions;
  for (int row = 0; row < c.rows; ++row) positions.push_back(edges[(row + c.seed) % edges.size()]);
  return positions;
}

inline void check_delayed_memory(const DelayedMemoryCase& c, const DelayedMemoryRun& run) {
  INFO(c.name());
  Rng rng(c.seed, Purpose::kTest, static_cast<unsigned>(c.width), static_cast<unsigned>(c.slots));
  const auto normals = [&](std::int64_t size, Dtype dtype, double scale = 1) {
    std::vector<double> x(size);
    for (double& element : x) element = rounded(scale * normal(rng), dtype);
    return x;
  };
  const std::int64_t width = c.width, vectors = c.items() * width;
  DelayedMemoryReference expected{.delay = c.delay,
                                  .rows = c.rows,
                                  .heads = c.heads,
                                  .width = c.width,
                                  .slots = c.slots,
                                  .rotary_width = c.rotary_width,
                                  .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width))),
                                  .q_NHW = normals(vectors, c.dtype),
                                  .beta_NH = {},
                                  .position_N = delayed_positions(c),
                                  .key_ring_NSHW = normals(c.ring() * width, Dtype::kFloat32),
                                  .value_ring_NSHW = normals(c.ring() * width, Dtype::kFloat32),
                                  .beta_ring_NSH = {},
                                  .fast_NHWW = normals(vectors * width, Dtype::kFloat32, 0.3)};
  const auto strength = [&](Dtype dtype) { return rounded(0.1 + 1.8 * rng.uniform(), dtype); };
  for (std::int64_t i = 0; i < c.items(); ++i) expected.beta_NH.push_back(strength(c.dtype));
  for (std::int64_t i = 0; i < c.ring(); ++i) expected.beta_ring_NSH.push_back(strength(Dtype::kFloat32));
  const std::int64_t slot_stride = c.heads * width, row_stride = c.slots * slot_stride;
  if (c.duplicates)
    for (std::int64_t i = 0; i < c.ring() * width; ++i)
      expected.key_ring_NSHW[i] = expected.key_ring_NSHW[i / row_stride * row_stride + i % slot_stride];

  // What is read of a ring: of a stream the slot that is given away, of a chunk all of it when it is full.
  DelayedMemoryReference given = expected;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t i = 0; i < c.ring(); ++i) {
    const std::int64_t position = expected.position_N[i / c.heads / c.slots], slot = i / c.heads % c.slots;
    const bool chunk = c.delay == Delay::kChunk, own = slot == position % c.slots;
    const bool read = chunk ? position % c.slots == c.slots - 1 : own && position >= c.slots;
    for (std::int64_t j = 0; j < width && !read; ++j)
      given.key_ring_NSHW[i * width + j] = given.value_ring_NSHW[i * width + j] = nan;
    if (!chunk || own || !read) given.beta_ring_NSH[i] = nan;
  }
  std::vector<double> q(c.rows * c.q_row_stride(), nan);
  for (std::int64_t i = 0; i < vectors; ++i) {
    const std::int64_t item = i / width;
    q[item / c.heads * c.q_row_stride() + item % c.heads * c.q_head_stride() + i % width] = expected.q_NHW[i];
  }
  DelayedMemoryImages images{
      .q = encode(q, c.dtype),
      .beta = encode(given.beta_NH, c.dtype),
      .key_ring = encode(given.key_ring_NSHW, Dtype::kFloat32),
      .value_ring = encode(given.value_ring_NSHW, Dtype::kFloat32),
      .beta_ring = encode(given.beta_ring_NSH, Dtype::kFloat32),
      .fast = encode(given.fast_NHWW, Dtype::kFloat32),
      .output = std::vector<unsigned char>(c.items() * c.output_width() * dtype_bytes(c.dtype), 0xff),
      .position_N = expected.position_N};
  const std::vector<unsigned char> beta_ring_before = images.beta_ring, fast_before = images.fast;
  run(c, expected, images);

  const std::vector<double> output = delayed_memory_reference(expected);
  const std::vector<double> padded_output = decode(images.output, c.dtype, 1, 1);
  std::vector<double> actual;
  int behind = 0;  // elements after the width that are not zero
  for (std::size_t i = 0; i < padded_output.size(); ++i)
    if (static_cast<int>(i % c.output_width()) < c.width)
      actual.push_back(padded_output[i]);
    else
      behind += padded_output[i] != 0;
  CHECK(behind == 0);
  // bfloat16 rounds the output once. The fast weights are float, with sums of at most 128 terms, some hundred in a row.
  CHECK(relative_error(actual, output) <= (c.dtype == Dtype::kFloat32 ? 1e-5 : 0.004));
  CHECK(relative_error(decode(images.fast, Dtype::kFloat32, 1, 1), expected.fast_NHWW) <= 1e-5);
  // Rows whose memory is given nothing keep it bit for bit.
  const std::size_t matrix = static_cast<std::size_t>(c.heads) * width * width * 4;
  for (int row = 0; row < c.rows; ++row) {
    const std::int64_t position = expected.position_N[row];
    const bool written = c.delay == Delay::kStream ? position >= c.slots : position % c.slots == c.slots - 1;
    const bool same = std::equal(fast_before.begin() + row * matrix, fast_before.begin() + (row + 1) * matrix,
                                 images.fast.begin() + row * matrix);
    CHECK(same == !written);
  }
  // Of the strengths the own one is written, and nothing else.
  const std::vector<double> strengths = decode(images.beta_ring, Dtype::kFloat32, 1, 1);
  int wrong = 0;
  for (std::int64_t i = 0; i < c.ring(); ++i) {
    const bool own = i / c.heads % c.slots == expected.position_N[i / c.heads / c.slots] % c.slots;
    if (c.delay == Delay::kChunk && own)
      wrong += strengths[i] != expected.beta_NH[i / c.heads / c.slots * c.heads + i % c.heads];
    else
      wrong += !std::equal(&images.beta_ring[i * 4], &images.beta_ring[i * 4] + 4, &beta_ring_before[i * 4]);
  }
  CHECK(wrong == 0);
}

inline std::vector<DelayedMemoryCase> delayed_memory_cases(std::initializer_list<int> rows,
                                                           std::initializer_list<int> widths,
                                                           std::initializer_list<int> slots) {
  std::vector<DelayedMemoryCase> cases;
  unsigned seed = 1;
  for (const Delay delay : {Delay::kStream, Delay::kChunk})
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
      for (const int n : rows)
        for (const int width : widths)
          for (const int size : slots) {
            DelayedMemoryCase c{delay, n, 1 + static_cast<int>(seed % 3), width, size, dtype};
            c.rotary_width = seed % 4 == 0 ? 0 : seed % 4 == 1 ? width / 4 * 2 : width / 2 * 2;
            c.padded = seed % 3 != 0;
            c.duplicates = seed % 5 == 0;
            c.seed = seed++;
            cases.push_back(c);
          }
  return cases;
}

}  // namespace engram::testing
