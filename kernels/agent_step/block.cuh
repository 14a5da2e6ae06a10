// StepBlock: what one thread block does for the environments that it owns - their memory and everything that is done
// row by row. step.cu puts the products between its parts.
#pragma once

#include "base/sample_action.h"
#include "kernels/agent_step/arguments.h"
#include "kernels/agent_step/product.cuh"

namespace engram {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
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

template <typename T, int kCluster>
class StepBlock {
 public:
  // `rank`: of the block in its cluster; `cluster`: the cluster's index.
  __device__ StepBlock(const StepArguments& arguments, unsigned char* memory, int rank, int cluster)
      : arguments_(arguments),
        memory_(memory),
        width_(arguments.shape.width),
        heads_(arguments.shape.heads),
        head_width_(width_ / heads_),
        window_(arguments.shape.window),
        first_column_(rank * arguments.shared.own) {
    const int first_row = cluster * arguments.rows_per_cluster;
    columns_ = min(arguments.rows_per_cluster, arguments.rows.rows - first_row);
    own_rows_ = max(0, min(arguments.shared.own, columns_ - first_column_));
    first_row_ = first_row + first_column_;
    pairs_ = width_ / 2;
    groups_ = kStepThreads / pairs_;
    pair_ = threadIdx.x % pairs_;
    group_ = threadIdx.x / pairs_;
    pair_head_ = pair_ / (head_width_ / 2);
  }

  __device__ int columns() const { return columns_; }  // environments of the cluster
  __device__ int own_rows() const { return own_rows_; }
  __device__ std::int64_t row(int own) const { return first_row_ + own; }
  template <typename X>
  __device__ X* shared(int offset) const {
    return reinterpret_cast<X*>(memory_ + offset);
  }

  // Reads where the rows stand in time and starts the copies of the first memories. Ends with a barrier.
  __device__ void begin();
  // Observation -> residual stream, before dropout.
  template <typename Multiply>
  __device__ void encode(const Multiply& multiply_local);
  // x <- x + dropout(sum of the partial results of `sources` blocks), and rms(x) as operand for the whole cluster.
  __device__ void add_and_normalise(int sources, const DropoutPlace& place, const float* norm_weight);
  // After the encoder: x <- dropout(dropout(x)), and rms(x).
  __device__ void start_and_normalise(const float* norm_weight);
  // Projections -> what the two memories read: their queries, keys and values.
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

