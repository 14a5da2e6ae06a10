#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/block/gradient_sums.h"
#include "kernels/block/short_convolution/short_convolution.h"
#include "kernels/common/launch.cuh"

namespace engram {
namespace {

constexpr int kThreads = 128;
constexpr int kWidth = kShortConvolutionWidth, kState = kWidth - 1;
constexpr int kStretch = 32;  // steps of a thread
constexpr int kAhead = 8;     // of which so many are asked for together
static_assert(kStretch % kAhead == 0 && kAhead >= kState);

int stretches_of(const ShortConvolutionInput& in) { return (in.time + kStretch - 1) / kStretch; }

// A channel of a row, and a stretch of its steps; neighbouring threads have neighbouring channels.
template <typename T>
struct Place {
  int channel, row, first, end, time, channels;
  const T* x;          // of step 0
  const float* state;  // of step -kState

  __device__ Place(const ShortConvolutionInput& in, int stretches, int i)
      : channel(i % in.channels),
        row(i / in.channels / stretches),
        first(i / in.channels % stretches * kStretch),
        end(min(first + kStretch, in.time)),
        time(in.time),
        channels(in.channels),
        x(static_cast<const T*>(in.x_BTC) + at_step(0)),
        state(in.state_BSC + at_state(0)) {}

  __device__ bool is_first() const { return first == 0; }
  // Where step t of x, y and their gradients stands, and number s of a state.
  __device__ std::int64_t at_step(int t) const { return (std::int64_t{row} * time + t) * channels + channel; }
  __device__ std::int64_t at_state(int s) const { return (std::int64_t{row} * kState + s) * channels + channel; }
  // The input of step t, -kState <= t; 0 from the last one's successor on.
  __device__ float input(int t) const {
    if (t < 0) return state[(t + kState) * channels];
    return t < time ? static_cast<float>(x[std::int64_t{t} * channels]) : 0.0f;
  }
};

struct Weights {
  float of[kWidth];
  __device__ Weights(const ShortConvolutionInput& in, int channel) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) of[j] = in.weight_CW[channel * kWidth + j];
  }
};

// The last kState of `window` become its first.
template <int kCount>
__device__ void carry(float (&window)[kCount]) {
#pragma unroll
  for (int j = 0; j < kState; ++j) window[j] = window[kCount - kState + j];
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(ShortConvolutionInput in, int stretches, int count, float* __restrict__ y_BTC, float* last_BSC) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= count) return;
  const Place<T> place(in, stretches, i);
  const Weights weight(in, place.channel);
  const float bias = in.bias_C ? in.bias_C[place.channel] : 0.0f;
  if (place.is_first()) {
    const int length = static_cast<int>(in.length_B[place.row]);
#pragma unroll
    for (int s = 0; s < kState; ++s) last_BSC[place.at_state(s)] = place.input(length - kState + s);
  }
  float* const y = y_BTC + place.at_step(0);
  float seen[kState + kAhead];  // the inputs of kAhead steps and of what these see before them
#pragma unroll
  for (int j = 0; j < kState; ++j) seen[j] = place.input(place.first - kState + j);
  for (int begin = place.first; begin < place.end; begin += kAhead) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) seen[kState + k] = place.input(begin + k);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      float sum = bias;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum += weight.of[j] * seen[k + j];
      if (begin + k < place.end) y[std::int64_t{begin + k} * place.channels] = sum;
    }
    carry(seen);
  }
}

// of_weight [stretches of all rows, C, W] and of_bias [stretches of all rows, C]: sums over a stretch.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(ShortConvolutionInput in, int stretches, int count, const float* __restrict__ d_y_BTC,
                    const float* __restrict__ d_last_BSC, T* __restrict__ d_x_BTC, float* __restrict__ d_state_BSC,
                    float4* __restrict__ of_weight, float* __restrict__ of_bias) {
  static_assert(kWidth == 4);
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= count) return;
  const Place<T> place(in, stretches, i);
  const Weights weight(in, place.channel);
  const float* const d_y = d_y_BTC + place.at_step(0);
  T* const d_x = d_x_BTC + place.at_step(0);
  const auto gradient = [&](int t) { return t < place.time ? d_y[std::int64_t{t} * place.channels] : 0.0f; };
  // What the last state adds to the gradient of step t's input.
  const int kept = d_last_BSC ? static_cast<int>(in.length_B[place.row]) - kState : place.time;
  const auto of_last = [&](int t) {
    return t >= kept && t < kept + kState ? d_last_BSC[place.at_state(t - kept)] : 0.0f;
  };

  float seen[kState + kAhead], given[kAhead + kState];  // inputs as in the forward pass; d_y of the steps that see them
