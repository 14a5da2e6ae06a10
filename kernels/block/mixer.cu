#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"
#include "kernels/block/mixer.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kResident = 3;  // blocks a multiprocessor of the backward kernels
constexpr int kMaxPadded = 128;
constexpr float kLengthEpsilon = 1e-6f;

// kLanes lanes share one (row, head), a vector each. Whole warps stay in the loops: the sums over a head need all
// lanes. 32 bits hold the count of items: dividing 64 would cost more than the rest of the address.
template <int kLanes>
struct HeadLoop {
  unsigned items, item, step;  // of rows * H
  __device__ HeadLoop(const MixerShape& shape)
      : items(static_cast<unsigned>(shape.rows) * shape.heads),
        item(blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes),
        step(gridDim.x * (kThreads / kLanes)) {}
  __device__ bool block_goes_on() const { return item - threadIdx.x / kLanes < items; }
  __device__ bool inside() const { return item < items; }
};

// u / |u|, and what the backward pass needs of it.
template <int kLanes>
struct UnitFeature {
  RowVector y;
  float inverse_length;

  __device__ explicit UnitFeature(const RowVector& u) : y(u) {
    float square = 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i) square += u.x[i] * u.x[i];
    inverse_length = rsqrtf(row_sum<kLanes>(square) + kLengthEpsilon);
#pragma unroll
    for (int i = 0; i < kVector; ++i) y.x[i] *= inverse_length;
  }
  // du from dy: (dy - y (y . dy)) / |u|
  __device__ RowVector backward(const RowVector& dy) const {
    float along = 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i) along += y.x[i] * dy.x[i];
    along = row_sum<kLanes>(along);
    RowVector du;
#pragma unroll
    for (int i = 0; i < kVector; ++i) du.x[i] = inverse_length * (dy.x[i] - y.x[i] * along);
    return du;
  }
};

// silu(x)
__device__ RowVector activated(const RowVector& x) {
  RowVector y;
#pragma unroll
  for (int i = 0; i < kVector; ++i) y.x[i] = silu(x.x[i]);
  return y;
}

// Where the vectors of one (row, head) stand.
struct HeadPlace {
  std::int64_t row;
  int head;
  bool holds;                                    // this lane holds a vector of it
  std::int64_t projected, features, contiguous;  // offsets of q, of the unit q, and in [rows, H, P]
  int part;                                      // H * P: from q to k, from k to v
  std::int64_t group;                            // of dropout

  template <int kLanes>
  __device__ static HeadPlace of(const HeadLoop<kLanes>& loop, const MixerShape& shape, std::int64_t projected_stride) {
    HeadPlace place;
    const unsigned item = loop.inside() ? loop.item : 0, heads = static_cast<unsigned>(shape.heads);
    place.row = item / heads;
    place.head = static_cast<int>(item % heads);
    const int column = lane_id() % kLanes * kVector;
    place.holds = loop.inside() && column < shape.padded;
    place.part = shape.heads * shape.padded;
    const int at = place.head * shape.padded + (place.holds ? column : 0);
    place.projected = place.row * projected_stride + at;
    place.features = place.row * 3 * place.part + at;
    place.contiguous = place.row * place.part + at;
    place.group = std::int64_t{item} * (shape.padded / kDropoutGroup) + column / kDropoutGroup;
    return place;
  }
};

