#include <cstdint>

#include "kernels/fast_weights/delta_rule/chunk_prepare.cuh"

namespace engram::delta_rule {
namespace {

template <typename T>
constexpr int kStride = kRowStride<kChunk<T>>;

template <typename T>
constexpr int kHalfStride = kRowStride<kChunk<T> / 2>;

// A(m, k) = -p[m * stride + k] * factor[k]
template <int kCount>
__device__ void load_a_scaled(FragmentA<kCount>& a, const float* p, int stride, const float* factor) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int k = i / 2 * 8 + 2 * t;
    const float* x = p + (g + i % 2 * 8) * stride + k;
    set_pair(a, i, -x[0] * factor[k], -x[1] * factor[k + 1]);
  }
}

__device__ void store_shared(float* p, int stride, const Accumulator& x) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) store_pair(p + (g + i * 8) * stride + 2 * t, x.x[2 * i], x.x[2 * i + 1]);
}
__device__ void load_shared(Accumulator& x, const float* p, int stride) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 pair = load_pair(p + (g + i * 8) * stride + 2 * t);
    x.x[2 * i] = pair.x, x.x[2 * i + 1] = pair.y;
  }
}

// left, right += a b over the steps of 16 from `begin` to `end`, with `a` scaled and negated.
template <int kCount>
__device__ void multiply_scaled(Accumulator (&sum)[2], const float* a, int a_stride, const float* factor,
                                const float* b, int b_stride, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    FragmentA<kCount> left;
    FragmentB<kCount> right[2];
    load_a_scaled(left, a + step * 16, a_stride, factor + step * 16);
    load_b_transposed(right, b + step * 16 * b_stride, b_stride);
    multiply_add(sum[0], left, right[0]);
    multiply_add(sum[1], left, right[1]);
  }
}

// g, 16 x 16 and strictly lower triangular, becomes z with z_i = g_i - sum_{j < i} g_ij beta_j z_j (rows). One warp;
// each lane solves for a column, both half warps the same.
__device__ void solve_diagonal(float* g, int stride, const float* beta) {
  const int column = lane_id() % 16;
  float z[16], weighted[16];  // beta_j z_j
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float sum[2] = {g[i * stride + column], 0.0f};
#pragma unroll
    for (int j = 0; j < i; j += 4) {
      const float4 row = *reinterpret_cast<const float4*>(g + i * stride + j);
      sum[0] -= row.x * weighted[j];
      if (j + 1 < i) sum[1] -= row.y * weighted[j + 1];
      if (j + 2 < i) sum[0] -= row.z * weighted[j + 2];
      if (j + 3 < i) sum[1] -= row.w * weighted[j + 3];
    }
    z[i] = sum[0] + sum[1];
    weighted[i] = beta[i] * z[i];
  }
  __syncwarp();
  if (lane_id() < 16) {
#pragma unroll
    for (int i = 0; i < 16; ++i) g[i * stride + column] = z[i];
  }
}

// The decays of a chunk's steps, by one warp. Sums are formed in double. What a step's decay is reaches no earlier one.
template <typename T>
__device__ void sum_decays(Decays<T>& decays, const Problem<T>& problem, const typename Problem<T>::Pair& at,
                           int begin) {
  constexpr int kOwn = kChunk<T> / 32;      // steps of a lane
  constexpr float kForgotten = -10'000.0f;  // its exponential is 0 in any case, and differences of it are numbers
  double sum[kOwn], total = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int step = begin + lane_id() * kOwn + i;
    if (problem.log_decay != nullptr && step < at.length) {
      const float log_decay = problem.log_decay[problem.scalar(at, step)];
      total += log_decay < kForgotten ? kForgotten : log_decay;
    }
    sum[i] = total;
  }
  double before = total;  // of the lanes up to this one
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const double other = __shfl_up_sync(~0u, before, distance);
    if (lane_id() >= distance) before += other;
  }
  const double last = __shfl_sync(~0u, before, 31), previous = __shfl_up_sync(~0u, before, 1);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int step = lane_id() * kOwn + i;
    const double c = lane_id() == 0 ? sum[i] : previous + sum[i];
    decays.from_start[step] = expf(static_cast<float>(c));
    decays.to_end[step] = expf(static_cast<float>(last - c));
    decays.high[step] = static_cast<float>(c);
    decays.low[step] = static_cast<float>(c - decays.high[step]);
  }
}

