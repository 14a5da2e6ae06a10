// One step of Adam (Kingma and Ba 2015, algorithm 1) with decoupled weight decay (Loshchilov and Hutter 2019) over many
// tensors, in one pass:
//   m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,
//   p <- (1 - rate decay) p - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + epsilon)
// with b1 0.9, b2 0.999, epsilon 1e-8. The rate is read from the device when the step is done, so that a recorded step
// takes whatever rate stands there when it is replayed. All float32, contiguous. All work is queued on `stream`; the
// same input gives the same bits. Errors: std::runtime_error for an empty tensor or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace engram {

struct AdamTensor {
  float* parameter;
  const float* gradient;
  float* mean;
  float* mean_square;
  std::int64_t size;
};

// learning_rate: on the device. step: steps so far on the device, 0 before the first one; this one is counted. skip:
// nothing happens where it points to anything but 0 on the device; null: never skipped.
void adam_step(const std::vector<AdamTensor>& tensors, const float* learning_rate, float weight_decay, float* step,
               const float* skip, cudaStream_t stream);

}  // namespace engram
