// The token-parallel part of a chunk that needs keys and queries only: G = K K^T, the triangular solve, and Q K^T.
#pragma once

#include "kernels/delta_rule/chunk_layout.cuh"

namespace engram::delta_rule {

// Queues the computation of solve = -Z and attend = P (README.md) for every chunk.
template <typename T, int kWidth>
void launch_prepare(const Problem<T>& problem, T* solve, T* attend, cudaStream_t stream);

}  // namespace engram::delta_rule
