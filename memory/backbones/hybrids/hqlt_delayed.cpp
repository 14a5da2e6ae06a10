// The delayed hybrids of fast weights and attention (Irie et al. 2025, sections 3.1 and 3.2), with the parameters of
// the synchronous one (hqlt.cpp): the fast weights receive a key and a value only when attention lets go of them.
//
// Delayed stream, window S: at step t (k_{t-S}, v_{t-S}) is written to the fast weights with beta_t, nothing while
// t < S, then they are read; attention sees the last S steps.
// Delayed chunk, chunks of S steps: attention sees the steps of the current chunk up to the current one; the fast
// weights are read as they were at its start and take the chunk's S pairs, each with its own beta, when it is full.
//
// The ring holds keys as attention sees them, turned by RoPE; they are turned back to be written to the fast weights.
//
// On a GPU whole episodes and, without a view, a step are branches of kernels (memory/fused/fast_weights.h).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memory/backbones/hybrids/hqlt.h"
#include "nn/device/autocast.h"

namespace engram {
namespace {

using torch::Tensor;

// What both have beside their definitions: themselves by kernels.
template <Delay kDelay>
class DelayedMixer : public HqltMixerBase {
 public:
  explicit DelayedMixer(const HqltSharedOptions& options) : HqltMixerBase(options, options.fast_weight_options()) {}

  std::unique_ptr<cuda::Branch> branch(const FreshRows& rows, torch::Device device) const {
    return cuda::fast_weights_branch(fused_weights(), fused_settings(kDelay, device), rows);
  }

  template <class Options>
  static Support supports_step(const Options& options, torch::ScalarType dtype, torch::Device device) {
    return FastWeightMemory::supports_step(options.fast_weight_options(), dtype, device);
  }
  std::unique_ptr<cuda::ForwardBranch> step_branch(const Tensor& position_B, std::span<const Tensor> state) const {
    return cuda::fast_weights_step_branch(fused_weights(), fused_settings(kDelay, position_B.device()),
                                          {.fast_BHKV = state[0],
                                           .key_sum_BHK = {},
                                           .position_B = position_B,
                                           .key_BSHK = state[1],
                                           .value_BSHV = state[2],
                                           .beta_BSH1 = kDelay == Delay::kChunk ? state[3] : Tensor()});
  }
};

class DelayedStreamMixer : public DelayedMixer<Delay::kStream> {
 public:
  using Options = HqltDelayedStreamOptions;

  struct Plan : WindowCall {
    Plan(const Options& options, const Span& span)
        : WindowCall(options, span), from_ring(std::min<std::int64_t>(options.window, span.steps)) {
      const Tensor step_BT = step_positions(span);
      idle_BT1 = (step_BT < options.window).unsqueeze(2);
      if (span.max_position == 0) return;  // before the first step there is nothing
      const Tensor first_BP = step_BT.narrow(1, 0, from_ring);
      slot_BP = first_BP.remainder(options.window);
      turn_back.emplace(options, options.window - first_BP, span.dtype);
    }

    // The steps t - S for the call's steps t: the first `from_ring` from the ring, or anything finite while t < S.
    Tensor delayed(const Tensor& past_BPHX, const Tensor& new_BTHX) const {
      const std::int64_t steps = new_BTHX.size(1);
      return slot_BP.defined() ? torch::cat({past_BPHX, new_BTHX.narrow(1, 0, steps - from_ring)}, 1)
                               : torch::constant_pad_nd(new_BTHX, {0, 0, 0, 0, from_ring, -from_ring});
    }

    std::int64_t from_ring;  // steps
    Tensor idle_BT1;         // nothing is written
    Tensor slot_BP;          // slots of the ring; undefined if all rows are fresh
    std::optional<WindowPositions> turn_back;
  };
  struct StepPlan : WindowStep {
    StepPlan(const Options& options, const Tensor& position_B, torch::ScalarType dtype)
        : WindowStep(options, position_B, dtype),
          turn_back(options, options.window - position_B, dtype),
          slot_B1(position_B.remainder(options.window).unsqueeze(1)),
          idle_B1((position_B < options.window).unsqueeze(1)) {}
    WindowPositions turn_back;
    Tensor slot_B1, idle_B1;
  };

