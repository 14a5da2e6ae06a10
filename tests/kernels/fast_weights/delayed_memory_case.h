// Random steps of the delayed fast weights as bytes in memory, with NaN in all that a kernel must not read and around
// all that it writes; how a result is compared with the definition in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
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
    return joined(delay == Delay::kStream ? "stream" : "chunk", " N ", rows, " H ", heads, " W ", width, " slots ",
                  slots, " rotary ", rotary_width, " ", name_of(dtype), padded ? " padded" : "",
                  duplicates ? " duplicates" : "", " seed ", seed);
  }
};

// What a kernel is given, element by element, and writes into.
struct DelayedMemoryImages {
  Bytes q, beta, key_ring, value_ring, beta_ring, fast, output;
  std::vector<std::int64_t> position_N;
};

// Of pointers to those of `images` in `memory`.
template <class Memory>
DelayedMemoryStep step_of(const DelayedMemoryCase& c, const DelayedMemoryReference& reference, Memory& memory,
                          DelayedMemoryImages& images) {
  const auto floats = [&](Bytes& image) { return reinterpret_cast<float*>(memory(image)); };
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
          .q = memory(images.q),
          .beta_NH = memory(images.beta),
          .position_N = memory(images.position_N),
          .key_ring_NSHW = floats(images.key_ring),
          .value_ring_NSHW = floats(images.value_ring),
          .beta_ring_NSH = c.delay == Delay::kChunk ? floats(images.beta_ring) : nullptr,
          .fast_NHWW = floats(images.fast),
          .output_NHP = memory(images.output)};
}

// Positions at the edges of a window or chunk, and beyond any that an episode has.
inline std::vector<std::int64_t> delayed_positions(const DelayedMemoryCase& c) {
  const std::int64_t s = c.slots;
  const std::vector<std::int64_t> edges = {s - 1, 0, s, 2 * s - 1, s / 2, 3 * s, 1'000'003 * s - 1, 5 * s + s / 3, 1};
  std::vector<std::int64_t> positions;
  for (int row = 0; row < c.rows; ++row) positions.push_back(edges[(row + c.seed) % edges.size()]);
  return positions;
}

