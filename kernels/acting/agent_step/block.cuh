// StepBlock: what one thread block does for the environments that it owns - their memory and everything that is done
// row by row. step.cu puts the products between its parts.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/sample_action.h"
#include "kernels/acting/agent_step/product.cuh"
#include "kernels/acting/agent_step/sizes.cuh"

namespace engram {

// Within a few units in the last place, as all of CUDA's fast functions that are used here.
__device__ inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ inline float silu(float x) { return x * sigmoid(x); }

// Not max(x, 0), which would hide a NaN.
__device__ inline float relu(float x) { return x < 0.0f ? 0.0f : x; }

// For each environment of the block, for a whole step.
struct RowTime {
  std::int64_t position;
  int slot;  // of the window's ring that this step is written to
  int past;  // slots that hold earlier steps
  bool fresh;
  std::uint64_t stream[sizeof(Rng) / 8];  // a Rng, which shared memory cannot construct
};
__device__ inline RowTime* row_times() {
  __shared__ RowTime times[kStepMaxOwn];
  return times;
}

// Called by one thread of a cluster when all its blocks have drawn their dropout: the last cluster counts the tick up.
__device__ inline void count_tick(const StepArguments& arguments, unsigned clusters) {
  if (arguments.rows.dropout_tick == nullptr || atomicAdd(arguments.finished, 1u) + 1 < clusters) return;
  *arguments.finished = 0;
  ++*arguments.rows.dropout_tick;
}

// kAlone: the block has one environment, as all blocks of the cluster have, and keeps the packed vectors in shared
// memory. Clusters then matter to the products alone: kCluster is 1.
template <typename T, int kCluster, class Sizes, bool kAlone>
class StepBlock : public Dimensions<Sizes> {
 public:
  using D = Dimensions<Sizes>;

  // `rank`: of the block among those that share the cluster's environments; `cluster`: the cluster's index. Only a
  // block that `writes` changes the environments' memory and gives their actions.
  __device__ StepBlock(const StepArguments& arguments, unsigned char* memory, int rank, int cluster, bool writes)
      : D(arguments),
        arguments_(arguments),
        memory_(memory),
        writes_(writes),
        first_column_(rank * arguments.shared.own) {
    const int first_row = cluster * arguments.rows_per_cluster;
    columns_ = min(arguments.rows_per_cluster, arguments.rows.rows - first_row);
    own_rows_ = max(0, min(arguments.shared.own, columns_ - first_column_));
    first_row_ = first_row + first_column_;
  }

  __device__ int columns() const { return columns_; }  // environments of the cluster
  __device__ int own_rows() const { return kAlone ? 1 : own_rows_; }
  __device__ std::int64_t row(int own) const { return first_row_ + own; }
  template <typename X>
  __device__ X* shared(int offset) const {
    return reinterpret_cast<X*>(memory_ + offset);
  }

  // Element `index` of the packed vectors.
  __device__ float vector(int index) const {
    if constexpr (kAlone) return shared<float>(arguments_.shared.vectors)[index];
    return __ldg(arguments_.vectors + index);
  }

  // A tile of sums and, a row each, the packed vectors' elements from `first` on, through relu.
  __device__ Accumulator biased_relu(int first, const Accumulator& sum) const {
    const float low = vector(first + lane_id() / 4), high = vector(first + lane_id() / 4 + 8);
    return {{relu(sum.x[0] + low), relu(sum.x[1] + low), relu(sum.x[2] + high), relu(sum.x[3] + high)}};
  }

  // Reads the observations and where the rows stand in time, starts the copies of the first memories, decides what is
  // dropped.
  __device__ void begin();
  // Observation -> residual stream, before dropout. Ends with a barrier.
  template <typename Multiply>
  __device__ void encode(const Multiply& multiply_local);
  // After the encoder: x <- dropout(dropout(x)), and rms(x) as operand for the whole cluster.
  __device__ void start_and_normalise(int norm_weight);
  // x <- x + dropout(sum of kSources partial results from `offset` on), and rms(x). `first_group`: of `place`.
  template <int kSources>
  __device__ void add_and_normalise(int offset, const DropoutKey& key, int first_group, int norm_weight);
  // Waits for the copy of the memory that remember() needs next.
  __device__ void wait_for_copy() const {
    if (arguments_.shared.stages == 2)
      wait_for_groups<1>();
    else
      wait_for_groups<0>();
  }
  // Projections -> what the two memories read: their queries, keys, values and gates.
  __device__ void prepare(int layer);
  // One step of a row's memories: their outputs, mixed and normalised, as operand.
  __device__ void remember(int layer, int own);
  // Logits, the sums of kSources partial results, -> actions. The step is taken.
  template <int kSources>
  __device__ void choose();
  // Where a layer's dropouts and packed vectors begin.
  __device__ int layer_groups(int layer) const {
    return arguments_.dropout.first_layer + layer * arguments_.dropout.layer_groups;
  }
  __device__ int layer_vectors(int layer) const { return layer * arguments_.layout.layer_floats; }

