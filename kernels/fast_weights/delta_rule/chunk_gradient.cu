#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/fast_weights/delta_rule/chunk_gradient.cuh"

namespace engram::delta_rule {
namespace {

template <typename T>
struct VectorGradients {
  T *q, *k, *v, *beta;
  float* log_decay;  // null: not wanted
};

// What makes the decays' gradients, in units that README.md explains: of every step, by the warps of dQ and of dK.
template <typename T, bool kDecay>
struct DecayGradientShared {};
template <typename T>
struct alignas(16) DecayGradientShared<T, true> {
  Decays<T> decays;
  float from_queries[kChunk<T>], from_keys[kChunk<T>], carried[kChunk<T>];
  float states[kChunk<T> / 8];  // of each warp
};

template <typename Rule, typename T, int kWidth>
struct GradientShared : DecayGradientShared<T, Rule::kDecay> {
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

// Planes of the weights between rows. A decay's gradient takes the difference of what these weights give to a row and
// to the others; one plane's rounding would be left of it (README.md).
template <typename Rule, typename T>
constexpr int kWeightPlanes = Rule::kDecay ? kSumPlanes<T> : kPlanes<T>;

// sum(16 x width) += weight(16 x 16) times 16 rows.
template <typename Rule, int kWidth, typename T>
__device__ void add_weighted_rows(Accumulator (&sum)[kWidth / 8], const Accumulator (&weight)[2], const T* rows) {
  FragmentA<kWeightPlanes<Rule, T>> a;
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

template <typename Rule, typename T, int kWidth>
constexpr std::size_t kGradientBytes = sizeof(GradientShared<Rule, T, kWidth>) +
                                       (kStagesStates<T, kWidth> ? 2 * kStateElements<kWidth> * sizeof(T) : 0);

template <typename T, int kWidth>
constexpr int kGradientBlocks = sizeof(T) == 4 ? 1
                                : kWidth == 64 ? 3
                                               : 2;  // a multiprocessor

// Of rows g and g + 8 of a block of 16 rows: their products with the rows of `sum`, in all lanes that share them.
template <int kTiles, typename T>
__device__ float2 dot_rows(const T* rows, int stride, const Accumulator (&sum)[kTiles]) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  float2 dot = {};
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const float2 upper = load_pair(rows + g * stride + tile * 8 + 2 * t);
    const float2 lower = load_pair(rows + (g + 8) * stride + tile * 8 + 2 * t);
    dot.x += upper.x * sum[tile].x[0] + upper.y * sum[tile].x[1];
    dot.y += lower.x * sum[tile].x[2] + lower.y * sum[tile].x[3];
  }
#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2) {
    dot.x += __shfl_xor_sync(~0u, dot.x, offset);
    dot.y += __shfl_xor_sync(~0u, dot.y, offset);
  }
  return dot;
}

// The diagonal of a block of 16 x 16, of rows g and g + 8.
__device__ inline float2 diagonal(const Accumulator (&block)[2]) {
  const int g = lane_id() / 4, holder = 4 * g + g / 2;
  return {__shfl_sync(~0u, g % 2 == 0 ? block[0].x[0] : block[0].x[1], holder),
          __shfl_sync(~0u, g % 2 == 0 ? block[1].x[2] : block[1].x[3], holder)};
}

// sum += each row's own weight times the row.
template <int kTiles, typename T>
__device__ void add_own_rows(Accumulator (&sum)[kTiles], float2 weight, const T* rows, int stride) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const float2 upper = load_pair(rows + g * stride + tile * 8 + 2 * t);
    const float2 lower = load_pair(rows + (g + 8) * stride + tile * 8 + 2 * t);
    sum[tile].x[0] += weight.x * upper.x, sum[tile].x[1] += weight.x * upper.y;
    sum[tile].x[2] += weight.y * lower.x, sum[tile].x[3] += weight.y * lower.y;
  }
}