  explicit DelayedStreamMixer(const Options& options) : DelayedMixer(options) {}

  Tensor forward(const Tensor& x_BTD, const Plan& plan, std::span<const Tensor> state,
                 std::vector<Tensor>& final_state) {
    Tensor history_BSC;
    const Projected in = project(x_BTD, state, plan.lengths_B, history_BSC);
    Tensor past_key, past_value;
    if (plan.slot_BP.defined()) {
      past_key = plan.turn_back->turn(pick_steps(state[1], plan.slot_BP));
      past_value = pick_steps(state[2], plan.slot_BP);
    }
    FastWeightInput fast =
        fast_input(x_BTD, in.query, plan.delayed(past_key, in.key), plan.delayed(past_value, in.value));
    fast.write = fast.write.masked_fill(plan.idle_BT1, 0);
    const Tensor fast_BTHV = memory_.forward(fast, state.first(1), plan.lengths_B, final_state, plan.forgets);
    const WindowPlan::Output window = plan.attend(in, state.subspan(1, 2));
    final_state.insert(final_state.end(), {window.ring.key_BSHK, window.ring.value_BSHV});
    if (history_BSC.defined()) final_state.push_back(history_BSC);
    return mix(x_BTD, fast_BTHV, window.output_BTHV);
  }

  Tensor step(const Tensor& x_BD, const StepPlan& plan, std::span<const Tensor> state, LayerView* view) {
    const Projected in = project_step(x_BD, state);
    // Before attention overwrites the slot.
    const Tensor key_BHK = plan.turn_back.turn(pick_steps(state[1], plan.slot_B1).squeeze(1));
    const Tensor value_BHV = pick_steps(state[2], plan.slot_B1).squeeze(1);
    FastWeightInput fast = fast_input(x_BD, in.query, key_BHK, value_BHV);
    fast.write = fast.write.masked_fill(plan.idle_B1, 0);
    if (view != nullptr) view->write_strength_BH = fast.write;
    const Tensor fast_BHV = memory_.step(fast, state.first(1));
    const Tensor window_BHV = plan.attend(in, state.subspan(1, 2), view);
    return mix(x_BD, fast_BHV, window_BHV, view);
  }
};

class DelayedChunkMixer : public DelayedMixer<Delay::kChunk> {
 public:
  using Options = HqltDelayedChunkOptions;

  // Steps are counted from the beginning of the chunk that the row stands in: its next one is number `phase`, a slot
  // of the ring. A chunk begins with every C-th of them, in every row; A are all that the call touches. Positions in
  // a chunk give RoPE the same distances as positions in the episode.
  struct Plan {
    Plan(const Options& options, const Span& span)
        : chunk(options.window),
          steps(span.steps),
          lengths_B(span.lengths_B),
          forgets(span.forgets),
          ring(options.window, span.position_B, span.kept_lengths_B()),
          positions(options, step_positions(span).remainder(options.window), span.dtype) {
      const auto index = span.position_B.options();
      const Tensor phase_B1 = span.position_B.unsqueeze(1).remainder(chunk);
      const std::int64_t max_phase = std::min(span.max_position, chunk - 1);
      chunks = (max_phase + steps + chunk - 1) / chunk;
      const Tensor number_A = torch::arange(chunks * chunk, index);
      const Tensor end_B1 = phase_B1 + span.lengths_B.unsqueeze(1);
      unwritten_BA1 = (number_A >= end_B1 - end_B1.remainder(chunk)).unsqueeze(2);
      doubled_B = torch::full_like(span.lengths_B, 2 * chunks * chunk);
      if (max_phase == 0) return;
      const Tensor step_BA = (number_A - phase_B1).clamp(0, steps - 1);
      aligned_BA = torch::where(number_A < phase_B1, number_A, chunk + step_BA);
      number_BT = phase_B1 + torch::arange(steps, index);
      turn_back.emplace(options, -torch::arange(chunk, index), span.dtype);
    }

