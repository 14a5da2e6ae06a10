#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/attention/tiles.cuh"

namespace engram::attention {
namespace {

constexpr int kMaxWidth = 128;
constexpr int kMaxWarps = 16;
constexpr int kHeadsOfBlock = 4;  // where a head has one warp
constexpr int kGroup = 8;         // lanes that share a slot
constexpr int kGroups = 32 / kGroup;

template <typename T, typename Ring>
struct StepArguments {
  int rows, heads, width, slots, output_width;
  bool chunked;
  float scale;
  std::int64_t head_stride, q_stride, k_stride, v_stride;
  const T *q, *k, *v;
  const std::int64_t* position;
  Ring *key, *value;
  T* output;
  DropoutKey dropout;
  Frequencies frequencies;
};

// A part of a softmax-weighted sum: sum over its slots of exp2(score - largest) (1, value).
template <int kPairs>
struct Partial {
  float largest = -INFINITY, weight = 0;
  float2 sum[kPairs] = {};

  __device__ void rescale(float top) {
    const float factor = largest == -INFINITY ? 0.0f : exp2f(largest - top);
    largest = top;
    weight *= factor;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) sum[i].x *= factor, sum[i].y *= factor;
  }
  // Adds what the lane `distance` away holds, in an order that is the same for both.
  __device__ void merge(int distance) {
    rescale(fmaxf(largest, __shfl_xor_sync(~0u, largest, distance)));
    weight += __shfl_xor_sync(~0u, weight, distance);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      sum[i].x += __shfl_xor_sync(~0u, sum[i].x, distance);
      sum[i].y += __shfl_xor_sync(~0u, sum[i].y, distance);
    }
  }
};

// Calls each(i) for i below `count`, which is at most the threads of a block: by tests there, by a loop in a warp.
template <bool kOneWarp, typename Each>
__device__ __forceinline__ void for_each(int count, int thread, const Each& each) {
  if constexpr (kOneWarp) {
    for (int i = thread; i < count; i += 32) each(i);
  } else {
    if (thread < count) each(thread);
  }
}

// q and k of a row and head, turned to `position`, and v, by a warp or a block.
template <bool kOneWarp, typename T, typename Ring>
__device__ __forceinline__ void read_turned(const StepArguments<T, Ring>& arguments, std::int64_t row, int head,
                                            std::int64_t position, int thread, float* q, float* k, float* v) {
  const int width = arguments.width, pairs = arguments.frequencies.pairs;
  const std::int64_t head_offset = head * arguments.head_stride;
  for_each<kOneWarp>(2 * kMaxPairs, thread, [&](int j) {  // first q's pairs, then k's
    const bool key = j >= kMaxPairs;
    const int i = j % kMaxPairs;
    const T* from =
        (key ? arguments.k + row * arguments.k_stride : arguments.q + row * arguments.q_stride) + head_offset;
    float* to = key ? k : q;
    if (i < pairs) {
      const Rotation rotation = Rotation::by(arguments.frequencies.turns[i] * static_cast<std::uint64_t>(position));
      const float2 turned = rotation.turn(static_cast<float>(from[i]), static_cast<float>(from[i + pairs]));
      to[i] = turned.x;
      to[i + pairs] = turned.y;
    }
    for (int c = 2 * pairs + i; c < width; c += kMaxPairs) to[c] = static_cast<float>(from[c]);
  });
  for_each<kOneWarp>(width, thread, [&](int c) {
    v[c] = static_cast<float>(arguments.v[row * arguments.v_stride + head_offset + c]);
  });
}

