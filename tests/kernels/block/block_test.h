// What the tests of kernels/block and kernels/learner/sac_loss share: matrices on the device, poisoned memory, and
// gradients found without a formula.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

using DeviceBytes = DeviceBuffer<unsigned char>;
using Numbers = std::vector<double>;

constexpr Dtype kDtypes[] = {Dtype::kFloat32, Dtype::kBfloat16};

inline const char* name_of(Dtype dtype) { return dtype == Dtype::kFloat32 ? "float" : "bfloat16"; }

// RMS(error) / RMS(reference) of results that are computed in float and rounded once to `dtype`. float: some hundred
// roundings of 2^-24. bfloat16, which keeps 8 bits: 2^-8 at most of any element, 0.0017 over many.
inline double rounded_once(Dtype dtype) { return dtype == Dtype::kFloat32 ? 5e-6 : 0.00391; }

inline DeviceBytes upload(const Numbers& x, Dtype dtype) { return DeviceBytes(encode(x, dtype)); }
// Fills `buffer` with NaN, which has `bytes` or, where it has not, is made so; all but the first time without waiting.
inline void poison(DeviceBytes& buffer, std::size_t bytes) {
  if (buffer.size() != bytes) buffer = DeviceBytes(bytes);
  check_cuda(cudaMemset(buffer.data(), 0xff, bytes), "poison");
}
inline void poison(DeviceBytes& buffer, std::size_t size, Dtype dtype) { poison(buffer, size * dtype_bytes(dtype)); }
// A new one of `size` elements.
inline DeviceBytes poisoned(std::size_t size, Dtype dtype) {
  DeviceBytes buffer;
  poison(buffer, size, dtype);
  return buffer;
}
// `to` becomes a copy of `from`.
inline void copy(DeviceBytes& to, const DeviceBytes& from) {
  if (to.size() != from.size()) to = DeviceBytes(from.size());
  check_cuda(cudaMemcpy(to.data(), from.data(), from.size(), cudaMemcpyDeviceToDevice), "copy");
}
inline Numbers download(const DeviceBytes& buffer, Dtype dtype) { return decode(buffer.to_host(), dtype, 1, 1); }

inline float* floats(DeviceBytes& buffer) { return reinterpret_cast<float*>(buffer.data()); }
inline const float* floats(const DeviceBytes& buffer) { return reinterpret_cast<const float*>(buffer.data()); }

// Standard normal numbers as `dtype` holds them.
inline Numbers normals(Rng& rng, std::size_t size, Dtype dtype, double scale = 1) {
  Numbers x(size);
  for (double& element : x) element = rounded(scale * normal(rng), dtype);
  return x;
}
// The same in rows of `width`, `stride` apart, with zeros between.
inline Numbers normal_rows(Rng& rng, std::int64_t rows, int width, int stride, Dtype dtype, double scale = 1) {
  Numbers x(rows * stride);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<int>(i % stride) < width) x[i] = rounded(scale * normal(rng), dtype);
  return x;
}
// A row's part of a matrix, and the columns first .. first + width - 1 of all rows.
inline Numbers part(const Numbers& x, std::int64_t first, std::int64_t size) {
  return {x.begin() + first, x.begin() + first + size};
}
inline Numbers columns(const Numbers& x, std::int64_t stride, std::int64_t first, std::int64_t width) {
  Numbers y;
  for (std::size_t row = 0; row < x.size(); row += stride)
    y.insert(y.end(), x.begin() + row + first, x.begin() + row + first + width);
  return y;
}

// d/dx of sum_j weight_j function(x)_j, by central differences in double: exact to about 1e-9 of the function's size.
inline Numbers numeric_gradient(const std::function<Numbers(const Numbers&)>& function, Numbers x,
                                const Numbers& weight) {
  constexpr double kStep = 1e-5;
  Numbers gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double before = x[i];
    x[i] = before + kStep;
    const Numbers above = function(x);
    x[i] = before - kStep;
    const Numbers below = function(x);
    x[i] = before;
    for (std::size_t j = 0; j < weight.size(); ++j) gradient[i] += weight[j] * (above[j] - below[j]);
    gradient[i] /= 2 * kStep;
  }
  return gradient;
}

// How many of 1,000 runs do not give the first one's bits.
inline int different_runs(const std::function<std::vector<std::vector<unsigned char>>()>& run) {
  const auto first = run();
  int different = 0;
  for (int i = 1; i < 1000; ++i) different += run() != first;
  return different;
}

// Two matrices are the same, bit for bit, but for rows `first` .. `last` - 1.
inline bool equal_but_for(const Numbers& a, const Numbers& b, std::size_t stride, std::size_t first, std::size_t last) {
  return a.size() == b.size() && std::equal(a.begin(), a.begin() + first * stride, b.begin()) &&
         std::equal(a.begin() + last * stride, a.end(), b.begin() + last * stride);
}

}  // namespace engram::testing
