#include "kernels/delta_rule/chunk_pipeline.cuh"

namespace engram {
namespace delta_rule {
namespace {

template <typename T>
struct BackwardRows {
  const T* output_gradient;
  int copy_bytes;        // of the output's gradient, contiguous [B, T, H, D]
  int saved_copy_bytes;  // of the contiguous rows in the saved buffer and in the scratch
};

// What passes between the two kernels: per chunk the gradient of the state at its end, per step dY (README.md).
template <typename T>
struct BackwardScratch {
  T* state_gradient;
  T* error_gradient;
};

// The recurrence, from the last chunk to the first. State gradients are held in units of `scale`.
template <typename T, int kWidth, int kStages>
__global__ void __launch_bounds__(32 * kMaxConsumers + kProducerThreads)
backward_recurrence_kernel(Problem<T> problem, BackwardRows<T> rows, const float* final_state_gradient, const T* solve,
                           const T* attend, BackwardScratch<T> scratch, float* initial_state_gradient) {
  constexpr int kSize = kChunk<T>, kBlocks = kSize / 16, kVector = kRowStride<kWidth>, kSquare = kRowStride<kSize>;
  constexpr int kKeyTiles = kWidth / 8, kKeyBlocks = kWidth / 16, kCount = kPlanes<T>, kSums = kSumPlanes<T>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto* stages = reinterpret_cast<Stage<T, kWidth>*>(shared_memory);
  const auto at = problem.pair(blockIdx.x);
  const int consumers = (blockDim.x - kProducerThreads) / 32, warp = threadIdx.x / 32;
  const int first_value = (blockIdx.y * consumers + warp) * 16;
  const int columns = problem.width - first_value;
  const bool consumes = warp < consumers && columns > 0;
  const int step_stride = problem.heads * problem.width;
  const float scale = problem.scale, inverse_scale = 1.0f / problem.scale;

  Accumulator state[kKeyTiles];  // the gradient
  if (consumes) load_state(state, problem, final_state_gradient, first_value, inverse_scale);

  const ValueRows<T> values{rows.output_gradient, step_stride, rows.copy_bytes};
  for_each_chunk<true, kStages>(problem, values, solve, attend, stages, [&](const Stage<T, kWidth>& stage, int chunk) {
    if (columns <= 0) return;
    const int begin = chunk * kSize, valid = min(kSize, at.length - begin);
    FragmentA<kSums> state_fragment[kKeyBlocks];
    T* tiles = scratch.state_gradient + problem.chunk_index(blockIdx.x, chunk) * kStateElements<kWidth> +
               first_value / 16 * kKeyTiles * kOperandTile;
#pragma unroll
    for (int key = 0; key < kKeyTiles; ++key) {
      Accumulator scaled;
#pragma unroll
      for (int e = 0; e < 4; ++e) scaled.x[e] = state[key].x[e] * scale;
      store_operand(tiles + key * kOperandTile, scaled);
      set_pair(state_fragment[key / 2], key % 2 * 2, scaled.x[0], scaled.x[1]);
      set_pair(state_fragment[key / 2], key % 2 * 2 + 1, scaled.x[2], scaled.x[3]);
    }
    FragmentB<kCount> right[2];

    // dU = P^T dO + K dS', and dS = scale Q^T dO + dS' - K^T dX
    Accumulator x[2 * kBlocks] = {};
#pragma unroll
    for (int key = 0; key < kKeyBlocks; ++key)
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        load_b(right, stage.k + i * 16 * kVector + key * 16, kVector);
        multiply_add(x[2 * i], state_fragment[key], right[0]);
        multiply_add(x[2 * i + 1], state_fragment[key], right[1]);
      }
    FragmentA<kCount> d_output[kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      load_a_transposed(d_output[i], stage.value + i * 16 * kValueStride + warp * 16, kValueStride);
#pragma unroll
    for (int i = kBlocks - 1; i >= 0; --i)
#pragma unroll
      for (int j = 0; j <= i; ++j) {
        load_b_transposed(right, stage.attend + i * 16 * kSquare + j * 16, kSquare);
        multiply_add(x[2 * j], d_output[i], right[0]);
        multiply_add(x[2 * j + 1], d_output[i], right[1]);
      }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int key = 0; key < kKeyBlocks; ++key) {
        load_b_transposed(right, stage.q + i * 16 * kVector + key * 16, kVector);
        multiply_add(state[2 * key], d_output[i], right[0]);
        multiply_add(state[2 * key + 1], d_output[i], right[1]);
      }

    // dY = dU - Z^T D dU
    FragmentA<kSums> left[kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) weigh(left[i], x[2 * i], x[2 * i + 1], stage.beta + i * 16, 1.0f);
#pragma unroll
    for (int i = kBlocks - 1; i >= 0; --i)
#pragma unroll
      for (int j = 0; j <= i; ++j) {
        SolveOperand<T> z;
        z.template load<true>(stage, i * 16, j * 16);
        multiply_add(x[2 * j], left[i], z.tile[0]);
        multiply_add(x[2 * j + 1], left[i], z.tile[1]);
      }
    T* error_gradient = scratch.error_gradient + problem.contiguous(at, begin) + first_value;
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i)
      store_transposed(error_gradient + i * 8 * step_stride, step_stride, x[i], valid - i * 8, columns);

    // dX = D dY
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) weigh(left[i], x[2 * i], x[2 * i + 1], stage.beta + i * 16, -inverse_scale);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int key = 0; key < kKeyBlocks; ++key) {
        load_b_transposed(right, stage.k + i * 16 * kVector + key * 16, kVector);
        multiply_add(state[2 * key], left[i], right[0]);
        multiply_add(state[2 * key + 1], left[i], right[1]);
      }
  });
  if (consumes && initial_state_gradient != nullptr)
    store_state(state, problem, initial_state_gradient, first_value, scale);
}