  const StepArguments& arguments_;
  unsigned char* memory_;
  int width_, heads_, head_width_, window_;
  int first_column_, columns_, own_rows_;
  std::int64_t first_row_;
  int pairs_, groups_, pair_, group_, pair_head_;  // thread -> pair of channels, share of the rows or slots
};

// Per own environment, of a whole step.
struct RowTime {
  std::int64_t position;
  int slot;   // of the window's ring that this step is written to
  int past;   // slots that hold earlier steps
  bool fresh;
};
__device__ inline RowTime* row_times() {
  __shared__ RowTime times[kStepMaxOwn];
  return times;
}

template <typename T, int kCluster>
__device__ void StepBlock<T, kCluster>::begin() {
  const AgentStepRows& rows = arguments_.rows;
  if (threadIdx.x < own_rows_) {
    RowTime time{};
    time.fresh = rows.fresh_N[row(threadIdx.x)] != 0;
    if (window_ > 0) {
      if (!time.fresh) time.position = rows.position_N[row(threadIdx.x)];
      rows.position_N[row(threadIdx.x)] = time.position + 1;
      time.slot = static_cast<int>(time.position % window_);
      time.past = static_cast<int>(time.position < window_ ? time.position : window_);
    }
    rows.fresh_N[row(threadIdx.x)] = 0;
    row_times()[threadIdx.x] = time;
  }
  // Channels behind the width are operands, too.
  auto* mixed = shared<std::uint32_t>(arguments_.shared.mixed);
  for (int i = threadIdx.x; i < 16 * arguments_.shared.operand_stride * static_cast<int>(sizeof(T)) / 4;
       i += kStepThreads)
    mixed[i] = 0;
  __syncthreads();
  for (int i = 0; i < arguments_.shared.stages; ++i) start_copy(i);
  if (window_ > 0 && arguments_.shape.rope) {
    auto* rope = shared<float2>(arguments_.shared.rope);
    const int half = head_width_ / 2;
    for (int i = threadIdx.x; i < own_rows_ * half; i += kStepThreads) {
      // In double, so that late positions keep their angle.
      constexpr double kTurn = 6.283185307179586;
      const double turns =
          static_cast<double>(row_times()[i / half].position) * arguments_.rope_frequencies[i % half] / kTurn;
      sincospif(static_cast<float>(2 * (turns - rint(turns))), &rope[i].y, &rope[i].x);
    }
  }
}

// Copies the memory of item = (layer, own row) to its stage; every thread commits one group a call.
template <typename T, int kCluster>
__device__ void StepBlock<T, kCluster>::start_copy(int item) {
  if (item < own_rows_ * arguments_.shape.layers) {
    const int layer = item / own_rows_, own = item - layer * own_rows_;
    const RowTime time = row_times()[own];
    const AgentStepRows::Layer& state = arguments_.rows.layers[layer];
    unsigned char* target = stage(item);
    const float* fast = state.fast_weights_NHKV + row(own) * width_ * head_width_;
    for (int i = threadIdx.x * 4; i < width_ * head_width_; i += kStepThreads * 4)
      copy_async<16>(target + i * 4, fast + i, !time.fresh);

    const int pieces = width_ / 4, slots = time.fresh ? window_ : time.past;
    const std::int64_t ring = row(own) * window_ * width_;
    auto* key = reinterpret_cast<float*>(target + arguments_.shared.stage_key);
    auto* value = reinterpret_cast<float*>(target + arguments_.shared.stage_value);
    for (int slot = threadIdx.x / pieces, piece = threadIdx.x % pieces; slot < slots;) {
      const int from = slot * width_ + piece * 4, to = slot * arguments_.shared.ring_stride + piece * 4;
      if (time.fresh) {
        if (slot != time.slot) {
          *reinterpret_cast<float4*>(state.key_ring_NSHK + ring + from) = float4{};
          *reinterpret_cast<float4*>(state.value_ring_NSHK + ring + from) = float4{};
        }
      } else if (slot != time.slot) {
        copy_async<16>(key + to, state.key_ring_NSHK + ring + from, true);
        copy_async<16>(value + to, state.value_ring_NSHK + ring + from, true);
      }
      slot += kStepThreads / pieces;
      piece += kStepThreads % pieces;
      if (piece >= pieces) piece -= pieces, ++slot;
    }
  }
  commit_copies();
}

template <typename T, int kCluster>
template <typename Multiply>
__device__ void StepBlock<T, kCluster>::encode(const Multiply& multiply_local) {
  const AgentStepShape& shape = arguments_.shape;
  const AgentStepLayout& layout = arguments_.layout;
  const int stride = arguments_.shared.feature_stride, elements = shape.channels * max(1, shape.height * shape.columns);
  T* features = shared<T>(arguments_.shared.partial);
  const auto observed = [&](int own, int i) {
    const std::int64_t index = row(own) * elements + i;
    return shape.observation_is_uint8
               ? static_cast<float>(static_cast<const std::uint8_t*>(arguments_.rows.observation_N)[index]) / 255.0f
               : static_cast<const float*>(arguments_.rows.observation_N)[index];
  };
  const int padded = layout.feature_tiles * kStepTile;
  if (shape.height == 0) {
    for (int i = threadIdx.x; i < own_rows_ * padded; i += kStepThreads) {
      const int own = i / padded, feature = i % padded;
      features[own * stride + feature] = T(feature < elements ? observed(own, feature) : 0.0f);
    }
  } else {
    const int rows1 = shape.height - 1, columns1 = shape.columns - 1, rows2 = rows1 - 1, columns2 = columns1 - 1;
    const int count1 = kConvolution1 * 4 * shape.channels, count2 = kConvolution2 * kConvolution1 * 4;
    auto* weight1 = reinterpret_cast<float*>(features + 16 * stride);
    float* bias1 = weight1 + count1;
    float* weight2 = bias1 + kConvolution1;
    float* bias2 = weight2 + count2;
    float* image = bias2 + kConvolution2;
    float* hidden = image + own_rows_ * elements;
    // The four arrays lie behind each other where they come from, too.
    for (int i = threadIdx.x; i < count1 + kConvolution1 + count2 + kConvolution2; i += kStepThreads)
      weight1[i] = arguments_.vectors[layout.convolution1 + i];
    for (int i = threadIdx.x; i < own_rows_ * elements; i += kStepThreads)
      image[i] = observed(i / elements, i % elements);
    __syncthreads();
    const int pixels1 = rows1 * columns1, pixels2 = rows2 * columns2;
    for (int i = threadIdx.x; i < own_rows_ * kConvolution1 * pixels1; i += kStepThreads) {
      const int own = i / (kConvolution1 * pixels1), channel = i / pixels1 % kConvolution1, pixel = i % pixels1;
      const float* from = image + own * elements + pixel / columns1 * shape.columns + pixel % columns1;
      const float* weight = weight1 + channel * shape.channels * 4;
      float sum = bias1[channel];
      for (int c = 0; c < shape.channels; ++c, from += shape.height * shape.columns, weight += 4)
        sum += weight[0] * from[0] + weight[1] * from[1] + weight[2] * from[shape.columns] +
               weight[3] * from[shape.columns + 1];
      hidden[i] = relu(sum);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < own_rows_ * padded; i += kStepThreads) {
      const int own = i / padded, feature = i % padded, channel = feature / pixels2, pixel = feature % pixels2;
      float sum = 0;
      if (feature < layout.features) {
        const float* from = hidden + own * kConvolution1 * pixels1 + pixel / columns2 * columns1 + pixel % columns2;
        const float* weight = weight2 + channel * kConvolution1 * 4;
        sum = bias2[channel];
#pragma unroll
        for (int c = 0; c < kConvolution1; ++c, from += pixels1, weight += 4)
          sum += weight[0] * from[0] + weight[1] * from[1] + weight[2] * from[columns1] +
                 weight[3] * from[columns1 + 1];
      }
      features[own * stride + feature] = T(relu(sum));
    }
  }
  float* residual = shared<float>(arguments_.shared.residual);
  const int residual_stride = layout.width_tiles * kStepTile;
  const bool vector = shape.height == 0;
  multiply_local(layout.encoder, layout.feature_tiles, features, stride, [&](int output, int own, float x) {
    if (output >= width_) return;
    x += __ldg(arguments_.vectors + layout.encoder_bias + output);
    residual[own * residual_stride + output] = vector ? relu(x) : x;
  });
  __syncthreads();
}

// By one warp: lane's channels are 2 lane and 2 lane + 1, and those 64 behind.
template <typename T, int kCluster>
__device__ void StepBlock<T, kCluster>::normalise(int own, float2 (&x)[2], const float* norm_weight) {
  const int padded = arguments_.layout.width_tiles * kStepTile;
  float* residual = shared<float>(arguments_.shared.residual) + own * padded;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int channel = 2 * lane_id() + 64 * i;
    if (channel >= width_) x[i] = make_float2(0.0f, 0.0f);
    if (channel < padded) store_pair(residual + channel, x[i].x, x[i].y);
    squares += x[i].x * x[i].x + x[i].y * x[i].y;
  }
  const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(width_) + 1e-6f);
  T* normed = shared<T>(arguments_.shared.normed) + (first_column_ + own) * arguments_.shared.operand_stride;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int channel = 2 * lane_id() + 64 * i;
    if (channel >= padded) continue;
    const bool inside = channel < width_;
    const float low = inside ? x[i].x * factor * __ldg(norm_weight + channel) : 0.0f;
    const float high = inside ? x[i].y * factor * __ldg(norm_weight + channel + 1) : 0.0f;