// A row and head has a block, or, kOneWarp, a warp. Eight lanes share a slot, each with every eighth pair of channels;
// a pass over the ring takes kUnroll slots a group of lanes. Where weights are dropped, dynamic shared memory holds a
// bit for every slot.
template <typename T, typename Ring, int kPairs, bool kOneWarp>
__global__ void __launch_bounds__(kOneWarp ? kHeadsOfBlock * 32 : kMaxWarps * 32)
    step_kernel(const __grid_constant__ StepArguments<T, Ring> arguments) {
  constexpr int kUnroll = 16 / kPairs, kHeads = kOneWarp ? kHeadsOfBlock : 1, kWarps = kOneWarp ? 1 : kMaxWarps;
  constexpr int kWidth = kOneWarp ? 2 * kGroup * kPairs : kMaxWidth;
  struct Shared {
    alignas(16) float q[kWidth], k[kWidth], v[kWidth];
    float warp_sum[kWarps][kWidth], warp_largest[kWarps], warp_weight[kWarps];
  };
  __shared__ Shared of_heads[kHeads];
  extern __shared__ std::uint8_t kept_of_heads[];
  const int own = kOneWarp ? threadIdx.x / 32 : 0;  // of the block's heads
  const int problem = static_cast<int>(blockIdx.x) * kHeads + own;
  if (problem >= arguments.rows * arguments.heads) return;
  const int row = problem / arguments.heads, head = problem % arguments.heads;
  const int width = arguments.width;
  const int thread = kOneWarp ? lane_id() : threadIdx.x, threads = kOneWarp ? 32 : blockDim.x;
  const int warp = thread / 32, warps = threads / 32;
  auto& [q, k, v, warp_sum, warp_largest, warp_weight] = of_heads[own];
  // Of the slots 8 * i .. 8 * i + 7.
  std::uint8_t* const kept = kept_of_heads + own * (dropout_row(arguments.slots) / kDropoutGroup);
  const auto synchronise = [] { kOneWarp ? __syncwarp() : __syncthreads(); };
  std::int64_t position = arguments.position[row];
  if (arguments.chunked) position %= arguments.slots;
  const int slot = static_cast<int>(position % arguments.slots);
  const int filled = static_cast<int>(position < arguments.slots ? position + 1 : arguments.slots);
  const std::int64_t at = row;
  const std::int64_t slot_stride = static_cast<std::int64_t>(arguments.heads) * width;
  const std::int64_t ring = (at * arguments.slots * arguments.heads + head) * width;

  read_turned<kOneWarp>(arguments, row, head, position, thread, q, k, v);
  const bool drops = arguments.dropout.drops();
  if (drops) {
    const std::int64_t first_group = problem * (dropout_row(arguments.slots) / kDropoutGroup);
    for (int i = thread; i * kDropoutGroup < filled; i += threads)
      kept[i] = static_cast<std::uint8_t>(arguments.dropout.kept(first_group + i));
  }
  synchronise();
  for_each<kOneWarp>(width, thread, [&](int c) {
    const std::int64_t to = ring + slot * slot_stride + c;
    arguments.key[to] = Ring(k[c]);
    arguments.value[to] = Ring(v[c]);
  });

  const int sub = lane_id() % kGroup, group = warp * kGroups + lane_id() / kGroup;
  float2 query[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int pair = sub + i * kGroup;
    const float factor = arguments.scale * kLog2E;
    query[i] = 2 * pair < width ? make_float2(factor * q[2 * pair], factor * q[2 * pair + 1]) : make_float2(0, 0);
  }
  Partial<kPairs> partial;
  for (int base = 0; base < filled; base += warps * kGroups * kUnroll) {
    float2 key[kUnroll][kPairs], value[kUnroll][kPairs];
    float score[kUnroll];
#pragma unroll
    for (int n = 0; n < kUnroll; ++n) {
      const int s = base + n * warps * kGroups + group;
      const std::int64_t offset = ring + s * slot_stride;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const int column = 2 * (sub + i * kGroup);
        const bool inside = s < filled && s != slot && column < width;
        key[n][i] = inside ? load_pair(arguments.key + offset + column) : make_float2(0, 0);
        value[n][i] = inside ? load_pair(arguments.value + offset + column) : make_float2(0, 0);
        if (s == slot && column < width) {  // as the ring holds them, which another thread may still be writing
          key[n][i] = make_float2(float(Ring(k[column])), float(Ring(k[column + 1])));
          value[n][i] = make_float2(float(Ring(v[column])), float(Ring(v[column + 1])));
        }
      }
    }
    float top = partial.largest;
#pragma unroll
    for (int n = 0; n < kUnroll; ++n) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) sum += query[i].x * key[n][i].x + query[i].y * key[n][i].y;
#pragma unroll
      for (int distance = kGroup / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
      score[n] = base + n * warps * kGroups + group < filled ? sum : -INFINITY;
      top = fmaxf(top, score[n]);
    }
    partial.rescale(top);
#pragma unroll
    for (int n = 0; n < kUnroll; ++n) {
      float weight = score[n] == -INFINITY ? 0.0f : exp2f(score[n] - top);
      partial.weight += weight;
      if (drops) {
        const int s = base + n * warps * kGroups + group;
        const bool keep = s < filled && (kept[s / kDropoutGroup] >> s % kDropoutGroup & 1) != 0;
        weight = keep ? weight * arguments.dropout.scale : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        partial.sum[i].x += weight * value[n][i].x;
        partial.sum[i].y += weight * value[n][i].y;
      }
    }
  }
