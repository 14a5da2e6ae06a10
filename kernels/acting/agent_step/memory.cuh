// The memories of the environments that a block owns: copied to shared memory ahead of their use, read, and written.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/acting/agent_step/block.cuh"

namespace engram {

template <typename T, int kCluster, class Sizes, bool kAlone>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::begin() {
  const AgentStepRows& rows = arguments_.rows;
  read_observations();
  if constexpr (kAlone) {
    float* vectors = shared<float>(arguments_.shared.vectors);
    for (int i = threadIdx.x; i < arguments_.layout.float_count; i += kStepThreads)
      copy_async<4>(vectors + i, arguments_.vectors + i, true);
  }
  // The last threads, which have nothing to read otherwise.
  if (const int own = kStepThreads - 1 - static_cast<int>(threadIdx.x); own < own_rows()) {
    RowTime time{};
    time.fresh = rows.fresh_N[row(own)] != 0;
    if (!rows.greedy) memcpy(time.stream, &rows.stream_N[row(own)], sizeof time.stream);
    if (D::window() > 0) {
      const std::int64_t position = rows.position_N[row(own)];
      time.position = time.fresh ? 0 : position;
      time.slot = static_cast<int>(time.position % D::window());
      time.past = static_cast<int>(time.position < D::window() ? time.position : D::window());
    }
    row_times()[own] = time;
  }
  // Channels from the width on are operands, too.
  auto* mixed = shared<std::uint32_t>(arguments_.shared.mixed);
  for (int i = threadIdx.x; i < 16 * mixed_stride() * static_cast<int>(sizeof(T)) / 4; i += kStepThreads) mixed[i] = 0;
  wait_for_copies();
  __syncthreads();
  for (int i = 0; i < arguments_.shared.stages; ++i) start_copy(i);
  // The encoder goes on with the first threads.
  const int late = (static_cast<int>(threadIdx.x) + kStepThreads / 2) % kStepThreads;
  if (arguments_.drops) draw_dropout(late);
  if (D::window() > 0 && arguments_.shape.rope) {
    auto* rope = shared<float2>(arguments_.shared.rope);
    const int half = D::head_width() / 2;
    for (int i = late; i < own_rows() * half; i += kStepThreads) {
      // In double, so that late positions keep their angle.
      const double turns = static_cast<double>(row_times()[i / half].position) * arguments_.rope_frequencies[i % half];
      sincospif(static_cast<float>(2 * (turns - rint(turns))), &rope[i].y, &rope[i].x);
    }
  }
}

template <typename T, int kCluster, class Sizes, bool kAlone>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::draw_dropout(int first) {
  const AgentStepRows& rows = arguments_.rows;
  const AgentStepDropout& at = arguments_.dropout;
  const int width_groups = at.width_groups, head_groups = at.head_groups;
  std::uint8_t* kept = shared<std::uint8_t>(arguments_.shared.kept);
  for (int i = first; i < own_rows() * at.groups; i += kStepThreads) {
    const int own = i / at.groups, in_row = i - own * at.groups, in_layers = in_row - at.first_layer;
    const DropoutKey* key;
    int group, count;  // of the key and row
    if (in_layers < 0) {
      key = in_row < width_groups ? &rows.encoder_dropout : &rows.input_dropout;
      group = in_row % width_groups, count = width_groups;
    } else {
      const int layer = in_layers / at.layer_groups, in_layer = in_layers - layer * at.layer_groups;
      const AgentStepRows::LayerDropout& keys = rows.dropout[layer];
      if (in_layer < at.mixer) {
        key = in_layer < at.key ? &keys.query : in_layer < at.value ? &keys.key : &keys.value;
        group = in_layer % head_groups, count = head_groups;
      } else {
        key = in_layer < at.mlp ? &keys.mixer : &keys.mlp;
        group = (in_layer - at.mixer) % width_groups, count = width_groups;
      }
    }
    if (key->drops()) kept[i] = static_cast<std::uint8_t>(key->kept(row(own) * count + group));
  }
}

// Copies the memory of item = (layer, own row) to its stage; every thread commits one group a call.
template <typename T, int kCluster, class Sizes, bool kAlone>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::start_copy(int item) {
  if (item < own_rows() * arguments_.shape.layers) {
    const int layer = item / own_rows(), own = item - layer * own_rows();
    const AgentStepRows::Layer& state = arguments_.rows.layers[layer];
    unsigned char* target = stage(item);
    const bool fresh = row_times()[own].fresh;
    const int size = D::head_width(), padded = D::padded_head();
    const float* fast = state.fast_weights_NHKV + row(own) * (D::width() * size);
    if (size == padded) {
#pragma unroll 4
      for (int i = threadIdx.x; i < D::width() * size / 4; i += kStepThreads)
        copy_async<16>(target + i * 16, fast + i * 4, !fresh);
    } else {
      for (int i = threadIdx.x; i < D::width() * padded; i += kStepThreads) {
        const int key = i / padded, value = i - key * padded;
        copy_async<4>(target + i * 4, fast + key * size + value, !fresh && value < size);
      }
    }
    if (D::window() > 0) {
      if (size != padded)
        start_ring_copy<float>(state, target, own);
      else if (D::width() % 4 != 0)
        start_ring_copy<float2>(state, target, own);
      else
        start_ring_copy<float4>(state, target, own);
    }
  }
  commit_copies();
}

// The window's part, by pieces that lie in one head and are aligned; a fresh row's ring becomes zero.
template <typename T, int kCluster, class Sizes, bool kAlone>
template <typename Piece>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::start_ring_copy(const AgentStepRows::Layer& state,
                                                                       unsigned char* target, int own) {
  constexpr int kFloats = sizeof(Piece) / sizeof(float);
  const bool fresh = row_times()[own].fresh;
  const int size = D::head_width(), padded = D::padded_head();
  const int pieces = D::mixer_width() / kFloats, slot = row_times()[own].slot;
  const int used = (fresh ? D::window() : row_times()[own].past) * pieces;
  const std::int64_t ring = row(own) * (D::window() * D::width());
  float* key_ring = state.key_ring_NSHK + ring;
  float* value_ring = state.value_ring_NSHK + ring;
  unsigned char* key = target + arguments_.shared.stage_key;
  unsigned char* value = target + arguments_.shared.stage_value;
#pragma unroll 4
  for (int i = threadIdx.x; i < used; i += kStepThreads) {
    const int at = i / pieces, column = (i - at * pieces) * kFloats;
    if (at == slot) continue;
    const int to = (at * ring_stride_of(D::mixer_width()) + column) * 4;
    int from = i * kFloats;
    bool inside = true;
    if constexpr (kFloats == 1) {
      const int head = column / padded, channel = column - head * padded;
      from = at * D::width() + head * size + channel;
      inside = channel < size;
    }
    if (fresh) {
      if (!writes_ || !inside) continue;
      *reinterpret_cast<Piece*>(key_ring + from) = Piece{};
      *reinterpret_cast<Piece*>(value_ring + from) = Piece{};
    } else {
      copy_async<sizeof(Piece)>(key + to, key_ring + from, inside);
      copy_async<sizeof(Piece)>(value + to, value_ring + from, inside);
    }
  }
}

// One warp for each row and head. Turned queries (times 1/sqrt(K)), turned keys, values, beta and gates stay where the
// projections were; the fast weights' keys and queries are written beside each other.
template <typename T, int kCluster, class Sizes, bool kAlone>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::prepare(int layer) {
  constexpr int kChannels = Sizes::kHeadChannels;  // a lane
  const int mixer = D::mixer_width(), heads = D::heads(), size = D::head_width(), window = D::window();
  const AgentStepRows::LayerDropout& dropout = arguments_.rows.dropout[layer];
  const AgentStepRows::Layer& state = arguments_.rows.layers[layer];
  for (int unit = warp_id(); unit < own_rows() * heads; unit += kStepWarps) {
    const int own = unit / heads, head = unit % heads, first = head * D::padded_head();
    float* projected = shared<float>(arguments_.shared.projection) + own * projection_stride();
    float* query = projected + first;
    float* key = query + mixer;
    float* value = key + mixer;
    const int groups = arguments_.dropout.head_groups / heads;
    const int first_group = layer_groups(layer) + head * groups;
    float q[kChannels], k[kChannels], v[kChannels], q_fast[kChannels], k_fast[kChannels];
    float q_squares = 0, k_squares = 0, overlap = 0;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = lane_id() + 32 * i;
      const bool inside = c < size;
      q[i] = inside ? query[c] : 0.0f;
      k[i] = inside ? key[c] : 0.0f;
      v[i] = inside ? value[c] : 0.0f;
    }
    const auto drop = [&](const DropoutKey& of, int group, float(&x)[kChannels]) {
      if (!of.drops()) return;
#pragma unroll
      for (int i = 0; i < kChannels; ++i)
        if (const int c = lane_id() + 32 * i; c < size) x[i] *= dropout_factor(of, own, first_group + group, c);
    };
    if (window > 0) drop(dropout.query, arguments_.dropout.query, q), drop(dropout.key, arguments_.dropout.key, k);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) v[i] = silu(v[i]), q_fast[i] = silu(q[i]), k_fast[i] = silu(k[i]);
    drop(dropout.value, arguments_.dropout.value, v);
    if (window == 0)
      drop(dropout.query, arguments_.dropout.query, q_fast), drop(dropout.key, arguments_.dropout.key, k_fast);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      q_squares += q_fast[i] * q_fast[i];
      k_squares += k_fast[i] * k_fast[i];
      overlap += q_fast[i] * k_fast[i];
    }
    const float q_factor = rsqrtf(warp_sum(q_squares) + 1e-6f), k_factor = rsqrtf(warp_sum(k_squares) + 1e-6f);
    overlap = warp_sum(overlap) * q_factor * k_factor;
    float* beta = projected + 3 * mixer + head;
    if (lane_id() == 0) {
      shared<float>(arguments_.shared.overlap)[unit] = overlap;
      *beta = arguments_.shape.beta_factor * sigmoid(*beta);
    }
    auto* fast_pair = shared<float2>(arguments_.shared.fast_pair) + own * mixer + first;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = lane_id() + 32 * i;
      if (c >= size) continue;
      fast_pair[c] = make_float2(k_fast[i] * k_factor, q_fast[i] * q_factor);
      value[c] = v[i];
      query[c] = q[i];
      key[c] = k[i];
    }
    if (window == 0) continue;
    float* gate = projected + 3 * mixer + heads;
    if (D::mixing() == AgentStepMixing::kVector) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i)
        if (const int c = lane_id() + 32 * i; c < size) gate[first + c] = sigmoid(gate[first + c]);
    } else if (D::mixing() == AgentStepMixing::kScalar && lane_id() < 2) {
      gate[2 * head + lane_id()] = sigmoid(gate[2 * head + lane_id()]);
    }
    __syncwarp();
    const int half = size / 2;
    const auto* rope = shared<float2>(arguments_.shared.rope) + own * half;
    if (arguments_.shape.rope) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const int c = lane_id() + 32 * i;
        if (c >= size) continue;
        const bool lower = c < half;
        const int partner = lower ? c + half : c - half;
        const float2 turn = rope[lower ? c : partner];
        const float sine = lower ? -turn.y : turn.y;
        q[i] = q[i] * turn.x + query[partner] * sine;
        k[i] = k[i] * turn.x + key[partner] * sine;
      }
      __syncwarp();
    }
    const float scale = rsqrtf(static_cast<float>(size));
    const std::int64_t ring = (row(own) * window + row_times()[own].slot) * D::width() + head * size;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = lane_id() + 32 * i;
      if (c >= size) continue;
      query[c] = q[i] * scale;
      key[c] = k[i];
      if (!writes_) continue;
      state.key_ring_NSHK[ring + c] = k[i];
      state.value_ring_NSHK[ring + c] = v[i];
    }
  }
}

