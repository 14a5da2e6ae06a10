#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"
#include "kernels/fast_weights/passes/passes.h"
#include "kernels/fast_weights/passes/warp_lane.cuh"

namespace engram::fast_weight_passes {
namespace {

constexpr int kResident = 3;  // blocks a multiprocessor of the backward kernel

__host__ __device__ constexpr int scalar_gates(int heads) { return (2 * heads + kVector - 1) / kVector * kVector; }

// Where the vectors of one (row, head) stand.
struct Place {
  unsigned item, head;
  bool holds, holds_answer;                           // this lane holds a vector of it
  std::int64_t out, answer, projected, gate, values;  // gate: of any gate with one for every channel

  __device__ Place(const Answer& input, unsigned of_all, bool inside, int first) : item(inside ? of_all : 0) {
    const unsigned heads = input.heads, row = item / heads;
    head = item % heads;
    holds = inside && first < input.padded;
    holds_answer = inside && first < input.features_padded;
    out = std::int64_t{item} * input.padded + first;
    answer = std::int64_t{item} * input.features_padded + first;
    projected = row * input.projected_stride;
    gate = projected + head * input.padded + first;
    values = row * input.values_stride + head * input.features_padded + first;
  }
};

// What the values of a head are multiplied with; 0 without a skip.
__device__ float skip_of(const Answer& input, unsigned head) {
  return input.skip_H == nullptr ? 0 : input.skip_scale * input.skip_H[head];
}

// Loads before anything is computed: memory is the limit.
template <class Form, class Lane>
__device__ AnswerItem<Lane> load_item(const Answer& input, const Place& place) {
  using T = typename Lane::Element;
  const T* const mix_gates = static_cast<const T*>(input.mix_gate);
  AnswerItem<Lane> item{};
  item.answer = {place.holds_answer, static_cast<const T*>(input.answer) + place.answer};
  if constexpr (Form::mix != Mix::kNone) item.window = {place.holds, static_cast<const T*>(input.window) + place.out};
  if (Form::gates && input.kind.gate != AnswerGate::kNone)
    item.gate = {place.holds, static_cast<const T*>(input.gate) + place.gate};
  if constexpr (Form::mix == Mix::kVector) item.mix_gate = {place.holds, mix_gates + place.gate};
  if constexpr (Form::mix == Mix::kScalar) {
    item.fast_gate = static_cast<float>(mix_gates[place.projected + 2 * place.head]);
    item.window_gate = static_cast<float>(mix_gates[place.projected + 2 * place.head + 1]);
  }
  item.one = input.one == nullptr ? 1 : input.one[place.item];
  if constexpr (Form::mix == Mix::kNone) {
    item.skip = skip_of(input, place.head);
    item.values = {place.holds_answer && input.skip_H != nullptr, static_cast<const T*>(input.values) + place.values};
  }
  return item;
}

template <class T, int kLanes, class Form>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ Answer input, T* __restrict__ out) {
  using Lane = WarpLane<T, kLanes, false>;
  __shared__ float4 shared[kLanes * kVector / 4];
  const Lane lane;
  const unsigned item = blockIdx.x * Lane::kHeads + threadIdx.x / kLanes;
  const Place place(input, item, item < static_cast<unsigned>(input.rows) * input.heads, lane.first());
  const auto stored = load_item<Form, Lane>(input, place);
  // The weight by way of shared memory, where a lane reads it as a vector.
  float* const weight = &shared[0].x;
  if (const int c = threadIdx.x; c < kLanes * kVector) weight[c] = c < input.kind.channels ? input.weight[c] : 0.0f;
  __syncthreads();
  const RowVector y = answered<Form>(input.kind, lane, stored, load_vector(weight + lane.first()));
  if (place.holds) store_vector(out + place.out, y);
}

// What slots hold of their heads, each of one alone, as sums of the block: [heads].
template <class Lane>
__device__ void write_head_sums(float own, int first_item, int heads, float* shared, float* sums) {
  const int slot = static_cast<int>(threadIdx.x) / (kThreads / Lane::kHeads);
  __syncthreads();
  if (Lane().first() == 0) shared[slot] = own;
  __syncthreads();
  for (int h = static_cast<int>(threadIdx.x); h < heads; h += kThreads) {
    float total = 0;
    for (int s = 0; s < Lane::kHeads; ++s)
      if ((first_item + s) % heads == h) total += shared[s];
    sums[h] = total;
  }
}

// The weight's and the skip's sums: [blocks, padded] and [blocks, heads].
template <class T, int kLanes, class Form>
__global__ void __launch_bounds__(kThreads, kResident)
    backward_kernel(const __grid_constant__ Answer input, const __grid_constant__ AnswerGradient gradient,
                    float* __restrict__ weight_sums, float* __restrict__ skip_sums) {
  using Lane = WarpLane<T, kLanes, false>;
  __shared__ float4 shared[Lane::kHeads * kLanes * kVector / 4];
  const Lane lane;
  const int first = lane.first(), slot = threadIdx.x / kLanes;
  const RowVector weight = load_bounded(input.weight, first, input.kind.channels);
  RowVector weight_sum = {};
  float skip_sum = 0;
  const unsigned items = static_cast<unsigned>(input.rows) * input.heads, slots = gridDim.x * Lane::kHeads;
  // With a skip as many slots work as let each stay with its head.
  const unsigned working = input.skip_H == nullptr ? slots : slots / input.heads * input.heads;
  const bool works = blockIdx.x * Lane::kHeads + slot < working;
  // The block goes on together: the sums over a head need all lanes.
  for (unsigned begin = blockIdx.x * Lane::kHeads; begin < items; begin += working) {
    const bool inside = works && begin + slot < items;
    const Place place(input, begin + slot, inside, first);
    const auto stored = load_item<Form, Lane>(input, place);
    const StoredVector<T> d_out(place.holds, static_cast<const T*>(gradient.out) + place.out);
    const auto d = answered_backward<Form>(input.kind, lane, stored, weight, d_out.floats(), weight_sum);
    if (Form::mix == Mix::kNone && input.skip_H != nullptr)
      skip_sum += product_sum(lane, d.answer, stored.values.floats());
    T* const d_mix_gates = static_cast<T*>(gradient.mix_gate);
    if (place.holds_answer) store_vector(static_cast<T*>(gradient.answer) + place.answer, d.answer);
    if (place.holds) {
      if constexpr (Form::mix != Mix::kNone) store_vector(static_cast<T*>(gradient.window) + place.out, d.window);
      if (Form::gates && input.kind.gate != AnswerGate::kNone)
        store_vector(static_cast<T*>(gradient.gate) + place.gate, d.gate);
      if constexpr (Form::mix == Mix::kVector) store_vector(d_mix_gates + place.gate, d.mix_gate);
    }
    if (Form::mix == Mix::kScalar && inside) {
      T* const row = d_mix_gates + place.projected;
      if (first == 0) {
        row[2 * place.head] = static_cast<T>(d.fast_gate);
        row[2 * place.head + 1] = static_cast<T>(d.window_gate);
      }
      if (place.head == 0)  // the padding, shorter than a vector
        for (int c = 2 * input.heads + first / kVector; c < scalar_gates(input.heads); c += kLanes)
          row[c] = static_cast<T>(0.0f);
    }
  }
  write_block_sums(weight_sum, first < input.padded, first, slot, Lane::kHeads, input.padded, &shared[0].x,
                   weight_sums + std::int64_t{blockIdx.x} * input.padded);
  if (Form::mix == Mix::kNone && input.skip_H != nullptr)
    write_head_sums<Lane>(input.skip_scale * skip_sum, static_cast<int>(blockIdx.x) * Lane::kHeads, input.heads,
                          &shared[0].x, skip_sums + std::int64_t{blockIdx.x} * input.heads);
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads)
    skipped_kernel(const __grid_constant__ Answer input, const T* __restrict__ d_answer, T* __restrict__ d_values) {
  using Lane = WarpLane<T, kLanes, false>;
  const unsigned item = blockIdx.x * Lane::kHeads + threadIdx.x / kLanes;
  const bool inside = item < static_cast<unsigned>(input.rows) * input.heads;
  const Place place(input, item, inside, Lane().first());
  if (!place.holds_answer) return;
  store_vector(d_values + place.values,
               with_skip<Lane>(load_vector(d_values + place.values), skip_of(input, place.head),
                               load_vector(d_answer + place.answer)));
}

int lanes_width(const Answer& input) { return std::max(input.padded, input.features_padded); }

void check(const Answer& input) {
  const auto refuse = [](const char* why) { throw std::runtime_error(std::string("answers of fast weights: ") + why); };
  const bool mixes = input.kind.mix != Mix::kNone;
  if (input.kind.branch_norm && !mixes) refuse("branch_norm without a mix");
  if (mixes && input.skip_H != nullptr) refuse("a mix with a skip");
  if (mixes && input.window == nullptr) refuse("a mix without a window");
  const int answer = input.kind.channels + (input.kind.norm == AnswerNorm::kNone ? 0 : 1);
  if (input.rows < 1 || input.heads < 1 || input.kind.channels < 1 || input.kind.channels > input.padded ||
      answer > input.features_padded || input.padded % kVector != 0 || input.features_padded % kVector != 0 ||
      lanes_width(input) > kMaxPadded || input.projected_stride % kVector != 0 ||
      (input.gate == nullptr && gate_columns(input.kind.gate, input.heads, input.padded) > 0) ||
      (input.mix_gate == nullptr && mix_columns(input.kind.mix, input.heads, input.padded) > 0) ||
      (input.skip_H != nullptr && (input.kind.norm != AnswerNorm::kNone || input.values_stride % kVector != 0)) ||
      input.rows * input.heads > std::numeric_limits<int>::max())
    throw std::runtime_error(
        "answers of fast weights: " + std::to_string(input.rows) + " rows of " + std::to_string(input.heads) +
        " heads of " + std::to_string(answer) + " elements stored as " + std::to_string(input.features_padded) + ", " +
        std::to_string(input.kind.channels) + " of them then as " + std::to_string(input.padded) + ", projections " +
        std::to_string(input.projected_stride) + " apart" +
        (input.skip_H == nullptr ? "" : ", with a skip of values " + std::to_string(input.values_stride) + " apart"));
}

template <class Launch>
void dispatch(const Answer& input, Launch launch) {
  check(input);
  dispatch_lanes(input.dtype, lanes_width(input), launch);
}

// Calls launch.operator()<T, kLanes, Form>().
template <class Launch>
void dispatch_form(const Answer& input, Launch launch) {
  dispatch(input, [&]<typename T, int kLanes>() {
    with_form(input.kind, [&]<class Form>(Form) { launch.template operator()<T, kLanes, Form>(); });
  });
}

int heads_of_block(const Answer& input) { return lanes_width(input) <= 64 ? kThreads / 8 : kThreads / 16; }
// As many at least as have a slot for every head.
int blocks_of(const Answer& input) {
  const int heads = heads_of_block(input);
  return std::max(row_blocks(input.rows * input.heads, heads, kResident), (input.heads + heads - 1) / heads);
}
// Where the skip's sums begin in the scratch.
std::int64_t weight_sums_size(const Answer& input) { return std::int64_t{blocks_of(input)} * input.padded; }

template <class T, int kLanes>
unsigned blocks_of_all(const Answer& input) {
  const int heads = WarpLane<T, kLanes, false>::kHeads;
  return static_cast<unsigned>((input.rows * input.heads + heads - 1) / heads);
}

}  // namespace

