// What tests of kernels share: random problems, element types on the host, memory on the device, errors.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/machine/parallel_for.h"
#include "base/rng.h"
#include "kernels/common/cuda_support.h"
#include "tests/gpu.h"

namespace engram::testing {

using DeviceBytes = DeviceBuffer<unsigned char>;
using Bytes = std::vector<unsigned char>;
using Numbers = std::vector<double>;

constexpr Dtype kDtypes[] = {Dtype::kFloat32, Dtype::kBfloat16};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- cases

// Calls check(case) for every case on all processors, since most of the time goes into the references; `check` holds
// `gpu_in_use`, itself or by DeviceMemory, where it uses the GPU.
inline std::mutex gpu_in_use;
template <typename Case, typename Check>
void check_each(const std::vector<Case>& cases, const Check& check) {
  parallel_for(cases.size(), [&](std::size_t i) { check(cases[i]); });
}

// True where support() says that kernels for Hopper's tensor cores cannot run: the case is then marked as skipped.
template <class SupportOfKernels>
bool skip_without_hopper(const SupportOfKernels& support) {
  if (skip_without_gpu()) return true;
  if (support()) return false;
  skip_case("no GPU of compute capability 9.0, or a build without sm_90a");
  return true;
}

// The parts one after the other: a case's name.
template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream all;
  (all << ... << parts);
  return all.str();
}
inline const char* name_of(Dtype dtype) { return dtype == Dtype::kFloat32 ? "float" : "bfloat16"; }

// RMS(error) / RMS(reference) of results that are computed in float and rounded once to `dtype`. float: some hundred
// roundings of 2^-24. bfloat16, which keeps 8 bits: 2^-8 at most of any element, 0.0017 over many.
inline double rounded_once(Dtype dtype) { return dtype == Dtype::kFloat32 ? 5e-6 : 0.00391; }

// ---- random numbers

