#include "kernels/delta_rule/chunk_pipeline.cuh"
#include "kernels/delta_rule/chunk_prepare.cuh"

namespace engram {
namespace delta_rule {
namespace {

template <typename T>
struct ForwardOutput {
  T* output;
  float* final_state;
  T* state;  // states at the chunks' starts, only where saving
  T* error;
};

template <typename T, int kWidth, int kStages, bool kSaving>
__global__ void __launch_bounds__(32 * kMaxConsumers + kProducerThreads)
forward_kernel(Problem<T> problem, const float* initial_state, const T* solve, const T* attend, ForwardOutput<T> out) {
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

  Accumulator state[kKeyTiles];
  if (consumes) load_state(state, problem, initial_state, first_value, 1.0f);

  const ValueRows<T> values{problem.v, problem.row_stride, problem.copy_bytes};
  for_each_chunk<false, kStages>(problem, values, solve, attend, stages, [&](const Stage<T, kWidth>& stage, int chunk) {
    if (columns <= 0) return;
    const int begin = chunk * kSize, valid = min(kSize, at.length - begin);
    const std::int64_t origin = problem.contiguous(at, begin) + first_value;
    if constexpr (kSaving) {
      T* tiles = out.state + problem.chunk_index(blockIdx.x, chunk) * kStateElements<kWidth> +
                 first_value / 16 * kKeyTiles * kOperandTile;
#pragma unroll
      for (int key = 0; key < kKeyTiles; ++key) store_operand(tiles + key * kOperandTile, state[key]);
    }
    FragmentA<kSums> minus_state[kKeyBlocks];
#pragma unroll
    for (int key = 0; key < kKeyBlocks; ++key) {
      to_fragment(minus_state[key], state[2 * key], state[2 * key + 1]);
      negate(minus_state[key]);
    }
    FragmentB<kCount> right[2];

    // X = V - K S
    Accumulator x[2 * kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      load_transposed(x[2 * i], x[2 * i + 1], stage.value + i * 16 * kValueStride + warp * 16, kValueStride);
#pragma unroll
    for (int key = 0; key < kKeyBlocks; ++key)
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        load_b(right, stage.k + i * 16 * kVector + key * 16, kVector);
        multiply_add(x[2 * i], minus_state[key], right[0]);
        multiply_add(x[2 * i + 1], minus_state[key], right[1]);
      }

    // E = X - Z D X
    FragmentA<kSums> weighted[kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) weigh(weighted[i], x[2 * i], x[2 * i + 1], stage.beta + i * 16, 1.0f);
#pragma unroll
    for (int j = 0; j < kBlocks; ++j)
#pragma unroll
      for (int i = j; i < kBlocks; ++i) {
        SolveOperand<T> z;
        z.template load<false>(stage, i * 16, j * 16);
        multiply_add(x[2 * i], weighted[j], z.tile[0]);
        multiply_add(x[2 * i + 1], weighted[j], z.tile[1]);
      }
    if constexpr (kSaving) {
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; ++i)
        store_transposed(out.error + origin + i * 8 * step_stride, step_stride, x[i], valid - i * 8, columns);
    }

    // O = scale Q S + P U with U = D E
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) weigh(weighted[i], x[2 * i], x[2 * i + 1], stage.beta + i * 16, 1.0f);
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) x[i] = Accumulator{};
#pragma unroll
    for (int key = 0; key < kKeyBlocks; ++key)
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        load_b(right, stage.q + i * 16 * kVector + key * 16, kVector);
        multiply_add(x[2 * i], minus_state[key], right[0]);
        multiply_add(x[2 * i + 1], minus_state[key], right[1]);
      }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) x[i].x[e] *= -problem.scale;
#pragma unroll
    for (int j = 0; j < kBlocks; ++j)
#pragma unroll
      for (int i = j; i < kBlocks; ++i) {
        load_b(right, stage.attend + i * 16 * kSquare + j * 16, kSquare);
        multiply_add(x[2 * i], weighted[j], right[0]);
        multiply_add(x[2 * i + 1], weighted[j], right[1]);
      }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i)
      store_transposed(out.output + origin + i * 8 * step_stride, step_stride, x[i], valid - i * 8, columns);

    // S' = S + K^T U
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int key = 0; key < kKeyBlocks; ++key) {
        load_b_transposed(right, stage.k + i * 16 * kVector + key * 16, kVector);
        multiply_add(state[2 * key], weighted[i], right[0]);
        multiply_add(state[2 * key + 1], weighted[i], right[1]);
      }
  });

  if (consumes && out.final_state != nullptr) store_state(state, problem, out.final_state, first_value, 1.0f);
  const int slice = blockIdx.y * consumers * 16, slice_columns = min(problem.width - slice, consumers * 16);
  for (int t = at.length + warp; t < problem.time; t += blockDim.x / 32)
    for (int column = lane_id(); column < slice_columns; column += 32)
      out.output[problem.contiguous(at, t) + slice + column] = T(0.0f);
}

template <typename T, int kWidth, bool kSaving>
void launch_forward(const DeltaRuleInput& input, const DeltaRuleOutput& output, void* memory, cudaStream_t stream) {
  const auto layout = SavedLayout::of<T>(input.shape, kWidth);
  const Problem<T> problem = make_problem<T>(input);
  T* base = static_cast<T*>(memory);
  T *solve = base + layout.solve, *attend = base + layout.attend;
  launch_prepare<T, kWidth>(problem, solve, attend, stream);
  const ForwardOutput<T> out{static_cast<T*>(output.output_BTHD), output.final_state_BHKV,
                             kSaving ? base + layout.state : nullptr, kSaving ? base + layout.error : nullptr};
  const auto shape = RecurrenceLaunch::of<T, kWidth>(problem);
  launch(shape.stages > 1 ? forward_kernel<T, kWidth, kMostStages, kSaving> : forward_kernel<T, kWidth, 1, kSaving>, shape.grid,
         shape.threads, shape.bytes, stream, "delta rule: forward", problem, input.initial_state_BHKV,
         static_cast<const T*>(solve), static_cast<const T*>(attend), out);
}

template <bool kSaving>
void forward(const DeltaRuleInput& input, const DeltaRuleOutput& output, void* memory, cudaStream_t stream) {
  check_input(input);
  dispatch(input.dtype, input.shape.width, [&](auto element, auto width) {
    launch_forward<decltype(element), width.value, kSaving>(input, output, memory, stream);
  });
}

}  // namespace
}  // namespace delta_rule

std::size_t delta_rule_forward_scratch_bytes(const DeltaRuleShape& shape, Dtype dtype) {
  delta_rule::check_shape(shape);
  return dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    return delta_rule::SavedLayout::of<T>(shape, delta_rule::padded_width(shape.width)).forward_elements * sizeof(T);
  });
}

std::size_t delta_rule_saved_bytes(const DeltaRuleShape& shape, Dtype dtype) {
  delta_rule::check_shape(shape);
  return dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    return delta_rule::SavedLayout::of<T>(shape, delta_rule::padded_width(shape.width)).elements * sizeof(T);
  });
}

void delta_rule_forward(const DeltaRuleInput& input, const DeltaRuleOutput& output, void* scratch,
                        cudaStream_t stream) {
  delta_rule::forward<false>(input, output, scratch, stream);
}

void delta_rule_forward_saving(const DeltaRuleInput& input, const DeltaRuleOutput& output, void* saved,
                               cudaStream_t stream) {
  delta_rule::forward<true>(input, output, saved, stream);
}

}  // namespace engram