// Both kernels take one item a thread and load all of it first: they are bound by memory.
template <bool kWindow, typename T, int kLanes>
__global__ void __launch_bounds__(kThreads)
    features_forward_kernel(MixerFeatures input, T* __restrict__ features, T* __restrict__ beta) {
  const HeadLoop<kLanes> loop(input.shape);
  const auto place = HeadPlace::of(loop, input.shape, input.projected_stride);
  T* const projected = static_cast<T*>(input.projected);
  T* const q = projected + place.projected;
  T* const k = q + place.part;
  T* const v = k + place.part;
  const StoredVector<T> stored_q(place.holds, q), stored_k(place.holds, k), stored_v(place.holds, v);
  const float x_beta =
      static_cast<float>(projected[place.row * input.projected_stride + input.beta_column + place.head]);
  RowVector x_q = stored_q.floats(), x_k = stored_k.floats();
  if constexpr (kWindow) {
    x_q = dropped(input.query_dropout, place.group, x_q);
    x_k = dropped(input.key_dropout, place.group, x_k);
  }
  RowVector u_q = activated(x_q), u_k = activated(x_k);
  if constexpr (!kWindow) {
    u_q = dropped(input.query_dropout, place.group, u_q);
    u_k = dropped(input.key_dropout, place.group, u_k);
  }
  const RowVector y_v = dropped(input.value_dropout, place.group, activated(stored_v.floats()));
  const UnitFeature<kLanes> unit_q(u_q), unit_k(u_k);
  if (place.holds) {
    if (kWindow && input.query_dropout.drops()) store_vector(q, x_q);
    if (kWindow && input.key_dropout.drops()) store_vector(k, x_k);
    T* const out = features + place.features;
    store_vector(out, unit_q.y);
    store_vector(out + place.part, unit_k.y);
    store_vector(out + 2 * place.part, y_v);
  }
  if (loop.inside() && lane_id() % kLanes == 0) beta[loop.item] = static_cast<T>(input.beta_factor * sigmoid(x_beta));
}

template <bool kWindow, typename T, int kLanes>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 2 ? kResident : kResident - 1)
    features_backward_kernel(MixerFeatures input, MixerFeaturesGradient gradient) {
  const HeadLoop<kLanes> loop(input.shape);
  const auto place = HeadPlace::of(loop, input.shape, input.projected_stride);
  const T* const projected = static_cast<const T*>(input.projected);
  T* const d_projected = static_cast<T*>(gradient.projected);
  const T* const q = projected + place.projected;
  const T* const d_features = static_cast<const T*>(gradient.features) + place.features;
  T* const d_q = d_projected + place.projected;
  const bool window = kWindow && place.holds;
  const StoredVector<T> stored[3] = {
      {place.holds, q}, {place.holds, q + place.part}, {place.holds, q + 2 * place.part}};
  const StoredVector<T> d_stored[3] = {
      {place.holds, d_features}, {place.holds, d_features + place.part}, {place.holds, d_features + 2 * place.part}};
  const StoredVector<T> d_window[3] = {{window, d_q},
                                       {window, d_q + place.part},
                                       {window, static_cast<const T*>(gradient.window_value) + place.contiguous}};
  const std::int64_t first_beta = place.row * input.projected_stride + input.beta_column;
  if (loop.inside() && lane_id() % kLanes == 0) {
    const float s = sigmoid(static_cast<float>(projected[first_beta + place.head]));
    const auto d_beta = static_cast<float>(static_cast<const T*>(gradient.beta)[loop.item]);
    d_projected[first_beta + place.head] = static_cast<T>(d_beta * input.beta_factor * s * (1.0f - s));
  }
  if (loop.inside() && place.head == 0)
    for (int c = input.shape.heads + lane_id() % kLanes; c < input.projected_stride - input.beta_column; c += kLanes)
      d_projected[first_beta + c] = static_cast<T>(0.0f);

#pragma unroll
  for (int part = 0; part < 3; ++part) {
    const DropoutKey& dropout = part == 0 ? input.query_dropout : part == 1 ? input.key_dropout : input.value_dropout;
    const RowVector x = stored[part].floats();  // with a window q and k as dropout left them
    const RowVector from_window = d_window[part].floats();
    RowVector dx = d_stored[part].floats();
    if (part == 2)  // of dropout(silu(v)), which the window reads too
#pragma unroll
      for (int i = 0; i < kVector; ++i) dx.x[i] += from_window.x[i];
    RowVector factor;  // drawn when it is needed
    if constexpr (!kWindow) factor = dropout_factors(dropout, place.group);
    if (part < 2) {
      RowVector u = activated(x);
      if constexpr (!kWindow)
#pragma unroll
        for (int i = 0; i < kVector; ++i) u.x[i] *= factor.x[i];
      dx = UnitFeature<kLanes>(u).backward(dx);
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) dx.x[i] *= silu_derivative(x.x[i]);
    if (part < 2)
#pragma unroll
      for (int i = 0; i < kVector; ++i) dx.x[i] += from_window.x[i];
    if constexpr (kWindow) factor = dropout_factors(dropout, place.group);
#pragma unroll
    for (int i = 0; i < kVector; ++i) dx.x[i] *= factor.x[i];
    if (place.holds) store_vector(d_q + part * place.part, dx);
  }
}

