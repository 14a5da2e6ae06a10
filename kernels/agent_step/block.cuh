// StepBlock: what one thread block does for the environments that it owns - their memory and everything that is done
// row by row. step.cu puts the products between its parts.
#pragma once

#include "base/sample_action.h"
#include "kernels/agent_step/product.cuh"
#include "kernels/agent_step/sizes.cuh"

namespace engram {

// A few units in the last place, as all of CUDA's fast functions that are used here.
__device__ inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ inline float silu(float x) { return x * sigmoid(x); }

// Not max(x, 0), which would hide a NaN.
__device__ inline float relu(float x) { return x < 0.0f ? 0.0f : x; }

// Not inlined: what a step executes only once has to be fetched first, and while nothing is dropped it is not executed.
__device__ __noinline__ float draw_factor(const DropoutPlace& place, std::int64_t group, int index) {
  float factor[kDropoutGroup];
  place.draw(group, factor);
  float own = factor[0];
#pragma unroll
  for (int i = 1; i < kDropoutGroup; ++i) own = index == i ? factor[i] : own;
  return own;
}

// The factor of element `channel` of row `row` of a tensor with `channels` channels.
__device__ inline float dropout_factor(const DropoutPlace& place, std::int64_t row, int channels, int channel) {
  if (!place.drops()) return 1;
  return draw_factor(place, (row * dropout_row(channels) + channel) / kDropoutGroup, channel % kDropoutGroup);
}

template <typename T, int kCluster, class Sizes>
class StepBlock : public Dimensions<Sizes> {
 public:
  using D = Dimensions<Sizes>;

  // `rank`: of the block in its cluster; `cluster`: the cluster's index.
  __device__ StepBlock(const StepArguments& arguments, unsigned char* memory, int rank, int cluster)
      : D(arguments), arguments_(arguments), memory_(memory), first_column_(rank * arguments.shared.own) {
    const int first_row = cluster * arguments.rows_per_cluster;
    columns_ = min(arguments.rows_per_cluster, arguments.rows.rows - first_row);
    own_rows_ = max(0, min(arguments.shared.own, columns_ - first_column_));
    first_row_ = first_row + first_column_;
  }

  __device__ int columns() const { return columns_; }  // environments of the cluster
  __device__ int own_rows() const { return own_rows_; }
  __device__ std::int64_t row(int own) const { return first_row_ + own; }
  template <typename X>
  __device__ X* shared(int offset) const {
    return reinterpret_cast<X*>(memory_ + offset);
  }

  // Reads where the rows stand in time and starts the copies of the first memories.
  __device__ void begin();
  // Observation -> residual stream, before dropout. Ends with a barrier.
  template <typename Multiply>
  __device__ void encode(const Multiply& multiply_local);
  // After the encoder: x <- dropout(dropout(x)), and rms(x) as operand for the whole cluster.
  __device__ void start_and_normalise(const float* norm_weight);
  // x <- x + dropout(sum of the partial results of kSources blocks), and rms(x).
  template <int kSources>
  __device__ void add_and_normalise(const DropoutPlace& place, const float* norm_weight);
  // Projections -> what the two memories read: their queries, keys, values and gates.
  __device__ void prepare(int layer);
  // One step of a row's memories: their outputs, mixed and normalised, as operand.
  __device__ void remember(int layer, int own);
  // Logits -> actions.
  __device__ void choose();

 private:
  __device__ unsigned char* stage(int item) const {
    return memory_ + arguments_.shared.stage + item % arguments_.shared.stages * arguments_.shared.stage_bytes;
  }
  __device__ void start_copy(int item);
  __device__ void normalise(int own, float2 (&x)[2], const float* norm_weight);
  __device__ int operand_stride() const { return operand_stride_of(D::width_tiles()); }
  __device__ int projection_stride() const { return projection_stride_of(D::projection_tiles()); }
  __device__ int padded_width() const { return D::width_tiles() * kStepTile; }

