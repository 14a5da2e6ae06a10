// The sum rule and the delta rule with a decay for each key channel (gated linear attention: Yang et al. 2024,
// arXiv:2312.06635, equation 3; Kimi delta attention: arXiv:2510.26692, equation 1) over whole fresh sequences, for
// learning: of row b and each head, from S = 0 on, for t < length_B[b] and g_t <= 0,
//   S'_t = diag(e^{g_t}) S_{t-1},   S_t = S'_t + k_t u_t^T,   o_t = scale S_t^T q_t,
// with u_t = v_t, or by the delta rule u_t = b_t e_t, e_t = v_t - S'_t^T k_t, with write strengths b_t of 0 to 2.
// README.md beside this file has the way it is computed and the backward pass.
//
// Dimensions: B rows, T steps, H heads, K key and V value channels, each at least 1, K and V at most
// kMaxVectorDecayWidth; T at most 2^30, B * T * H * max(K, V) below 2^31. Types: float. Layout: contiguous. RMS error
// over RMS: 1e-5 of o, e and of the gradients of queries, keys, values and u, 1e-4 of the decays'. Steps t >= length
// are never read; o and all gradients are zero there. Aliasing: no output may overlap an input or another output. All
// work is queued on `stream`; nothing synchronises. The same input gives the same bits. Devices: 8.0 and later. Errors:
// std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace engram {

constexpr int kMaxVectorDecayWidth = 128;

struct VectorDecay {
  int batch;
  int time;
  int heads;
  int key_width;    // K
  int value_width;  // V
  float scale;
  const float* query_BTHK;
  const float* key_BTHK;
  const float* value_BTHV;
  const float* log_decay_BTHK;   // g
  const std::int64_t* length_B;  // on the device, 0 <= length <= T
};

void vector_decay_forward(const VectorDecay& problem, float* output_BTHV, cudaStream_t stream);

// The gradient of a loss of o. Null for the values': not wanted.
struct VectorDecayGradient {
  float *query_BTHK, *key_BTHK, *value_BTHV, *log_decay_BTHK;
};
void vector_decay_backward(const VectorDecay& problem, const float* output_gradient_BTHV,
                           const VectorDecayGradient& gradient, cudaStream_t stream);

struct VectorDelta {
  VectorDecay sum;            // but for v all that the sum rule of u_t is given
  const float* strength_BTH;  // b
};

// o and e.
void vector_delta_forward(const VectorDelta& problem, float* output_BTHV, float* error_BTHV, cudaStream_t stream);
// The gradient of u; values are not read. That of all else is the sum rule's: README.md.
void vector_delta_backward(const VectorDelta& problem, const float* output_gradient_BTHV, float* written_gradient_BTHV,
                           cudaStream_t stream);

}  // namespace engram
