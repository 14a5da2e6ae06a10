#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "kernels/common/architecture.h"
#include "kernels/common/cuda_support.h"
#include "nn/device/device.h"
#include "nn/device/device_stream.h"

namespace engram {

bool built_with_cuda() { return true; }

std::string device_count_error() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return "";
  cudaGetLastError();  // so that nothing later takes it for its own
  return cudaGetErrorString(error);
}

std::string built_device_architectures() { return built_architectures(); }

std::string device_name(c10::Device device) {
  cudaDeviceProp properties;
  if (device.is_cuda() && cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess)
    return device.str() + " (" + properties.name + ")";
  return device.str();
}

std::string device_identity(c10::Device device) {
  cudaDeviceProp properties;
  if (!device.is_cuda() || cudaGetDeviceProperties(&properties, device.index()) != cudaSuccess) return device.str();
  std::string text = std::string(properties.name) + " ";
  for (const char byte : properties.uuid.bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::int64_t peak_device_memory_bytes() {
  using namespace c10::cuda::CUDACachingAllocator;
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  std::int64_t bytes = 0;
  if (get()->initialized())
    for (c10::DeviceIndex gpu = 0; gpu < c10::cuda::device_count(); ++gpu)
      bytes += getDeviceStats(gpu).reserved_bytes[kAll].peak;
  return bytes;
}

std::optional<std::int64_t> device_memory_bytes(c10::Device device) {
  cudaDeviceProp properties;
  if (!device.is_cuda() || cudaGetDeviceProperties(&properties, device.index()) != cudaSuccess) return std::nullopt;
  return static_cast<std::int64_t>(properties.totalGlobalMem);
}

void sleep_while_waiting(c10::Device device) {
  if (!device.is_cuda()) return;
  const c10::cuda::CUDAGuard on_device(device);
  check_cuda(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "sleeping while a GPU works");
}

struct OwnStream::Guard {
  explicit Guard(c10::Device device) : own(/*priority=*/0, device.index()), on_stream(own.stream()) {}
  ~Guard() {
    try {
      own.stream().synchronize();
    } catch (const std::exception&) {  // of a GPU that has failed: whoever used it has been told
    }
  }
  DeviceStream own;
  c10::cuda::CUDAStreamGuard on_stream;
};
OwnStream::OwnStream(c10::Device device) : guard_(device.is_cuda() ? std::make_unique<Guard>(device) : nullptr) {}
OwnStream::~OwnStream() = default;

void check_device_architecture(int index) { check_architecture(index); }

}  // namespace engram
