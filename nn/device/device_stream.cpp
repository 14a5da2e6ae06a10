#include "nn/device/device_stream.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/common/cuda_support.h"

namespace engram {
namespace {

// Those that have no owner, by device and priority.
class FreeStreams {
 public:
  static FreeStreams& of_program() {
    static auto* const all = new FreeStreams;  // for owners that end after all else
    return *all;
  }

  cudaStream_t take(c10::DeviceIndex device, int priority) {
    {
      const std::lock_guard lock(mutex_);
      auto& free = free_[{device, priority}];
      if (!free.empty()) {
        const cudaStream_t stream = free.back();
        free.pop_back();
        return stream;
      }
    }
    const c10::cuda::CUDAGuard guard(device);
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "a stream");
    return stream;
  }
  void give_back(c10::DeviceIndex device, int priority, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    free_[{device, priority}].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, int>, std::vector<cudaStream_t>> free_;
};

c10::cuda::CUDAStream taken(int priority, c10::DeviceIndex device) {
  const c10::DeviceIndex own = device < 0 ? c10::cuda::current_device() : device;
  return c10::cuda::getStreamFromExternal(FreeStreams::of_program().take(own, priority), own);
}

}  // namespace

DeviceStream::DeviceStream(int priority, c10::DeviceIndex device)
    : priority_(priority), stream_(taken(priority, device)) {}

DeviceStream::~DeviceStream() {
  FreeStreams::of_program().give_back(stream_.device_index(), priority_, stream_.stream());
}

}  // namespace engram
