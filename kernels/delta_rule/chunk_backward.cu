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

// What the warps of a slice exchange, transposed: their parts of dU, then -dX in units of scale.
template <typename T, int kParts>
struct BackwardExchange {
  float4 part[kParts][kChunk<T> / 8][32];
  uint4 update[kChunk<T> / 16][kSumPlanes<T>][32];
};

// The recurrence, from the last chunk to the first. State gradients are held in units of `scale`.
template <typename T, int kWidth, int kParts, int kStages>
__global__ void __launch_bounds__(kMostThreads<kParts>)
    backward_recurrence_kernel(Problem<T> problem, BackwardRows<T> rows, const Triangles<T>* triangles,
                               BackwardScratch<T> scratch) {
  using Walk = SliceWarp<T, kWidth, kParts>;
  constexpr int kSize = kChunk<T>, kBlocks = kSize / 16, kVector = kRowStride<kWidth>;
  constexpr int kOwnBlocks = Walk::kOwnBlocks, kOwnKeys = Walk::kOwnKeys, kCount = kPlanes<T>, kSums = kSumPlanes<T>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto* stages = reinterpret_cast<Stage<T, kWidth>*>(shared_memory);
  const auto at = problem.pair(blockIdx.x);
  const Walk walk = Walk::of(problem.width);
  const int step_stride = problem.heads * problem.width;
  const float scale = problem.scale, inverse_scale = 1.0f / problem.scale;
  auto& exchange =
      reinterpret_cast<BackwardExchange<T, kParts>*>(shared_memory + kStages * sizeof(*stages))[walk.slice];

  union {
    struct {
      Accumulator state[2 * kOwnKeys];  // the gradient, this warp's keys
      Accumulator x[2 * kBlocks];
    } slice;
    ProducerRegisters producer;
  } own;
  auto& state = own.slice.state;
  auto& x = own.slice.x;
  if (walk.works) {
#pragma unroll
    for (int i = 0; i < 2 * kOwnKeys; ++i) state[i] = Accumulator{};
  }
  const auto load_output_gradient = [&](FragmentA<kCount>& d_output, const Stage<T, kWidth>& stage, int i) {
    load_a_transposed(d_output, stage.value + i * 16 * kValueStride + walk.slice * 16, kValueStride);
  };

  // This warp's part of dU = P^T dO + K dS': its steps' of the first term, its keys' of the second; dS' is kept.
  const auto read_state = [&](const Stage<T, kWidth>& stage, int chunk) {
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) x[i] = Accumulator{};
#pragma unroll
    for (int k = 0; k < kOwnKeys; ++k) {
      const int key = walk.first_key / 16 + k;
      T* tiles = scratch.state_gradient + Walk::state_tiles(problem, chunk, walk.first_value, key);
      Accumulator scaled[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scaled[half].x[e] = state[2 * k + half].x[e] * scale;
        store_operand(tiles + half * kOperandTile, scaled[half]);
      }
      FragmentA<kSums> state_gradient;
      to_fragment(state_gradient, scaled[0], scaled[1]);
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        FragmentB<kCount> right[2];
        load_b(right, stage.k + i * 16 * kVector + key * 16, kVector);
        multiply_add(x[2 * i], state_gradient, right[0]);
        multiply_add(x[2 * i + 1], state_gradient, right[1]);
      }
    }
