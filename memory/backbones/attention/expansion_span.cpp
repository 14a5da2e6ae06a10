// Span-expanded attention (SE-Attn; Nunez et al. 2024, sections 3.2 and 3.3), causal step by step. Per head
//   q_t = R_t Wq x_t,   k_t = R_t Wk x_t,   v_t = Wv x_t,   R_t: RoPE.
// Time is cut into chunks of M steps and into blocks of S, M a multiple of S. A full block j is summed up by attention
// of all its steps to each other, and at step t of a chunk that begins at step s it is scored by the queries so far:
//   c_j = mean over u in block j of sum over w in block j of softmax(q_u . k_w / sqrt(K)) v_w,
//   R_tj = sum over heads of (q_s + ... + q_t) . c_j.
// Step t attends to the steps s .. t and to those of the blocks before s whose R_tj are highest. At a chunk's last step
// these are the blocks that the paper retrieves for the whole chunk, by queries that earlier steps cannot know. Of
// blocks with equal scores the earlier ones are retrieved.
//
// The choice is piecewise constant: to the output gradients pass through its attention alone.
//
// Shapes: N blocks of an episode, n of a call, S steps of a block, U steps of a call's blocks or of those attended to.
#include "memory/backbones/attention/expansion_span.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/core/block_stack.h"
#include "memory/ops/attention_maps.h"
#include "memory/ops/window_positions.h"
#include "nn/device/autocast.h"

namespace engram {
namespace {

using torch::Tensor;

// c_j of blocks [., S, H, X] -> [., H, V]
Tensor summarise(const Tensor& query, const Tensor& key, const Tensor& value) {
  return dot_product_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), /*mask=*/{}).mean(2);
}

// By how much two scores may differ and be a tie, as a part of the largest that they could be: far more than rounding
// makes of equal ones, far less than what tells blocks apart.
double tie_of(torch::ScalarType dtype) {
  return std::sqrt(dtype == torch::kFloat64 ? std::numeric_limits<double>::epsilon()
                                            : std::numeric_limits<float>::epsilon());
}

// The numbers of the blocks of the highest scores, from sums of queries [B, T, H, K], summaries [B, n, H, V] and
// bool [B or 1, T, n] -> [B, T, R]. Where fewer than R are retrievable, others are among them.
//
// Where observations repeat, so do blocks. The scores of such blocks differ by rounding alone, which no two forms of
// the model share; of scores that follow each other that closely the earlier block's counts more.
Tensor best_blocks(const Tensor& sum_BTHK, const Tensor& summary_BnHV, const Tensor& retrievable_BTn,
                   std::int64_t retrieved) {
  const torch::NoGradGuard no_grad;
  const ComputeIn products(sum_BTHK.device(), sum_BTHK.scalar_type());
  const std::int64_t blocks = summary_BnHV.size(1);
  const Tensor sum_BTX = sum_BTHK.flatten(2), summary_BnX = summary_BnHV.flatten(2);
  const Tensor score_BTn = torch::matmul(sum_BTX, summary_BnX.transpose(1, 2));
  const auto [sorted_BTn, block_BTn] =
      score_BTn.masked_fill(retrievable_BTn.logical_not(), -std::numeric_limits<double>::infinity())
          .sort(2, /*descending=*/true);
  const Tensor longest_BT1 =
      torch::where(retrievable_BTn, summary_BnX.norm(2, {2}).unsqueeze(1), 0).amax(2, /*keepdim=*/true);
  const Tensor tie_BT1 = tie_of(sum_BTX.scalar_type()) * longest_BT1 * sum_BTX.norm(2, {2}, /*keepdim=*/true);
  const Tensor is_less_BTn = sorted_BTn.diff(1, 2).neg() > tie_BT1;  // than the block before it
  const Tensor rank_BTn = torch::constant_pad_nd(is_less_BTn.cumsum(2), {1, 0});
  return std::get<0>((rank_BTn * blocks + block_BTn).topk(std::min(retrieved, blocks), 2, /*largest=*/false))
      .remainder(blocks);
}