 private:
  struct EncoderScratch;

  __device__ unsigned char* stage(int item) const {
    return memory_ + arguments_.shared.stage + item % arguments_.shared.stages * arguments_.shared.stage_bytes;
  }
  __device__ void read_observations();
  __device__ void start_copy(int item);
  template <typename Piece>
  __device__ void start_ring_copy(const AgentStepRows::Layer& state, unsigned char* target, int own);
  __device__ void draw_dropout(int first);  // `first`: of the thread's decisions
  // The factor of element `channel` of a key's row; `first_group`: of that row.
  __device__ float dropout_factor(const DropoutKey& key, int own, int first_group, int channel) const {
    if (!key.drops()) return 1;
    const int group = own * arguments_.dropout.groups + first_group + channel / kDropoutGroup;
    return (shared<std::uint8_t>(arguments_.shared.kept)[group] >> channel % kDropoutGroup & 1) != 0 ? key.scale : 0;
  }
  static constexpr int kPairs = Sizes::kRowPairs;  // of a row, a lane's
  __device__ void normalise(int own, float2 (&x)[kPairs], int norm_weight);
  // A head's channels, a warp's; zero behind them.
  __device__ void divide_by_rms(float2 (&x)[Sizes::kHeadPairs]) const {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < Sizes::kHeadPairs; ++i) squares += x[i].x * x[i].x + x[i].y * x[i].y;
    const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(D::head_width()) + 1e-6f);
#pragma unroll
    for (int i = 0; i < Sizes::kHeadPairs; ++i) x[i].x *= factor, x[i].y *= factor;
  }
  __device__ int operand_stride() const { return operand_stride_of(D::width_tiles()); }
  __device__ int mixed_stride() const { return operand_stride_of(D::mixer_tiles()); }
  __device__ int projection_stride() const { return projection_stride_of(D::projection_tiles()); }
  __device__ int padded_width() const { return D::width_tiles() * kStepTile; }

  const StepArguments& arguments_;
  unsigned char* memory_;
  bool writes_;
  int first_column_, columns_, own_rows_, first_row_;
};

// Where the encoder's input lies in a block's scratch.
template <typename T, int kCluster, class Sizes, bool kAlone>
struct StepBlock<T, kCluster, Sizes, kAlone>::EncoderScratch {
  T* features;      // operand of the linear layer
  float4* weight1;  // a channel's four taps
  float* bias1;
  float4* weight2;
  float* bias2;
  float* image_N;
  float* hidden;

  __device__ explicit EncoderScratch(const StepBlock& block) {
    const int pixels = block.height() * block.D::columns();
    features = block.template shared<T>(block.arguments_.shared.scratch);
    weight1 = reinterpret_cast<float4*>(features + 16 * operand_stride_of(block.feature_tiles()));
    bias1 = reinterpret_cast<float*>(weight1 + kConvolution1 * block.channels());
    weight2 = reinterpret_cast<float4*>(bias1 + kConvolution1);
    bias2 = reinterpret_cast<float*>(weight2 + kConvolution2 * kConvolution1);
    image_N = bias2 + kConvolution2;
    hidden = image_N + block.own_rows() * block.channels() * pixels;
  }
};