#pragma unroll
    for (int b = 0; b < kOwnBlocks; ++b) {
      const int i = walk.own_block(b);
      FragmentA<kCount> d_output;
      load_output_gradient(d_output, stage, i);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        if (j > i) continue;
        FragmentB<kCount> right[2];
        load_b_block_transposed(right, stage.triangles.attend + Triangles<T>::block(i, j));
        multiply_add(x[2 * j], d_output, right[0]);
        multiply_add(x[2 * j + 1], d_output, right[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) store_accumulator(exchange.part[walk.part][i], x[i]);
  };

  // dU, then of this warp's steps dY = dU - Z^T D dU, which is kept, and dX = D dY; of its keys dS' + scale Q^T dO.
  const auto solve_errors = [&](const Stage<T, kWidth>& stage, int chunk) {
    const int begin = chunk * kSize, valid = min(kSize, at.length - begin);
    walk.add_parts(x, exchange.part);
    Accumulator d_error[2 * kOwnBlocks];
    walk.select_own(d_error, x);
#pragma unroll
    for (int i = kBlocks - 1; i >= 0; --i) {
      if (i < walk.own_block(0)) continue;
      FragmentA<kSums> weighted;
      weigh(weighted, x[2 * i], x[2 * i + 1], stage.beta + i * 16, 1.0f);
#pragma unroll
      for (int b = 0; b < kOwnBlocks; ++b) {
        if (i < walk.own_block(b)) continue;
        SolveOperand<T> z;
        z.template load<true>(stage.triangles, i, walk.own_block(b));
        multiply_add(d_error[2 * b], weighted, z.tile[0]);
        multiply_add(d_error[2 * b + 1], weighted, z.tile[1]);
      }
    }
#pragma unroll
    for (int b = 0; b < kOwnBlocks; ++b) {
      const int j = walk.own_block(b);
      FragmentA<kSums> update;
      weigh(update, d_error[2 * b], d_error[2 * b + 1], stage.beta + j * 16, -inverse_scale);
      store_fragment(exchange.update[j], update);
      walk.store_steps(scratch.error_gradient + problem.contiguous(at, begin), step_stride, d_error[2 * b],
                       d_error[2 * b + 1], j, valid);
    }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      FragmentA<kCount> d_output;
      load_output_gradient(d_output, stage, i);
#pragma unroll
      for (int k = 0; k < kOwnKeys; ++k) {
        FragmentB<kCount> right[2];
        load_b_transposed(right, stage.q + i * 16 * kVector + walk.first_key + k * 16, kVector);
        multiply_add(state[2 * k], d_output, right[0]);
        multiply_add(state[2 * k + 1], d_output, right[1]);
      }
    }
  };

  // dS = dS' + scale Q^T dO - K^T dX, its last term, for this warp's keys.
  const auto write_state = [&](const Stage<T, kWidth>& stage, int) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      FragmentA<kSums> update;
      load_fragment(update, exchange.update[i]);
#pragma unroll
      for (int k = 0; k < kOwnKeys; ++k) {
        FragmentB<kCount> right[2];
        load_b_transposed(right, stage.k + i * 16 * kVector + walk.first_key + k * 16, kVector);
        multiply_add(state[2 * k], update, right[0]);
        multiply_add(state[2 * k + 1], update, right[1]);
      }
    }
  };

  const ValueRows<T> values{rows.output_gradient, step_stride, rows.copy_bytes};
  for_each_chunk<true, kStages>(problem, values, triangles, stages, own.producer, walk, read_state, solve_errors,
                                write_state);
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

// The states' tiles are brought to shared memory where that leaves enough blocks a multiprocessor.
template <typename T, int kWidth>
constexpr bool kStagesStates = sizeof(T) == 2 && kWidth == 64;

template <typename T, int kWidth>
constexpr std::size_t kGradientBytes = sizeof(GradientShared<T, kWidth>) +
                                       (kStagesStates<T, kWidth> ? 2 * kStateElements<kWidth> * sizeof(T) : 0);

template <typename T, int kWidth>
constexpr int kGradientBlocks = sizeof(T) == 4 ? 1
                                : kWidth == 64 ? 3
                                               : 2;  // a multiprocessor