template <typename T>
struct VectorGradients {
  T *q, *k, *v, *beta;
};

template <typename T, int kWidth>
struct GradientShared {
  T k[kChunk<T> * kRowStride<kWidth>];
  T q[kChunk<T> * kRowStride<kWidth>];
  T output_gradient[kChunk<T> * kRowStride<kWidth>];
  T error[kChunk<T> * kRowStride<kWidth>];
  T error_gradient[kChunk<T> * kRowStride<kWidth>];  // dY
  float beta[kChunk<T>];
};

// sum(16 x 16) += rows `left` of one operand times rows `right` of the other, transposed.
template <int kWidth, typename T>
__device__ void multiply_rows(Accumulator (&sum)[2], const T* left, const T* right) {
  constexpr int kVector = kRowStride<kWidth>;
#pragma unroll
  for (int step = 0; step < kWidth / 16; ++step) {
    FragmentA<kPlanes<T>> a;
    FragmentB<kPlanes<T>> b[2];
    load_a(a, left + step * 16, kVector);
    load_b(b, right + step * 16, kVector);
    multiply_add(sum[0], a, b[0]);
    multiply_add(sum[1], a, b[1]);
  }
}

// sum(16 x width) += weight(16 x 16) times 16 rows.
template <int kWidth, typename T>
__device__ void add_weighted_rows(Accumulator (&sum)[kWidth / 8], const Accumulator (&weight)[2], const T* rows) {
  FragmentA<kPlanes<T>> a;
  to_fragment(a, weight[0], weight[1]);
#pragma unroll
  for (int key = 0; key < kWidth / 16; ++key) {
    FragmentB<kPlanes<T>> b[2];
    load_b_transposed(b, rows + key * 16, kRowStride<kWidth>);
    multiply_add(sum[2 * key], a, b[0]);
    multiply_add(sum[2 * key + 1], a, b[1]);
  }
}

template <int kTiles, typename T>
__device__ void store_rows(T* origin, int stride, const Accumulator (&x)[kTiles], int rows, int columns) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) store(origin + tile * 8, stride, x[tile], rows, columns - tile * 8);
}