template <typename T, int kCluster, class Sizes, bool kAlone>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::read_observations() {
  const AgentStepLayout& layout = arguments_.layout;
  const bool image = D::height() > 0;
  const int stride = operand_stride_of(D::feature_tiles()), padded = D::feature_tiles() * kStepTile;
  const int elements = D::channels() * max(1, D::height() * D::columns());
  const EncoderScratch to(*this);
  const auto observed = [&](int i) {
    const std::int64_t index = row(0) * elements + i;
    return arguments_.shape.observation_is_uint8
               ? static_cast<float>(static_cast<const std::uint8_t*>(arguments_.rows.observation_N)[index]) / 255.0f
               : static_cast<const float*>(arguments_.rows.observation_N)[index];
  };
  if (!image) {
    for (int i = threadIdx.x; i < own_rows() * padded; i += kStepThreads) {
      const int own = i / padded, feature = i % padded;
      to.features[own * stride + feature] = T(feature < elements ? observed(own * elements + feature) : 0.0f);
    }
    return;
  }
  // The four arrays lie one after the other at their source, too.
  const int count = kConvolution1 * (4 * D::channels() + 1) + kConvolution2 * (kConvolution1 * 4 + 1);
  for (int i = threadIdx.x; i < count; i += kStepThreads)
    copy_async<4>(reinterpret_cast<float*>(to.weight1) + i, arguments_.vectors + layout.convolution1 + i, true);
  for (int i = threadIdx.x; i < own_rows() * elements; i += kStepThreads) to.image_N[i] = observed(i);
  for (int i = threadIdx.x; i < own_rows() * (padded - layout.features); i += kStepThreads)
    to.features[i / (padded - layout.features) * stride + layout.features + i % (padded - layout.features)] = T(0.0f);
}

template <typename T, int kCluster, class Sizes, bool kAlone>
template <typename Multiply>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::encode(const Multiply& multiply_local) {
  const AgentStepLayout& layout = arguments_.layout;
  const bool image = D::height() > 0;
  const int stride = operand_stride_of(D::feature_tiles()), plane = D::height() * D::columns();
  const EncoderScratch scratch(*this);
  if (image) {
    constexpr int kTogether = kAlone ? 1 : 4;  // channels of the second convolution that a thread computes at a time
    const int columns = D::columns(), columns1 = columns - 1, columns2 = columns - 2;
    const int pixels1 = (D::height() - 1) * columns1, pixels2 = (D::height() - 2) * columns2;
    const auto add_taps = [](float& sum, float4 weight, const float* from, int pitch) {
      sum = fmaf(weight.y, from[1], fmaf(weight.x, from[0], sum));
      sum = fmaf(weight.w, from[pitch + 1], fmaf(weight.z, from[pitch], sum));
    };
    for (int i = threadIdx.x; i < own_rows() * kConvolution1 * pixels1; i += kStepThreads) {
      const int pixel = i % pixels1, channel = i / pixels1 % kConvolution1, own = i / (pixels1 * kConvolution1);
      const float* from = scratch.image_N + own * D::channels() * plane + pixel / columns1 * columns + pixel % columns1;
      float sum = scratch.bias1[channel];
#pragma unroll 3
      for (int c = 0; c < D::channels(); ++c)
        add_taps(sum, scratch.weight1[channel * D::channels() + c], from + c * plane, columns);
      scratch.hidden[i] = relu(sum);
    }
    __syncthreads();
    constexpr int kGroups = kConvolution2 / kTogether;
    for (int i = threadIdx.x; i < own_rows() * kGroups * pixels2; i += kStepThreads) {
      const int pixel = i % pixels2, channel = i / pixels2 % kGroups * kTogether, own = i / (pixels2 * kGroups);
      const float* from =
          scratch.hidden + own * kConvolution1 * pixels1 + pixel / columns2 * columns1 + pixel % columns2;
      float sum[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) sum[j] = scratch.bias2[channel + j];
#pragma unroll 4
      for (int c = 0; c < kConvolution1; ++c)
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
          add_taps(sum[j], scratch.weight2[(channel + j) * kConvolution1 + c], from + c * pixels1, columns1);
#pragma unroll
      for (int j = 0; j < kTogether; ++j)
        scratch.features[own * stride + (channel + j) * pixels2 + pixel] = T(relu(sum[j]));
    }
  }
  float* residual = shared<float>(arguments_.shared.residual);
  multiply_local(layout.encoder, D::feature_tiles(), scratch.features, stride, [&](int output, int own, float x) {
    if (output >= D::width()) return;
    x += vector(layout.encoder_bias + output);
    residual[own * padded_width() + output] = image ? x : relu(x);
  });
  __syncthreads();
}