// What a mix reads of one (row, head), as it is stored.
template <MixKind kKind, typename T>
struct MixInputs {
  StoredVector<T> fast, window;
  StoredVector<T> gate;                  // of kVector
  float fast_gate = 0, window_gate = 0;  // of kScalar

  __device__ MixInputs(const MixerMix& input, const HeadPlace& place)
      : fast(place.holds, static_cast<const T*>(input.fast) + place.contiguous) {
    if constexpr (kKind != MixKind::kFast)
      window = {place.holds, static_cast<const T*>(input.window) + place.contiguous};
    if constexpr (kKind == MixKind::kVector) gate = {place.holds, static_cast<const T*>(input.gate) + place.projected};
    if constexpr (kKind == MixKind::kScalar) {
      const T* const row = static_cast<const T*>(input.gate) + place.row * input.projected_stride;
      fast_gate = static_cast<float>(row[2 * place.head]);
      window_gate = static_cast<float>(row[2 * place.head + 1]);
    }
  }
};

// What fast weights and window are weighted with.
template <MixKind kKind, typename T>
struct Gate {
  RowVector channels;          // of kVector
  float fast = 1, window = 1;  // of the others

  __device__ explicit Gate(const MixInputs<kKind, T>& inputs) {
    if constexpr (kKind == MixKind::kVector) {
      channels = inputs.gate.floats();
#pragma unroll
      for (int i = 0; i < kVector; ++i) channels.x[i] = sigmoid(channels.x[i]);
    }
    if constexpr (kKind == MixKind::kScalar) {
      fast = sigmoid(inputs.fast_gate);
      window = sigmoid(inputs.window_gate);
    }
  }
  __device__ float of_fast(int i) const { return kKind == MixKind::kVector ? channels.x[i] : fast; }
  __device__ float of_window(int i) const { return kKind == MixKind::kVector ? 1.0f - channels.x[i] : window; }
};

// The norm's weight of this lane's channels, zero after the width; `shared`: kMaxPadded floats. All threads call it.
__device__ RowVector shared_weight(const MixerMix& input, int column, float* shared) {
  for (int c = threadIdx.x; c < kMaxPadded; c += kThreads) shared[c] = c < input.shape.width ? input.weight[c] : 0.0f;
  __syncthreads();
  return load_vector(shared + column);
}

// x <- x / rms(x); returns 1 / rms(x).
template <int kLanes>
__device__ float normalize(const MixerMix& input, RowVector& x) {
  float square = 0;
#pragma unroll
  for (int i = 0; i < kVector; ++i) square += x.x[i] * x.x[i];
  const float inverse = rsqrtf(row_sum<kLanes>(square) / static_cast<float>(input.shape.width) + input.epsilon);
#pragma unroll
  for (int i = 0; i < kVector; ++i) x.x[i] *= inverse;
  return inverse;
}

// dy of y = x * inverse, inverse = 1 / rms(x), becomes dx.
template <int kLanes>
__device__ void normalize_backward(const RowVector& y, float inverse, float inverse_width, RowVector& d) {
  float along = 0;
#pragma unroll
  for (int i = 0; i < kVector; ++i) along += d.x[i] * y.x[i];
  along = row_sum<kLanes>(along) * inverse_width;
#pragma unroll
  for (int i = 0; i < kVector; ++i) d.x[i] = inverse * (d.x[i] - y.x[i] * along);
}

