// The rows of engram bench kernels: an operation at one shape, its check, its launches, and LibTorch's way to it.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

namespace engram {

// The backward pass's is NaN where there is none.
struct ForwardBackward {
  double forward, backward;
};

struct KernelRow {
  std::string operation, shape;
  ForwardBackward flops, bytes;  // the least that the operation takes
  ForwardBackward bound;         // of RMS(error) / RMS(reference)

  // Runs the kernels once and compares with the double reference: RMS(error) / RMS(reference), of several results the
  // greatest.
  std::function<ForwardBackward()> check = {};
  std::function<void(cudaStream_t)> forward = {};   // with all that a backward pass needs
  std::function<void(cudaStream_t)> backward = {};  // empty: there is none
  // The same work by LibTorch's operations, on the current stream.
  std::function<void()> torch_forward = {}, torch_forward_and_backward = {};
};

// Each makes its row, which then owns its memory on the device.
std::vector<std::function<KernelRow()>> kernel_rows();

}  // namespace engram