// For one warp: the lane's channels are 2 lane and 2 lane + 1, and those that are 64, 128 ... channels further on.
template <typename T, int kCluster, class Sizes, bool kAlone>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::normalise(int own, float2 (&x)[kPairs], int norm_weight) {
  const int padded = padded_width();
  float* residual = shared<float>(arguments_.shared.residual) + own * padded;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int channel = 2 * lane_id() + 64 * i;
    if (channel >= D::width()) x[i] = make_float2(0.0f, 0.0f);
    if (D::width() % 2 != 0 && channel + 1 == D::width()) x[i].y = 0.0f;
    if (channel < padded) store_pair(residual + channel, x[i].x, x[i].y);
    squares += x[i].x * x[i].x + x[i].y * x[i].y;
  }
  const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(D::width()) + 1e-6f);
  T* normed = shared<T>(arguments_.shared.normed) + (first_column_ + own) * operand_stride();
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int channel = 2 * lane_id() + 64 * i;
    if (channel >= padded) continue;
    const bool inside = channel < D::width();
    const float low = inside ? x[i].x * factor * vector(norm_weight + channel) : 0.0f;
    const float high = inside ? x[i].y * factor * vector(norm_weight + channel + 1) : 0.0f;
#pragma unroll
    for (int rank = 0; rank < kCluster; ++rank) store_pair(peer<kCluster>(normed, rank) + channel, low, high);
  }
}

template <typename T, int kCluster, class Sizes, bool kAlone>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::start_and_normalise(int norm_weight) {
  const int padded = padded_width();
  for (int own = warp_id(); own < own_rows(); own += kStepWarps) {
    const float* residual = shared<float>(arguments_.shared.residual) + own * padded;
    float2 x[kPairs] = {};
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int channel = 2 * lane_id() + 64 * i;
      if (channel >= D::width()) continue;
      x[i] = load_pair(residual + channel);
      const DropoutKey &first = arguments_.rows.encoder_dropout, &second = arguments_.rows.input_dropout;
      const int behind = arguments_.dropout.width_groups;
      x[i].x *= dropout_factor(first, own, 0, channel) * dropout_factor(second, own, behind, channel);
      x[i].y *= dropout_factor(first, own, 0, channel + 1) * dropout_factor(second, own, behind, channel + 1);
    }
    normalise(own, x, norm_weight);
  }
}

template <typename T, int kCluster, class Sizes, bool kAlone>
template <int kSources>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::add_and_normalise(int offset, const DropoutKey& key,
                                                                         int first_group, int norm_weight) {
  const int padded = padded_width();
  for (int own = warp_id(); own < own_rows(); own += kStepWarps) {
    const float* residual = shared<float>(arguments_.shared.residual) + own * padded;
    const float* partial = shared<float>(offset) + own * padded;
    float2 x[kPairs] = {};
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int channel = 2 * lane_id() + 64 * i;
      if (channel >= D::width()) continue;
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int source = 0; source < kSources; ++source) {
        const float2 part = load_pair(partial + source * arguments_.shared.own * padded + channel);
        sum.x += part.x, sum.y += part.y;
      }
      x[i] = load_pair(residual + channel);
      x[i].x += dropout_factor(key, own, first_group, channel) * sum.x;
      x[i].y += dropout_factor(key, own, first_group, channel + 1) * sum.y;
    }
    normalise(own, x, norm_weight);
  }
}

// One warp for each row; one lane for each action.
template <typename T, int kCluster, class Sizes, bool kAlone>
template <int kSources>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::choose() {
  const AgentStepRows& rows = arguments_.rows;
  const int actions = arguments_.shape.actions, stride = arguments_.layout.action_tiles * kStepTile;
  for (int own = warp_id(); own < own_rows(); own += kStepWarps) {
    float* partial = shared<float>(arguments_.shared.partial) + own * stride;
    const bool inside = lane_id() < actions;
    float logit = -INFINITY;
    if (inside) {
      logit = vector(arguments_.layout.action_bias + lane_id());
      for (int source = 0; source < kSources; ++source)
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
    if (lane_id() != 0) continue;
    const RowTime& time = row_times()[own];
    if (rows.greedy) {
      rows.action_N[row(own)] = greedy_action(partial, actions);
    } else {
      Rng stream;
      memcpy(&stream, time.stream, sizeof stream);
      rows.action_N[row(own)] = sample_action(partial, actions, stream);
      rows.stream_N[row(own)] = stream;
    }
    rows.fresh_N[row(own)] = 0;
    if (D::window() > 0) rows.position_N[row(own)] = time.position + 1;
  }
}

}  // namespace engram