// What the mix takes of a memory's output: it as it is stored, with kNorm divided by its root mean square.
template <bool kNorm, int kLanes, typename T>
class Branch {
 public:
  __device__ Branch(const MixerMix& input, const StoredVector<T>& stored) : stored_(stored) {
    if constexpr (kNorm) {
      RowVector x = stored.floats();
      inverse_ = normalize<kLanes>(input, x);
    }
  }
  __device__ RowVector floats() const {
    RowVector y = stored_.floats();
    if constexpr (kNorm)
#pragma unroll
      for (int i = 0; i < kVector; ++i) y.x[i] *= inverse_;
    return y;
  }
  // The gradient of floats() becomes that of the memory's output.
  __device__ void backward(float inverse_width, RowVector& d) const {
    if constexpr (kNorm) normalize_backward<kLanes>(floats(), inverse_, inverse_width, d);
  }

 private:
  const StoredVector<T>& stored_;
  float inverse_ = 1;
};

// m = gated fast + gated window and its norm n = m * inverse.
template <int kLanes, MixKind kKind, typename T>
__device__ float mix_and_normalize(const MixerMix& input, const Gate<kKind, T>& gate, const RowVector& fast,
                                   const RowVector& window, RowVector& n) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    n.x[i] = fast.x[i] * gate.of_fast(i);
    if constexpr (kKind != MixKind::kFast) n.x[i] += gate.of_window(i) * window.x[i];
  }
  return normalize<kLanes>(input, n);
}

template <MixKind kKind, bool kBranchNorm, typename T, int kLanes>
__global__ void __launch_bounds__(kThreads) mix_forward_kernel(MixerMix input, T* __restrict__ out) {
  __shared__ float4 shared[kMaxPadded / 4];
  const HeadLoop<kLanes> loop(input.shape);
  const auto place = HeadPlace::of(loop, input.shape, input.projected_stride);
  const MixInputs<kKind, T> inputs(input, place);
  const RowVector weight = shared_weight(input, lane_id() % kLanes * kVector, &shared[0].x);
  const Branch<kBranchNorm, kLanes, T> fast(input, inputs.fast), window(input, inputs.window);
  RowVector n;
  mix_and_normalize<kLanes>(input, Gate<kKind, T>(inputs), fast.floats(), window.floats(), n);
#pragma unroll
  for (int i = 0; i < kVector; ++i) n.x[i] *= weight.x[i];
  if (place.holds) store_vector(out + place.contiguous, n);
}