template <typename T, bool kDecay>
struct PrepareDecays {};
template <typename T>
struct PrepareDecays<T, true> {
  Decays<T> decays;
};

template <typename Rule, typename T, int kWidth>
struct PrepareShared : PrepareDecays<T, Rule::kDecay> {
  T k[kChunk<T> * kRowStride<kWidth>];
  union {
    T q[kChunk<T> * kRowStride<kWidth>];
    float y[kChunk<T> / 2 * kHalfStride<T>];  // once the scores are done
  };
  float g[kChunk<T> * kStride<T>];  // G, then Z in its place
  float beta[kChunk<T>];
};

// One block for each chunk, one warp for each block of 16 rows.
template <typename Rule, typename T, int kWidth>
__global__ void __launch_bounds__(kChunk<T> * 2)
    prepare_kernel(Problem<T> problem, Triangles<T>* triangles, Decays<T>* decays) {
  constexpr int kSize = kChunk<T>, kThreads = kSize * 2, kVector = kRowStride<kWidth>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<PrepareShared<Rule, T, kWidth>*>(shared_memory);
  const int thread = threadIdx.x, warp = thread / 32;
  const auto at = problem.pair(blockIdx.x);
  const int begin = blockIdx.y * kSize;
  if (begin >= at.length) return;

  const int valid = min(kSize, at.length - begin);
  const std::int64_t offset = problem.strided(at, begin);
  const RowCopy<T> copies[] = {{shared.k, problem.k + offset, problem.row_stride, problem.copy_bytes},
                               {shared.q, problem.q + offset, problem.row_stride, problem.copy_bytes}};
  load_beta(shared.beta, problem, at, begin, thread, kThreads);
  copy_rows<kWidth, kThreads>(copies, valid, problem.width, thread);
  if constexpr (Rule::kDecay)
    if (warp == 0) sum_decays(shared.decays, problem, at, begin);
  wait_for_copies();
  __syncthreads();

  const int g = lane_id() / 4, t = lane_id() % 4;
  Triangles<T>& target = triangles[problem.chunk_index(blockIdx.x, blockIdx.y)];
  if constexpr (Rule::kDecay) {
    auto* to = reinterpret_cast<float*>(decays + problem.chunk_index(blockIdx.x, blockIdx.y));
    const auto* from = reinterpret_cast<const float*>(&shared.decays);
    for (int i = thread; i < static_cast<int>(sizeof(Decays<T>) / sizeof(float)); i += kThreads) to[i] = from[i];
  }
  for (int block = 0; block < kSize / 16; ++block) {
    Accumulator gram[2] = {}, score[2] = {};
    if (block <= warp) {
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step) {
        FragmentA<kPlanes<T>> key, query;
        FragmentB<kPlanes<T>> right[2];
        load_a(key, shared.k + warp * 16 * kVector + step * 16, kVector);
        load_a(query, shared.q + warp * 16 * kVector + step * 16, kVector);
        load_b(right, shared.k + block * 16 * kVector + step * 16, kVector);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if constexpr (Rule::kDelta) multiply_add(gram[i], key, right[i]);
          multiply_add(score[i], query, right[i]);
        }
      }
      Accumulator decay[2];
      if constexpr (Rule::kDecay)
        RowDecays(shared.decays, warp * 16).template to_columns<true>(decay, shared.decays, block * 16);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = warp * 16 + g + e / 2 * 8, column = block * 16 + i * 8 + 2 * t + e % 2;
          if constexpr (Rule::kDecay) gram[i].x[e] *= decay[i].x[e], score[i].x[e] *= decay[i].x[e];
          if (column >= row) gram[i].x[e] = 0.0f;
          score[i].x[e] = column > row ? 0.0f : score[i].x[e] * problem.scale;
        }
        store(target.attend + Triangles<T>::block(warp, block) + i * kBlockTile, 8, score[i], 16, 8);
      }
    }
    if constexpr (Rule::kDelta)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        store_shared(shared.g + warp * 16 * kStride<T> + block * 16 + i * 8, kStride<T>, gram[i]);
  }
  if constexpr (!Rule::kDelta) return;
  __syncwarp();
  solve_diagonal(shared.g + warp * 16 * (kStride<T> + 1), kStride<T>, shared.beta + warp * 16);

  // Merge pairs of solved diagonal blocks of `half` rows: Z_21 = (I - Z_22 D_2) G_21 (I - D_1 Z_11). Both Z are lower
  // triangular, which leaves out steps.
  for (int half = 16; half < kSize; half *= 2) {
    __syncthreads();
    const int across = half / 16;  // tiles of 16 across a block
    const int tile_row = warp % across * 16, tile_column = warp / across % across * 16;
    const int base = warp / (across * across) * 2 * half;
    float* corner = shared.g + (base + half) * kStride<T> + base;
    float* y = shared.y + base / 2 * kHalfStride<T>;
    Accumulator sum[2];
    if (base < kSize) {
#pragma unroll
      for (int i = 0; i < 2; ++i) load_shared(sum[i], corner + tile_row * kStride<T> + tile_column + i * 8, kStride<T>);
      multiply_scaled<kSumPlanes<T>>(sum, corner + tile_row * kStride<T>, kStride<T>, shared.beta + base,
                                     shared.g + base * (kStride<T> + 1) + tile_column, kStride<T>, tile_column / 16,
                                     across);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        store_shared(y + tile_row * kHalfStride<T> + tile_column + i * 8, kHalfStride<T>, sum[i]);
    }
    __syncthreads();
    if (base < kSize) {
      multiply_scaled<kSumPlanes<T>>(sum, corner + half + tile_row * kStride<T>, kStride<T>, shared.beta + base + half,
                                     y + tile_column, kHalfStride<T>, 0, tile_row / 16 + 1);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        store_shared(corner + tile_row * kStride<T> + tile_column + i * 8, kStride<T>, sum[i]);
    }
  }
  __syncthreads();
  for (int block = 0; block <= warp; ++block)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Accumulator z;
      load_shared(z, shared.g + warp * 16 * kStride<T> + block * 16 + i * 8, kStride<T>);