#pragma unroll
    for (int rank = 0; rank < kCluster; ++rank) store_pair(peer<kCluster>(normed, rank) + channel, low, high);
  }
}

template <typename T, int kCluster>
__device__ void StepBlock<T, kCluster>::start_and_normalise(const float* norm_weight) {
  const int padded = arguments_.layout.width_tiles * kStepTile;
  for (int own = warp_id(); own < own_rows_; own += kStepWarps) {
    const float* residual = shared<float>(arguments_.shared.residual) + own * padded;
    float2 x[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int channel = 2 * lane_id() + 64 * i;
      if (channel >= width_) continue;
      x[i] = load_pair(residual + channel);
      const DropoutPlace &first = arguments_.rows.encoder_dropout, &second = arguments_.rows.input_dropout;
      x[i].x *= dropout_factor(first, row(own), width_, channel) * dropout_factor(second, row(own), width_, channel);
      x[i].y *= dropout_factor(first, row(own), width_, channel + 1) *
                dropout_factor(second, row(own), width_, channel + 1);
    }
    normalise(own, x, norm_weight);
  }
}

template <typename T, int kCluster>
__device__ void StepBlock<T, kCluster>::add_and_normalise(int sources, const DropoutPlace& place,
                                                          const float* norm_weight) {
  const int padded = arguments_.layout.width_tiles * kStepTile;
  for (int own = warp_id(); own < own_rows_; own += kStepWarps) {
    const float* residual = shared<float>(arguments_.shared.residual) + own * padded;
    const float* partial = shared<float>(arguments_.shared.partial) + own * padded;
    float2 x[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int channel = 2 * lane_id() + 64 * i;
      if (channel >= width_) continue;
      float2 sum = make_float2(0.0f, 0.0f);
      for (int source = 0; source < sources; ++source) {
        const float2 part = load_pair(partial + source * arguments_.shared.own * padded + channel);
        sum.x += part.x, sum.y += part.y;
      }
      x[i] = load_pair(residual + channel);
      x[i].x += dropout_factor(place, row(own), width_, channel) * sum.x;
      x[i].y += dropout_factor(place, row(own), width_, channel + 1) * sum.y;
    }
    normalise(own, x, norm_weight);
  }
}

