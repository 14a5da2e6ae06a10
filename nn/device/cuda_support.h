// Between Torch tensors and the kernels: dtypes, the stream, scratch memory.
#pragma once

#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_support.h"

namespace engram {

// Throws c10::Error for a tensor that is neither float32 nor bfloat16.
inline Dtype kernel_dtype(const torch::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == torch::kFloat32 || tensor.scalar_type() == torch::kBFloat16,
              "the GPU kernels take float32 and bfloat16, not ", tensor.scalar_type());
  return tensor.scalar_type() == torch::kFloat32 ? Dtype::kFloat32 : Dtype::kBfloat16;
}

inline cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

// Undefined bytes on the device of `like`, from Torch's caching allocator.
inline torch::Tensor scratch_bytes(std::size_t bytes, const torch::Tensor& like) {
  return torch::empty({static_cast<std::int64_t>(bytes)}, like.options().dtype(torch::kUInt8).requires_grad(false));
}

}  // namespace engram
