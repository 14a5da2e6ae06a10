// How the kernels of gates go through rows of channels: what comes before a linear recurrence, some numbers a row and
// channel in, a factor and an addend out. An element is a few instructions and a long way to memory, so that a thread
// asks for several rows of its own before it takes the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"

namespace engram::gate_rows {

// A block takes kLanes channels of kSlots rows at a time, a thread kAtOnce of its rows.
constexpr int kThreads = 256, kLanes = 32, kSlots = kThreads / kLanes, kAtOnce = 4;
constexpr int kResident = 4;  // blocks of a multiprocessor for each kLanes channels: few sums are left to add up

// Rows of `width` channels that are `stride` elements apart, those of their gradients `gradient_stride`.
inline void check_shape(const char* what, std::int64_t rows, int width, std::int64_t stride,
                        std::int64_t gradient_stride) {
  if (rows < 1 || width < 1 || stride < width || gradient_stride < width ||
      rows * width > std::numeric_limits<int>::max())
    throw std::runtime_error(std::string(what) + ": " + std::to_string(rows) + " rows of " + std::to_string(width) +
                             " channels, " + std::to_string(stride) + " and " + std::to_string(gradient_stride) +
                             " apart");
}

// Of a launch; y blocks leave a sum each.
inline dim3 grid_of(std::int64_t rows, int width) {
  return {static_cast<unsigned>((width + kLanes - 1) / kLanes),
          static_cast<unsigned>(row_blocks(rows, kSlots * kAtOnce, kResident))};
}

// Of the sums of all blocks, a number a channel each.
inline std::size_t sums_bytes(std::int64_t rows, int width) {
  return sizeof(float) * grid_of(rows, width).y * static_cast<std::size_t>(width);
}

// Which channel is a thread's, and which rows: first(), and every step()-th from there on.
struct Place {
  int channel, slot;

  __device__ Place()
      : channel(static_cast<int>(blockIdx.x) * kLanes + static_cast<int>(threadIdx.x) % kLanes),
        slot(static_cast<int>(threadIdx.x) / kLanes) {}
  __device__ std::int64_t first() const { return std::int64_t{blockIdx.y} * kSlots + slot; }
  __device__ static std::int64_t step() { return std::int64_t{gridDim.y} * kSlots; }
};

// sums[block of rows, channel] = the sum over the block's threads of the channel. All threads call it, once.
__device__ inline void keep_sum(const Place& place, float sum, int width, float* sums) {
  __shared__ float of_slot[kSlots][kLanes];
  of_slot[place.slot][threadIdx.x % kLanes] = sum;
  __syncthreads();
  if (place.slot != 0 || place.channel >= width) return;
  float total = 0;
  for (int slot = 0; slot < kSlots; ++slot) total += of_slot[slot][threadIdx.x];
  sums[std::int64_t{blockIdx.y} * width + place.channel] = total;
}

}  // namespace engram::gate_rows