// A warp a row and head. Turned queries (times 1/sqrt(K)), turned keys, values, beta stay where the projections were;
// the fast weights' keys and queries are written beside each other.
template <typename T, int kCluster>
__device__ void StepBlock<T, kCluster>::prepare(int layer) {
  constexpr int kChannels = 4;  // a lane
  const AgentStepRows::LayerDropout& dropout = arguments_.rows.dropout[layer];
  const AgentStepRows::Layer& state = arguments_.rows.layers[layer];
  for (int unit = warp_id(); unit < own_rows_ * heads_; unit += kStepWarps) {
    const int own = unit / heads_, head = unit % heads_, first = head * head_width_;
    float* query = shared<float>(arguments_.shared.projection) + own * arguments_.shared.projection_stride + first;
    float* key = query + width_;
    float* value = key + width_;
    const std::int64_t vector = row(own) * heads_ + head;
    float q[kChannels], k[kChannels], v[kChannels];
    float q_squares = 0, k_squares = 0, overlap = 0;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = lane_id() + 32 * i;
      q[i] = k[i] = v[i] = 0;
      if (c >= head_width_) continue;
      q[i] = query[c] * dropout_factor(dropout.query, vector, head_width_, c);
      k[i] = key[c] * dropout_factor(dropout.key, vector, head_width_, c);
      v[i] = silu(value[c] * dropout_factor(dropout.value, vector, head_width_, c));
      const float q_fast = silu(q[i]), k_fast = silu(k[i]);
      q_squares += q_fast * q_fast;
      k_squares += k_fast * k_fast;
      overlap += q_fast * k_fast;
    }
    const float q_factor = rsqrtf(warp_sum(q_squares) + 1e-6f), k_factor = rsqrtf(warp_sum(k_squares) + 1e-6f);
    overlap = warp_sum(overlap) * q_factor * k_factor;
    if (lane_id() == 0) {
      shared<float>(arguments_.shared.overlap)[unit] = overlap;
      float* beta = query - first + 3 * width_ + head;
      *beta = arguments_.shape.beta_factor * sigmoid(*beta);
    }
    auto* fast_pair = shared<float2>(arguments_.shared.fast_pair) + own * width_ + first;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = lane_id() + 32 * i;
      if (c >= head_width_) continue;
      fast_pair[c] = make_float2(silu(k[i]) * k_factor, silu(q[i]) * q_factor);
      value[c] = v[i];
      query[c] = q[i];
      key[c] = k[i];
    }
    if (window_ == 0) continue;
    __syncwarp();
    const RowTime time = row_times()[own];
    const float scale = rsqrtf(static_cast<float>(head_width_));
    const int half = head_width_ / 2;
    const auto* rope = shared<float2>(arguments_.shared.rope) + own * half;
    if (arguments_.shape.rope) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const int c = lane_id() + 32 * i;
        if (c >= head_width_) continue;
        const bool lower = c < half;
        const int partner = lower ? c + half : c - half;
        const float2 turn = rope[lower ? c : partner];
        const float sine = lower ? -turn.y : turn.y;
        q[i] = q[i] * turn.x + query[partner] * sine;
        k[i] = k[i] * turn.x + key[partner] * sine;
      }
      __syncwarp();
    }
    const std::int64_t ring = (row(own) * window_ + time.slot) * width_ + first;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = lane_id() + 32 * i;
      if (c >= head_width_) continue;
      query[c] = q[i] * scale;
      key[c] = k[i];
      state.key_ring_NSHK[ring + c] = k[i];
      state.value_ring_NSHK[ring + c] = v[i];
    }
  }
}