    // [B, A, H, X]: the ring's steps of the current chunk, then the new ones, then anything finite.
    Tensor aligned(const Tensor& ring_BCHX, const Tensor& new_BTHX) const {
      return aligned_BA.defined() ? pick_steps(torch::cat({ring_BCHX, new_BTHX}, 1), aligned_BA)
                                  : torch::constant_pad_nd(new_BTHX, {0, 0, 0, 0, 0, chunks * chunk - steps});
    }
    Tensor of_call(const Tensor& x_BAHX) const {
      return number_BT.defined() ? pick_steps(x_BAHX, number_BT) : x_BAHX.narrow(1, 0, steps);
    }

    std::int64_t chunk, chunks, steps;
    Tensor lengths_B;
    bool forgets;
    RingPlan ring;
    WindowPositions positions;
    Tensor unwritten_BA1;          // steps after the last full chunk
    Tensor doubled_B;              // 2 A
    Tensor aligned_BA, number_BT;  // undefined where every row begins a chunk
    std::optional<WindowPositions> turn_back;
  };
  struct StepPlan : WindowStep {
    StepPlan(const Options& options, const Tensor& position_B, torch::ScalarType dtype)
        : WindowStep(options, position_B.remainder(options.window), dtype),
          row_B(torch::arange(position_B.size(0), position_B.options())),
          chunk_B(torch::full_like(position_B, options.window)),
          unwritten_B11((place_B < options.window - 1).view({-1, 1, 1})),
          chunk_ends(!position_B.is_cpu() || !unwritten_B11.all().item<bool>()),
          turn_back(options, -torch::arange(options.window, position_B.options()), dtype) {}
    Tensor row_B, chunk_B;
    Tensor unwritten_B11;  // the chunk is not full after this step
    bool chunk_ends;       // in some row; on a GPU it may be none
    WindowPositions turn_back;
  };

  explicit DelayedChunkMixer(const Options& options) : DelayedMixer(options) {}

  // Also the write strengths of the chunk.
  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    auto shapes = with_window(FastWeightMemory::state_shapes(options.fast_weight_options()), options);
    shapes.push_back({options.window, options.heads, 1});
    return with_convolution(std::move(shapes), options);
  }

