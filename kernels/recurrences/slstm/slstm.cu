#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/common/cuda_support.h"
#include "kernels/recurrences/slstm/cell.h"
#include "kernels/recurrences/slstm/slstm.h"

namespace engram {
namespace {

using namespace slstm;

constexpr int kAhead = 4;  // steps whose numbers are asked for before they are needed
constexpr unsigned kAll = 0xffffffff;

// A block has one head of one row, and four threads beside each other a channel: one a gate.
struct Place {
  __device__ Place(const Slstm& problem)
      : head(blockIdx.x % problem.heads),
        row(blockIdx.x / problem.heads),
        channel(threadIdx.x / kGates),
        gate(threadIdx.x % kGates),
        active(channel < problem.width),
        length(problem.length_B[row]),
        first_head((static_cast<std::int64_t>(row) * problem.time) * problem.heads + head),
        heads(problem.heads),
        width(problem.width) {}

  // Of `channels` numbers a head and step, the first.
  __device__ std::int64_t at(int t, int channels) const {
    return (first_head + static_cast<std::int64_t>(t) * heads) * channels;
  }
  __device__ std::int64_t gate_at(int t) const { return at(t, kGates * width) + gate * width + channel; }

  int head, row, channel, gate;
  bool active;
  int length;
  std::int64_t first_head;
  int heads, width;
};

// What the channel's four threads have, in the order of the gates.
__device__ void of_channel(float own, float (&all)[kGates]) {
  const int first = threadIdx.x % 32 / kGates * kGates;
#pragma unroll
  for (int i = 0; i < kGates; ++i) all[i] = __shfl_sync(kAll, own, first + i);
}

// The product of a thread's weights with numbers in shared memory, in four sums.
template <int kWidth>
__device__ float product(const float (&weight)[kWidth], const float* x) {
  float4 sum{};
#pragma unroll
  for (int j = 0; j < kWidth; j += 4) {
    const float4 part = *reinterpret_cast<const float4*>(x + j);
    sum.x += weight[j] * part.x;
    sum.y += weight[j + 1] * part.y;
    sum.z += weight[j + 2] * part.z;
    sum.w += weight[j + 3] * part.w;
  }
  return (sum.x + sum.y) + (sum.z + sum.w);
}

template <int kWidth>
__global__ void __launch_bounds__(kGates* kWidth)
    forward_kernel(const __grid_constant__ Slstm problem, const float* gates_BTHX, float* h_BTHK, SlstmSaved saved) {
  const Place place(problem);
  const int width = problem.width;
  float weight[kWidth];  // R's column of this gate and channel
#pragma unroll
  for (int j = 0; j < kWidth; ++j)
    weight[j] =
        place.active && j < width
            ? problem
                  .recurrent_HKX[((static_cast<std::int64_t>(place.head) * width + j) * kGates + place.gate) * width +
                                 place.channel]
            : 0;
  __shared__ __align__(16) float hidden_before[2][kWidth];
  if (place.gate == 0) hidden_before[0][place.channel] = 0;
  __syncthreads();

  const auto gate_of = [&](int t) { return place.active && t < place.length ? gates_BTHX[place.gate_at(t)] : 0.0f; };
  float ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) ahead[i] = gate_of(i);
  Cell cell{};
  for (int first = 0; first < place.length; first += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int t = first + i;
      if (t >= place.length) break;
      const float own = ahead[i] + product(weight, hidden_before[i % 2]);
      ahead[i] = gate_of(t + kAhead);
      float a[kGates];
      of_channel(own, a);
      cell = next(cell, a);
      const float h = hidden(cell, a[kOutput]);
      if (place.gate == 0) hidden_before[(i + 1) % 2][place.channel] = h;
      if (place.active) {
        saved.gates_BTHX[place.gate_at(t)] = own;
        if (place.gate == 3)
          h_BTHK[place.at(t, width) + place.channel] = h;
        else
          saved.cells_BTHY[place.at(t, 3 * width) + place.gate * width + place.channel] = place.gate == 0   ? cell.c
                                                                                          : place.gate == 1 ? cell.n
                                                                                                            : cell.m;
      }
      __syncthreads();
    }
  }
  if (place.active && place.gate == 3)
    for (int t = place.length; t < problem.time; ++t) h_BTHK[place.at(t, width) + place.channel] = 0;
}