// The token-parallel part: dQ, dK, dV and dbeta of one chunk a block. Two warps share 16 steps: one makes dQ and
// dV, the other dK and dbeta.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kChunk<T> * 4, kGradientBlocks<T, kWidth>)
    gradient_kernel(Problem<T> problem, BackwardRows<T> rows, const T* states, const T* errors,
                    BackwardScratch<T> scratch, VectorGradients<T> gradient) {
  constexpr int kSize = kChunk<T>, kThreads = kSize * 4, kVector = kRowStride<kWidth>, kBlocks = kSize / 16;
  constexpr int kKeyTiles = kWidth / 8, kValueBlocks = kWidth / 16, kCount = kPlanes<T>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<GradientShared<T, kWidth>*>(shared_memory);
  const int thread = threadIdx.x, warp = thread / 32 % kBlocks, g = lane_id() / 4, t = lane_id() % 4;
  const bool makes_keys = thread / 32 >= kBlocks;
  const auto at = problem.pair(blockIdx.x);
  const int begin = blockIdx.y * kSize, width = problem.width;
  const int valid = max(0, min(kSize, at.length - begin));
  const int step_stride = problem.heads * width;

  for (int step = valid + thread / 32; step < min(kSize, problem.time - begin); step += kThreads / 32) {
    const std::int64_t origin = problem.strided(at, begin + step);
    for (int column = lane_id(); column < width; column += 32)
      gradient.q[origin + column] = gradient.k[origin + column] = gradient.v[origin + column] = T(0.0f);
    if (lane_id() == 0) gradient.beta[problem.scalar(at, begin + step)] = T(0.0f);
  }
  if (valid == 0) return;

  const std::int64_t strided = problem.strided(at, begin), contiguous = problem.contiguous(at, begin);
  const RowCopy<T> copies[] = {
      {shared.output_gradient, rows.output_gradient + contiguous, step_stride, rows.copy_bytes},
      {shared.error, errors + contiguous, step_stride, rows.saved_copy_bytes},
      {shared.error_gradient, scratch.error_gradient + contiguous, step_stride, rows.saved_copy_bytes},
      {shared.k, problem.k + strided, problem.row_stride, problem.copy_bytes},
      {shared.q, problem.q + strided, problem.row_stride, problem.copy_bytes}};
  const std::int64_t state_offset = problem.chunk_index(blockIdx.x, blockIdx.y) * kStateElements<kWidth>;
  const T* state = states + state_offset;
  const T* state_gradient = scratch.state_gradient + state_offset;
  load_beta(shared.beta, problem, at, begin, thread, kThreads);
  copy_rows<kWidth, kThreads>(copies, valid, width, thread);
  commit_copies();
  if constexpr (kStagesStates<T, kWidth>) {
    auto* staged = reinterpret_cast<T*>(shared_memory + sizeof(GradientShared<T, kWidth>));
    const int written = (width + 15) / 16 * kKeyTiles * kOperandTile;
    copy_flat<kThreads>(staged, state, written, thread);
    copy_flat<kThreads>(staged + kStateElements<kWidth>, state_gradient, written, thread);
    commit_copies();
    state = staged;
    state_gradient = staged + kStateElements<kWidth>;
    wait_for_groups<1>();
  } else {
    wait_for_groups<0>();
  }
  __syncthreads();

  const int row = warp * 16, row_stride = static_cast<int>(problem.row_stride);
  const T *d_output_i = shared.output_gradient + row * kVector, *error_i = shared.error + row * kVector,
          *d_error_i = shared.error_gradient + row * kVector;
  // Row and column of an accumulator's element inside a block of 16 x 16.
  const auto element_row = [&](int e) { return g + e / 2 * 8; };
  const auto element_column = [&](int tile, int e) { return tile * 8 + 2 * t + e % 2; };
  // Tiles of values past the width were never written; their left operand is zero, so any other tile will do.
  const auto written = [&](int value) { return value * 16 < width ? value : 0; };

  // First what rows alone give, then, when the states are there, their products.
  Accumulator sum[kKeyTiles] = {};
  if (!makes_keys) {
    // dV = D dY
    T* d_value = gradient.v + strided + row * problem.row_stride + 2 * lane_id();
    const T* d_error = d_error_i + 2 * lane_id();
#pragma unroll 8
    for (int i = 0; i < 16; ++i) {
#pragma unroll
      for (int column = 0; column < kWidth; column += 64) {
        const float2 pair = load_pair(d_error + i * kVector + column);
        const float beta = shared.beta[row + i];
        if (row + i < valid && column + 2 * lane_id() < width)
          store_pair(d_value + i * row_stride + column, beta * pair.x, beta * pair.y);
      }
    }
    // dQ = scale (dO S^T + tril(dO U^T) K)
    for (int j = 0; j <= warp; ++j) {
      Accumulator weight[2] = {};
      multiply_rows<kWidth>(weight, d_output_i, shared.error + j * 16 * kVector);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const bool seen = j < warp || element_column(i, e) <= element_row(e);
          weight[i].x[e] = seen ? weight[i].x[e] * shared.beta[j * 16 + element_column(i, e)] : 0.0f;
        }
      add_weighted_rows<kWidth>(sum, weight, shared.k + j * 16 * kVector);
    }
  } else {
    // dK = D (E dS'^T - dY S^T + scale tril(dO E^T)^T Q - (F + F^T) K), F_ij = dY_i . U_j below the diagonal
    for (int j = warp; j < kBlocks; ++j) {
      Accumulator weight[2] = {};
      multiply_rows<kWidth>(weight, error_i, shared.output_gradient + j * 16 * kVector);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const bool seen = j > warp || element_column(i, e) >= element_row(e);
          weight[i].x[e] = seen ? weight[i].x[e] * problem.scale : 0.0f;
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
          // dbeta_i = dY_i . E_i
          if (difference == 0 && row + element_row(e) < valid)
            gradient.beta[problem.scalar(at, begin + row + element_row(e))] = T(below[i].x[e]);
          below[i].x[e] = -product * shared.beta[j * 16 + element_column(i, e)];
        }
      add_weighted_rows<kWidth>(sum, below, shared.k + j * 16 * kVector);
    }
  }

  if constexpr (kStagesStates<T, kWidth>) {
    wait_for_groups<0>();
    __syncthreads();
  }
  // sum += left(16 x values) times a state's transposed tiles.
  const auto add_state = [&](FragmentA<kCount>& left, const T* tiles, int value) {
    constexpr int kTogether = 8 / kCount;  // loads under way
    FragmentB<kCount> right[kTogether];
#pragma unroll
    for (int key = 0; key < kKeyTiles; ++key) {
      if (key % kTogether == 0)
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
          load_operand(right[i], tiles + (written(value) * kKeyTiles + key + i) * kOperandTile);
      multiply_add(sum[key], left, right[key % kTogether]);
    }
  };