  const StepArguments& arguments_;
  unsigned char* memory_;
  int first_column_, columns_, own_rows_, first_row_;
};

template <typename T, int kCluster, class Sizes>
template <typename Multiply>
__device__ void StepBlock<T, kCluster, Sizes>::encode(const Multiply& multiply_local) {
  const AgentStepLayout& layout = arguments_.layout;
  const bool image = D::height() > 0;
  const int stride = operand_stride_of(D::feature_tiles()), padded = D::feature_tiles() * kStepTile;
  const int plane = D::height() * D::columns(), elements = D::channels() * max(1, plane);
  T* features = shared<T>(arguments_.shared.partial);
  const auto observed = [&](int i) {
    const std::int64_t index = row(0) * elements + i;
    return arguments_.shape.observation_is_uint8
               ? static_cast<float>(static_cast<const std::uint8_t*>(arguments_.rows.observation_N)[index]) / 255.0f
               : static_cast<const float*>(arguments_.rows.observation_N)[index];
  };
  if (!image) {
    for (int i = threadIdx.x; i < own_rows_ * padded; i += kStepThreads) {
      const int own = i / padded, feature = i % padded;
      features[own * stride + feature] = T(feature < elements ? observed(own * elements + feature) : 0.0f);
    }
  } else {
    constexpr int kTogether = 4;  // channels of the second convolution that a thread computes at a time
    const int columns = D::columns(), columns1 = columns - 1, columns2 = columns - 2;
    const int pixels1 = (D::height() - 1) * columns1, pixels2 = (D::height() - 2) * columns2;
    const int count1 = kConvolution1 * 4 * D::channels();
    auto* weight1 = reinterpret_cast<float4*>(features + 16 * stride);  // a channel's four taps
    auto* bias1 = reinterpret_cast<float*>(weight1) + count1;
    auto* weight2 = reinterpret_cast<float4*>(bias1 + kConvolution1);
    auto* bias2 = reinterpret_cast<float*>(weight2 + kConvolution2 * kConvolution1);
    float* image_N = bias2 + kConvolution2;
    float* hidden = image_N + own_rows_ * elements;
    // The four arrays lie behind each other where they come from, too.
    for (int i = threadIdx.x; i < count1 + kConvolution1 + kConvolution2 * (kConvolution1 * 4 + 1); i += kStepThreads)
      reinterpret_cast<float*>(weight1)[i] = __ldg(arguments_.vectors + layout.convolution1 + i);
    for (int i = threadIdx.x; i < own_rows_ * elements; i += kStepThreads) image_N[i] = observed(i);
    for (int i = threadIdx.x; i < own_rows_ * (padded - layout.features); i += kStepThreads)
      features[i / (padded - layout.features) * stride + layout.features + i % (padded - layout.features)] = T(0.0f);
    __syncthreads();
    const auto tap = [](float4 weight, const float* from, int pitch) {
      return weight.x * from[0] + weight.y * from[1] + weight.z * from[pitch] + weight.w * from[pitch + 1];
    };
    for (int i = threadIdx.x; i < own_rows_ * kConvolution1 * pixels1; i += kStepThreads) {
      const int pixel = i % pixels1, channel = i / pixels1 % kConvolution1, own = i / (pixels1 * kConvolution1);
      const float* from = image_N + own * elements + pixel / columns1 * columns + pixel % columns1;
      float sum = bias1[channel];
#pragma unroll 3
      for (int c = 0; c < D::channels(); ++c)
        sum += tap(weight1[channel * D::channels() + c], from + c * plane, columns);
      hidden[i] = relu(sum);
    }
    __syncthreads();
    constexpr int kGroups = kConvolution2 / kTogether;
    for (int i = threadIdx.x; i < own_rows_ * kGroups * pixels2; i += kStepThreads) {
      const int pixel = i % pixels2, channel = i / pixels2 % kGroups * kTogether, own = i / (pixels2 * kGroups);
      const float* from = hidden + own * kConvolution1 * pixels1 + pixel / columns2 * columns1 + pixel % columns2;
      float sum[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) sum[j] = bias2[channel + j];
#pragma unroll 4
      for (int c = 0; c < kConvolution1; ++c)
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
          sum[j] += tap(weight2[(channel + j) * kConvolution1 + c], from + c * pixels1, columns1);
#pragma unroll
      for (int j = 0; j < kTogether; ++j) features[own * stride + (channel + j) * pixels2 + pixel] = T(relu(sum[j]));
    }
  }
  float* residual = shared<float>(arguments_.shared.residual);
  multiply_local(layout.encoder, D::feature_tiles(), features, stride, [&](int output, int own, float x) {
    if (output >= D::width()) return;
    x += __ldg(arguments_.vectors + layout.encoder_bias + output);
    residual[own * padded_width() + output] = image ? x : relu(x);
  });
  __syncthreads();
}

// By one warp: lane's channels are 2 lane and 2 lane + 1, and those 64 behind.
template <typename T, int kCluster, class Sizes>
__device__ void StepBlock<T, kCluster, Sizes>::normalise(int own, float2 (&x)[2], const float* norm_weight) {
  const int padded = padded_width();
  float* residual = shared<float>(arguments_.shared.residual) + own * padded;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int channel = 2 * lane_id() + 64 * i;
    if (channel >= D::width()) x[i] = make_float2(0.0f, 0.0f);
    if (channel < padded) store_pair(residual + channel, x[i].x, x[i].y);
    squares += x[i].x * x[i].x + x[i].y * x[i].y;
  }
  const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(D::width()) + 1e-6f);
  T* normed = shared<T>(arguments_.shared.normed) + (first_column_ + own) * operand_stride();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int channel = 2 * lane_id() + 64 * i;
    if (channel >= padded) continue;
    const bool inside = channel < D::width();
    const float low = inside ? x[i].x * factor * __ldg(norm_weight + channel) : 0.0f;
    const float high = inside ? x[i].y * factor * __ldg(norm_weight + channel + 1) : 0.0f;