// Takes a step by run(step), in `Memory`, and compares all that it wrote.
template <class Memory, class Run>
void check_delayed_memory(const DelayedMemoryCase& c, const Run& run) {
  INFO(c.name());
  Rng rng(c.seed, Purpose::kTest, static_cast<unsigned>(c.width), static_cast<unsigned>(c.slots));
  const std::int64_t width = c.width, vectors = c.items() * width;
  DelayedMemoryReference expected{.delay = c.delay,
                                  .rows = c.rows,
                                  .heads = c.heads,
                                  .width = c.width,
                                  .slots = c.slots,
                                  .rotary_width = c.rotary_width,
                                  .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width))),
                                  .q_NHW = normals(rng, vectors, c.dtype),
                                  .beta_NH = {},
                                  .position_N = delayed_positions(c),
                                  .key_ring_NSHW = normals(rng, c.ring() * width, Dtype::kFloat32),
                                  .value_ring_NSHW = normals(rng, c.ring() * width, Dtype::kFloat32),
                                  .beta_ring_NSH = {},
                                  .fast_NHWW = normals(rng, vectors * width, Dtype::kFloat32, 0.3)};
  const auto strength = [&](Dtype dtype) { return rounded(0.1 + 1.8 * rng.uniform(), dtype); };
  for (std::int64_t i = 0; i < c.items(); ++i) expected.beta_NH.push_back(strength(c.dtype));
  for (std::int64_t i = 0; i < c.ring(); ++i) expected.beta_ring_NSH.push_back(strength(Dtype::kFloat32));
  const std::int64_t slot_stride = c.heads * width, row_stride = c.slots * slot_stride;
  if (c.duplicates)
    for (std::int64_t i = 0; i < c.ring() * width; ++i)
      expected.key_ring_NSHW[i] = expected.key_ring_NSHW[i / row_stride * row_stride + i % slot_stride];

  // What is read of a ring: of a stream the slot that is given away, of a chunk all of it when it is full.
  DelayedMemoryReference given = expected;
  for (std::int64_t i = 0; i < c.ring(); ++i) {
    const std::int64_t position = expected.position_N[i / c.heads / c.slots], slot = i / c.heads % c.slots;
    const bool chunk = c.delay == Delay::kChunk, own = slot == position % c.slots;
    const bool read = chunk ? position % c.slots == c.slots - 1 : own && position >= c.slots;
    for (std::int64_t j = 0; j < width && !read; ++j)
      given.key_ring_NSHW[i * width + j] = given.value_ring_NSHW[i * width + j] = kNaN;
    if (!chunk || own || !read) given.beta_ring_NSH[i] = kNaN;
  }
  Numbers q(c.rows * c.q_row_stride(), kNaN);
  for (std::int64_t i = 0; i < vectors; ++i) {
    const std::int64_t item = i / width;
    q[item / c.heads * c.q_row_stride() + item % c.heads * c.q_head_stride() + i % width] = expected.q_NHW[i];
  }
  DelayedMemoryImages images{.q = encode(q, c.dtype),
                             .beta = encode(given.beta_NH, c.dtype),
                             .key_ring = encode(given.key_ring_NSHW, Dtype::kFloat32),
                             .value_ring = encode(given.value_ring_NSHW, Dtype::kFloat32),
                             .beta_ring = encode(given.beta_ring_NSH, Dtype::kFloat32),
                             .fast = encode(given.fast_NHWW, Dtype::kFloat32),
                             .output = Bytes(c.items() * c.output_width() * dtype_bytes(c.dtype), 0xff),
                             .position_N = expected.position_N};
  const DelayedMemoryImages before = images;
  {
    Memory memory;
    run(step_of(c, expected, memory, images));
    memory.fetch();
  }
  CHECK(images.position_N == before.position_N);

  const Numbers output = delayed_memory_reference(expected);
  const int behind = c.output_width() - c.width;  // elements after the width
  const Numbers padded_output = decode(images.output, c.dtype),
                actual = columns(padded_output, c.output_width(), 0, c.width);
  CHECK(columns(padded_output, c.output_width(), c.width, behind) == Numbers(c.items() * behind));
  // bfloat16 rounds the output once. The fast weights are float, with sums of at most 128 terms, some hundred in a row.
  CHECK(relative_error(actual, output) <= (c.dtype == Dtype::kFloat32 ? 1e-5 : 0.004));
  CHECK(relative_error(decode(images.fast, Dtype::kFloat32), expected.fast_NHWW) <= 1e-5);
  // Rows whose memory is given nothing keep it bit for bit.
  const std::size_t matrix = static_cast<std::size_t>(c.heads) * width * width * 4;
  for (int row = 0; row < c.rows; ++row) {
    const std::int64_t position = expected.position_N[row];
    const bool written = c.delay == Delay::kStream ? position >= c.slots : position % c.slots == c.slots - 1;
    const bool same = std::equal(before.fast.begin() + row * matrix, before.fast.begin() + (row + 1) * matrix,
                                 images.fast.begin() + row * matrix);
    CHECK(same == !written);
  }
  // Of the strengths the own one is written, and nothing else.
  const Numbers strengths = decode(images.beta_ring, Dtype::kFloat32);
  int wrong = 0;
  for (std::int64_t i = 0; i < c.ring(); ++i) {
    const bool own = i / c.heads % c.slots == expected.position_N[i / c.heads / c.slots] % c.slots;
    if (c.delay == Delay::kChunk && own)
      wrong += strengths[i] != expected.beta_NH[i / c.heads / c.slots * c.heads + i % c.heads];
    else
      wrong += !std::equal(&images.beta_ring[i * 4], &images.beta_ring[i * 4] + 4, &before.beta_ring[i * 4]);
  }
  CHECK(wrong == 0);
}

inline std::vector<DelayedMemoryCase> delayed_memory_cases(std::initializer_list<int> rows,
                                                           std::initializer_list<int> widths,
                                                           std::initializer_list<int> slots) {
  std::vector<DelayedMemoryCase> cases;
  unsigned seed = 1;
  for (const Delay delay : {Delay::kStream, Delay::kChunk})
    for (const Dtype dtype : kDtypes)
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
