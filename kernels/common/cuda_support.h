// Support for host code that uses the GPU: error check, owning device buffer, element types and their dispatch.
// Host-only: no kernel here, so an ordinary C++ source may include it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace engram {

// Throws std::runtime_error naming what was tried unless the call succeeded.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

inline bool has_cuda_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// An attribute of the current device.
inline int cuda_device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

// Owner of `size` elements of device memory on the current device; the contents start undefined.
template <typename T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t size) : size_(size) {
    if (size > 0) check_cuda(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceBuffer(const std::vector<T>& host) : DeviceBuffer(host.size()) {
    check_cuda(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Waits for the device's default stream, then copies.
  std::vector<T> to_host() const {
    std::vector<T> host(size_);
    check_cuda(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

enum class Dtype { kFloat32, kBfloat16 };

inline std::size_t dtype_bytes(Dtype dtype) { return dtype == Dtype::kFloat32 ? 4 : 2; }

// Calls function(T{}) with the C++ type of `dtype`.
template <typename Function>
decltype(auto) dispatch_dtype(Dtype dtype, Function&& function) {
  return dtype == Dtype::kFloat32 ? function(float{}) : function(__nv_bfloat16{});
}

}  // namespace engram
