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

// What the recurrence warp of a slice hands to its side warp: -S, U and, where saving, E, transposed.
template <typename T, int kWidth>
struct ForwardExchange {
  uint4 minus_state[kWidth / 16][kSumPlanes<T>][32];
  uint4 update[kChunk<T> / 16][kSumPlanes<T>][32];
  uint4 error[kChunk<T> / 16][kPlanes<T>][32];
};

template <typename T, int kWidth, int kStages, bool kSaving>
__global__ void __launch_bounds__(kRecurrenceThreads)
forward_kernel(Problem<T> problem, const float* initial_state, const Triangles<T>* triangles, ForwardOutput<T> out) {
  constexpr int kSize = kChunk<T>, kBlocks = kSize / 16, kVector = kRowStride<kWidth>;
  constexpr int kKeyTiles = kWidth / 8, kKeyBlocks = kWidth / 16, kCount = kPlanes<T>, kSums = kSumPlanes<T>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto* stages = reinterpret_cast<Stage<T, kWidth>*>(shared_memory);
  const auto at = problem.pair(blockIdx.x);
  const int slices = (blockDim.x - kProducerThreads) / 64, warp = threadIdx.x / 32, slice = warp % slices;
  const bool recurs = warp < slices;
  const int first_value = (blockIdx.y * slices + slice) * 16;
  const int columns = problem.width - first_value;
  const int step_stride = problem.heads * problem.width;
  auto& exchange = reinterpret_cast<ForwardExchange<T, kWidth>*>(shared_memory + kStages * sizeof(*stages))[slice];

  union {
    Accumulator state[kKeyTiles];     // of the recurrence warp
    Accumulator output[2 * kBlocks];  // of the side warp
    ProducerRegisters<T, kWidth> producer;
  } own;
  auto& state = own.state;
  auto& output = own.output;
  const auto hand_state = [&] {
#pragma unroll
    for (int key = 0; key < kKeyBlocks; ++key) {
      FragmentA<kSums> minus_state;
      to_fragment(minus_state, state[2 * key], state[2 * key + 1]);
      negate(minus_state);
      store_fragment(exchange.minus_state[key], minus_state);
    }
  };
  if (recurs && columns > 0) {
    load_state(state, problem, initial_state, first_value, 1.0f);
    hand_state();
  }

  // O = scale Q S + P U, its first term; the state at the chunk's start is saved
  const auto read_state = [&](const Stage<T, kWidth>& stage, int chunk) {
    T* tiles = nullptr;
    if constexpr (kSaving)
      tiles = out.state + problem.chunk_index(blockIdx.x, chunk) * kStateElements<kWidth> +
              first_value / 16 * kKeyTiles * kOperandTile;
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) output[i] = Accumulator{};
#pragma unroll
    for (int key = 0; key < kKeyBlocks; ++key) {
      FragmentA<kCount> minus_state;
      load_fragment(minus_state, exchange.minus_state[key]);
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        FragmentB<kCount> right[2];
        load_b(right, stage.q + i * 16 * kVector + key * 16, kVector);
        multiply_add(output[2 * i], minus_state, right[0]);
        multiply_add(output[2 * i + 1], minus_state, right[1]);
      }
      if constexpr (kSaving) {
        Accumulator left, right;
        negate(minus_state);
        to_accumulators(left, right, minus_state);
        store_operand(tiles + 2 * key * kOperandTile, left);
        store_operand(tiles + (2 * key + 1) * kOperandTile, right);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) output[i].x[e] *= -problem.scale;
  };
  // X = V - K S, E = X - Z D X, U = D E
  const auto solve_errors = [&](const Stage<T, kWidth>& stage) {
    Accumulator x[2 * kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      load_transposed(x[2 * i], x[2 * i + 1], stage.value + i * 16 * kValueStride + slice * 16, kValueStride);
#pragma unroll
    for (int key = 0; key < kKeyBlocks; ++key) {
      FragmentA<kSums> minus_state;
      load_fragment(minus_state, exchange.minus_state[key]);
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        FragmentB<kCount> right[2];
        load_b(right, stage.k + i * 16 * kVector + key * 16, kVector);
        multiply_add(x[2 * i], minus_state, right[0]);
        multiply_add(x[2 * i + 1], minus_state, right[1]);
      }
    }
#pragma unroll
    for (int j = kBlocks - 1; j >= 0; --j) {  // from the last: X_j is whole until its own turn
      FragmentA<kSums> weighted;
      weigh(weighted, x[2 * j], x[2 * j + 1], stage.beta + j * 16, 1.0f);
#pragma unroll
      for (int i = j; i < kBlocks; ++i) {
        SolveOperand<T> z;
        z.template load<false>(stage.triangles, i, j);
        multiply_add(x[2 * i], weighted, z.tile[0]);
        multiply_add(x[2 * i + 1], weighted, z.tile[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      FragmentA<kSums> update;
      weigh(update, x[2 * i], x[2 * i + 1], stage.beta + i * 16, 1.0f);
      store_fragment(exchange.update[i], update);
      if constexpr (kSaving) {
        FragmentA<kCount> error;
        to_fragment(error, x[2 * i], x[2 * i + 1]);
        store_fragment(exchange.error[i], error);
      }
    }
  };
  // S' = S + K^T U
  const auto write_state = [&](const Stage<T, kWidth>& stage) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      FragmentA<kSums> update;
      load_fragment(update, exchange.update[i]);
#pragma unroll
      for (int key = 0; key < kKeyBlocks; ++key) {
        FragmentB<kCount> right[2];
        load_b_transposed(right, stage.k + i * 16 * kVector + key * 16, kVector);
        multiply_add(state[2 * key], update, right[0]);
        multiply_add(state[2 * key + 1], update, right[1]);
      }
    }
    hand_state();
  };
  // O's second term; the errors are saved
  const auto finish_output = [&](const Stage<T, kWidth>& stage, int chunk) {
    const int begin = chunk * kSize, valid = min(kSize, at.length - begin);
    const std::int64_t origin = problem.contiguous(at, begin) + first_value;
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      FragmentA<kSums> written;
      load_fragment(written, exchange.update[j]);
#pragma unroll
      for (int i = j; i < kBlocks; ++i) {
        FragmentB<kCount> right[2];
        load_b_block(right, stage.triangles.attend + Triangles<T>::block(i, j));
        multiply_add(output[2 * i], written, right[0]);
        multiply_add(output[2 * i + 1], written, right[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i)
      store_transposed(out.output + origin + i * 8 * step_stride, step_stride, output[i], valid - i * 8, columns);
    if constexpr (kSaving) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        FragmentA<kCount> error;
        Accumulator x[2];
        load_fragment(error, exchange.error[i]);
        to_accumulators(x[0], x[1], error);
#pragma unroll
        for (int half = 0; half < 2; ++half)
          store_transposed(out.error + origin + (i * 16 + half * 8) * step_stride, step_stride, x[half],
                           valid - i * 16 - half * 8, columns);
      }
    }
  };

  const ValueRows<T> values{problem.v, problem.row_stride, problem.copy_bytes};
  for_each_chunk<false, kStages>(
      problem, values, triangles, stages, own.producer,
      [&](const Stage<T, kWidth>& stage, int chunk) {
        if (columns <= 0) return;
        recurs ? solve_errors(stage) : read_state(stage, chunk);
      },
      [&](const Stage<T, kWidth>& stage, int chunk) {
        if (columns <= 0) return;
        recurs ? write_state(stage) : finish_output(stage, chunk);
      });

  if (recurs && columns > 0 && out.final_state != nullptr)
    store_state(state, problem, out.final_state, first_value, 1.0f);
  const int begin = blockIdx.y * slices * 16, end = min(problem.width, begin + slices * 16);
  for (int t = at.length + warp; t < problem.time; t += blockDim.x / 32)
    for (int column = begin + lane_id(); column < end; column += 32)
      out.output[problem.contiguous(at, t) + column] = T(0.0f);
}

