// Elman network, GRU and LSTM over whole sequences that begin fresh, for learning with products in bfloat16. Of row b,
// from h = c = 0 on, with the gates that the input has made, a_t (biases included), and u_t = U h_{t-1}:
//   Elman h_t = tanh(a_t + u_t), of the last `linear` channels a_t + u_t
//   GRU   r = sigmoid(a_r + u_r),  z = sigmoid(a_z + u_z),  n = tanh(a_n + r (u_n + b_n)),
//         h_t = (1 - z) n + z h_{t-1}
//   LSTM  i = sigmoid(a_i + u_i),  f = sigmoid(a_f + u_f),  g = tanh(a_g + u_g),  o = sigmoid(a_o + u_o),
//         c_t = f c_{t-1} + i g,  h_t = o tanh(c_t)
// for t < length_B[b]: Elman 1990, Cho et al. 2014 (arXiv:1406.1078) in cuDNN's form, and Hochreiter and Schmidhuber
// 1997 with forget gates. Gates are in the order above, as LibTorch has them. README.md beside this file says how it is
// computed.
//
// Dimensions: B rows, T steps, D channels, X = D (Elman), 3 D (GRU) or 4 D (LSTM); B and T at least 1, D as
// supports_gated_rnn() allows. Layout: contiguous, addresses of tensors multiples of 16 bytes.
// Types: U, the gates and h are bfloat16; h_{t-1} as operand and the gradients are rounded to it, c and all sums are
// float. Steps t >= length are never read; h, h_before and the gradients are zero there, and what is saved is left as
// it was. Aliasing: none. All work is queued on `stream`; the same input gives the same bits.
// Devices: 8.0 and later; more than 64 channels need clusters of blocks, 9.0 and later.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "base/support.h"
#include "kernels/recurrences/gated_rnn/cell.h"

namespace engram {

struct GatedRnn {
  GatedCell cell;
  int batch;
  int time;
  int width;                          // D
  const __nv_bfloat16* recurrent_XD;  // U
  const float* candidate_bias_D;      // b_n of the GRU; null for the others
  const int* length_B;                // on the device, 0 <= length <= T
  int linear = 0;                     // channels, at most D; of the Elman network
};

// What the backward pass reads.
struct GatedRnnSaved {
  __nv_bfloat16* h_before_BTD;  // h_{t-1}
  __half* gates_BTPY;           // P = D / 2 pairs of channels, of each of both h_t; r, z, n, u_n + b_n; or i, f, g, o
  float* cells_BTD;             // c_t of the LSTM; null for the others
};

// Whether the kernels take so many channels on the current device; where there is none, on one of 9.0.
Support supports_gated_rnn(GatedCell cell, int width);

void gated_rnn_forward(const GatedRnn& problem, const __nv_bfloat16* gates_BTX, __nv_bfloat16* h_BTD,
                       const GatedRnnSaved& saved, cudaStream_t stream);

// The gradient of a_t; and of u_n + b_n, for the GRU alone (null for the others): the other u have their a's. U's
// gradient is the sum over rows and steps of that of u_t times h_{t-1}.
void gated_rnn_backward(const GatedRnn& problem, const GatedRnnSaved& saved, const __nv_bfloat16* h_gradient_BTD,
                        __nv_bfloat16* gates_gradient_BTX, __nv_bfloat16* candidate_gradient_BTD, cudaStream_t stream);

}  // namespace engram