// The first `blocks` of [B, n, H, V], or all with zeros behind them.
Tensor fit_blocks(const Tensor& summary_BnHV, std::int64_t blocks) {
  return torch::constant_pad_nd(summary_BnHV, {0, 0, 0, 0, 0, blocks - summary_BnHV.size(1)});
}

// The state of a layer: keys and values of the episode, queries of the block that is not yet full in a ring, summaries
// of the full blocks, and the sum of the queries of the chunk that the last step belongs to.
enum State { kKeys, kValues, kQueries, kSummaries, kSum };

class ExpansionSpanMixer : public torch::nn::Module, public AttentionMaps {
 public:
  using Options = ExpansionSpanOptions;
  static constexpr bool kCountsSteps = true;

  struct Plan {
    Plan(const Options& options, const Span& span)
        : blocks((span.max_position + span.steps + options.block - 1) / options.block),
          lengths_B(span.lengths_B),
          positions(options, step_positions(span), span.dtype),
          episode(options.blocks() * options.block, span.position_B, span.kept_lengths_B()),
          block_queries(options.block, span.position_B, span.kept_lengths_B()) {
      const auto index = span.position_B.options();
      const Tensor position_B1 = span.position_B.unsqueeze(1), end_B1 = position_B1 + span.lengths_B.unsqueeze(1);
      if (end_B1.is_cpu() && end_B1.max().item<std::int64_t>() > options.max_steps)
        throw UserError("a sequence of " + std::to_string(end_B1.max().item<std::int64_t>()) +
                        " steps exceeds the cache of " + Options::kName + ", " + std::to_string(options.max_steps) +
                        " steps; build it for longer episodes");

      const Tensor step_BT = step_positions(span), step_BT1 = step_BT.unsqueeze(2), step_B1T = step_BT.unsqueeze(1);
      const Tensor chunk_BT1 = step_BT1 - step_BT1.remainder(options.chunk);  // its first step
      const Tensor number_U = torch::arange(blocks * options.block, index);
      local_BTU = (number_U >= chunk_BT1) & (number_U <= step_BT1);
      retrievable_BTn = torch::arange(0, blocks * options.block, options.block, index) < chunk_BT1;
      summed_BTT = (step_B1T >= chunk_BT1) & (step_B1T <= step_BT1);
      const Tensor end_N = torch::arange(1, options.blocks() + 1, index) * options.block;
      filled_BN11 = ((end_N > position_B1) & (end_N <= end_B1)).unsqueeze(2).unsqueeze(3);
      if (span.max_position == 0) return;
      carries_BT11 = (chunk_BT1 < position_B1.unsqueeze(2)).unsqueeze(3);
      const Tensor new_BU = (number_U - position_B1).clamp(0, span.steps - 1), past_BU = number_U < position_B1;
      episode_BU = torch::where(past_BU, number_U, options.blocks() * options.block + new_BU);
      query_BU = torch::where(past_BU, number_U.remainder(options.block), options.block + new_BU);
    }

    // What `past` holds and the new steps in the order of the episode, and anything finite behind them: [B, U, H, X].
    Tensor placed(const Tensor& past_BPHX, const Tensor& new_BTHX, const Tensor& index_BU) const {
      return index_BU.defined()
                 ? pick_steps(torch::cat({past_BPHX, new_BTHX}, 1), index_BU)
                 : torch::constant_pad_nd(new_BTHX, {0, 0, 0, 0, 0, local_BTU.size(2) - new_BTHX.size(1)});
    }
    // bool [B, T, U]
    Tensor visible(const Tensor& best_BTR) const {
      const Tensor chosen_BTn = torch::zeros({best_BTR.size(0), best_BTR.size(1), blocks}, retrievable_BTn.options())
                                    .scatter(2, best_BTR, true);
      const Tensor retrieved_BTn1 = (chosen_BTn & retrievable_BTn).unsqueeze(3);
      return local_BTU | retrieved_BTn1.expand({-1, -1, -1, local_BTU.size(2) / blocks}).flatten(2);
    }

