#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/fast_weights/passes/passes.h"
#include "kernels/fast_weights/passes/warp_lane.cuh"

namespace engram::fast_weight_passes {
namespace {

// With the convolution a block has one part and one head, blockIdx.y, of many strips: they share its taps.
struct PartAndHead {
  int part, head;
  __device__ explicit PartAndHead(const FeatureShape& shape)
      : part(static_cast<int>(blockIdx.y) / shape.heads), head(static_cast<int>(blockIdx.y) % shape.heads) {}
};

// The convolution's taps of a head, from [3 H C, 4] and [3 H C] to shared memory as [5, width].
template <int kWidth>
struct SharedTaps {
  alignas(16) float tap[kConvolutionNumbers][kWidth];  // read by vectors

  __device__ void load(const Features& input, const PartAndHead& at) {
    const int channels = input.part[0].channels;
    const int first = (at.part * input.shape.heads + at.head) * channels;
    for (int i = threadIdx.x; i < kTaps * kWidth; i += kThreads)
      tap[i % kTaps][i / kTaps] = i / kTaps < channels ? input.convolution[first * kTaps + i] : 0.0f;
    for (int c = threadIdx.x; c < kWidth; c += kThreads)
      tap[kBias][c] = input.bias != nullptr && c < channels ? input.bias[first + c] : 0.0f;
    __syncthreads();
  }
  __device__ auto of(int first) const {
    return [this, first](int j) { return load_vector(tap[j] + first); };
  }
};

// With FAVOR+, of `favor_features`, its directions come to shared memory, behind the exchange; 0: without.
template <class Lane>
__device__ Lane exchanging_lane(const Features& input, int favor_features, float* shared) {
  if (!Lane::kExchanges || favor_features == 0) return Lane(shared);
  float* const directions = shared + Lane::kHeads * Lane::kExchanged;
  const int count = favor_features / 2, channels = input.part[0].channels, width = kThreads / Lane::kHeads * kVector;
  for (int i = threadIdx.x; i < channels * width; i += kThreads) {
    const int c = i / width, f = i % width;
    float x = 0;
    if (f < favor_features)
      x = f < count ? input.directions[f * channels + c] : -input.directions[(f - count) * channels + c];
    directions[Lane::direction_at(c, f)] = x;
  }
  __syncthreads();
  return Lane(shared, directions);
}
__device__ int favor_features_of(const FeaturePart& part) { return part.map == Map::kFavor ? part.features : 0; }

template <class Lane>
__device__ Lane lane_of_rows(const Features& input, float* shared) {
  int favor_features = 0;
#pragma unroll
  for (const FeaturePart& part : input.part) favor_features = max(favor_features, favor_features_of(part));
  return exchanging_lane<Lane>(input, favor_features, shared);
}
template <class Lane>
__device__ RowHead<Lane> row_head_of(const Features& input, const Lane& lane) {
  return {input.shape, lane, blockIdx.x * Lane::kHeads + threadIdx.x / (kThreads / Lane::kHeads)};
}

template <class T, int kLanes, bool kExchanges>
__global__ void __launch_bounds__(kThreads, 4)
    rows_forward_kernel(const __grid_constant__ Features input, T* __restrict__ features) {
  using Lane = WarpLane<T, kLanes, kExchanges>;
  extern __shared__ float4 shared[];
  const Lane lane = lane_of_rows<Lane>(input, &shared[0].x);
  row_forward(input.part, lane, row_head_of(input, lane), static_cast<T*>(input.projected), features);
}

template <class T, int kLanes, bool kExchanges>
__global__ void __launch_bounds__(kThreads, kExchanges || sizeof(T) == 4 ? 2 : 3)
    rows_backward_kernel(const __grid_constant__ Features input, const T* __restrict__ d_features,
                         const T* __restrict__ window_value, T* __restrict__ d_projected) {
  using Lane = WarpLane<T, kLanes, kExchanges>;
  extern __shared__ float4 shared[];
  const Lane lane = lane_of_rows<Lane>(input, &shared[0].x);
  row_backward(input.part, lane, row_head_of(input, lane), static_cast<const T*>(input.projected), d_features,
               window_value, d_projected);
}

template <class T, int kLanes, bool kExchanges, bool kBeside>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 2 ? 4 : 3)
    strips_forward_kernel(const __grid_constant__ Features input, T* __restrict__ features) {
  using Lane = WarpLane<T, kLanes, kExchanges>;
  extern __shared__ float4 shared[];
  __shared__ SharedTaps<kLanes * kVector> taps;
  const PartAndHead at(input.shape);
  taps.load(input, at);
  const FeaturePart& part = input.part[at.part];
  const Lane lane = exchanging_lane<Lane>(input, favor_features_of(part), &shared[0].x);
  const int strip = static_cast<int>(blockIdx.x * Lane::kHeads + threadIdx.x / kLanes);
  walk_forward<kBeside>(part, lane, Strip<Lane>(input.shape, lane, at.part, at.head, strip), taps.of(lane.first()),
                        static_cast<const T*>(input.projected), features,
                        part_of_window_rows(input.shape, static_cast<T*>(input.window_rows), at.part));
}

template <class T, int kLanes, bool kExchanges, bool kBeside>
__global__ void __launch_bounds__(kThreads, 2)
    strips_backward_kernel(const __grid_constant__ Features input, const T* __restrict__ d_features,
                           const T* __restrict__ window_value, const T* __restrict__ d_window_rows,
                           T* __restrict__ d_projected, float* __restrict__ sums) {
  using Lane = WarpLane<T, kLanes, kExchanges>;
  constexpr int kWidth = kLanes * kVector, kNumbers = kConvolutionNumbers;
  extern __shared__ float4 shared[];
  __shared__ SharedTaps<kWidth> taps;
  const PartAndHead at(input.shape);
  taps.load(input, at);
  const FeaturePart& part = input.part[at.part];
  const Lane lane = exchanging_lane<Lane>(input, favor_features_of(part), &shared[0].x);
  const int slot = threadIdx.x / kLanes, strip = static_cast<int>(blockIdx.x * Lane::kHeads) + slot;
  RowVector d_taps[kNumbers] = {};
  walk_backward<kBeside>(part, lane, Strip<Lane>(input.shape, lane, at.part, at.head, strip), taps.of(lane.first()),
                         static_cast<const T*>(input.projected), d_features,
                         part.drops_first ? part_of_window_rows(input.shape, d_window_rows, at.part)
                                          : part_of_window_values(input.shape, window_value),
                         d_projected, d_taps);
  // The block's sums, in the order of its strips, as rows of a channel's taps and bias.
  float* const all = &shared[0].x;  // [strip, number, channel]; what was exchanged there has been read
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kNumbers; ++j) store_vector(all + (slot * kNumbers + j) * kWidth + lane.first(), d_taps[j]);
  __syncthreads();
  const int channels = part.channels, parameters = kParts * input.shape.heads * channels * kNumbers;
  float* const to = sums + std::int64_t{blockIdx.x} * parameters + blockIdx.y * channels * kNumbers;
  for (int i = threadIdx.x; i < channels * kNumbers; i += kThreads) {
    float total = 0;
    for (int s = 0; s < Lane::kHeads; ++s) total += all[(s * kNumbers + i % kNumbers) * kWidth + i / kNumbers];
    to[i] = total;
  }
}