// The token-parallel part: dQ, dK, dV and dbeta of one chunk a block, 16 steps a warp.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kChunk<T> * 2)
gradient_kernel(Problem<T> problem, BackwardRows<T> rows, const T* states, const T* errors, BackwardScratch<T> scratch,
                VectorGradients<T> gradient) {
  constexpr int kSize = kChunk<T>, kThreads = kSize * 2, kVector = kRowStride<kWidth>, kBlocks = kSize / 16;
  constexpr int kKeyTiles = kWidth / 8, kValueBlocks = kWidth / 16, kCount = kPlanes<T>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<GradientShared<T, kWidth>*>(shared_memory);
  const int thread = threadIdx.x, warp = thread / 32, g = lane_id() / 4, t = lane_id() % 4;
  const auto at = problem.pair(blockIdx.x);
  const int begin = blockIdx.y * kSize, width = problem.width;
  const int valid = max(0, min(kSize, at.length - begin));
  const int step_stride = problem.heads * width;

  for (int step = valid + warp; step < min(kSize, problem.time - begin); step += kThreads / 32) {
    const std::int64_t origin = problem.strided(at, begin + step);
    for (int column = lane_id(); column < width; column += 32)
      gradient.q[origin + column] = gradient.k[origin + column] = gradient.v[origin + column] = T(0.0f);
    if (lane_id() == 0) gradient.beta[problem.scalar(at, begin + step)] = T(0.0f);
  }
  if (valid == 0) return;

  const std::int64_t strided = problem.strided(at, begin), contiguous = problem.contiguous(at, begin);
  const auto copy = [&](T* target, const T* source, std::int64_t stride, int bytes) {
    copy_rows<kWidth>(target, source, stride, valid, width, bytes, thread);
  };
  copy(shared.output_gradient, rows.output_gradient + contiguous, step_stride, rows.copy_bytes);
  copy(shared.error, errors + contiguous, step_stride, rows.saved_copy_bytes);
  copy(shared.error_gradient, scratch.error_gradient + contiguous, step_stride, rows.saved_copy_bytes);
  copy(shared.k, problem.k + strided, problem.row_stride, problem.copy_bytes);
  copy(shared.q, problem.q + strided, problem.row_stride, problem.copy_bytes);
  load_beta(shared.beta, problem, at, begin, thread, kThreads);
  wait_for_copies();
  __syncthreads();

  // dV = D dY, dbeta = rowsum(dY * E)
  T* d_value = gradient.v + strided + warp * problem.row_stride;
  for (int step = warp; step < valid; step += kThreads / 32, d_value += kThreads / 32 * problem.row_stride) {
    float sum = 0;
    for (int column = 2 * lane_id(); column < width; column += 64) {
      const float2 d_error = load_pair(shared.error_gradient + step * kVector + column);
      const float2 error = load_pair(shared.error + step * kVector + column);
      sum += d_error.x * error.x + d_error.y * error.y;
      store_pair(d_value + column, shared.beta[step] * d_error.x, shared.beta[step] * d_error.y);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (lane_id() == 0) gradient.beta[problem.scalar(at, begin + step)] = T(sum);
  }

  const int row = warp * 16, row_stride = static_cast<int>(problem.row_stride);
  const std::int64_t state_offset = problem.chunk_index(blockIdx.x, blockIdx.y) * kStateElements<kWidth>;
  const T* state = states + state_offset;
  const T* state_gradient = scratch.state_gradient + state_offset;
  const T *d_output_i = shared.output_gradient + row * kVector, *error_i = shared.error + row * kVector,
          *d_error_i = shared.error_gradient + row * kVector;
  // Row and column of an accumulator's element inside a block of 16 x 16.
  const auto element_row = [&](int e) { return g + e / 2 * 8; };
  const auto element_column = [&](int tile, int e) { return tile * 8 + 2 * t + e % 2; };

  // Tiles of values past the width were never written; their left operand is zero, so any other tile will do.
  const auto written = [&](int value) { return value * 16 < width ? value : 0; };

  // dQ = scale dO S^T + scale tril(dO U^T) K
  Accumulator sum[kKeyTiles] = {};
  FragmentB<kCount> right;
#pragma unroll
  for (int value = 0; value < kValueBlocks; ++value) {
    FragmentA<kCount> d_output;
    load_a(d_output, d_output_i + value * 16, kVector);
#pragma unroll
    for (int key = 0; key < kKeyTiles; ++key) {
      load_operand(right, state + (written(value) * kKeyTiles + key) * kOperandTile);
      multiply_add(sum[key], d_output, right);
    }
  }
#pragma unroll
  for (int key = 0; key < kKeyTiles; ++key)
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[key].x[e] *= problem.scale;
  for (int j = 0; j <= warp; ++j) {
    Accumulator weight[2] = {};
    multiply_rows<kWidth>(weight, d_output_i, shared.error + j * 16 * kVector);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool seen = j < warp || element_column(i, e) <= element_row(e);
        weight[i].x[e] = seen ? weight[i].x[e] * problem.scale * shared.beta[j * 16 + element_column(i, e)] : 0.0f;
      }
    add_weighted_rows<kWidth>(sum, weight, shared.k + j * 16 * kVector);
  }
  store_rows(gradient.q + strided + row * problem.row_stride, row_stride, sum, valid - row, width);

  // dK = U dS'^T - dX S^T + scale tril(dO U^T)^T Q - (F + F^T) K with F = strict_tril(dX U^T)
#pragma unroll
  for (int key = 0; key < kKeyTiles; ++key) sum[key] = Accumulator{};
#pragma unroll
  for (int value = 0; value < kValueBlocks; ++value) {
    FragmentA<kCount> error, minus_d_error;
    load_a(error, error_i + value * 16, kVector);
    load_a(minus_d_error, d_error_i + value * 16, kVector);
    negate(minus_d_error);
#pragma unroll
    for (int key = 0; key < kKeyTiles; ++key) {
      load_operand(right, state_gradient + (written(value) * kKeyTiles + key) * kOperandTile);
      multiply_add(sum[key], error, right);
      load_operand(right, state + (written(value) * kKeyTiles + key) * kOperandTile);
      multiply_add(sum[key], minus_d_error, right);
    }
  }
#pragma unroll
  for (int key = 0; key < kKeyTiles; ++key)
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[key].x[e] *= shared.beta[row + element_row(e)];
  for (int j = warp; j < kBlocks; ++j) {
    Accumulator weight[2] = {};
    multiply_rows<kWidth>(weight, error_i, shared.output_gradient + j * 16 * kVector);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool seen = j > warp || element_column(i, e) >= element_row(e);
        weight[i].x[e] = seen ? weight[i].x[e] * problem.scale * shared.beta[row + element_row(e)] : 0.0f;
      }
    add_weighted_rows<kWidth>(sum, weight, shared.q + j * 16 * kVector);
  }
  for (int j = 0; j < kBlocks; ++j) {
    Accumulator below[2] = {}, above[2] = {};  // of this warp's rows, left and right of the diagonal
    if (j <= warp) multiply_rows<kWidth>(below, d_error_i, shared.error + j * 16 * kVector);
    if (j >= warp) multiply_rows<kWidth>(above, error_i, shared.error_gradient + j * 16 * kVector);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int difference = (j - warp) * 16 + element_column(i, e) - element_row(e);
        const float product = difference < 0 ? below[i].x[e] : difference > 0 ? above[i].x[e] : 0.0f;
        below[i].x[e] = -product * shared.beta[row + element_row(e)] * shared.beta[j * 16 + element_column(i, e)];
      }
    add_weighted_rows<kWidth>(sum, below, shared.k + j * 16 * kVector);
  }
  store_rows(gradient.k + strided + row * problem.row_stride, row_stride, sum, valid - row, width);
}

