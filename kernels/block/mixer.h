// The passes before and after the memories of a DeltaNet or HQLT block, one kernel each, forward and backward.
//
// Features, from a projection's rows [q | k | v | ... | beta | ...] (H heads of P elements each for q, k, v):
//   with a window, which reads q and k, too:  q, k <- dropout(q), dropout(k);  u_q, u_k = silu(q), silu(k)
//   without:                                  u_q, u_k = dropout(silu(q)), dropout(silu(k))
//   features = [u_q / |u_q|, u_k / |u_k|, dropout(silu(v))]   with |x| = sqrt(x . x + 1e-6)
//   beta     = factor sigmoid(projected beta)
// Mix, from the memories' outputs f (fast weights) and w (window):
//   vector: m = g f + (1 - g) w, g = sigmoid(gate) in R^{H x W};   scalar: m = a f + b w, (a, b) = sigmoid(gate) in
//   R^{H x 2}; sum: m = f + w;   fast: m = f;   and then out = RMS norm of m per head, with one weight [W] for all
//   heads (Irie et al. 2025, synchronous HQLT; Yang et al. 2024, DeltaNet).
//   With branch_norm the mix takes f / rms(f) and w / rms(w) in place of f and w, rms(x) = sqrt(mean x^2 + epsilon)
//   over the W elements of a head. Nothing is kept for the gradients, which from dy of y = x / rms(x) are
//   dx = (dy - y mean(y dy)) / rms(x).
//
// A head has W elements, stored as P = W rounded up to a multiple of 8, P <= 128; what follows W is zero in the
// inputs and is written as zero. Projections are rows `projected_stride` apart (a multiple of 8) and their gradients
// have the same layout; rows * H < 2^31. Everything but the norm's weight is float or bfloat16 (`dtype`) and 16-byte
// aligned; the rest is contiguous. Computed in float. All work is queued on `stream`; the same input gives the same
// bits. Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/dropout.h"
#include "kernels/block/gradient_sums.h"
#include "kernels/common/cuda_support.h"

namespace engram {

struct MixerShape {
  std::int64_t rows;
  int heads;
  int width;   // W
  int padded;  // P
};

struct MixerFeatures {
  MixerShape shape;
  Dtype dtype;
  std::int64_t projected_stride;
  int beta_column;  // of the first head's beta, a multiple of 8; the columns after the last beta are padding
  float beta_factor;
  DropoutKey query_dropout, key_dropout, value_dropout;  // row = row * H + head, W channels
  bool window;                                           // the projection's q and k become what dropout leaves of them
  void* projected;
};
// features [rows, 3, H, P], beta [rows, H]
void mixer_features_forward(const MixerFeatures& input, void* features, void* beta, cudaStream_t stream);

struct MixerFeaturesGradient {
  const void* features;      // [rows, 3, H, P]
  const void* beta;          // [rows, H]
  const void* window_value;  // added to the gradient of the third feature, [rows, H, P]; of a window
  void* projected;  // out: q, k, v, beta and the columns after beta up to the stride. With a window the columns of q
                    // and k hold the window's gradient on entry, which is added to
};
// `input` as the forward pass left it.
void mixer_features_backward(const MixerFeatures& input, const MixerFeaturesGradient& gradient, cudaStream_t stream);

enum class MixKind { kFast, kSum, kScalar, kVector };

// Columns of a projection that hold the gate: H * P, 2 H rounded up to a multiple of 8, or none.
int mixer_gate_columns(MixKind kind, int heads, int padded);

struct MixerMix {
  MixerShape shape;
  Dtype dtype;
  MixKind kind;
  bool branch_norm;  // not with kFast
  std::int64_t projected_stride;
  const void* gate;     // the projection's first gate column
  const void* fast;     // [rows, H, P]
  const void* window;   // [rows, H, P]; null for kFast
  const float* weight;  // [W]
  float epsilon;        // of every norm
};
// out [rows, H, P]
void mixer_mix_forward(const MixerMix& input, void* out, cudaStream_t stream);

struct MixerMixGradient {
  const void* out;  // [rows, H, P]
  void* gate;       // the projection's gradient at the first gate column, padding included
  void* fast;
  void* window;
};
std::size_t mixer_mix_backward_scratch_bytes(const MixerShape& shape);
// All but the weight's gradient, and in `scratch` what add_up() makes that of.
void mixer_mix_backward(const MixerMix& input, const MixerMixGradient& gradient, void* scratch, cudaStream_t stream);
GradientSum mixer_mix_sum(const MixerShape& shape, const void* scratch, float* weight);

}  // namespace engram