// Writes the gradients of a chunk's logarithms of decays, by one warp: at step t the sum over the chunk's states, of
// `carried` before t, and of what queries and keys give from t on. Nothing is subtracted that a sum without it would
// leave out.
template <typename T>
__device__ void write_decay_gradient(const DecayGradientShared<T, true>& shared, const Problem<T>& problem,
                                     const typename Problem<T>::Pair& at, int begin, int valid, float* gradient) {
  constexpr int kOwn = kChunk<T> / 32;  // steps of a lane
  float states = 0, later[kOwn], earlier[kOwn], later_sum = 0, earlier_sum = 0;
#pragma unroll
  for (const float part : shared.states) states += part;
#pragma unroll
  for (int i = kOwn - 1; i >= 0; --i) {
    const int step = lane_id() * kOwn + i;
    later[i] = later_sum += shared.from_queries[step] + shared.from_keys[step];
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    earlier[i] = earlier_sum;
    earlier_sum += shared.carried[lane_id() * kOwn + i];
  }
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const float next = __shfl_down_sync(~0u, later_sum, distance),
                previous = __shfl_up_sync(~0u, earlier_sum, distance);
    if (lane_id() + distance < 32) later_sum += next;
    if (lane_id() >= distance) earlier_sum += previous;
  }
  const float next = __shfl_down_sync(~0u, later_sum, 1), previous = __shfl_up_sync(~0u, earlier_sum, 1);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int step = lane_id() * kOwn + i;
    if (lane_id() < 31) later[i] += next;
    if (lane_id() > 0) earlier[i] += previous;
    if (step < valid) gradient[problem.scalar(at, begin + step)] = states + earlier[i] + later[i];
  }
}

