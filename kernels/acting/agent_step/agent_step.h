// One step of an agent in N environments as one kernel: observation -> encoder -> backbone (memory in place) -> actor
// -> action. The backbone is HQLT (synchronous; Irie et al. 2025) or, without a window, DeltaNet (Yang et al. 2024).
//
// Formulas, of one row (agents/act/network.h and, in memory/backbones, hybrids/hqlt.cpp and fast_weights/fast_weights.cpp
// say the same for LibTorch):
//   encoder   image: two 2 x 2 convolutions with 8 and 16 channels, relu after each, linear; vector: linear, relu.
//             uint8 is divided by 255.
//   block     x <- x + Wo rms_K(mix(o_FW, o_KV)),  n = rms(x);   x <- x + Wd (silu(Wg n) * Wu n),  n = rms(x)
//   mixer     q, k, v, b, g = W n;  v <- silu(v);  beta = factor sigmoid(b);  q', k' = silu(q), silu(k), l2-normalised
//             dropout of q, k and silu(v); without a window of silu(q), silu(k) and silu(v)
//             fast weights S <- S + beta k' (v - k'^T S)^T, o_FW = q'^T S / sqrt(K)
//             window o_KV = softmax(R q . R k / sqrt(K)) v over the last `window` steps, R: rotary positions
//             mix: g = sigmoid(g), vector g o_FW + (1 - g) o_KV; scalar g_0 o_FW + g_1 o_KV; sum. DeltaNet: o_FW
//             with branch_norm of o_FW / rms_1(o_FW) and o_KV / rms_1(o_KV), rms_1(o) = sqrt(mean o^2 + 1e-6) per head
//   actor     linear, relu, linear, relu, linear, softmax; the action by base/sample_action.h
// rms(x) = x / sqrt(mean x^2 + 1e-6) * weight; l2: x / sqrt(|x|^2 + 1e-6).
//
// N rows, D width, H heads, K = D / H, S window, A actions, L layers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/dropout.h"
#include "base/rng.h"
#include "base/support.h"
#include "kernels/common/cuda_support.h"

namespace engram {

enum class AgentStepMixing { kVector, kScalar, kSum };

struct AgentStepShape {
  // An image of uint8, channels x height x width, or a vector of `channels` elements (height and width 0).
  int channels = 0, height = 0, columns = 0;
  bool observation_is_uint8 = true;
  int width = 0;
  int inner_width = 0;  // of SwiGLU
  int layers = 0;
  int heads = 0;
  int window = 0;  // 0: no window, and none of mixing, branch_norm and rope
  AgentStepMixing mixing = AgentStepMixing::kVector;
  bool branch_norm = false;
  bool rope = true;
  float beta_factor = 2;
  int hidden_width = 0;  // of the actor's two hidden layers
  int actions = 0;

  bool image() const { return height > 0; }
  int head_width() const { return width / heads; }
  int gate_rows() const {
    if (window == 0 || mixing == AgentStepMixing::kSum) return 0;
    return mixing == AgentStepMixing::kVector ? width : 2 * heads;
  }
};

// Float weights, contiguous, [outputs, inputs] as torch::nn::Linear and Conv2d keep them.
struct AgentStepWeights {
  const float *convolution1 = nullptr, *convolution1_bias = nullptr;  // [8, channels, 2, 2]; of an image
  const float *convolution2 = nullptr, *convolution2_bias = nullptr;  // [16, 8, 2, 2]; of an image
  const float *observation = nullptr, *observation_bias = nullptr;
  struct Layer {
    const float* mixer_norm;
    const float *query, *key, *value, *beta;
    const float* mixer_gate;  // [gate_rows, D]; null without
    const float* head_norm;
    const float* output;
    const float* mlp_norm;
    const float *gate, *up, *down;
  };
  std::vector<Layer> layers;
  const float* norm = nullptr;
  const float *hidden1 = nullptr, *hidden1_bias = nullptr;
  const float *hidden2 = nullptr, *hidden2_bias = nullptr;
  const float *output = nullptr, *output_bias = nullptr;
};

constexpr int kAgentStepMaxLayers = 12, kAgentStepMaxWidth = 256, kAgentStepMaxHeadWidth = 128;
constexpr int kAgentStepMaxActions = 32;

// What one call reads and writes, on the device. Rows are independent of each other.
struct AgentStepRows {
  int rows = 0;
  const void* observation_N = nullptr;  // uint8 or float
  std::uint8_t* fresh_N = nullptr;  // not 0: the row's state counts as zero, whatever it holds; the call sets it to 0
  std::int64_t* position_N = nullptr;  // steps taken, counted up; null without a window
  struct Layer {
    float* fast_weights_NHKV;  // this and the next two: contiguous, aligned to 16 bytes
    float* key_ring_NSHK;      // the step at position p in slot p mod S; null without a window
    float* value_ring_NSHK;
  };
  Layer layers[kAgentStepMaxLayers] = {};

  // What is dropped; row n of [N, D], row n * H + h of [N, H, K]. By default nothing is.
  struct LayerDropout {
    DropoutKey query, key, value, mixer, mlp;
  };
  DropoutKey encoder_dropout, input_dropout;
  LayerDropout dropout[kAgentStepMaxLayers] = {};
  std::int64_t* dropout_tick = nullptr;  // the tick of all these keys, counted up when they are drawn; null: it stays

  bool greedy = false;
  Rng* stream_N = nullptr;            // advanced by one draw where the action is sampled; not read by the greedy choice
  std::int32_t* action_N = nullptr;   // 0 .. A - 1
  float* probabilities_NA = nullptr;  // null: not wanted
  int* diverged = nullptr;            // set to 1 if a probability is not finite; never set to 0
};

struct AgentStepPacking;
struct StepDevice;

// Holds the weights as the kernel reads them: operands of matrix products as bfloat16 (Dtype::kBfloat16), or as three
// bfloat16 planes, whose products are exact in float (Dtype::kFloat32). Everything else is computed in float.
class AgentStepper {
 public:
  // Whether a shape can be run on the current device: any width that its heads divide, within the limits above and
  // what shared memory holds; rotary positions want heads of even width.
  static Support supports(const AgentStepShape& shape, Dtype operands);

  // `weights` must outlive this, which does not pack them yet. Throws std::runtime_error for an unsupported shape.
  AgentStepper(const AgentStepShape& shape, Dtype operands, const AgentStepWeights& weights);
  ~AgentStepper();
  AgentStepper(const AgentStepper&) = delete;
  AgentStepper& operator=(const AgentStepper&) = delete;

  // Takes over the current weights; to be called before the first step and whenever they have changed.
  void pack_weights(cudaStream_t stream);

  // One step of all rows. Same input, same bits, whatever the number of rows. One step at a time: calls on different
  // streams must be ordered by the caller.
  void step(const AgentStepRows& rows, cudaStream_t stream);

 private:
  AgentStepShape shape_;
  Dtype operands_;
  std::unique_ptr<StepDevice> device_;
  DeviceBuffer<AgentStepPacking> packing_;
  DeviceBuffer<__nv_bfloat16> tiles_;
  DeviceBuffer<float> vectors_;
  DeviceBuffer<double> rope_frequencies_;
  DeviceBuffer<unsigned> finished_;
};

}  // namespace engram