#pragma unroll
  for (int j = 0; j < kState; ++j) {
    seen[j] = place.input(place.first - kState + j);
    given[j] = gradient(place.first + j);
  }
  if (place.is_first()) {
#pragma unroll
    for (int s = 0; s < kState; ++s) {
      float sum = of_last(s - kState);
#pragma unroll
      for (int j = 0; j <= s; ++j) sum += weight.of[j] * given[s - j];
      d_state_BSC[place.at_state(s)] = sum;
    }
  }
  float d_weight[kWidth] = {}, d_bias = 0;
  for (int begin = place.first; begin < place.end; begin += kAhead) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      seen[kState + k] = place.input(begin + k);
      given[kState + k] = gradient(begin + kState + k);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (begin + k >= place.end) continue;
      float sum = of_last(begin + k);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        sum += weight.of[j] * given[k + kState - j];
        d_weight[j] += given[k] * seen[k + j];
      }
      d_bias += given[k];
      d_x[std::int64_t{begin + k} * place.channels] = static_cast<T>(sum);
    }
    carry(seen);
    carry(given);
  }
  of_weight[i] = {d_weight[0], d_weight[1], d_weight[2], d_weight[3]};
  if (of_bias) of_bias[i] = d_bias;
}

// Threads of a launch, one for each stretch of a channel of a row.
int threads_of(const ShortConvolutionInput& in) {
  const bool dimensions =
      in.batch >= 1 && in.time >= 1 && in.channels >= 1 && in.time <= std::numeric_limits<int>::max() - kStretch;
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() - kThreads;
  if (!dimensions || std::int64_t{in.batch} * stretches_of(in) > kMost / in.channels)
    throw std::runtime_error("short convolution: " + std::to_string(in.batch) + " rows of " + std::to_string(in.time) +
                             " steps of " + std::to_string(in.channels) + " channels");
  return in.batch * stretches_of(in) * in.channels;
}

unsigned blocks_of(int threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

}  // namespace

void short_convolution_forward(const ShortConvolutionInput& in, float* y_BTC, float* last_BSC, cudaStream_t stream) {
  const int threads = threads_of(in);
  dispatch_dtype(in.dtype, [&](auto element) {
    launch(forward_kernel<decltype(element)>, blocks_of(threads), kThreads, 0, stream, "short_convolution_forward", in,
           stretches_of(in), threads, y_BTC, last_BSC);
  });
}

std::size_t short_convolution_backward_scratch_bytes(const ShortConvolutionInput& in) {
  return (kWidth + 1) * sizeof(float) * threads_of(in);
}

void short_convolution_backward(const ShortConvolutionInput& in, const float* d_y_BTC, const float* d_last_BSC,
                                const ShortConvolutionGradient& gradient, void* scratch, cudaStream_t stream) {
  const int threads = threads_of(in);
  auto* const of_weight = static_cast<float4*>(scratch);
  float* const of_bias = gradient.bias_C ? reinterpret_cast<float*>(of_weight + threads) : nullptr;
  dispatch_dtype(in.dtype, [&](auto element) {
    using T = decltype(element);
    launch(backward_kernel<T>, blocks_of(threads), kThreads, 0, stream, "short_convolution_backward", in,
           stretches_of(in), threads, d_y_BTC, d_last_BSC, static_cast<T*>(gradient.x_BTC), gradient.state_BSC,
           of_weight, of_bias);
  });
  const int parts = in.batch * stretches_of(in);
  std::vector<GradientSum> sums{vector_sum(reinterpret_cast<float*>(of_weight), parts, in.channels * kWidth,
                                           in.channels * kWidth, gradient.weight_CW)};
  if (of_bias) sums.push_back(vector_sum(of_bias, parts, in.channels, in.channels, gradient.bias_C));
  add_up(sums, stream);
}

}  // namespace engram