template <typename T, int kWidth, bool kSaving>
void launch_forward(const DeltaRuleInput& input, const DeltaRuleOutput& output, void* memory, cudaStream_t stream) {
  const auto layout = SavedLayout::of<T>(input.shape, kWidth);
  const Problem<T> problem = make_problem<T>(input);
  T* base = static_cast<T*>(memory);
  auto* triangles = static_cast<Triangles<T>*>(memory);
  launch_prepare<T, kWidth>(problem, triangles, stream);
  const ForwardOutput<T> out{static_cast<T*>(output.output_BTHD), output.final_state_BHKV,
                             kSaving ? base + layout.state : nullptr, kSaving ? base + layout.error : nullptr};
  const auto shape = RecurrenceLaunch::of<T, kWidth>(problem, sizeof(ForwardExchange<T, kWidth>));
  launch(shape.stages > 1 ? forward_kernel<T, kWidth, kMostStages<kWidth>, kSaving>
                          : forward_kernel<T, kWidth, 1, kSaving>,
         shape.grid, shape.threads, shape.bytes, stream, "delta rule: forward", problem, input.initial_state_BHKV,
         static_cast<const Triangles<T>*>(triangles), out);
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
    return delta_rule::SavedLayout::of<T>(shape, delta_rule::padded_width(shape.width)).state * sizeof(T);
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
