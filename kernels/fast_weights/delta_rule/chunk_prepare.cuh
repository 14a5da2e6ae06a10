// The token-parallel part of a chunk that needs keys, queries and decays only: sums of decays, G = K K^T, the
// triangular solve, and Q K^T.
#pragma once

#include "kernels/fast_weights/delta_rule/chunk_layout.cuh"

namespace engram::delta_rule {

// Queues the computation of every chunk's triangles (README.md: -Z, which the sum rule does not have, and P) and, where
// the rule has them, decays.
template <typename Rule, typename T, int kWidth>
void launch_prepare(const Problem<T>& problem, Triangles<T>* triangles, Decays<T>* decays, cudaStream_t stream);

}  // namespace engram::delta_rule
