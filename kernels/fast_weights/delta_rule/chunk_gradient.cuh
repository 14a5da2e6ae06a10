// The token-parallel part of the backward pass: dQ, dK, dV, dbeta and the decays' gradients of every chunk.
#pragma once

#include "kernels/fast_weights/delta_rule/chunk_pipeline.cuh"

namespace engram::delta_rule {

template <typename T>
struct BackwardRows {
  const T* output_gradient;
  int copy_bytes;        // of the output's gradient, contiguous [B, T, H, D]
  int saved_copy_bytes;  // of the contiguous rows in the saved buffer and in the scratch
};

// What passes between the two kernels: per chunk the gradient of the state at its end, per step dY (README.md).
template <typename T>
struct BackwardScratch {
  T* state_gradient;
  T* error_gradient;
};

// What the forward pass saved.
template <typename T>
struct Saved {
  const T *state, *error;
  const Decays<T>* decays;
};

template <typename Rule, typename T, int kWidth>
void launch_gradients(const Problem<T>& problem, const BackwardRows<T>& rows, const Saved<T>& saved,
                      const BackwardScratch<T>& scratch, const DeltaRuleInputGradient& gradient, cudaStream_t stream);

}  // namespace engram::delta_rule
