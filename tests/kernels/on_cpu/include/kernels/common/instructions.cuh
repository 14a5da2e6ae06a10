// The functions of kernels/common/instructions.cuh for kernels on a CPU (tests/kernels/on_cpu/cuda_on_cpu.h).
#pragma once

#include <cuda_bf16.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/kernels/on_cpu/cuda_on_cpu.h"

namespace engram {

using bf16 = __nv_bfloat16;

inline float half_of_pair(std::uint32_t pair, int i) {
  return std::bit_cast<float>(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
}
inline std::uint32_t pack_bf16(float low, float high) {
  const auto bits = [](float x) { return std::uint32_t{std::bit_cast<std::uint16_t>(__float2bfloat16_rn(x))}; };
  return bits(low) | bits(high) << 16;
}
inline std::uint32_t relu_pair(std::uint32_t pair) {
  const auto relu = [](float x) { return x < 0 ? 0 : x; };
  return pack_bf16(relu(half_of_pair(pair, 0)), relu(half_of_pair(pair, 1)));
}

// a: lane 4 g + t has rows g and g + 8, columns 2 t, 2 t + 1 and those + 8; b: column g, rows 2 t, 2 t + 1 and + 8.
inline void multiply_add_bf16(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  on_cpu::Warp& warp = on_cpu::warp();
  const int lane = on_cpu::lane();
  std::memcpy(warp.a[lane], a, sizeof a);
  std::memcpy(warp.b[lane], b, sizeof b);
  warp.all.wait();
  for (int i = 0; i < 4; ++i) {
    const int m = lane / 4 + i / 2 * 8, n = 2 * (lane % 4) + i % 2;
    for (int k = 0; k < 16; ++k)
      sum[i] += half_of_pair(warp.a[m % 8 * 4 + k % 8 / 2][k / 8 * 2 + m / 8], k) *
                half_of_pair(warp.b[n * 4 + k % 8 / 2][k / 8], k);
  }
  warp.all.wait();
}

inline std::uint32_t transpose_pairs(std::uint32_t x) {
  on_cpu::Warp& warp = on_cpu::warp();
  const int lane = on_cpu::lane(), row = 2 * (lane % 4), column = lane / 4;
  warp.a[lane][0] = x;
  warp.all.wait();
  const auto at = [&](int m, int n) { return half_of_pair(warp.a[4 * m + n / 2][0], n); };
  const std::uint32_t y = pack_bf16(at(row, column), at(row + 1, column));
  warp.all.wait();
  return y;
}

template <bool kTranspose>
void load_matrices(std::uint32_t (&x)[4], const bf16* row) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) throw std::runtime_error("ldmatrix: a row is not aligned");
  on_cpu::Warp& warp = on_cpu::warp();
  const int lane = on_cpu::lane(), g = lane / 4, t = lane % 4;
  warp.row[lane] = row;
  warp.all.wait();
  for (int i = 0; i < 4; ++i) {
    const auto at = [&](int m, int n) { return static_cast<const bf16*>(warp.row[8 * i + m])[n]; };
    const bf16 pair[2] = {kTranspose ? at(2 * t, g) : at(g, 2 * t), kTranspose ? at(2 * t + 1, g) : at(g, 2 * t + 1)};
    std::memcpy(&x[i], pair, sizeof pair);
  }
  warp.all.wait();
}

// What is copied is there once its group is waited for, not before.
template <int kBytes>
void copy_async(void* shared, const void* global, bool valid) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if (reinterpret_cast<std::uintptr_t>(shared) % kBytes != 0 ||
      (valid && reinterpret_cast<std::uintptr_t>(global) % kBytes != 0))
    throw std::runtime_error("cp.async: an address is not aligned");
  on_cpu::now().open.push_back({shared, valid ? global : nullptr, std::size_t{kBytes}});
}
inline void commit_copies() {
  on_cpu::Thread& thread = on_cpu::now();
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}
template <int kPending>
void wait_for_groups() {
  auto& groups = on_cpu::now().groups;
  while (groups.size() > std::size_t{kPending}) {
    for (const on_cpu::Copy& copy : groups.front())
      copy.from != nullptr ? std::memcpy(copy.to, copy.from, copy.bytes) : std::memset(copy.to, 0, copy.bytes);
    groups.erase(groups.begin());
  }
}
inline void wait_for_copies() {
  commit_copies();
  wait_for_groups<0>();
}

}  // namespace engram
