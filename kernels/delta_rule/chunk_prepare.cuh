// The token-parallel part of a chunk that needs keys and queries only: G = K K^T, the triangular solve, and Q K^T.
#pragma once

#include "kernels/delta_rule/chunk_layout.cuh"

namespace engram::delta_rule {

// Queues the computation of every chunk's triangles (README.md: -Z and P).
template <typename T, int kWidth>
void launch_prepare(const Problem<T>& problem, Triangles<T>* triangles, cudaStream_t stream);

}  // namespace engram::delta_rule
