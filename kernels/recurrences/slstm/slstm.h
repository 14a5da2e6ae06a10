// sLSTM (Beck et al. 2024, arXiv:2405.04517, equations 8 to 17) over whole sequences that begin fresh, for learning: of
// row b and head h, from h = c = n = m = 0 on, with a_t = gates_t + R^T h_{t-1} = (a_i, a_f, a_z, a_o), K channels
// each,
//   m_t = max(log sigmoid(a_f) + m_{t-1}, a_i),   i' = exp(a_i - m_t),   f' = exp(log sigmoid(a_f) + m_{t-1} - m_t),
//   c_t = f' c_{t-1} + i' tanh(a_z),   n_t = f' n_{t-1} + i',   h_t = sigmoid(a_o) c_t / max(n_t, 1e-20)
// for t < length_B[b]. README.md beside this file has the way it is computed and the backward pass.
//
// Dimensions: B rows, T steps, H heads, K channels a head, each at least 1, K at most kMaxSlstmWidth; B * H < 2^31.
// Types: float. Layout: contiguous. RMS error over RMS: at most 1e-5 of h, 1e-4 of the gradient.
// m scales c and n alike and drops out of h, so the gradient takes it as given; it is exact unless n_t < 1e-20.
// Steps t >= length are never read; h and the gradient are zero there, and what is saved is left as it was.
// Aliasing: none. All work is queued on `stream`; the same input gives the same bits. Devices: 8.0 and later.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

namespace engram {

constexpr int kMaxSlstmWidth = 64;

struct Slstm {
  int batch;
  int time;
  int heads;
  int width;                   // K
  const float* recurrent_HKX;  // R, X = 4 K: what channel k of h_{t-1} adds to a_t
  const int* length_B;         // on the device, 0 <= length <= T
};

// What the backward pass reads: a, and c, n and m.
struct SlstmSaved {
  float* gates_BTHX;  // X = 4 K
  float* cells_BTHY;  // Y = 3 K
};

void slstm_forward(const Slstm& problem, const float* gates_BTHX, float* h_BTHK, const SlstmSaved& saved,
                   cudaStream_t stream);

// The gradient of `gates`, and thereby of a: R's is the sum over rows and steps of h_{t-1} times that of a_t.
void slstm_backward(const Slstm& problem, const SlstmSaved& saved, const float* h_gradient_BTHK,
                    float* gates_gradient_BTHX, cudaStream_t stream);

}  // namespace engram