template <MixKind kKind, bool kBranchNorm, typename T, int kLanes>
__global__ void __launch_bounds__(kThreads, kResident)
    mix_backward_kernel(MixerMix input, MixerMixGradient gradient, float* __restrict__ weight_sums) {
  extern __shared__ float4 shared_vectors[];
  float* const shared = &shared_vectors[0].x;
  const int column = lane_id() % kLanes * kVector;
  const RowVector weight = shared_weight(input, column, shared);
  RowVector weight_sum = {};
  const float inverse_width = 1.0f / static_cast<float>(input.shape.width);
  for (HeadLoop<kLanes> loop(input.shape); loop.block_goes_on(); loop.item += loop.step) {
    const auto place = HeadPlace::of(loop, input.shape, input.projected_stride);
    const MixInputs<kKind, T> inputs(input, place);
    const StoredVector<T> d_out(place.holds, static_cast<const T*>(gradient.out) + place.contiguous);
    const Gate<kKind, T> gate(inputs);
    const Branch<kBranchNorm, kLanes, T> fast_branch(input, inputs.fast), window_branch(input, inputs.window);
    RowVector d_m = d_out.floats(), n;
    const float inverse = mix_and_normalize<kLanes>(input, gate, fast_branch.floats(), window_branch.floats(), n);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      weight_sum.x[i] += d_m.x[i] * n.x[i];
      d_m.x[i] *= weight.x[i];
    }
    normalize_backward<kLanes>(n, inverse, inverse_width, d_m);
    // Zero where nothing is held, as d_m is.
    const RowVector fast = fast_branch.floats(), window = window_branch.floats();
    RowVector d;
    const auto store = [&](void* to, std::int64_t offset) {
      if (place.holds) store_vector(static_cast<T*>(to) + offset, d);
    };
#pragma unroll
    for (int i = 0; i < kVector; ++i) d.x[i] = d_m.x[i] * gate.of_fast(i);
    fast_branch.backward(inverse_width, d);
    store(gradient.fast, place.contiguous);
    if constexpr (kKind != MixKind::kFast) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) d.x[i] = d_m.x[i] * gate.of_window(i);
      window_branch.backward(inverse_width, d);
      store(gradient.window, place.contiguous);
    }
    if constexpr (kKind == MixKind::kVector) {
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        d.x[i] = d_m.x[i] * (fast.x[i] - window.x[i]) * gate.of_fast(i) * gate.of_window(i);
      store(gradient.gate, place.projected);
    }
    if constexpr (kKind == MixKind::kScalar) {
      float d_fast = 0, d_window = 0;
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        d_fast += d_m.x[i] * fast.x[i];
        d_window += d_m.x[i] * window.x[i];
      }
      d_fast = row_sum<kLanes>(d_fast) * gate.fast * (1.0f - gate.fast);
      d_window = row_sum<kLanes>(d_window) * gate.window * (1.0f - gate.window);
      T* const row = static_cast<T*>(gradient.gate) + place.row * input.projected_stride;
      if (loop.inside() && lane_id() % kLanes == 0) {
        row[2 * place.head] = static_cast<T>(d_fast);
        row[2 * place.head + 1] = static_cast<T>(d_window);
      }
      if (loop.inside() && place.head == 0)
        for (int c = 2 * input.shape.heads + lane_id() % kLanes; c < (2 * input.shape.heads + 7) / 8 * 8; c += kLanes)
          row[c] = static_cast<T>(0.0f);
    }
  }
  write_block_sums(weight_sum, column < input.shape.padded, column, threadIdx.x / kLanes, kThreads / kLanes,
                   input.shape.padded, shared, weight_sums + std::int64_t{blockIdx.x} * input.shape.padded);
}

void check_shape(const MixerShape& shape, std::int64_t projected_stride) {
  if (shape.rows < 1 || shape.heads < 1 || shape.width < 1 || shape.padded != (shape.width + 7) / 8 * 8 ||
      shape.padded > kMaxPadded || projected_stride % kVector != 0 || shape.rows * shape.heads > INT32_MAX)
    throw std::runtime_error("mixer: " + std::to_string(shape.rows) + " rows of " + std::to_string(shape.heads) +
                             " heads of " + std::to_string(shape.width) + " elements stored as " +
                             std::to_string(shape.padded) + ", projections " + std::to_string(projected_stride) +
                             " apart");
}

int lanes_of(const MixerShape& shape) { return shape.padded <= 64 ? 8 : 16; }
// The blocks of kernels that take one item a thread, and of those that take many and add up.
unsigned all_blocks_of(const MixerShape& shape) {
  const int items = kThreads / lanes_of(shape);
  return static_cast<unsigned>((shape.rows * shape.heads + items - 1) / items);
}
int blocks_of(const MixerShape& shape) {
  return row_blocks(shape.rows * shape.heads, kThreads / lanes_of(shape), kResident);
}

// Calls launch.operator()<T, kLanes>().
template <typename Launch>
void dispatch(Dtype dtype, const MixerShape& shape, Launch launch) {
  dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    if (lanes_of(shape) == 8)
      launch.template operator()<T, 8>();
    else
      launch.template operator()<T, 16>();
  });
}

// Calls launch.operator()<kWindow, T, kLanes>().
template <typename Launch>
void dispatch_features(const MixerFeatures& input, Launch launch) {
  dispatch(input.dtype, input.shape, [&]<typename T, int kLanes>() {
    if (input.window)
      launch.template operator()<true, T, kLanes>();
    else
      launch.template operator()<false, T, kLanes>();
  });
}