#pragma unroll
  for (int distance = kGroup; distance < 32; distance *= 2) partial.merge(distance);
  if (lane_id() < kGroup) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      warp_sum[warp][2 * (sub + i * kGroup)] = partial.sum[i].x;
      warp_sum[warp][2 * (sub + i * kGroup) + 1] = partial.sum[i].y;
    }
    if (sub == 0) {
      warp_largest[warp] = partial.largest;
      warp_weight[warp] = partial.weight;
    }
  }
  synchronise();
  T* const output = arguments.output + (at * arguments.heads + head) * arguments.output_width;
  for_each<kOneWarp>(arguments.output_width, thread, [&](int c) {
    float largest = -INFINITY, weight = 0, sum = 0;
    for (int i = 0; i < warps; ++i) largest = fmaxf(largest, warp_largest[i]);
    for (int i = 0; i < warps && c < width; ++i) {
      const float factor = exp2f(warp_largest[i] - largest);
      weight += factor * warp_weight[i];
      sum += factor * warp_sum[i][c];
    }
    output[c] = T(c < width ? sum / weight : 0.0f);
  });
}

}  // namespace
}  // namespace engram::attention

namespace engram {

void attention_step(const AttentionStep& step, cudaStream_t stream) {
  using namespace attention;
  check_shape({step.rows, 1, step.heads, step.width});
  check_vectors(step.rotary_width, step.width, step.scale,
                {step.head_stride, step.q.row_stride, step.k.row_stride, step.v.row_stride});
  if (step.ring.slots < 1) throw std::runtime_error("attention: a ring of no slots");
  if (step.output_width < step.width || step.output_width > (step.width <= 64 ? 64 : kMaxWidth))
    throw std::runtime_error("attention: output of width " + std::to_string(step.output_width) + " of heads of " +
                             std::to_string(step.width));
  const auto kept_bytes =
      static_cast<std::size_t>(step.dropout.drops() ? dropout_row(step.ring.slots) / kDropoutGroup : 0);
  const int warps = step.ring.slots <= 64 ? 4 : step.ring.slots <= 128 ? 8 : kMaxWarps;
  const int problems = step.rows * step.heads;
  // Enough heads to keep 32 warps of each multiprocessor at work: what a block waits for itself costs more than it
  // gains.
  static const int multiprocessors = cuda_device_attribute(cudaDevAttrMultiProcessorCount);
  const bool one_warp = step.ring.slots <= 64 && step.width <= 64 && problems >= 32 * multiprocessors;
  dispatch_dtype(step.dtype, [&](auto element) {
    dispatch_dtype(step.ring.dtype, [&](auto ring_element) {
      using T = decltype(element);
      using Ring = decltype(ring_element);
      const StepArguments<T, Ring> arguments{step.rows,
                                             step.heads,
                                             step.width,
                                             step.ring.slots,
                                             step.output_width,
                                             step.chunked,
                                             step.scale,
                                             step.head_stride,
                                             step.q.row_stride,
                                             step.k.row_stride,
                                             step.v.row_stride,
                                             static_cast<const T*>(step.q.data),
                                             static_cast<const T*>(step.k.data),
                                             static_cast<const T*>(step.v.data),
                                             step.position_N,
                                             static_cast<Ring*>(step.ring.key_BSHW),
                                             static_cast<Ring*>(step.ring.value_BSHW),
                                             static_cast<T*>(step.output_NHP),
                                             step.dropout,
                                             make_frequencies(step.rotary_width)};
      if (one_warp) {
        const auto kernel = step.width <= 32 ? step_kernel<T, Ring, 2, true> : step_kernel<T, Ring, 4, true>;
        kernel<<<(problems + kHeadsOfBlock - 1) / kHeadsOfBlock, kHeadsOfBlock * 32, kHeadsOfBlock * kept_bytes,
                 stream>>>(arguments);
      } else {
        const auto kernel = step.width <= 64 ? step_kernel<T, Ring, 4, false> : step_kernel<T, Ring, 8, false>;
        kernel<<<problems, warps * 32, kept_bytes, stream>>>(arguments);
      }
      check_cuda(cudaGetLastError(), "attention: step");
    });
  });
}

}  // namespace engram
