// What tests of kernels share: random numbers, element types on the host, errors.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/parallel_for.h"
#include "base/rng.h"
#include "kernels/common/cuda_support.h"
#include "tests/gpu.h"

namespace engram::testing {

// Calls check(case) for every case on all processors, since most of the time goes into the references; `check` holds
// `gpu_in_use` where it uses the GPU.
inline std::mutex gpu_in_use;
template <typename Case, typename Check>
void check_each(const std::vector<Case>& cases, const Check& check) {
  parallel_for(cases.size(), [&](std::size_t i) { check(cases[i]); });
}

inline double normal(Rng& rng) {
  const double u = 1.0 - rng.uniform(), v = rng.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

inline double rounded(double x, Dtype dtype) {
  const auto single = static_cast<float>(x);
  return dtype == Dtype::kFloat32 ? single : __bfloat162float(__float2bfloat16(single));
}

// Numbers as bytes of `dtype`, and back: rows of `columns`, `stride` elements apart.
inline std::vector<unsigned char> encode(const std::vector<double>& x, Dtype dtype) {
  std::vector<unsigned char> bytes(x.size() * dtype_bytes(dtype));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto single = static_cast<float>(x[i]);
    const __nv_bfloat16 half = __float2bfloat16(single);
    if (dtype == Dtype::kFloat32)
      std::memcpy(&bytes[i * 4], &single, 4);
    else
      std::memcpy(&bytes[i * 2], &half, 2);
  }
  return bytes;
}
inline std::vector<double> decode(const std::vector<unsigned char>& bytes, Dtype dtype, std::int64_t columns,
                                  std::int64_t stride) {
  const std::size_t rows = bytes.size() / dtype_bytes(dtype) / stride;
  std::vector<double> x(rows * columns);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t from = i / columns * stride + i % columns;
    if (dtype == Dtype::kFloat32) {
      float single;
      std::memcpy(&single, &bytes[from * 4], 4);
      x[i] = single;
    } else {
      __nv_bfloat16 half;
      std::memcpy(&half, &bytes[from * 2], 2);
      x[i] = __bfloat162float(half);
    }
  }
  return x;
}

// RMS(actual - expected) / RMS(expected); NaN where anything is NaN. Zero expected wants zero.
inline double relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return error == 0 ? 0 : std::sqrt(error / size);
}

}  // namespace engram::testing
