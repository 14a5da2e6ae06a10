#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"
#include "kernels/fast_weight_passes/passes.h"
#include "kernels/fast_weight_passes/warp_lane.cuh"

namespace engram::fast_weight_passes {
namespace {

constexpr int kResident = 3;  // blocks a multiprocessor of the backward kernel

// Where the vectors of one (row, head) stand.
struct Place {
  bool holds, holds_answer;  // this lane holds a vector of it
  std::int64_t out, answer, gate;

  __device__ Place(const Answer& input, unsigned item, bool inside, int first) {
    const unsigned heads = input.heads, row = item / heads, head = item % heads;
    holds = inside && first < input.padded;
    holds_answer = inside && first < input.features_padded;
    out = std::int64_t{item} * input.padded + first;
    answer = std::int64_t{item} * input.features_padded + first;
    gate = row * input.projected_stride + head * input.padded + first;
  }
};

__device__ float one_of(const Answer& input, unsigned item) { return input.one == nullptr ? 1 : input.one[item]; }

template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ Answer input, T* __restrict__ out) {
  using Lane = WarpLane<T, kLanes, false>;
  const Lane lane;
  const unsigned item = blockIdx.x * Lane::kHeads + threadIdx.x / kLanes;
  const bool inside = item < static_cast<unsigned>(input.rows) * input.heads;
  const Place place(input, inside ? item : 0, inside, lane.first());
  const StoredVector<T> answer(place.holds_answer, static_cast<const T*>(input.answer) + place.answer);
  const StoredVector<T> gate(place.holds && input.gate != nullptr, static_cast<const T*>(input.gate) + place.gate);
  const RowVector weight = load_bounded(input.weight, lane.first(), input.kind.channels);
  const RowVector y = mixed(input.kind, lane, answer.floats(), one_of(input, inside ? item : 0), weight, gate.floats());
  if (place.holds) store_vector(out + place.out, y);
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads, kResident)
    backward_kernel(const __grid_constant__ Answer input, const __grid_constant__ AnswerGradient gradient,
                    float* __restrict__ weight_sums) {
  using Lane = WarpLane<T, kLanes, false>;
  __shared__ float4 shared[Lane::kHeads * kLanes * kVector / 4];
  const Lane lane;
  const int first = lane.first(), slot = threadIdx.x / kLanes;
  const RowVector weight = load_bounded(input.weight, first, input.kind.channels);
  RowVector weight_sum = {};
  const unsigned items = static_cast<unsigned>(input.rows) * input.heads;
  // The block goes on together: the sums over a head need all lanes.
  for (unsigned begin = blockIdx.x * Lane::kHeads; begin < items; begin += gridDim.x * Lane::kHeads) {
    const bool inside = begin + slot < items;
    const Place place(input, inside ? begin + slot : 0, inside, first);
    const StoredVector<T> answer(place.holds_answer, static_cast<const T*>(input.answer) + place.answer);
    const StoredVector<T> gate(place.holds && input.gate != nullptr, static_cast<const T*>(input.gate) + place.gate);
    const StoredVector<T> d_out(place.holds, static_cast<const T*>(gradient.out) + place.out);
    const float one = one_of(input, inside ? begin + slot : 0);
    const auto d = mixed_backward(input.kind, lane, answer.floats(), one, weight, gate.floats(), d_out.floats());
#pragma unroll
    for (int i = 0; i < kVector; ++i) weight_sum.x[i] += d.weight.x[i];
    if (place.holds_answer) store_vector(static_cast<T*>(gradient.answer) + place.answer, d.answer);
    if (place.holds && input.gate != nullptr) store_vector(static_cast<T*>(gradient.gate) + place.gate, d.gate);
  }
  write_block_sums(weight_sum, first < input.padded, first, slot, Lane::kHeads, input.padded, &shared[0].x,
                   weight_sums + std::int64_t{blockIdx.x} * input.padded);
}

int lanes_width(const Answer& input) { return std::max(input.padded, input.features_padded); }

void check(const Answer& input) {
  const int answer = input.kind.channels + (input.kind.norm == AnswerNorm::kNone ? 0 : 1);
  if (input.rows < 1 || input.heads < 1 || input.kind.channels < 1 || input.kind.channels > input.padded ||
      answer > input.features_padded || input.padded % kVector != 0 || input.features_padded % kVector != 0 ||
      lanes_width(input) > kMaxPadded || input.projected_stride % kVector != 0 ||
      (input.gate == nullptr) != (input.kind.gate == AnswerGate::kNone) ||
      input.rows * input.heads > std::numeric_limits<int>::max())
    throw std::runtime_error("answers of fast weights: " + std::to_string(input.rows) + " rows of " +
                             std::to_string(input.heads) + " heads of " + std::to_string(answer) +
                             " elements stored as " + std::to_string(input.features_padded) + ", " +
                             std::to_string(input.kind.channels) + " of them then as " + std::to_string(input.padded) +
                             ", projections " + std::to_string(input.projected_stride) + " apart");
}

template <class Launch>
void dispatch(const Answer& input, Launch launch) {
  check(input);
  dispatch_lanes(input.dtype, lanes_width(input), launch);
}

int heads_of_block(const Answer& input) { return lanes_width(input) <= 64 ? kThreads / 8 : kThreads / 16; }
int blocks_of(const Answer& input) { return row_blocks(input.rows * input.heads, heads_of_block(input), kResident); }

}  // namespace

void answer_forward(const Answer& input, void* out, cudaStream_t stream) {
  dispatch(input, [&]<typename T, int kLanes>() {
    const int heads = WarpLane<T, kLanes, false>::kHeads;
    const auto blocks = static_cast<unsigned>((input.rows * input.heads + heads - 1) / heads);
    forward_kernel<T, kLanes><<<blocks, kThreads, 0, stream>>>(input, static_cast<T*>(out));
  });
  check_cuda(cudaGetLastError(), "answers of fast weights");
}

std::size_t answer_backward_scratch_bytes(const Answer& input) {
  check(input);
  return sizeof(float) * blocks_of(input) * input.padded;
}

void answer_backward(const Answer& input, const AnswerGradient& gradient, void* scratch, cudaStream_t stream) {
  dispatch(input, [&]<typename T, int kLanes>() {
    backward_kernel<T, kLanes>
        <<<blocks_of(input), kThreads, 0, stream>>>(input, gradient, static_cast<float*>(scratch));
  });
  check_cuda(cudaGetLastError(), "gradients of answers of fast weights");
}

GradientSum answer_sum(const Answer& input, const void* scratch, float* d_weight) {
  return vector_sum(static_cast<const float*>(scratch), blocks_of(input), input.padded, input.kind.channels, d_weight);
}

}  // namespace engram::fast_weight_passes