inline double normal(Rng& rng) {
  const double u = 1.0 - rng.uniform(), v = rng.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

inline double rounded(double x, Dtype dtype) {
  const auto single = static_cast<float>(x);
  return dtype == Dtype::kFloat32 ? single : __bfloat162float(__float2bfloat16(single));
}
inline double to_bf16(double x) { return rounded(x, Dtype::kBfloat16); }

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

// Rows' lengths, 0 .. time: the first row has all steps, and a third one none.
inline std::vector<int> ragged_lengths(Rng& rng, int batch, int time) {
  std::vector<int> lengths{time};
  while (static_cast<int>(lengths.size()) < batch) lengths.push_back(static_cast<int>(rng.below(time + 1)));
  if (batch > 2) lengths[2] = 0;
  return lengths;
}
// The same, but it is the last row that has none.
inline std::vector<int> lengths_down_to_none(Rng& rng, int batch, int time) {
  std::vector<int> lengths;
  for (int row = 0; row < batch; ++row)
    lengths.push_back(row == 0 ? time : row == batch - 1 ? 0 : static_cast<int>(rng.below(time + 1)));
  return lengths;
}
// Whether a step, counted over all rows, is behind its row's length.
template <class Length>
bool is_behind(const std::vector<Length>& length_B, int time, std::size_t step) {
  return static_cast<Length>(step % time) >= length_B[step / time];
}

// ---- matrices on the host

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
// Of these rows alone.
inline Numbers rows_of(const Numbers& x, const std::vector<std::int64_t>& rows, std::int64_t stride, std::int64_t first,
                       std::int64_t width) {
  Numbers y;
  for (const std::int64_t row : rows)
    y.insert(y.end(), x.begin() + row * stride + first, x.begin() + row * stride + first + width);
  return y;
}
// `columns` of every row, `stride` apart with NaN between; of a row that keeps(row) does not want NaN alone.
template <class Keeps>
Numbers spread(const Numbers& x, std::int64_t columns, std::int64_t stride, const Keeps& keeps) {
  const std::size_t rows = x.size() / columns;
  Numbers y(rows * stride, kNaN);
  for (std::size_t row = 0; row < rows; ++row)
    if (keeps(row)) std::copy_n(x.begin() + row * columns, columns, y.begin() + row * stride);
  return y;
}
inline Numbers spread(const Numbers& x, std::int64_t columns, std::int64_t stride) {
  return spread(x, columns, stride, [](std::size_t) { return true; });
}

// Numbers as bytes of `dtype`, and back: rows of `columns`, `stride` elements apart.
inline Bytes encode(const Numbers& x, Dtype dtype) {
  Bytes bytes(x.size() * dtype_bytes(dtype));
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
inline Numbers decode(const Bytes& bytes, Dtype dtype, std::int64_t columns = 1, std::int64_t stride = 1) {
  const std::size_t rows = bytes.size() / dtype_bytes(dtype) / stride;
  Numbers x(rows * columns);
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
template <class T>
Bytes bytes_of(const std::vector<T>& x) {
  const auto* first = reinterpret_cast<const unsigned char*>(x.data());
  return {first, first + x.size() * sizeof(T)};
}
inline Bytes bytes_of(const DeviceBytes& x) { return x.to_host(); }
// The bits of a run's results, on the host or the device.
template <class... Arrays>
std::vector<Bytes> bits_of(const Arrays&... arrays) {
  return {bytes_of(arrays)...};
}
inline std::vector<float> single(const Numbers& x) { return {x.begin(), x.end()}; }
// What is to be written: NaN.
inline std::vector<float> unwritten(std::size_t size) { return std::vector<float>(size, NAN); }

// ---- memory on the device

inline DeviceBytes upload(const Numbers& x, Dtype dtype) { return DeviceBytes(encode(x, dtype)); }
// Fills `buffer` with NaN, which has `bytes` or, where it has not, is made so; all but the first time without waiting.
inline void poison(DeviceBytes& buffer, std::size_t bytes) {
  if (buffer.size() != bytes) buffer = DeviceBytes(bytes);
  if (bytes > 0) check_cuda(cudaMemset(buffer.data(), 0xff, bytes), "poison");
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
inline Numbers download(const DeviceBytes& buffer, Dtype dtype) { return decode(buffer.to_host(), dtype); }

inline float* floats(DeviceBytes& buffer) { return reinterpret_cast<float*>(buffer.data()); }
inline const float* floats(const DeviceBytes& buffer) { return reinterpret_cast<const float*>(buffer.data()); }

// Where arrays of the host are read and written: as they are, by threads in turns; or as copies on the device, of
// which there is one set at a time.
struct HostMemory {
  template <class T>
  T* operator()(std::vector<T>& host) const {
    return host.data();
  }
  void fetch() const {}
};
class DeviceMemory {
 public:
  template <class T>
  T* operator()(std::vector<T>& host) {
    arrays_.push_back({host.data(), DeviceBytes(bytes_of(host))});
    return reinterpret_cast<T*>(arrays_.back().device.data());
  }
  // Fills the copy of an array with NaN.
  template <class T>
  void poison(const std::vector<T>& host) {
    for (Array& array : arrays_)
      if (array.host == host.data()) engram::testing::poison(array.device, array.device.size());
  }
  // Waits, and copies everything back, also what was only read.
  void fetch() const {
    check_cuda(cudaDeviceSynchronize(), "run");
    for (const auto& [host, device] : arrays_)
      check_cuda(cudaMemcpy(host, device.data(), device.size(), cudaMemcpyDeviceToHost), "copy from the device");
  }

 private:
  struct Array {
    void* host;
    DeviceBytes device;
  };
  const std::lock_guard<std::mutex> lock_{gpu_in_use};
  std::vector<Array> arrays_;
};

// What work(stream) launches, captured to be launched again.
class CapturedGraph {
 public:
  template <class Work>
  explicit CapturedGraph(const Work& work) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "begin capture");
    work(stream_);
    check_cuda(cudaStreamEndCapture(stream_, &graph_), "end capture");
    check_cuda(cudaGraphInstantiate(&executable_, graph_, 0), "instantiate");
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
    cudaStreamDestroy(stream_);
  }

  // After all that was launched before, and waits.
  void replay() {
    check_cuda(cudaDeviceSynchronize(), "before a replay");
    check_cuda(cudaGraphLaunch(executable_, stream_), "replay");
    check_cuda(cudaStreamSynchronize(stream_), "replay");
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

// ---- errors

template <class Number>
double root_mean_square(const std::vector<Number>& x) {
  double squares = 0;
  for (const Number& element : x) squares += std::norm(element);
  return x.empty() ? 0 : std::sqrt(squares / static_cast<double>(x.size()));
}

template <class Number>
double root_mean_square_error(std::vector<Number> actual, const std::vector<Number>& expected) {
  actual.resize(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) actual[i] -= expected[i];
  return root_mean_square(actual);
}
// RMS(actual - expected) / RMS(expected), or over `least` where that is more; NaN where anything is NaN. Zero expected
// wants zero.
template <class Number>
double relative_error(const std::vector<Number>& actual, const std::vector<Number>& expected, double least = 0) {
  const double error = root_mean_square_error(actual, expected);
  return error == 0 ? 0 : error / std::max(root_mean_square(expected), least);
}
// Of as many floats as are expected.
inline double relative_error(const std::vector<float>& actual, const Numbers& expected) {
  if (actual.size() != expected.size()) throw std::invalid_argument(joined(actual.size(), " of ", expected.size()));
  return relative_error(Numbers(actual.begin(), actual.end()), expected);
}

// The worst error so far; what is no number is worst of all.
inline void keep_worst(double& worst, double error) { worst = std::isnan(error) ? INFINITY : std::max(worst, error); }

// Checks the relative error, and that the largest one is at most twice that of `plain`, which is computed in the same
// types step by step: where plain products are no better, neither can a fused kernel be.
inline void check_beside_plain(const std::string& name, const Numbers& actual, const Numbers& expected,
                               const Numbers& plain, double bound) {
  double largest = 0, plain_largest = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]), before = largest;
    keep_worst(largest, error);
    if (largest > before) at = i;
    plain_largest = std::max(plain_largest, std::abs(plain[i] - expected[i]));
  }
  INFO(name, ", the largest error at ", at, ": ", largest, ", of plain products ", plain_largest);
  CHECK(relative_error(actual, expected) <= bound);
  CHECK(largest <= 2 * plain_largest);
}

// How many runs after the first do not give its bits.
template <class Run>
int different_runs(const Run& run, int times = 1000) {
  const auto first = run();
  int different = 0;
  for (int i = 1; i < times; ++i) different += run() != first;
  return different;
}

// Two matrices are the same, bit for bit, but for rows `first` .. `last` - 1.
inline bool equal_but_for(const Numbers& a, const Numbers& b, std::size_t stride, std::size_t first, std::size_t last) {
  return a.size() == b.size() && std::equal(a.begin(), a.begin() + first * stride, b.begin()) &&
         std::equal(a.begin() + last * stride, a.end(), b.begin() + last * stride);
}

}  // namespace engram::testing