#pragma unroll
      for (int e = 0; e < 4; ++e) z.x[e] = -z.x[e];
      const int tile = Triangles<T>::block(warp, block) + i * kBlockTile;
      store(target.solve[0] + tile, 8, z, 16, 8);
      if constexpr (kSolveMatrices<T> == 2) {
#pragma unroll
        for (int e = 0; e < 4; ++e) z.x[e] -= static_cast<float>(T(z.x[e]));
        store(target.solve[1] + tile, 8, z, 16, 8);
      }
    }
}

}  // namespace

template <typename Rule, typename T, int kWidth>
void launch_prepare(const Problem<T>& problem, Triangles<T>* triangles, Decays<T>* decays, cudaStream_t stream) {
  const dim3 grid(problem.batch * problem.heads, problem.chunks);
  launch(prepare_kernel<Rule, T, kWidth>, grid, kChunk<T> * 2, sizeof(PrepareShared<Rule, T, kWidth>), stream,
         "delta rule: preparation", problem, triangles, decays);
}

#define ENGRAM_PREPARE(T, width)                                                                                  \
  template void launch_prepare<PlainDelta, T, width>(const Problem<T>&, Triangles<T>*, Decays<T>*, cudaStream_t); \
  template void launch_prepare<GatedDelta, T, width>(const Problem<T>&, Triangles<T>*, Decays<T>*, cudaStream_t); \
  template void launch_prepare<Sum, T, width>(const Problem<T>&, Triangles<T>*, Decays<T>*, cudaStream_t);
ENGRAM_PREPARE(float, 64)
ENGRAM_PREPARE(float, 128)
ENGRAM_PREPARE(bf16, 64)
ENGRAM_PREPARE(bf16, 128)
#undef ENGRAM_PREPARE

}  // namespace engram::delta_rule
