// Loops of learning on a CPU in float32, compiled for several instruction sets; kernels() chooses once by the
// processor. Rows follow each other without gaps unless a stride is given. No LibTorch in here; one thread.
#pragma once

#include <cstdint>

#include "base/dropout.h"

namespace engram::cpu {

// C[r, n] = sum_k A[r, k] B[k, n]; where `bias` is given plus bias[n], with `accumulate` plus what C held; then, with
// `relu`, its positive part, and where `positive` is given (rows as C's) 0 where that is at most 0. NaN stays NaN.
struct Product {
  std::int64_t rows, columns, inner;
  const float* a;  // A[r, k] = a[r * a_row + k * a_inner]
  std::int64_t a_row, a_inner;
  const float* b;  // B[k, n] = b[k * b_inner + n * b_column]
  std::int64_t b_inner, b_column;
  float* c;  // C[r, n] = c[r * c_row + n]
  std::int64_t c_row;
  const float* bias = nullptr;
  bool accumulate = false, relu = false;
  const float* positive = nullptr;
};

// Steps of the fast weights of one head (memory/ops/fast_weight_ops.h) from one state on, by the delta rule or the sum
// rule, without an attention norm; all pointers are at step 0.
struct FastWeights {
  bool delta;  // else the sum rule
  std::int64_t steps, heads, key_width, value_width;
  std::int64_t decay_width;                              // 0: nothing decays; 1: all of S alike; or key_width
  float scale;                                           // of the output
  const float *query, *key, *value, *write, *log_decay;  // `heads` times their width from one step to the next
  float* output;                                         // as value
  float* state;                                          // [key_width, value_width], in place
  float* saved_state;        // after each kFastWeightsSaved steps and at the end; null: not kept
  float* update;             // [steps, value_width]: what was written, of saved_state as well
  const float* first_state;  // of the backward pass with a decay
};
inline constexpr std::int64_t kFastWeightsSaved = 32;

struct FastWeightsBackward {
  FastWeights forward;    // with what it saved; its output and state are not read
  const float* d_output;  // as forward's
  float* d_state;         // of the last state; then of the first one
  float *d_query, *d_key, *d_value, *d_write, *d_log_decay;
};

// A causal convolution of each channel of one row (memory/ops/short_convolution.h).
struct ShortConvolution {
  std::int64_t steps, channels, width;
  const float* x;       // [steps + width - 1, channels]: what was before comes first
  const float* weight;  // [width, channels], the present step's last
  const float* bias;    // [channels]; null: none
};

// Scores of some queries with some keys on their way to a softmax over the keys from `window - 1` steps back on, and to
// its dropout; query r stands at step first_query + r, key j at first_key + j.
struct AttentionRows {
  std::int64_t queries, keys;  // the scores are [queries, keys]
  std::int64_t first_query, first_key, window;
  float scale;               // of the scores
  DropoutKey dropout;        // first_key is a multiple of 8 where it drops
  std::int64_t dropout_row;  // of query 0
  std::int64_t channels;     // of the dropout's rows
};

struct Kernels {
  // `scratch`: product_scratch() floats.
  void (*product)(const Product& p, float* scratch);
  // sum[n] += the column's sum.
  void (*add_column_sums)(const float* x, std::int64_t rows, std::int64_t columns, float* sum);
  // bits: of each row one for every element, (channels + 7) / 8 bytes. y = (residual, if there is one) + x dropped.
  void (*dropout)(const DropoutKey& key, std::int64_t first_row, std::int64_t rows, std::int64_t channels,
                  const float* x, const float* residual, float* y, std::uint8_t* bits);
  void (*dropout_backward)(float scale, std::int64_t rows, std::int64_t channels, const float* d_y,
                           const std::uint8_t* bits, float* d_x);
  // y = factor x weight / sqrt(mean x^2 + epsilon); `inverse` gets the inverse root of each row. No weight: null.
  void (*rms_norm)(std::int64_t rows, std::int64_t channels, const float* x, const float* weight, float epsilon,
                   float factor, float* y, float* inverse);
  // d_weight is added to.
  void (*rms_norm_backward)(std::int64_t rows, std::int64_t channels, const float* x, const float* weight, float factor,
                            const float* inverse, const float* d_y, float* d_x, float* d_weight);
  // y = silu(gate) up;  in place of gate and up their gradients, and y again.
  void (*swiglu)(std::int64_t count, const float* gate, const float* up, float* y);
  void (*swiglu_backward)(std::int64_t count, const float* d_y, float* gate, float* up, float* y);
  // The softmax with its dropout in place of the scores; log_sum [queries]: of the exponentials.
  void (*attention_weights)(const AttentionRows& rows, float* scores, float* log_sum);
  // The same again from log_sum, and in place of the weights' gradient (that of dropped ones) the scores' one;
  // dot [queries]: of output and its gradient.
  void (*attention_weights_backward)(const AttentionRows& rows, const float* log_sum, const float* dot, float* scores,
                                     float* d_weights);
  void (*short_convolution)(const ShortConvolution& convolution, float* y);
  // d_x as x; of the row alone: d_weight as weight, d_bias [channels], null where there is none.
  void (*short_convolution_backward)(const ShortConvolution& convolution, const float* d_y, float* d_x, float* d_weight,
                                     float* d_bias);
  void (*fast_weights)(const FastWeights& rule, float* scratch);  // fast_weights_scratch() floats
  void (*fast_weights_backward)(const FastWeightsBackward& rule, float* scratch);
};

inline std::int64_t product_scratch(std::int64_t columns) { return 256 * (columns + 64); }
// Whether the backward pass of fast weights makes the states of a block anew, from first_state on.
inline bool makes_states_again(bool delta, std::int64_t decay_width) { return !delta || decay_width > 0; }
inline std::int64_t fast_weights_scratch(std::int64_t key_width, std::int64_t value_width, bool states_again) {
  const std::int64_t keys = (key_width + 15) / 16 * 16, values = (value_width + 15) / 16 * 16;
  return (4 + (states_again ? kFastWeightsSaved : 0)) * keys * values + 9 * (keys + values);
}

// Those of the fastest instruction set that this processor has.
const Kernels& kernels();
// Of all that it has, the fastest first; null after the last.
const Kernels* usable_kernels(int index);

}  // namespace engram::cpu