void check(const Features& input) {
  const FeatureShape& s = input.shape;
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error("features of fast weights: " + std::to_string(s.batch) + " x " + std::to_string(s.steps) +
                             " rows of " + std::to_string(s.heads) + " heads of " + std::to_string(s.padded) +
                             " elements to " + std::to_string(s.features_padded) + ": " + why);
  };
  if (s.batch < 1 || s.steps < 1 || s.heads < 1) refuse("all must be positive");
  if (heads_of_rows(s) > std::numeric_limits<int>::max() ||
      kParts * s.heads > std::numeric_limits<std::uint16_t>::max())
    refuse("more than a launch takes");
  if (s.padded % kVector != 0 || s.padded > kMaxPadded || s.features_padded % kVector != 0 ||
      s.features_padded > kMaxPadded || s.projected_stride % kVector != 0)
    refuse("elements and the " + std::to_string(s.projected_stride) +
           " between rows must be multiples of 8, elements at most " + std::to_string(kMaxPadded));
  for (const FeaturePart& part : input.part) {
    const int features = part.map == Map::kDpfp    ? 2 * part.channels * part.nu
                         : part.map == Map::kFavor ? part.features / 2 * 2
                                                   : part.channels;
    if (part.features < 1 || part.channels < 1 || part.channels > s.padded || part.channels != input.part[0].channels ||
        part.features != features || part.features + part.ends_with_one > s.features_padded)
      refuse(std::to_string(part.channels) + " channels and " + std::to_string(part.features) + " features");
    if (part.map == Map::kDpfp && (part.nu < 1 || part.nu >= 2 * part.channels))
      refuse("nu " + std::to_string(part.nu) + " of " + std::to_string(part.channels) + " channels");
    if (part.map == Map::kFavor && input.directions == nullptr) refuse("no directions");
  }
  const bool beside = input.convolution != nullptr && input.part[0].drops_first;
  if (input.convolution != nullptr && (input.part[1].drops_first != beside || input.part[2].drops_first))
    refuse("dropout before the maps of some parts behind a convolution");
  if ((input.window_rows != nullptr) != beside) refuse("a window's rows go with dropout behind a convolution");
  if (input.bias != nullptr && input.convolution == nullptr) refuse("a bias without a convolution");
}