    std::int64_t blocks;  // n, those that hold the episode up to the end of the call
    Tensor lengths_B;
    WindowPositions positions;
    RingPlan episode, block_queries;
    Tensor local_BTU;             // steps of the chunk so far
    Tensor retrievable_BTn;       // blocks before the chunk
    Tensor summed_BTT;            // of the call's queries
    Tensor filled_BN11;           // blocks that the call completes
    Tensor carries_BT11;          // the chunk began before the call; undefined, as the next two, if all rows are fresh
    Tensor episode_BU, query_BU;  // where placed() finds keys and values, and queries
  };

  struct StepPlan {
    StepPlan(const Options& options, const Tensor& position_B, torch::ScalarType dtype)
        : positions(options, position_B, dtype),
          position_B(position_B),
          row_B(torch::arange(position_B.size(0), position_B.options())),
          slot_B(position_B.remainder(options.block)) {
      const auto index = position_B.options();
      const std::int64_t longest = options.blocks() * options.block;
      const Tensor position_B1 = position_B.unsqueeze(1);
      const Tensor chunk_B1 = position_B1 - position_B1.remainder(options.chunk);
      begins_B11 = (position_B1 == chunk_B1).unsqueeze(2);
      const Tensor chunk_BM = chunk_B1 + torch::arange(std::min<std::int64_t>(options.chunk, longest), index);
      local_BM = chunk_BM.clamp_max(longest - 1);
      seen_BM = chunk_BM <= position_B1;
      in_block_S = torch::arange(options.block, index);
      block_BS = position_B1 - slot_B.unsqueeze(1) + in_block_S;
      const Tensor first_N = torch::arange(options.blocks(), index) * options.block;
      retrievable_B1N = (first_N < chunk_B1).unsqueeze(1);
      filled_BN11 = (first_N + options.block == position_B1 + 1).unsqueeze(2).unsqueeze(3);
      fills = !position_B.is_cpu() || filled_BN11.any().item<bool>();
    }
    WindowPositions positions;
    Tensor position_B, row_B, slot_B;
    Tensor begins_B11;         // a chunk
    Tensor local_BM, seen_BM;  // steps of the chunk, and whether they have been taken
    Tensor in_block_S, block_BS;
    Tensor retrievable_B1N, filled_BN11;
    bool fills;  // a block in some row; on a GPU it may be none
  };

  explicit ExpansionSpanMixer(const Options& options)
      : heads_(options.heads),
        block_(options.block),
        retrieved_(options.retrieved),
        query_(register_module("query", first_weights(options).inner_map(options.width, options.width))),
        key_(register_module("key", first_weights(options).inner_map(options.width, options.width))),
        value_(register_module("value", first_weights(options).inner_map(options.width, options.width))),
        output_(register_module("output", first_weights(options).output_map(options.width, options.width))) {}