#pragma unroll
    for (int rank = 0; rank < kCluster; ++rank) store_pair(peer<kCluster>(normed, rank) + channel, low, high);
  }
}

template <typename T, int kCluster, class Sizes>
__device__ void StepBlock<T, kCluster, Sizes>::start_and_normalise(const float* norm_weight) {
  const int padded = padded_width();
  for (int own = warp_id(); own < own_rows_; own += kStepWarps) {
    const float* residual = shared<float>(arguments_.shared.residual) + own * padded;
    float2 x[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int channel = 2 * lane_id() + 64 * i;
      if (channel >= D::width()) continue;
      x[i] = load_pair(residual + channel);
      const DropoutPlace &first = arguments_.rows.encoder_dropout, &second = arguments_.rows.input_dropout;
      x[i].x *=
          dropout_factor(first, row(own), D::width(), channel) * dropout_factor(second, row(own), D::width(), channel);
      x[i].y *= dropout_factor(first, row(own), D::width(), channel + 1) *
                dropout_factor(second, row(own), D::width(), channel + 1);
    }
    normalise(own, x, norm_weight);
  }
}

template <typename T, int kCluster, class Sizes>
template <int kSources>
__device__ void StepBlock<T, kCluster, Sizes>::add_and_normalise(const DropoutPlace& place, const float* norm_weight) {
  const int padded = padded_width();
  for (int own = warp_id(); own < own_rows_; own += kStepWarps) {
    const float* residual = shared<float>(arguments_.shared.residual) + own * padded;
    const float* partial = shared<float>(arguments_.shared.partial) + own * padded;
    float2 x[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int channel = 2 * lane_id() + 64 * i;
      if (channel >= D::width()) continue;
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int source = 0; source < kSources; ++source) {
        const float2 part = load_pair(partial + source * arguments_.shared.own * padded + channel);
        sum.x += part.x, sum.y += part.y;
      }
      x[i] = load_pair(residual + channel);
      x[i].x += dropout_factor(place, row(own), D::width(), channel) * sum.x;
      x[i].y += dropout_factor(place, row(own), D::width(), channel + 1) * sum.y;
    }
    normalise(own, x, norm_weight);
  }
}

// A warp a row; a lane an action.
template <typename T, int kCluster, class Sizes>
__device__ void StepBlock<T, kCluster, Sizes>::choose() {
  const AgentStepRows& rows = arguments_.rows;
  const int actions = arguments_.shape.actions, stride = arguments_.layout.action_tiles * kStepTile;
  for (int own = warp_id(); own < own_rows_; own += kStepWarps) {
    float* partial = shared<float>(arguments_.shared.partial) + own * stride;
    const bool inside = lane_id() < actions;
    float logit = -INFINITY;
    if (inside) {
      logit = __ldg(arguments_.vectors + arguments_.layout.action_bias + lane_id());
      for (int source = 0; source < kCluster; ++source)
        logit += partial[source * arguments_.shared.own * stride + lane_id()];
    }
    const float largest = warp_max(logit);
    const float weight = inside ? expf(logit - largest) : 0.0f;
    const float probability = weight / warp_sum(weight);
    __syncwarp();
    if (inside) {
      partial[lane_id()] = probability;
      if (rows.probabilities_NA != nullptr) rows.probabilities_NA[row(own) * actions + lane_id()] = probability;
    }
    if (__any_sync(~0u, !isfinite(probability)) && lane_id() == 0) *rows.diverged = 1;
    __syncwarp();
    if (lane_id() == 0)
      rows.action_N[row(own)] =
          rows.greedy ? greedy_action(partial, actions) : sample_action(partial, actions, rows.stream_N[row(own)]);
  }
}

}  // namespace engram