template <typename T, int kWidth>
void launch_backward(const DeltaRuleInput& input, const void* saved, const DeltaRuleOutputGradient& output_gradient,
                     const DeltaRuleInputGradient& input_gradient, void* memory, cudaStream_t stream) {
  const DeltaRuleShape& s = input.shape;
  const auto layout = SavedLayout::of<T>(s, kWidth);
  const Problem<T> problem = make_problem<T>(input);
  const T* base = static_cast<const T*>(saved);
  const T *solve = base + layout.solve, *attend = base + layout.attend;
  const std::int64_t step_stride = std::int64_t{s.heads} * s.width;
  const BackwardRows<T> rows{static_cast<const T*>(output_gradient.output_BTHD),
                             copy_bytes<T>({output_gradient.output_BTHD}, step_stride, s.width),
                             copy_bytes<T>({saved, memory}, step_stride, s.width)};
  T* state_gradient = static_cast<T*>(memory);
  const BackwardScratch<T> scratch{state_gradient, state_gradient + (layout.error - layout.state)};
  const auto shape = RecurrenceLaunch::of<T, kWidth>(problem);
  launch(shape.stages > 1 ? backward_recurrence_kernel<T, kWidth, kMostStages> : backward_recurrence_kernel<T, kWidth, 1>,
         shape.grid, shape.threads, shape.bytes, stream, "delta rule: backward recurrence", problem, rows,
         output_gradient.final_state_BHKV, solve, attend, scratch, input_gradient.initial_state_BHKV);
  const VectorGradients<T> gradient{static_cast<T*>(input_gradient.q_BTHD), static_cast<T*>(input_gradient.k_BTHD),
                                    static_cast<T*>(input_gradient.v_BTHD), static_cast<T*>(input_gradient.beta_BTH)};
  launch(gradient_kernel<T, kWidth>, dim3(s.batch * s.heads, problem.chunks), kChunk<T> * 2,
         sizeof(GradientShared<T, kWidth>), stream, "delta rule: gradients", problem, rows, base + layout.state,
         base + layout.error, scratch, gradient);
}

}  // namespace
}  // namespace delta_rule

std::size_t delta_rule_backward_scratch_bytes(const DeltaRuleShape& shape, Dtype dtype) {
  delta_rule::check_shape(shape);
  return dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    const auto layout = delta_rule::SavedLayout::of<T>(shape, delta_rule::padded_width(shape.width));
    return (layout.elements - layout.state) * sizeof(T);
  });
}

void delta_rule_backward(const DeltaRuleInput& input, const void* saved, const DeltaRuleOutputGradient& output_gradient,
                         const DeltaRuleInputGradient& input_gradient, void* scratch, cudaStream_t stream) {
  delta_rule::check_input(input);
  delta_rule::dispatch(input.dtype, input.shape.width, [&](auto element, auto width) {
    delta_rule::launch_backward<decltype(element), width.value>(input, saved, output_gradient, input_gradient, scratch,
                                                                stream);
  });
}

}  // namespace engram