// Calls launch.operator()<kKind, kBranchNorm, T, kLanes>().
template <typename Launch>
void dispatch_mix(const MixerMix& input, Launch launch) {
  dispatch(input.dtype, input.shape, [&]<typename T, int kLanes>() {
    const auto launch_mix = [&]<MixKind kKind>() {
      if (input.branch_norm)
        launch.template operator()<kKind, true, T, kLanes>();
      else
        launch.template operator()<kKind, false, T, kLanes>();
    };
    switch (input.kind) {
      case MixKind::kFast:
        if (input.branch_norm) throw std::runtime_error("mixer: branch_norm without a window");
        return launch.template operator()<MixKind::kFast, false, T, kLanes>();
      case MixKind::kSum:
        return launch_mix.template operator()<MixKind::kSum>();
      case MixKind::kScalar:
        return launch_mix.template operator()<MixKind::kScalar>();
      case MixKind::kVector:
        return launch_mix.template operator()<MixKind::kVector>();
    }
  });
}

}  // namespace

void mixer_features_forward(const MixerFeatures& input, void* features, void* beta, cudaStream_t stream) {
  check_shape(input.shape, input.projected_stride);
  dispatch_features(input, [&]<bool kWindow, typename T, int kLanes>() {
    features_forward_kernel<kWindow, T, kLanes>
        <<<all_blocks_of(input.shape), kThreads, 0, stream>>>(input, static_cast<T*>(features), static_cast<T*>(beta));
  });
  check_cuda(cudaGetLastError(), "mixer_features_forward");
}

void mixer_features_backward(const MixerFeatures& input, const MixerFeaturesGradient& gradient, cudaStream_t stream) {
  check_shape(input.shape, input.projected_stride);
  dispatch_features(input, [&]<bool kWindow, typename T, int kLanes>() {
    features_backward_kernel<kWindow, T, kLanes><<<all_blocks_of(input.shape), kThreads, 0, stream>>>(input, gradient);
  });
  check_cuda(cudaGetLastError(), "mixer_features_backward");
}

int mixer_gate_columns(MixKind kind, int heads, int padded) {
  if (kind == MixKind::kVector) return heads * padded;
  return kind == MixKind::kScalar ? (2 * heads + 7) / 8 * 8 : 0;
}

void mixer_mix_forward(const MixerMix& input, void* out, cudaStream_t stream) {
  check_shape(input.shape, input.projected_stride);
  dispatch_mix(input, [&]<MixKind kKind, bool kBranchNorm, typename T, int kLanes>() {
    mix_forward_kernel<kKind, kBranchNorm, T, kLanes>
        <<<all_blocks_of(input.shape), kThreads, 0, stream>>>(input, static_cast<T*>(out));
  });
  check_cuda(cudaGetLastError(), "mixer_mix_forward");
}

std::size_t mixer_mix_backward_scratch_bytes(const MixerShape& shape) {
  return std::size_t{1} * blocks_of(shape) * shape.padded * sizeof(float);
}

void mixer_mix_backward(const MixerMix& input, const MixerMixGradient& gradient, void* scratch, cudaStream_t stream) {
  check_shape(input.shape, input.projected_stride);
  const int blocks = blocks_of(input.shape);
  dispatch_mix(input, [&]<MixKind kKind, bool kBranchNorm, typename T, int kLanes>() {
    // Shared memory holds the weight first, then the sums.
    const std::size_t shared = std::max(kThreads / kLanes * input.shape.padded, kMaxPadded) * sizeof(float);
    mix_backward_kernel<kKind, kBranchNorm, T, kLanes>
        <<<blocks, kThreads, shared, stream>>>(input, gradient, static_cast<float*>(scratch));
  });
  check_cuda(cudaGetLastError(), "mixer_mix_backward");
}

GradientSum mixer_mix_sum(const MixerShape& shape, const void* scratch, float* weight) {
  return vector_sum(static_cast<const float*>(scratch), blocks_of(shape), shape.padded, shape.width, weight);
}

}  // namespace engram