// The token-parallel part: dQ, dK, dV and dbeta of one chunk a block. Two warps share 16 steps: one makes dQ and
// dV, the other dK and dbeta.
template <typename Rule, typename T, int kWidth>
__global__ void __launch_bounds__(kChunk<T> * 4, kGradientBlocks<T, kWidth>)
    gradient_kernel(Problem<T> problem, BackwardRows<T> rows, Saved<T> saved, BackwardScratch<T> scratch,
                    VectorGradients<T> gradient) {
  constexpr int kSize = kChunk<T>, kThreads = kSize * 4, kVector = kRowStride<kWidth>, kBlocks = kSize / 16;
  constexpr int kKeyTiles = kWidth / 8, kValueBlocks = kWidth / 16, kCount = kPlanes<T>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<GradientShared<Rule, T, kWidth>*>(shared_memory);
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
    if constexpr (Rule::kDecay)
      if (lane_id() == 0 && gradient.log_decay != nullptr) gradient.log_decay[problem.scalar(at, begin + step)] = 0.0f;
  }
  if (valid == 0) return;

  const std::int64_t strided = problem.strided(at, begin), contiguous = problem.contiguous(at, begin);
  const RowCopy<T> copies[] = {
      {shared.output_gradient, rows.output_gradient + contiguous, step_stride, rows.copy_bytes},
      Rule::kDelta ? RowCopy<T>{shared.error, saved.error + contiguous, step_stride, rows.saved_copy_bytes}
                   : RowCopy<T>{shared.error, problem.v + strided, problem.row_stride, problem.copy_bytes},
      {shared.error_gradient, scratch.error_gradient + contiguous, step_stride, rows.saved_copy_bytes},
      {shared.k, problem.k + strided, problem.row_stride, problem.copy_bytes},
      {shared.q, problem.q + strided, problem.row_stride, problem.copy_bytes}};
  const std::int64_t state_offset = problem.chunk_index(blockIdx.x, blockIdx.y) * kStateElements<kWidth>;
  const T* state = saved.state + state_offset;
  const T* state_gradient = scratch.state_gradient + state_offset;
  load_beta(shared.beta, problem, at, begin, thread, kThreads);
  copy_rows<kWidth, kThreads>(copies, valid, width, thread);
  if constexpr (Rule::kDecay) {
    static_assert(sizeof(Decays<T>) == 4 * kSize * sizeof(float));
    copy_flat<kThreads>(shared.decays.from_start, saved.decays[problem.chunk_index(blockIdx.x, blockIdx.y)].from_start,
                        4 * kSize, thread);
  }
  commit_copies();
  const int written_elements = (width + 15) / 16 * kKeyTiles * kOperandTile;
  if constexpr (kStagesStates<T, kWidth>) {
    auto* staged = reinterpret_cast<T*>(shared_memory + sizeof(GradientShared<Rule, T, kWidth>));
    copy_flat<kThreads>(staged, state, written_elements, thread);
    copy_flat<kThreads>(staged + kStateElements<kWidth>, state_gradient, written_elements, thread);
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

  // With a decay: the weights of this warp's rows beside a block's rows decay by the steps between. A row's weight for
  // itself does not; it is kept apart, since it has no part in the decays' gradients.
  float2 own_weight = {};
  const auto decay_weights = [&](Accumulator(&weight)[2], int block, auto rows_are_later) {
    if constexpr (Rule::kDecay) {
      if (block == warp) own_weight = diagonal(weight);
      Accumulator decay[2];
      RowDecays(shared.decays, row).template to_columns<rows_are_later.value>(decay, shared.decays, block * 16);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const bool own = block == warp && element_row(e) == element_column(i, e);
          // What is masked stays so, whatever its decay is.
          weight[i].x[e] = weight[i].x[e] == 0.0f || own ? 0.0f : weight[i].x[e] * decay[i].x[e];
        }
    }
  };
  const bool wants_decay = Rule::kDecay && gradient.log_decay != nullptr;
  float2 inside = {}, from_start = {}, all = {};  // products of k with what dK has in the course of its sum

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
      if constexpr (Rule::kDecay) decay_weights(weight, j, std::true_type());
      add_weighted_rows<Rule, kWidth>(sum, weight, shared.k + j * 16 * kVector);
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
      if constexpr (Rule::kDecay) decay_weights(weight, j, std::false_type());
      add_weighted_rows<Rule, kWidth>(sum, weight, shared.q + j * 16 * kVector);
    }
    const auto store_beta = [&](float2 product) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (t == 0 && row + g + 8 * half < valid)
          gradient.beta[problem.scalar(at, begin + row + g + 8 * half)] = T(half == 0 ? product.x : product.y);
    };
    // F + F^T a part at a time: of `left`, this warp's rows, and the other rows on one side of them.
    const auto subtract_side = [&](const T* left, const T* right, int block, auto rows_are_later) {
      if constexpr (Rule::kDecay) {
        Accumulator weight[2] = {}, decay[2];
        multiply_rows<kWidth>(weight, left, right + block * 16 * kVector);
        if (!rows_are_later.value && block == warp) store_beta(diagonal(weight));
        RowDecays(shared.decays, row).template to_columns<rows_are_later.value>(decay, shared.decays, block * 16);
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int own = row + element_row(e), other = block * 16 + element_column(i, e);
            const bool seen = rows_are_later.value ? other < own : other > own;
            weight[i].x[e] = seen ? -weight[i].x[e] * shared.beta[other] * decay[i].x[e] : 0.0f;
          }
        add_weighted_rows<Rule, kWidth>(sum, weight, shared.k + block * 16 * kVector);
      }
    };
    if constexpr (!Rule::kDelta) {
      // dbeta_i = dU_i . V_i
      Accumulator product[2] = {};
      multiply_rows<kWidth>(product, d_error_i, error_i);
      store_beta(diagonal(product));
      if (wants_decay) inside = from_start = dot_rows(shared.k + row * kVector, kVector, sum);
    } else if constexpr (Rule::kDecay) {
      for (int j = warp; j < kBlocks; ++j) subtract_side(error_i, shared.error_gradient, j, std::false_type());
      if (wants_decay) inside = dot_rows(shared.k + row * kVector, kVector, sum);
      for (int j = 0; j <= warp; ++j) subtract_side(d_error_i, shared.error, j, std::true_type());
    } else {
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
        add_weighted_rows<Rule, kWidth>(sum, below, shared.k + j * 16 * kVector);
      }
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
  if constexpr (Rule::kDecay) {
    const auto add_decayed_state = [&](const T* rows_i, const T* tiles, const float* decay, bool subtracts) {
      const float sign = subtracts ? -1.0f : 1.0f, upper = sign * decay[row + g], lower = sign * decay[row + g + 8];
#pragma unroll
      for (int value = 0; value < kValueBlocks; ++value) {
        FragmentA<kCount> left;
        load_a(left, rows_i + value * 16, kVector);
        scale_rows(left, upper, lower);
        add_state(left, tiles, value);
      }
    };
    const T *k_i = shared.k + row * kVector, *q_i = shared.q + row * kVector;
    if (makes_keys) {
      if constexpr (Rule::kDelta) {
        add_decayed_state(d_error_i, state, shared.decays.from_start, true);
        if (wants_decay) from_start = dot_rows(k_i, kVector, sum);
      }
      add_decayed_state(error_i, state_gradient, shared.decays.to_end, false);
      if (wants_decay) all = dot_rows(k_i, kVector, sum);
      add_own_rows(sum, own_weight, q_i, kVector);
    } else {
      add_decayed_state(d_output_i, state, shared.decays.from_start, false);
      if (wants_decay) all = dot_rows(q_i, kVector, sum);
      add_own_rows(sum, own_weight, k_i, kVector);
    }
    if (wants_decay) {
      if (t == 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int step = row + g + 8 * half;
          const auto of = [half](float2 x) { return half == 0 ? x.x : x.y; };
          if (makes_keys) {
            shared.from_keys[step] = shared.beta[step] * (of(from_start) - 2.0f * of(inside));
            shared.carried[step] = shared.beta[step] * (of(all) - of(from_start));
          } else {
            shared.from_queries[step] = problem.scale * of(all);
          }
        }
      }
      float product = 0;  // of the chunk's first state and the gradient of its last
      for (int i = 2 * thread; i < written_elements; i += 2 * kThreads) {
        const float2 a = load_pair(state + i), b = load_pair(state_gradient + i);
        product += a.x * b.x + a.y * b.y;
      }
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) product += __shfl_xor_sync(~0u, product, offset);
      if (lane_id() == 0) shared.states[thread / 32] = product * shared.decays.from_start[kSize - 1];
      __syncthreads();
      if (thread < 32) write_decay_gradient<T>(shared, problem, at, begin, valid, gradient.log_decay);
    }
  } else {
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
  }
