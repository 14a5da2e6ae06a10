#include <cstdint>

#include "kernels/fast_weights/delta_rule/segments.cuh"

namespace engram::delta_rule {
namespace {

// One block for 16 values of a pair, a warp for 16 keys. All warps need the whole state of the segment before: they
// hand it over as left operands, in two places by turns, so that one barrier a segment is enough.
template <bool kReverse, typename Rule, typename T, int kWidth>
__global__ void __launch_bounds__(kWidth * 2)
    join_kernel(Problem<T> problem, const Decays<T>* __restrict__ decays, Joints joints) {
  constexpr int kKeyBlocks = kWidth / 16, kSums = kSumPlanes<T>;
  __shared__ uint4 handed[2][kKeyBlocks][kSums][32];
  const int pair = blockIdx.x, warp = threadIdx.x / 32, key = warp * 16, count = problem.segments.count;
  const auto ends = [&](int joint) {
    return joints.ends + joint_offset<kWidth>(problem, pair, joint) + joint_tiles<kWidth>(blockIdx.y * 16, key);
  };
  const auto end_of = [&](int i) { return ends(kReverse ? count - 2 - i : i); };  // of the i-th segment of the walk
  Accumulator state[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) load_tile(state[i], end_of(0) + i * kOperandTile);
  for (int step = 1; step < count - 1; ++step) {
    const int segment = kReverse ? count - 1 - step : step;
    Accumulator next[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) load_tile(next[i], end_of(step) + i * kOperandTile);
    if constexpr (Rule::kDelta) {
      const float* const transitions =
          (kReverse ? joints.adjoint : joints.transition) + joint_offset<kWidth>(problem, pair, segment);
      float4 transition[kKeyBlocks][2];  // on their way before the others' states are awaited
#pragma unroll
      for (int from = 0; from < kKeyBlocks; ++from)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (from * 16 < problem.width)
            transition[from][i] = reinterpret_cast<const float4*>(transitions + joint_tiles<kWidth>(from * 16, key) +
                                                                  i * kOperandTile)[lane_id()];
      FragmentA<kSums> own;
      to_fragment(own, state[0], state[1]);
      store_fragment(handed[step % 2][warp], own);
      __syncthreads();
#pragma unroll
      for (int from = 0; from < kKeyBlocks; ++from) {
        if (from * 16 >= problem.width || key >= problem.width) continue;  // never written; the states there are zero
        FragmentA<kSums> left;
        load_fragment(left, handed[step % 2][from]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          FragmentB<kSums> right;
          set_pair(right, 0, transition[from][i].x, transition[from][i].y);
          set_pair(right, 1, transition[from][i].z, transition[from][i].w);
          multiply_add(next[i], left, right);
        }
      }
    } else {  // a transition is a product of decays
      const auto chunks = problem.chunks_of(problem.pair(pair), segment);
      float kept = 1.0f;
      for (int i = 0; i < chunks.count; ++i)
        kept *= decays[problem.chunk_index(pair, chunks.first + i)].from_start[kChunk<T> - 1];
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) next[i].x[e] += kept * state[i].x[e];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      state[i] = next[i];
      store_tile(end_of(step) + i * kOperandTile, state[i]);
    }
  }
}

}  // namespace

template <bool kReverse, typename Rule, typename T, int kWidth>
void launch_join(const Problem<T>& problem, const Decays<T>* decays, const Joints& joints, cudaStream_t stream) {
  if (problem.segments.count < 3) return;  // the first walked from zero is the sequence's
  const dim3 grid(problem.batch * problem.heads, (problem.width + 15) / 16);
  launch(join_kernel<kReverse, Rule, T, kWidth>, grid, kWidth * 2, 0, stream, "delta rule: joining segments", problem,
         decays, joints);
}

#define ENGRAM_JOIN(Rule, T, width)                                                                                   \
  template void launch_join<false, Rule, T, width>(const Problem<T>&, const Decays<T>*, const Joints&, cudaStream_t); \
  template void launch_join<true, Rule, T, width>(const Problem<T>&, const Decays<T>*, const Joints&, cudaStream_t);
#define ENGRAM_JOIN_OF(T, width)    \
  ENGRAM_JOIN(PlainDelta, T, width) \
  ENGRAM_JOIN(GatedDelta, T, width) \
  ENGRAM_JOIN(Sum, T, width)
ENGRAM_JOIN_OF(float, 64)
ENGRAM_JOIN_OF(float, 128)
ENGRAM_JOIN_OF(bf16, 64)
ENGRAM_JOIN_OF(bf16, 128)
#undef ENGRAM_JOIN_OF
#undef ENGRAM_JOIN

}  // namespace engram::delta_rule