template <int kWidth>
__global__ void __launch_bounds__(kGates* kWidth)
    backward_kernel(const __grid_constant__ Slstm problem, SlstmSaved saved, const float* h_gradient_BTHK,
                    float* gates_gradient_BTHX) {
  const Place place(problem);
  const int width = problem.width;
  float weight[kWidth];  // R's row of this channel in this gate's columns
#pragma unroll
  for (int j = 0; j < kWidth; ++j)
    weight[j] =
        place.active && j < width
            ? problem.recurrent_HKX
                  [((static_cast<std::int64_t>(place.head) * width + place.channel) * kGates + place.gate) * width + j]
            : 0;
  constexpr int kStride = kWidth + 4;  // four gates' numbers in different banks
  __shared__ __align__(16) float d_gates[2][kGates][kStride];

  const auto gate_of = [&](int t) { return place.active && t >= 0 ? saved.gates_BTHX[place.gate_at(t)] : 0.0f; };
  // Of the first three gates' threads c, n and m.
  const auto cell_of = [&](int t) {
    if (!place.active || place.gate == 3 || t < 0) return 0.0f;
    return saved.cells_BTHY[place.at(t, 3 * width) + place.gate * width + place.channel];
  };
  // And of the step before; of the fourth's h's gradient.
  const auto other_of = [&](int t) {
    if (place.gate != 3) return cell_of(t - 1);
    return place.active && t >= 0 ? h_gradient_BTHK[place.at(t, width) + place.channel] : 0.0f;
  };

  const int last = place.length - 1;
  float gate_ahead[kAhead], other_ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    gate_ahead[i] = gate_of(last - i);
    other_ahead[i] = other_of(last - i);
  }
  float now[kGates];
  of_channel(cell_of(last), now);
  Cell cell{now[0], now[1], now[2]};
  CellGradient carried;
  float d_hidden = 0;  // from the steps behind
  for (int first = 0; first < place.length; first += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int t = last - first - i;
      if (t < 0) break;
      float a[kGates], other[kGates], d_a[kGates];
      of_channel(gate_ahead[i], a);
      of_channel(other_ahead[i], other);
      gate_ahead[i] = gate_of(t - kAhead);
      other_ahead[i] = other_of(t - kAhead);
      const Cell before{other[0], other[1], other[2]};
      back(before, cell, a, d_hidden + other[3], carried, d_a);
      cell = before;
      const float own = place.gate == 0 ? d_a[0] : place.gate == 1 ? d_a[1] : place.gate == 2 ? d_a[2] : d_a[3];
      d_gates[i % 2][place.gate][place.channel] = own;
      if (place.active) gates_gradient_BTHX[place.gate_at(t)] = own;
      __syncthreads();
      float part = product(weight, d_gates[i % 2][place.gate]);
      part += __shfl_xor_sync(kAll, part, 1);
      d_hidden = part + __shfl_xor_sync(kAll, part, 2);
    }
  }
  if (place.active)
    for (int t = place.length; t < problem.time; ++t) gates_gradient_BTHX[place.gate_at(t)] = 0;
}

// Calls launch(width) with the smallest width that holds the problem's, as a constant.
template <class Launch>
void launch_for(const Slstm& problem, const Launch& launch) {
  if (problem.batch < 1 || problem.time < 1 || problem.heads < 1 || problem.width < 1 ||
      problem.width > kMaxSlstmWidth || std::int64_t{problem.batch} * problem.heads > std::numeric_limits<int>::max())
    throw std::runtime_error("sLSTM: " + std::to_string(problem.batch) + " rows of " + std::to_string(problem.time) +
                             " steps with " + std::to_string(problem.heads) + " heads of " +
                             std::to_string(problem.width) + " channels");
  if (problem.width <= 16)
    launch(std::integral_constant<int, 16>{});
  else if (problem.width <= 32)
    launch(std::integral_constant<int, 32>{});
  else if (problem.width <= 48)
    launch(std::integral_constant<int, 48>{});
  else
    launch(std::integral_constant<int, kMaxSlstmWidth>{});
}

unsigned blocks_of(const Slstm& problem) {
  return static_cast<unsigned>(problem.batch) * static_cast<unsigned>(problem.heads);
}

}  // namespace

void slstm_forward(const Slstm& problem, const float* gates_BTHX, float* h_BTHK, const SlstmSaved& saved,
                   cudaStream_t stream) {
  launch_for(problem, [&](auto width) {
    forward_kernel<width()><<<blocks_of(problem), kGates * width(), 0, stream>>>(problem, gates_BTHX, h_BTHK, saved);
  });
  check_cuda(cudaGetLastError(), "sLSTM, forward");
}

void slstm_backward(const Slstm& problem, const SlstmSaved& saved, const float* h_gradient_BTHK,
                    float* gates_gradient_BTHX, cudaStream_t stream) {
  launch_for(problem, [&](auto width) {
    backward_kernel<width()>
        <<<blocks_of(problem), kGates * width(), 0, stream>>>(problem, saved, h_gradient_BTHK, gates_gradient_BTHX);
  });
  check_cuda(cudaGetLastError(), "sLSTM, backward");
}

}  // namespace engram