int gate_columns(AnswerGate gate, int heads, int padded) { return gate == AnswerGate::kNone ? 0 : heads * padded; }

int mix_columns(Mix mix, int heads, int padded) {
  return mix == Mix::kVector ? heads * padded : mix == Mix::kScalar ? scalar_gates(heads) : 0;
}

void answer_forward(const Answer& input, void* out, cudaStream_t stream) {
  dispatch_form(input, [&]<typename T, int kLanes, class Form>() {
    forward_kernel<T, kLanes, Form>
        <<<blocks_of_all<T, kLanes>(input), kThreads, 0, stream>>>(input, static_cast<T*>(out));
  });
  check_cuda(cudaGetLastError(), "answers of fast weights");
}

std::size_t answer_backward_scratch_bytes(const Answer& input) {
  check(input);
  const std::int64_t skip_sums = input.skip_H == nullptr ? 0 : std::int64_t{blocks_of(input)} * input.heads;
  return sizeof(float) * (weight_sums_size(input) + skip_sums);
}

void answer_backward(const Answer& input, const AnswerGradient& gradient, void* scratch, cudaStream_t stream) {
  float* const sums = static_cast<float*>(scratch);
  dispatch_form(input, [&]<typename T, int kLanes, class Form>() {
    backward_kernel<T, kLanes, Form>
        <<<blocks_of(input), kThreads, 0, stream>>>(input, gradient, sums, sums + weight_sums_size(input));
  });
  check_cuda(cudaGetLastError(), "gradients of answers of fast weights");
}

GradientSum answer_sum(const Answer& input, const void* scratch, float* d_weight) {
  return vector_sum(static_cast<const float*>(scratch), blocks_of(input), input.padded, input.kind.channels, d_weight);
}

GradientSum skip_sum(const Answer& input, const void* scratch, float* d_skip_H) {
  return vector_sum(static_cast<const float*>(scratch) + weight_sums_size(input), blocks_of(input), input.heads,
                    input.heads, d_skip_H);
}

void add_skipped(const Answer& input, const void* d_answer, void* d_values, cudaStream_t stream) {
  dispatch(input, [&]<typename T, int kLanes>() {
    skipped_kernel<T, kLanes><<<blocks_of_all<T, kLanes>(input), kThreads, 0, stream>>>(
        input, static_cast<const T*>(d_answer), static_cast<T*>(d_values));
  });
  check_cuda(cudaGetLastError(), "gradients of skipped values of fast weights");
}

}  // namespace engram::fast_weight_passes