int lanes_width(const FeatureShape& shape) { return std::max(shape.padded, shape.features_padded); }

// Of kernels with and without the convolution.
template <int kLanes>
dim3 blocks_of_strips(const FeatureShape& shape) {
  const int strips = kThreads / kLanes;
  return {static_cast<unsigned>((strips_of_sequence(shape) * std::int64_t{shape.batch} + strips - 1) / strips),
          static_cast<unsigned>(kParts * shape.heads)};
}
template <int kLanes>
unsigned blocks_of_rows(const FeatureShape& shape) {
  const int heads = kThreads / kLanes;
  return static_cast<unsigned>((heads_of_rows(shape) + heads - 1) / heads);
}

// Floats of shared memory: of the exchange and the directions, whose place a convolution's sums take afterwards.
template <class T, int kLanes>
std::size_t shared_floats(const Features& input, bool sums) {
  using Lane = WarpLane<T, kLanes, true>;
  std::size_t exchange = 0;
  for (const FeaturePart& part : input.part)
    if (exchanges(part.map))
      exchange = std::max<std::size_t>(
          exchange, Lane::kHeads * Lane::kExchanged +
                        (part.map == Map::kFavor ? std::size_t{1} * part.channels * kLanes * kVector : 0));
  return std::max<std::size_t>(exchange, sums ? kThreads * kVector * kConvolutionNumbers : 0);
}

// Calls launch.operator()<T, kLanes, kExchanges>().
template <typename Launch>
void dispatch(const Features& input, Launch launch) {
  check(input);
  dispatch_lanes(input.dtype, lanes_width(input.shape), [&]<typename T, int kLanes>() {
    if (std::ranges::any_of(input.part, [](const FeaturePart& part) { return exchanges(part.map); }))
      launch.template operator()<T, kLanes, true>();
    else
      launch.template operator()<T, kLanes, false>();
  });
}