  Tensor forward(const Tensor& x_BTD, const Plan& plan, std::span<const Tensor> state,
                 std::vector<Tensor>& final_state) {
    Tensor history_BSC;
    const Projected in = project(x_BTD, state, plan.lengths_B, history_BSC);
    const FastWeightInput own = fast_input(x_BTD, in.query, in.key, in.value);
    const Tensor turned_key = plan.positions.turn(in.key), beta_BTH1 = own.write.unsqueeze(3);
    const Tensor past_key = plan.turn_back ? plan.turn_back->turn(state[1]) : Tensor();
    const Tensor key = plan.aligned(past_key, in.key), value = plan.aligned(state[2], in.value);
    const Tensor beta = plan.aligned(state[3], beta_BTH1).squeeze(3).masked_fill(plan.unwritten_BA1, 0);

    // For each chunk first all queries, then all writes: a query sees the chunks before it.
    const auto chunks_of = [&](const Tensor& x) { return x.unflatten(1, {plan.chunks, plan.chunk}); };
    const auto then_nothing = [&](const Tensor& queries) {
      return torch::constant_pad_nd(queries, {0, 0, 0, 0, 0, plan.chunk}).flatten(1, 2);
    };
    const auto after_nothing = [&](const Tensor& writes) {
      return torch::constant_pad_nd(writes, {0, 0, 0, 0, plan.chunk, 0}).flatten(1, 2);
    };
    const FastWeightInput fast{.query = then_nothing(chunks_of(plan.aligned(state[1], own.query))),
                               .key = after_nothing(chunks_of(memory_.feature(key))),
                               .value = after_nothing(chunks_of(value)),
                               .write = after_nothing(chunks_of(beta).unsqueeze(4)).squeeze(3),
                               .log_decay = {}};
    const Tensor fast_BAHV = memory_.forward(fast, state.first(1), plan.doubled_B, final_state, plan.forgets)
                                 .unflatten(1, {plan.chunks, 2, plan.chunk})
                                 .select(2, 0)
                                 .flatten(1, 2);

    const auto as_batch = [&](const Tensor& ring, const Tensor& x) {
      return chunks_of(plan.aligned(ring, x)).flatten(0, 1).transpose(1, 2);
    };
    const Tensor window_NHCV =
        dot_product_attention(as_batch(state[1], plan.positions.turn(in.query)), as_batch(state[1], turned_key),
                              as_batch(state[2], in.value), /*mask=*/{}, /*causal=*/true);
    const Tensor window_BAHV = window_NHCV.transpose(1, 2).unflatten(0, {-1, plan.chunks}).flatten(1, 2);

    final_state.insert(final_state.end(), {plan.ring.stored(state[1], turned_key), plan.ring.stored(state[2], in.value),
                                           plan.ring.stored(state[3], beta_BTH1)});
    if (history_BSC.defined()) final_state.push_back(history_BSC);
    return mix(x_BTD, plan.of_call(fast_BAHV), plan.of_call(window_BAHV));
  }

  Tensor step(const Tensor& x_BD, const StepPlan& plan, std::span<const Tensor> state, LayerView* view) {
    const Projected in = project_step(x_BD, state);
    const FastWeightInput own = fast_input(x_BD, in.query, in.key, in.value);
    if (view != nullptr) view->write_strength_BH = own.write;  // with which the step is written when its chunk is full
    const Tensor fast_BHV = read(state[0], own.query);
    const Tensor window_BHV = plan.attend(in, state.subspan(1, 2), view);
    Tensor beta_BCH1 = state[3];
    beta_BCH1.index_put_({plan.row_B, plan.place_B}, own.write.unsqueeze(2).to(beta_BCH1.scalar_type()));
    if (plan.chunk_ends) {
      const Tensor key_BCHK = memory_.feature(plan.turn_back.turn(state[1]));
      const Tensor beta_BCH = beta_BCH1.squeeze(3).masked_fill(plan.unwritten_B11, 0);
      Tensor state_BHKV = state[0];
      const FastWeightInput chunk{key_BCHK, key_BCHK, state[2], beta_BCH, {}};
      state_BHKV.copy_(fast_weights({.delta = true}, chunk, {state_BHKV, {}, {}}, plan.chunk_B).state.weights_BHKV);
    }
    return mix(x_BD, fast_BHV, window_BHV, view);
  }

 private:
  // q^T S / sqrt(K) in the state's type.
  static Tensor read(const Tensor& state_BHKV, const Tensor& query_BHK) {
    const ComputeIn products(state_BHKV.device(), state_BHKV.scalar_type());
    const Tensor query_BH1K = query_BHK.to(state_BHKV.scalar_type()).unsqueeze(2);
    return torch::matmul(query_BH1K, state_BHKV).squeeze(2) / std::sqrt(static_cast<double>(state_BHKV.size(2)));
  }
};

}  // namespace

LayerSpec HqltDelayedStreamOptions::layer(std::int64_t) const { return layer_spec<DelayedStreamMixer>(*this); }

std::shared_ptr<SequenceModel> HqltDelayedStreamOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

LayerSpec HqltDelayedChunkOptions::layer(std::int64_t) const { return layer_spec<DelayedChunkMixer>(*this); }

std::shared_ptr<SequenceModel> HqltDelayedChunkOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