template <typename T, int kCluster>
__device__ void StepBlock<T, kCluster>::remember(int layer, int own) {
  const AgentStepShared& at = arguments_.shared;
  const int item = layer * own_rows_ + own, half = head_width_ / 2;
  const RowTime time = row_times()[own];
  const int slots = window_ == 0 ? 0 : time.position < window_ ? time.past + 1 : window_;
  const unsigned char* memory = stage(item);
  const float* query = shared<float>(at.projection) + own * at.projection_stride;
  const float* new_key = query + width_;
  const float* new_value = new_key + width_;
  const float* beta = new_value + width_;
  const float* gate = beta + heads_;
  const auto* ring_key = reinterpret_cast<const float*>(memory + at.stage_key);
  const auto* ring_value = reinterpret_cast<const float*>(memory + at.stage_value);
  auto* fast_partial = shared<float4>(at.fast_partial);
  auto* value_partial = shared<float2>(at.value_partial);
  float* score = shared<float>(at.score);
  auto* update = shared<float2>(at.update);
  auto* fast_output = shared<float2>(at.fast_output);
  const bool active = group_ < groups_;
  const auto* fast_pair = shared<float2>(at.fast_pair) + own * width_ + pair_head_ * head_width_;
  // Rows i of the fast weights at the thread's pair of columns: half pairs apart.
  const int column = pair_head_ * head_width_ * half + pair_ - pair_head_ * half;
  const auto* fast = reinterpret_cast<const float2*>(memory) + column;

  if (at.stages == 2)
    wait_for_groups<1>();
  else
    wait_for_groups<0>();
  __syncthreads();

  // k^T S and q^T S, and the window's scores.
  if (active) {
    float4 sum = {};
#pragma unroll 4
    for (int i = group_; i < head_width_; i += groups_) {
      const float2 s = fast[i * half], key_query = fast_pair[i];
      sum.x += key_query.x * s.x;
      sum.y += key_query.x * s.y;
      sum.z += key_query.y * s.x;
      sum.w += key_query.y * s.y;
    }
    fast_partial[group_ * pairs_ + pair_] = sum;
  }
  for (int first = warp_id() * 8; first < slots * heads_; first += kStepWarps * 8) {
    const int dot = first + lane_id() / 4, head = min(dot / slots, heads_ - 1), slot = dot % slots;
    const float* key = (slot == time.slot ? new_key : ring_key + slot * at.ring_stride) + head * head_width_;
    float sum = 0;
#pragma unroll 4
    for (int i = lane_id() % 4; i < half; i += 4) {
      const float2 k = load_pair(key + 2 * i), q = load_pair(query + head * head_width_ + 2 * i);
      sum += k.x * q.x + k.y * q.y;
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (lane_id() % 4 == 0 && dot < slots * heads_) score[head * window_ + slot] = sum;
  }
  __syncthreads();

  // What is written, what the fast weights answer, and the window's weights.
  if (threadIdx.x < pairs_) {
    float4 sum = {};
    for (int i = 0; i < groups_; ++i) {
      const float4 part = fast_partial[i * pairs_ + pair_];
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    const float2 value = load_pair(new_value + 2 * pair_);
    const float strength = beta[pair_head_], overlap = shared<float>(at.overlap)[own * heads_ + pair_head_];
    const float scale = rsqrtf(static_cast<float>(head_width_));
    const float2 u = make_float2(strength * (value.x - sum.x), strength * (value.y - sum.y));
    update[pair_] = u;
    fast_output[pair_] = make_float2(scale * (sum.z + overlap * u.x), scale * (sum.w + overlap * u.y));
  }
  if (window_ > 0) {
    for (int head = kStepWarps - 1 - warp_id(); head < heads_; head += kStepWarps) {
      float* own_score = score + head * window_;
      float largest = -INFINITY, sum = 0;
      for (int slot = lane_id(); slot < slots; slot += 32) largest = fmaxf(largest, own_score[slot]);
      largest = warp_max(largest);
      for (int slot = lane_id(); slot < slots; slot += 32) {
        const float weight = expf(own_score[slot] - largest);
        own_score[slot] = weight;
        sum += weight;
      }
      const float factor = 1.0f / warp_sum(sum);
      for (int slot = lane_id(); slot < slots; slot += 32) own_score[slot] *= factor;
    }
  }
  __syncthreads();

  if (active) {
    auto* state = reinterpret_cast<float2*>(arguments_.rows.layers[layer].fast_weights_NHKV +
                                            row(own) * width_ * head_width_) + column;
    const float2 u = update[pair_];
#pragma unroll 4
    for (int i = group_; i < head_width_; i += groups_) {
      const float2 s = fast[i * half];
      const float k = fast_pair[i].x;
      state[i * half] = make_float2(s.x + k * u.x, s.y + k * u.y);
    }
    if (window_ > 0) {
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 4
      for (int slot = group_; slot < slots; slot += groups_) {
        const float weight = score[pair_head_ * window_ + slot];
        const float2 value =
            load_pair((slot == time.slot ? new_value : ring_value + slot * at.ring_stride) + 2 * pair_);
        sum.x += weight * value.x;
        sum.y += weight * value.y;
      }
      value_partial[group_ * pairs_ + pair_] = sum;
    }
  }
  __syncthreads();
  start_copy(item + at.stages);

  const float* head_norm = arguments_.vectors + arguments_.layout.head_norm + layer * arguments_.layout.layer_floats;
  T* mixed = shared<T>(at.mixed) + own * at.operand_stride;
  for (int head = warp_id(); head < heads_; head += kStepWarps) {
    float2 x[2];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int in_head = lane_id() + 32 * i, pair = head * half + in_head;
      x[i] = make_float2(0.0f, 0.0f);
      if (in_head >= half) continue;
      x[i] = fast_output[pair];
      if (window_ > 0) {
        float2 seen = make_float2(0.0f, 0.0f);
        for (int group = 0; group < groups_; ++group) {
          const float2 part = value_partial[group * pairs_ + pair];
          seen.x += part.x, seen.y += part.y;
        }
        float2 fast_gate = make_float2(1.0f, 1.0f), seen_gate = fast_gate;
        if (arguments_.shape.mixing == AgentStepMixing::kVector) {
          fast_gate = make_float2(sigmoid(gate[2 * pair]), sigmoid(gate[2 * pair + 1]));
          seen_gate = make_float2(1.0f - fast_gate.x, 1.0f - fast_gate.y);
        } else if (arguments_.shape.mixing == AgentStepMixing::kScalar) {
          fast_gate.x = fast_gate.y = sigmoid(gate[2 * head]);
          seen_gate.x = seen_gate.y = sigmoid(gate[2 * head + 1]);
        }
        x[i].x = fast_gate.x * x[i].x + seen_gate.x * seen.x;
        x[i].y = fast_gate.y * x[i].y + seen_gate.y * seen.y;
      }
      squares += x[i].x * x[i].x + x[i].y * x[i].y;
    }
    const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(head_width_) + 1e-6f);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int in_head = lane_id() + 32 * i;
      if (in_head < half)
        store_pair(mixed + head * head_width_ + 2 * in_head, x[i].x * factor * __ldg(head_norm + 2 * in_head),
                   x[i].y * factor * __ldg(head_norm + 2 * in_head + 1));
    }
  }
}

// A warp a row; a lane an action.
template <typename T, int kCluster>
__device__ void StepBlock<T, kCluster>::choose() {
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
      rows.action_N[row(own)] = rows.greedy ? greedy_action(partial, actions)
                                            : sample_action(partial, actions, rows.stream_N[row(own)]);
  }
}

}  // namespace engram
