// Stable Hadamard Memory (Le et al. 2024, arXiv:2410.10132, section 4) over whole sequences, for learning: of row b,
// from a given M on,
//   C_t = 1 + tanh(theta_t c_t^T),   M_t = bound(M_{t-1} * C_t + v_t k_t^T),   h_t = M_t q_t    for t < length_B[b],
// where * is the product element by element and bound() sets what is beyond +-limit to +-limit; no gradient passes what
// it has changed. README.md beside this file has the way it is computed and the backward pass.
//
// Dimensions: B rows, T steps, H rows and columns of M, each at least 1, H at most kMaxHadamardMemoryWidth; T at most
// 2^30, B * H and B * T below 2^31. Types: float. Layout: contiguous.
// RMS error over RMS: at most hadamard_memory_output_bound() of h and the last M, 1e-4 of the gradients, where M stays
// finite and no element comes so near to the limit that rounding decides on which side it is. NaN stays NaN.
// Steps t >= length are never read; h and the gradients of vectors are zero there.
// Aliasing: no output may overlap an input or another output. Scratch and checkpoints: any contents. All work is queued
// on `stream`; nothing synchronises. The same input gives the same bits. Devices: 8.0 and later.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace engram {

constexpr int kMaxHadamardMemoryWidth = 128;

// M of T steps is a product of T matrices C, of which each element is rounded to about 2^-23, not to either side alike:
// errors of many steps add up.
inline double hadamard_memory_output_bound(int time) { return std::max(1e-5, time * 0x1p-25); }

struct HadamardMemory {
  int batch;
  int time;
  int width;                     // H
  const float* theta_BTH;        // of M's rows
  const float* c_BTH;            // of its columns
  const float* value_BTH;        // v
  const float* key_BTH;          // k
  const float* query_BTH;        // q
  const float* first_BHH;        // M before the first step
  const std::int64_t* length_B;  // on the device, 0 <= length <= T
  float limit;                   // above 0; infinity: none
};

// What the forward pass keeps for the backward pass: one matrix of every eight steps, and of each of its elements a bit
// a step.
std::size_t hadamard_memory_checkpoint_bytes(const HadamardMemory& memory);
// Of the backward pass.
std::size_t hadamard_memory_scratch_bytes(const HadamardMemory& memory);

// Writes h and to last_BHH M of step length - 1, of an empty row the first M. checkpoints: null where no backward pass
// follows.
void hadamard_memory_forward(const HadamardMemory& memory, float* h_BTH, float* last_BHH, void* checkpoints,
                             cudaStream_t stream);

// The gradient of a loss of h and the last M.
struct HadamardMemoryOutput {
  const void* checkpoints;  // as the forward pass wrote them
  const float* h_gradient_BTH;
  const float* last_gradient_BHH;  // null: zero
};
struct HadamardMemoryGradient {
  float *theta_BTH, *c_BTH, *value_BTH, *key_BTH, *query_BTH, *first_BHH;
};
void hadamard_memory_backward(const HadamardMemory& memory, const HadamardMemoryOutput& output,
                              const HadamardMemoryGradient& gradient, void* scratch, cudaStream_t stream);

}  // namespace engram