int channels_of(const Features& input) { return kParts * input.shape.heads * input.part[0].channels; }
int parameters_of(const Features& input) { return channels_of(input) * kConvolutionNumbers; }

// Of the `count` numbers from `first` on of every channel.
GradientSum sum_of(const Features& input, const void* scratch, int first, int count, float* gradient) {
  if (input.convolution == nullptr) throw std::runtime_error("features of fast weights: no convolution to add up");
  GradientSum sum{};
  const int channels = channels_of(input);
  dispatch(input, [&]<typename T, int kLanes, bool kExchanges>() {
    sum = {.parts = static_cast<const float*>(scratch) + first,
           .count = static_cast<int>(blocks_of_strips<kLanes>(input.shape).x),
           .stride = kConvolutionNumbers,
           .distance = parameters_of(input),
           .rows = {channels, channels, channels},
           .columns = {count, count, count},
           .gradient = gradient};
  });
  return sum;
}

}  // namespace

void features_forward(const Features& input, void* features, cudaStream_t stream) {
  dispatch(input, [&]<typename T, int kLanes, bool kExchanges>() {
    const bool convolves = input.convolution != nullptr;
    launch(input.window_rows != nullptr ? strips_forward_kernel<T, kLanes, kExchanges, true>
           : convolves                  ? strips_forward_kernel<T, kLanes, kExchanges, false>
                                        : rows_forward_kernel<T, kLanes, kExchanges>,
           convolves ? blocks_of_strips<kLanes>(input.shape) : blocks_of_rows<kLanes>(input.shape), kThreads,
           shared_floats<T, kLanes>(input, /*sums=*/false) * sizeof(float), stream, "features of fast weights", input,
           static_cast<T*>(features));
  });
}

std::size_t features_backward_scratch_bytes(const Features& input) {
  std::size_t bytes = 0;
  dispatch(input, [&]<typename T, int kLanes, bool kExchanges>() {
    if (input.convolution != nullptr)
      bytes = sizeof(float) * blocks_of_strips<kLanes>(input.shape).x * parameters_of(input);
  });
  return bytes;
}

void features_backward(const Features& input, const FeaturesGradient& gradient, void* d_projected, void* scratch,
                       cudaStream_t stream) {
  const char* const name = "gradients of features of fast weights";
  const bool convolves = input.convolution != nullptr, beside = input.window_rows != nullptr;
  if ((gradient.window_rows != nullptr) != beside || (convolves && !beside && gradient.window_value != nullptr))
    throw std::runtime_error(std::string(name) + ": behind a convolution a window's go with the rows that it reads");
  dispatch(input, [&]<typename T, int kLanes, bool kExchanges>() {
    const std::size_t bytes = shared_floats<T, kLanes>(input, convolves) * sizeof(float);
    const auto* const d_features = static_cast<const T*>(gradient.features);
    const auto* const window_value = static_cast<const T*>(gradient.window_value);
    if (convolves)
      launch(beside ? strips_backward_kernel<T, kLanes, kExchanges, true>
                    : strips_backward_kernel<T, kLanes, kExchanges, false>,
             blocks_of_strips<kLanes>(input.shape), kThreads, bytes, stream, name, input, d_features, window_value,
             static_cast<const T*>(gradient.window_rows), static_cast<T*>(d_projected), static_cast<float*>(scratch));
    else
      launch(rows_backward_kernel<T, kLanes, kExchanges>, blocks_of_rows<kLanes>(input.shape), kThreads, bytes, stream,
             name, input, d_features, window_value, static_cast<T*>(d_projected));
  });
}

GradientSum convolution_sum(const Features& input, const void* scratch, float* d_convolution) {
  return sum_of(input, scratch, 0, kTaps, d_convolution);
}

GradientSum convolution_bias_sum(const Features& input, const void* scratch, float* d_bias) {
  return sum_of(input, scratch, kBias, 1, d_bias);
}

}  // namespace engram::fast_weight_passes
