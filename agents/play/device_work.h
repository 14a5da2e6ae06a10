// DeviceWork: how the work of a rollout runs on its device. On a GPU on a stream of its own, and work that is repeated
// is captured in a CUDA graph and replayed; on the CPU at once.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

namespace engram {

class DeviceWork {
 public:
  explicit DeviceWork(torch::Device device);
  ~DeviceWork();
  DeviceWork(DeviceWork&&) noexcept;
  DeviceWork& operator=(DeviceWork&&) noexcept;

  // After what the current stream was given before, and before what it is given next.
  void run(const std::function<void()>& work);

  // Inside of run(): work(count). On a GPU it is launched the first time for a `kind`, in which libraries load their
  // kernels; from then on it is captured once for each count and replayed. It must do the same every time for the same
  // kind and count, and may not wait for the device.
  void repeat(int kind, int count, const std::function<void(int count)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;  // on a GPU
};

}  // namespace engram