// Thread (group, pair) takes two channels of all heads' and every groups-th row of the fast weights or slot of the
// window; partial sums meet in shared memory.
template <typename T, int kCluster, class Sizes, bool kAlone>
__device__ void StepBlock<T, kCluster, Sizes, kAlone>::remember(int layer, int own) {
  const AgentStepShared& at = arguments_.shared;
  const int mixer = D::mixer_width(), heads = D::heads(), size = D::head_width(), window = D::window();
  const int padded = D::padded_head(), half = padded / 2, pairs = mixer / 2, groups = kStepThreads / pairs;
  const int ring_stride = ring_stride_of(mixer);
  const int pair = static_cast<int>(threadIdx.x) % pairs, group = static_cast<int>(threadIdx.x) / pairs;
  const int pair_head = pair / half;
  const bool active = group < groups;
  const int item = layer * own_rows() + own;
  const int slot_now = row_times()[own].slot;
  const int slots = min(row_times()[own].past + 1, window);
  const unsigned char* memory = stage(item);
  const float* query = shared<float>(at.projection) + own * projection_stride();
  const float* new_key = query + mixer;
  const float* new_value = new_key + mixer;
  const float* beta = new_value + mixer;
  const float* gate = beta + heads;
  const auto* ring_key = reinterpret_cast<const float*>(memory + at.stage_key);
  const auto* ring_value = reinterpret_cast<const float*>(memory + at.stage_value);
  auto* fast_partial = shared<float4>(at.fast_partial);
  auto* value_partial = shared<float2>(at.value_partial);
  float* score = shared<float>(at.score);
  auto* update = shared<float2>(at.update);
  auto* fast_output = shared<float2>(at.fast_output);
  const auto* fast_pair = shared<float2>(at.fast_pair) + own * mixer + pair_head * padded;
  // The thread's pair of columns: rows of the fast weights are `half` pairs apart.
  const int column = pair_head * size * half + pair - pair_head * half;
  const auto* fast = reinterpret_cast<const float2*>(memory) + column;

  wait_for_copy();
  __syncthreads();

  // k^T S and q^T S, and the window's scores.
  if (active) {
    float4 sum = {};
#pragma unroll 8
    for (int i = group; i < size; i += groups) {
      const float2 s = fast[i * half], key_query = fast_pair[i];
      sum.x += key_query.x * s.x;
      sum.y += key_query.x * s.y;
      sum.z += key_query.y * s.x;
      sum.w += key_query.y * s.y;
    }
    fast_partial[group * pairs + pair] = sum;
  }
  for (int first = warp_id() * 8; first < window * heads; first += kStepWarps * 8) {
    const int dot = first + lane_id() / 4, head = min(dot / window, heads - 1), slot = dot % window;
    const float* key = (slot == slot_now ? new_key : ring_key + slot * ring_stride) + head * padded;
    float sum = 0;
    if (slot < slots) {
#pragma unroll 8
      for (int i = lane_id() % 4; i < half; i += 4) {
        const float2 k = load_pair(key + 2 * i), q = load_pair(query + head * padded + 2 * i);
        sum += k.x * q.x + k.y * q.y;
      }
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (lane_id() % 4 == 0 && dot < window * heads) score[dot] = slot < slots ? sum : -INFINITY;
  }
  __syncthreads();

  // What is written, what the fast weights answer, and the window's weights.
  if (threadIdx.x < pairs) {
    float4 sum = {};
#pragma unroll 10
    for (int i = 0; i < groups; ++i) {
      const float4 part = fast_partial[i * pairs + pair];
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    const float2 value = load_pair(new_value + 2 * pair);
    const float strength = beta[pair_head], overlap = shared<float>(at.overlap)[own * heads + pair_head];
    const float scale = rsqrtf(static_cast<float>(size));
    const float2 u = make_float2(strength * (value.x - sum.x), strength * (value.y - sum.y));
    update[pair] = u;
    fast_output[pair] = make_float2(scale * (sum.z + overlap * u.x), scale * (sum.w + overlap * u.y));
  }
  if (window > 0) {
    for (int head = kStepWarps - 1 - warp_id(); head < heads; head += kStepWarps) {
      float* own_score = score + head * window;
      float largest = -INFINITY, sum = 0;
#pragma unroll 2
      for (int slot = lane_id(); slot < window; slot += 32) largest = fmaxf(largest, own_score[slot]);
      largest = warp_max(largest);
#pragma unroll 2
      for (int slot = lane_id(); slot < window; slot += 32) {
        const float weight = __expf(own_score[slot] - largest);
        own_score[slot] = weight;
        sum += weight;
      }
      const float factor = 1.0f / warp_sum(sum);
#pragma unroll 2
      for (int slot = lane_id(); slot < window; slot += 32) own_score[slot] *= factor;
    }
  }
  __syncthreads();

  if (active) {
    float* written = arguments_.rows.layers[layer].fast_weights_NHKV + row(own) * (D::width() * size);
    auto* state = reinterpret_cast<float2*>(written) + column;
    const float2 u = update[pair];
#pragma unroll 8
    for (int i = group; i < size && writes_; i += groups) {
      const float2 s = fast[i * half];
      const float k = fast_pair[i].x;
      const float2 next = make_float2(s.x + k * u.x, s.y + k * u.y);
      if (size == padded) {
        state[i * half] = next;
      } else {
        const int value = 2 * (pair - pair_head * half);
        float* to = written + (pair_head * size + i) * size + value;
        to[0] = next.x;
        if (value + 1 < size) to[1] = next.y;
      }
    }
    if (window > 0) {
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 8
      for (int slot = group; slot < window; slot += groups) {
        if (slot >= slots) continue;
        const float weight = score[pair_head * window + slot];
        const float2 value = load_pair((slot == slot_now ? new_value : ring_value + slot * ring_stride) + 2 * pair);
        sum.x += weight * value.x;
        sum.y += weight * value.y;
      }
      value_partial[group * pairs + pair] = sum;
    }
  }
  __syncthreads();
  start_copy(item + at.stages);

  const int head_norm = arguments_.layout.head_norm + layer_vectors(layer);
  T* mixed = shared<T>(at.mixed) + own * mixed_stride();
  for (int head = warp_id(); head < heads; head += kStepWarps) {
    float2 x[Sizes::kHeadPairs], seen[Sizes::kHeadPairs];
#pragma unroll
    for (int i = 0; i < Sizes::kHeadPairs; ++i) {
      const int in_head = lane_id() + 32 * i, own_pair = head * half + in_head;
      x[i] = seen[i] = make_float2(0.0f, 0.0f);
      if (in_head >= half) continue;
      x[i] = fast_output[own_pair];
      if (window > 0) {
#pragma unroll 10
        for (int part = 0; part < groups; ++part) {
          const float2 value = value_partial[part * pairs + own_pair];
          seen[i].x += value.x, seen[i].y += value.y;
        }
      }
    }
    if (window > 0 && arguments_.shape.branch_norm) {
      divide_by_rms(x);
      divide_by_rms(seen);
    }
    float squares = 0;
#pragma unroll
    for (int i = 0; i < Sizes::kHeadPairs; ++i) {
      const int in_head = lane_id() + 32 * i, own_pair = head * half + in_head;
      if (in_head >= half) continue;
      if (window > 0) {
        float2 fast_gate = make_float2(1.0f, 1.0f), seen_gate = fast_gate;
        if (D::mixing() == AgentStepMixing::kVector) {
          fast_gate = make_float2(gate[2 * own_pair], gate[2 * own_pair + 1]);
          seen_gate = make_float2(1.0f - fast_gate.x, 1.0f - fast_gate.y);
        } else if (D::mixing() == AgentStepMixing::kScalar) {
          fast_gate.x = fast_gate.y = gate[2 * head];
          seen_gate.x = seen_gate.y = gate[2 * head + 1];
        }
        x[i].x = fast_gate.x * x[i].x + seen_gate.x * seen[i].x;
        x[i].y = fast_gate.y * x[i].y + seen_gate.y * seen[i].y;
      }
      squares += x[i].x * x[i].x + x[i].y * x[i].y;
    }
    const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(size) + 1e-6f);
#pragma unroll
    for (int i = 0; i < Sizes::kHeadPairs; ++i) {
      const int in_head = lane_id() + 32 * i;
      if (in_head < half)
        store_pair(mixed + head * padded + 2 * in_head, x[i].x * factor * vector(head_norm + 2 * in_head),
                   x[i].y * factor * vector(head_norm + 2 * in_head + 1));
    }
  }
}

}  // namespace engram