  std::vector<Tensor> output_parameters() const { return {output_->weight}; }

  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    const std::int64_t heads = options.heads, channels = options.width / options.heads, blocks = options.blocks();
    const std::vector<std::int64_t> episode{blocks * options.block, heads, channels};
    return {episode, episode, {options.block, heads, channels}, {blocks, heads, channels}, {heads, channels}};
  }

  Tensor forward(const Tensor& x_BTD, const Plan& plan, std::span<const Tensor> state,
                 std::vector<Tensor>& final_state) {
    const auto [query, key, value] = project(x_BTD, plan.positions);
    const Tensor key_BUHK = plan.placed(state[kKeys], key, plan.episode_BU),
                 value_BUHV = plan.placed(state[kValues], value, plan.episode_BU),
                 query_BUHK = plan.placed(state[kQueries], query, plan.query_BU);

    const auto blocks_of = [&](const Tensor& x_BUHX) {
      return x_BUHX.unflatten(1, {plan.blocks, block_}).flatten(0, 1);
    };
    const Tensor new_BnHV = summarise(blocks_of(query_BUHK), blocks_of(key_BUHK), blocks_of(value_BUHV))
                                .unflatten(0, {-1, plan.blocks})
                                .to(state[kSummaries].scalar_type());
    const Tensor summary_BNHV =
        torch::where(plan.filled_BN11, fit_blocks(new_BnHV, state[kSummaries].size(1)), state[kSummaries]);
    const Tensor sum_BTHK = sum_queries(query, plan, state[kSum]);
    const Tensor best_BTR =
        best_blocks(sum_BTHK, fit_blocks(summary_BNHV, plan.blocks), plan.retrievable_BTn, retrieved_);
    const Tensor output_BHTV = dot_product_attention(query.transpose(1, 2), key_BUHK.transpose(1, 2),
                                                     value_BUHV.transpose(1, 2), plan.visible(best_BTR).unsqueeze(1));

    const Tensor last_B1 = (plan.lengths_B - 1).clamp_min(0).unsqueeze(1);
    final_state.insert(
        final_state.end(),
        {plan.episode.stored(state[kKeys], key), plan.episode.stored(state[kValues], value),
         plan.block_queries.stored(state[kQueries], query), summary_BNHV,
         torch::where((plan.lengths_B > 0).view({-1, 1, 1}), pick_steps(sum_BTHK, last_B1).squeeze(1), state[kSum])});
    return apply_linear(output_, join_heads(output_BHTV.transpose(1, 2)));
  }

  Tensor step(const Tensor& x_BD, const StepPlan& plan, std::span<const Tensor> state, LayerView* view) {
    const auto dtype = state[kKeys].scalar_type();
    const WindowPositions::Projected in = project(x_BD, plan.positions);
    const Tensor query = in.query.to(dtype), key = in.key.to(dtype);
    Tensor key_BPHK = state[kKeys], value_BPHV = state[kValues], query_BSHK = state[kQueries],
           summary_BNHV = state[kSummaries], sum_BHK = state[kSum];
    key_BPHK.index_put_({plan.row_B, plan.position_B}, key);
    value_BPHV.index_put_({plan.row_B, plan.position_B}, in.value.to(dtype));
    query_BSHK.index_put_({plan.row_B, plan.slot_B}, query);
    sum_BHK.masked_fill_(plan.begins_B11, 0).add_(query);

    const Tensor best_BR = best_blocks(sum_BHK.unsqueeze(1), summary_BNHV, plan.retrievable_B1N, retrieved_).squeeze(1);
    const Tensor retrieved_BRS = best_BR.unsqueeze(2) * block_ + plan.in_block_S;
    const Tensor allowed_BRS = plan.retrievable_B1N.squeeze(1).gather(1, best_BR).unsqueeze(2).expand_as(retrieved_BRS);
    const Tensor step_BU = torch::cat({retrieved_BRS.flatten(1), plan.local_BM}, 1);
    const Tensor visible_BU = torch::cat({allowed_BRS.flatten(1), plan.seen_BM}, 1);
    const Tensor query_BH1K = query.unsqueeze(2), key_BHUK = pick_steps(key_BPHK, step_BU).transpose(1, 2),
                 value_BHUV = pick_steps(value_BPHV, step_BU).transpose(1, 2);
    Tensor output_BH1V;
    if (view == nullptr) {
      output_BH1V = dot_product_attention(query_BH1K, key_BHUK, value_BHUV, visible_BU.unsqueeze(1).unsqueeze(2));
    } else {
      const Tensor weight_BHU = weights(query_BH1K, key_BHUK, visible_BU);
      output_BH1V = torch::matmul(weight_BHU.unsqueeze(2), value_BHUV);
      const Tensor age_BU = (plan.position_B.unsqueeze(1) - step_BU).clamp_min(0);
      view->attention_BHA = torch::zeros({x_BD.size(0), heads_, key_BPHK.size(1)}, weight_BHU.options())
                                .scatter_add(2, age_BU.unsqueeze(1).expand_as(weight_BHU), weight_BHU);
    }

    if (plan.fills) {
      const Tensor new_BHV =
          summarise(query_BSHK, pick_steps(key_BPHK, plan.block_BS), pick_steps(value_BPHV, plan.block_BS));
      summary_BNHV.copy_(torch::where(plan.filled_BN11, new_BHV.unsqueeze(1).to(dtype), summary_BNHV));
    }
    return apply_linear(output_, join_heads(output_BH1V.squeeze(2).to(x_BD.scalar_type())));
  }

  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t width = options.width, retrieved = std::min<std::int64_t>(options.retrieved, options.blocks());
    // Projections; scores and values of the attention; a step's part of its block's summary; scores of all blocks.
    return 4 * width * width + 2 * width * (options.chunk + retrieved * options.block) + 2 * width * options.block +
           width * options.blocks();
  }

 private:
  WindowPositions::Projected project(const Tensor& x, const WindowPositions& positions) const {
    return positions.project(query_, key_, value_, x, heads_);
  }

  // Of each step's chunk up to the step, in the state's type.
  static Tensor sum_queries(const Tensor& query_BTHK, const Plan& plan, const Tensor& before_BHK) {
    const ComputeIn products(before_BHK.device(), before_BHK.scalar_type());
    const Tensor query = query_BTHK.to(before_BHK.scalar_type());
    const Tensor sum = torch::matmul(plan.summed_BTT.to(query.scalar_type()), query.flatten(2)).view_as(query);
    return plan.carries_BT11.defined() ? sum + before_BHK.unsqueeze(1) * plan.carries_BT11 : sum;
  }

  // softmax(q k^T / sqrt(K)) over what is visible: [B, H, 1, K], [B, H, U, K], bool [B, U] -> [B, H, U]
  static Tensor weights(const Tensor& query_BH1K, const Tensor& key_BHUK, const Tensor& visible_BU) {
    const Tensor score_BHU = torch::matmul(query_BH1K, key_BHUK.transpose(2, 3)).squeeze(2) /
                             std::sqrt(static_cast<double>(query_BH1K.size(3)));
    return score_BHU.masked_fill(visible_BU.logical_not().unsqueeze(1), -std::numeric_limits<double>::infinity())
        .softmax(2);
  }

  int heads_;
  std::int64_t block_, retrieved_;
  torch::nn::Linear query_, key_, value_, output_;
};

}  // namespace

void ExpansionSpanOptions::list_options(OptionList& list) {
  list_sizes(list, *this, kSwiGluWidth);
  list.add("chunk", chunk, {1, 1 << 20}, "steps of a chunk, which attention sees up to the current one");
  list.add("block", block, {1, 1 << 12}, "steps of a block, the unit of what is retrieved");
  list.add("retrieved", retrieved, {0, 1 << 16}, "blocks before the chunk that attention sees as well, at most");
  list_positions(list, positions);
  list_training(list);
}

void ExpansionSpanOptions::check() const {
  check_bounds(*this, kMemorySection);
  check_heads(width, heads);
  check_positions(positions, width, heads);
  if (chunk % block != 0)
    throw UserError("memory.chunk " + std::to_string(chunk) + " is not divisible by memory.block " +
                    std::to_string(block));
}

LayerSpec ExpansionSpanOptions::layer(std::int64_t longest) const {
  ExpansionSpanOptions sized = *this;
  sized.max_steps = longest;
  return layer_spec<ExpansionSpanMixer>(sized);
}

std::shared_ptr<SequenceModel> ExpansionSpanOptions::make(std::int64_t longest) const {
  return make_block_stack(*this, longest);
}

}  // namespace engram