#pragma unroll
  for (int key = 0; key < kKeyTiles; ++key)
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[key].x[e] *= makes_keys ? shared.beta[row + element_row(e)] : problem.scale;
  store_rows((makes_keys ? gradient.k : gradient.q) + strided + row * problem.row_stride, row_stride, sum, valid - row,
             width);
}

}  // namespace

template <typename Rule, typename T, int kWidth>
void launch_gradients(const Problem<T>& problem, const BackwardRows<T>& rows, const Saved<T>& saved,
                      const BackwardScratch<T>& scratch, const DeltaRuleInputGradient& to, cudaStream_t stream) {
  const VectorGradients<T> gradient{static_cast<T*>(to.q_BTHD), static_cast<T*>(to.k_BTHD), static_cast<T*>(to.v_BTHD),
                                    static_cast<T*>(to.beta_BTH),
                                    problem.log_decay == nullptr ? nullptr : to.log_decay_BTH};
  launch(gradient_kernel<Rule, T, kWidth>, dim3(problem.batch * problem.heads, problem.chunks), kChunk<T> * 4,
         kGradientBytes<Rule, T, kWidth>, stream, "delta rule: gradients", problem, rows, saved, scratch, gradient);
}

#define ENGRAM_GRADIENTS(Rule, T, width)                                                                     \
  template void launch_gradients<Rule, T, width>(const Problem<T>&, const BackwardRows<T>&, const Saved<T>&, \
                                                 const BackwardScratch<T>&, const DeltaRuleInputGradient&,   \
                                                 cudaStream_t);
#define ENGRAM_GRADIENTS_OF(T, width)    \
  ENGRAM_GRADIENTS(PlainDelta, T, width) \
  ENGRAM_GRADIENTS(GatedDelta, T, width) \
  ENGRAM_GRADIENTS(Sum, T, width)
ENGRAM_GRADIENTS_OF(float, 64)
ENGRAM_GRADIENTS_OF(float, 128)
ENGRAM_GRADIENTS_OF(bf16, 64)
ENGRAM_GRADIENTS_OF(bf16, 128)
#undef ENGRAM_GRADIENTS_OF
#undef ENGRAM_GRADIENTS

}  // namespace engram::delta_rule
