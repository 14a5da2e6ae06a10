// Passes over many small tensors in one kernel, for what a learner does with its parameters beside the optimiser
// (kernels/learner/adam).
//
// Tensors of float, contiguous, of any size, empty ones included. All work is queued on `stream`; sums are added up in
// a fixed order, so that the same input gives the same bits. Errors: std::runtime_error for a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace engram {

struct TensorView {
  const float* data;
  std::int64_t size;
};
std::size_t tensor_norms_scratch_bytes(const std::vector<TensorView>& tensors);
// norms[i] = sqrt(sum of the squares of tensor i)
void tensor_norms(const std::vector<TensorView>& tensors, float* norms, void* scratch, cudaStream_t stream);

// Watches over updates: an update is bad if its loss or one of its gradients' norms [count] is not finite.
struct UpdateWatch {
  const float* loss;
  const float* norms;
  int count;
  std::int64_t* watch;  // [4]: updates, bad ones, which update was the first bad one (from 1), and which of its values
                        // was the first that is not finite (0: the loss, 1 + i: norm i). Counts this update
  float* bad;           // out: 1 or 0
  float* norm;          // out: of all norms together, the root of their squares' sum
};
void watch_update(const UpdateWatch& update, cudaStream_t stream);

struct TensorPair {
  float* x;
  const float* target;
  std::int64_t size;
};
// x += rate (target - x), 0 <= rate <= 1; exactly the target at 1.
void move_towards(const std::vector<TensorPair>& pairs, float rate, cudaStream_t stream);

}  // namespace engram