#pragma unroll
  for (int value = 0; value < kValueBlocks; ++value) {
    FragmentA<kCount> left;
    if (makes_keys) {
      load_a(left, error_i + value * 16, kVector);
      add_state(left, state_gradient, value);
      load_a(left, d_error_i + value * 16, kVector);
      negate(left);
    } else {
      load_a(left, d_output_i + value * 16, kVector);
    }
    add_state(left, state, value);
  }
#pragma unroll
  for (int key = 0; key < kKeyTiles; ++key)
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[key].x[e] *= makes_keys ? shared.beta[row + element_row(e)] : problem.scale;
  store_rows((makes_keys ? gradient.k : gradient.q) + strided + row * problem.row_stride, row_stride, sum, valid - row,
             width);
}

template <typename T, int kWidth>
void launch_backward(const DeltaRuleInput& input, const void* saved, const void* output_gradient,
                     const DeltaRuleInputGradient& input_gradient, void* memory, cudaStream_t stream) {
  const DeltaRuleShape& s = input.shape;
  const auto layout = SavedLayout::of<T>(s, kWidth);
  const Problem<T> problem = make_problem<T>(input);
  const T* base = static_cast<const T*>(saved);
  const std::int64_t step_stride = std::int64_t{s.heads} * s.width;
  const BackwardRows<T> rows{static_cast<const T*>(output_gradient),
                             copy_bytes<T>({output_gradient}, step_stride, s.width),
                             copy_bytes<T>({saved, memory}, step_stride, s.width)};
  T* state_gradient = static_cast<T*>(memory);
  const BackwardScratch<T> scratch{state_gradient, state_gradient + (layout.error - layout.state)};
  auto shape = RecurrenceLaunch::of<T, kWidth>(problem, sizeof(BackwardExchange<T, 2>));
  auto kernel = shape.stages > 1 ? backward_recurrence_kernel<T, kWidth, 2, kMostStages<kWidth>>
                                 : backward_recurrence_kernel<T, kWidth, 2, 1>;
  if constexpr (kSharesSlice<T, kWidth>)
    if (shape.template share_slice<T, kWidth>(sizeof(BackwardExchange<T, 4>)))
      kernel = backward_recurrence_kernel<T, kWidth, 4, 3>;
  launch(kernel, shape.grid, shape.threads, shape.bytes, stream, "delta rule: backward recurrence", problem, rows,
         static_cast<const Triangles<T>*>(saved), scratch);
  const VectorGradients<T> gradient{static_cast<T*>(input_gradient.q_BTHD), static_cast<T*>(input_gradient.k_BTHD),
                                    static_cast<T*>(input_gradient.v_BTHD), static_cast<T*>(input_gradient.beta_BTH)};
  launch(gradient_kernel<T, kWidth>, dim3(s.batch * s.heads, problem.chunks), kChunk<T> * 4, kGradientBytes<T, kWidth>,
         stream, "delta rule: gradients", problem, rows, base + layout.state, base + layout.error, scratch, gradient);
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

void delta_rule_backward(const DeltaRuleInput& input, const void* saved, const void* output_gradient_BTHD,
                         const DeltaRuleInputGradient& input_gradient, void* scratch, cudaStream_t stream) {
  delta_rule::check_input(input);
  dispatch_width(input.dtype, input.shape.width, [&](auto element, auto width) {
    delta_rule::launch_backward<decltype(element), width.value>(input, saved, output_gradient_BTHD, input_gradient,
                                                                scratch, stream);
  });
}

}  // namespace engram
