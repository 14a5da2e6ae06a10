// What a program asks about GPUs outside of its computations. A build without GPU support has no kernels of its own and
// asks no GPU anything; LibTorch's operations may still run on one.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace engram {

bool built_with_cuda();
// What CUDA answers when it is asked for GPUs, where that is an error; empty in a build without GPU support.
std::string device_count_error();
// That the kernels were compiled for, "80, 90a"; empty in a build without GPU support.
std::string built_device_architectures();

// "cpu", or "cuda:0 (name of the GPU)", the name in a build with GPU support.
std::string device_name(c10::Device device);
// What tells a GPU from all others of this and other machines, after its name; in a build with GPU support.
std::string device_identity(c10::Device device);

// The most that LibTorch's allocator has held of all GPUs since the program started; 0 where it has held none.
std::int64_t peak_device_memory_bytes();

// All that a GPU has; nothing where this build does not say.
std::optional<std::int64_t> device_memory_bytes(c10::Device device);

// From now on this program sleeps while it waits for the GPU, which tells it when it is done, instead of asking it all
// the time. Nothing on the CPU. Throws std::runtime_error.
void sleep_while_waiting(c10::Device device);

// While it lives, what this thread gives a GPU goes to a stream of its own, beside what other threads give it, which
// ends before this does. Nothing on the CPU.
class OwnStream {
 public:
  explicit OwnStream(c10::Device device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

// Throws std::runtime_error, with what to do, where this build has kernels but none for the GPU of that index.
void check_device_architecture(int index);

}  // namespace engram
