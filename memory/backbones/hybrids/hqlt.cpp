// Synchronous hybrid quadratic-linear Transformer (Irie et al. 2025): one query, key and value for two memories, fast
// weights (delta rule) and softmax attention over a window, mixed per head.
//   v = dropout(silu(Wv x)), where with `convolution` each of Wq x, Wk x, Wv x first passes a causal convolution over 4
//   steps of its channel, as in the published runs of parity and modular arithmetic. The window sees q = dropout(Wq x)
//   and k = dropout(Wk x), turned by RoPE, the fast weights l2-normalised silu(q), silu(k). vector: g = sigmoid(Wg x)
//   per channel, o = g o_FW + (1 - g) o_KV;  scalar: two sigmoids a head, o = a o_FW + b o_KV; sum: o = o_FW + o_KV.
//   Then RMS-normalised per head, with output_gate times silu(Wu x) as in those published runs, and Wo. With
//   branch_norm, which is not the paper's, the mix takes o_FW / rms(o_FW) and o_KV / rms(o_KV), rms(o) = sqrt(mean o^2
//   + 1e-6) over a head's channels: at the first weights o_FW is far smaller than o_KV.
#include "memory/backbones/hybrids/hqlt.h"

#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"

namespace engram {

using torch::Tensor;

HqltMixerBase::HqltMixerBase(const HqltSharedOptions& options, const FastWeightsOptions& fast_weights)
    : options_(options),
      fast_weights_(fast_weights),
      query_(register_module("query", first_weights(options).inner_map(options.width, options.width))),
      key_(register_module("key", first_weights(options).inner_map(options.width, options.width))),
      value_(register_module("value", first_weights(options).inner_map(options.width, options.width))),
      memory_(*this, fast_weights),
      query_dropout_(register_module("query_dropout", std::make_shared<Dropout>(options.dropout))),
      key_dropout_(register_module("key_dropout", std::make_shared<Dropout>(options.dropout))),
      value_dropout_(register_module("value_dropout", std::make_shared<Dropout>(options.dropout))) {
  if (options.convolution) {
    convolution_ = register_module(
        "convolution", std::make_shared<ShortConvolution>(3 * options.width, FastWeightsOptions::kConvolutionWidth));
    // As the authors' code has them, unlike those of the family fast_weights.
    torch::nn::init::normal_(convolution_->weight_CW(), 0, options.weight_std);
  }
  if (gate_width(options) > 0)
    gate_ = register_module("gate", first_weights(options).inner_map(options.width, gate_width(options)));
  if (options.output_gate)
    output_gate_ = register_module("output_gate", first_weights(options).inner_map(options.width, options.width));
  head_norm_ = register_module("head_norm", std::make_shared<RmsNorm>(options.width / options.heads));
  output_ = register_module("output", first_weights(options).output_map(options.width, options.width));
}

std::vector<std::vector<std::int64_t>> HqltMixerBase::with_window(std::vector<std::vector<std::int64_t>> shapes,
                                                                  const HqltSharedOptions& options) {
  const std::vector<std::int64_t> ring = {options.window, options.heads, options.width / options.heads};
  shapes.insert(shapes.end(), {ring, ring});
  return shapes;
}

std::vector<std::vector<std::int64_t>> HqltMixerBase::with_convolution(std::vector<std::vector<std::int64_t>> shapes,
                                                                       const HqltSharedOptions& options) {
  if (options.convolution) shapes.push_back({FastWeightsOptions::kConvolutionWidth - 1, 3 * options.width});
  return shapes;
}

std::int64_t HqltMixerBase::own_multiply_adds(const HqltSharedOptions& options) {
  const std::int64_t width = options.width;
  // Projections; two passes over the window: scores, values; the convolution; the output gate.
  return 4 * width * width + width * gate_width(options) + 2 * width * options.window +
         (options.convolution ? 3 * width * FastWeightsOptions::kConvolutionWidth : 0) +
         (options.output_gate ? width * width : 0);
}

std::int64_t HqltMixerBase::gate_width(const HqltSharedOptions& options) {
  switch (options.mixing) {
    case Mixing::kVector:
      return options.width;
    case Mixing::kScalar:
      return 2 * options.heads;
    case Mixing::kSum:
      return 0;
  }
  return 0;
}

HqltMixerBase::WindowCall::WindowCall(const HqltSharedOptions& options, const Span& span)
    : lengths_B(span.lengths_B),
      forgets(span.forgets),
      window(options.window, span.steps, span.max_position, span.position_B, span.kept_lengths_B(), span.dtype),
      positions(options, step_positions(span), span.dtype) {}

HqltMixerBase::Projected HqltMixerBase::dropped(const std::vector<Tensor>& mapped) {
  return {query_dropout_->forward(mapped[0]), key_dropout_->forward(mapped[1]),
          value_dropout_->forward(torch::silu(mapped[2]))};
}

std::vector<Tensor> HqltMixerBase::heads_of(const Tensor& joined) const {
  std::vector<Tensor> parts = joined.chunk(3, -1);
  for (Tensor& part : parts) part = split_heads(part, options_.heads);
  return parts;
}

HqltMixerBase::Projected HqltMixerBase::project(const Tensor& x_BTD, std::span<const Tensor> state,
                                                const Tensor& lengths_B, Tensor& history_BSC) {
  if (!convolution_) return dropped(apply_in_heads({query_, key_, value_}, x_BTD, options_.heads));
  const Tensor joined_BTC = torch::cat(apply_linears({query_, key_, value_}, x_BTD), -1);
  const auto [convolved_BTC, state_BSC] = convolution_->forward(joined_BTC, state.back(), lengths_B);
  history_BSC = state_BSC;
  return dropped(heads_of(convolved_BTC));
}

HqltMixerBase::Projected HqltMixerBase::project_step(const Tensor& x_BD, std::span<const Tensor> state) {
  if (!convolution_) return dropped(apply_in_heads({query_, key_, value_}, x_BD, options_.heads));
  const Tensor joined_BC = torch::cat(apply_linears({query_, key_, value_}, x_BD), -1);
  return dropped(heads_of(convolution_->step(joined_BC, state.back())));
}

Tensor HqltMixerBase::mix(const Tensor& x, const Tensor& fast_branch, const Tensor& window_branch, LayerView* view) {
  if (view != nullptr) view->fast_output_BHV = fast_branch, view->window_output_BHV = window_branch;
  const auto normed = [this](const Tensor& branch) {
    return options_.branch_norm ? torch::rms_norm(branch, branch.size(-1), /*weight=*/{}, kRmsNormEpsilon) : branch;
  };
  const Tensor fast = normed(fast_branch), window = normed(window_branch);
  Tensor mixed;
  if (options_.mixing == Mixing::kSum) {
    mixed = fast + window;
  } else {
    const Tensor gate = split_heads(torch::sigmoid(apply_linear(gate_, x)), options_.heads);
    mixed = options_.mixing == Mixing::kVector
                ? torch::lerp(window, fast.to(window.scalar_type()), gate.to(window.scalar_type()))
                : gate.narrow(-1, 0, 1) * fast + gate.narrow(-1, 1, 1) * window;
    if (view != nullptr) {
      view->fast_gate_BH = options_.mixing == Mixing::kVector ? gate.mean(-1) : gate.select(-1, 0);
      if (options_.mixing == Mixing::kScalar) view->window_gate_BH = gate.select(-1, 1);
    }
  }
  const Tensor normed_BTD = join_heads(head_norm_->forward(mixed));
  return apply_linear(output_, output_gate_ ? normed_BTD * torch::silu(apply_linear(output_gate_, x)) : normed_BTD);
}

cuda::FastWeightsWeights HqltMixerBase::fused_weights() const {
  cuda::FastWeightsWeights weights = memory_.fused_weights();
  weights.query_DD = query_->weight;
  weights.key_DD = key_->weight;
  weights.value_DD = value_->weight;
  if (output_gate_) weights.gate_DD = output_gate_->weight;
  if (gate_) weights.mix_gate_GD = gate_->weight;
  if (convolution_) weights.convolution_CW = convolution_->weight_CW();
  weights.head_norm_K = head_norm_->weight();
  weights.output_DD = output_->weight;
  return weights;
}

cuda::FastWeightsSettings HqltMixerBase::fused_settings(std::optional<Delay> delay, torch::Device device) const {
  return {.options = fast_weights_,
          .query_dropout = query_dropout_->key(device),
          .key_dropout = key_dropout_->key(device),
          .value_dropout = value_dropout_->key(device),
          .beside = cuda::BesideWindow{.mixing = options_.mixing,
                                       .branch_norm = options_.branch_norm,
                                       .window = options_.window,
                                       .rotary = options_.positions == PositionCode::kRope,
                                       .delay = delay}};
}

namespace {

class HqltMixer : public HqltMixerBase {
 public:
  using Options = HqltOptions;

  using Plan = WindowCall;
  using StepPlan = WindowStep;

  explicit HqltMixer(const Options& options) : HqltMixerBase(options, options.fast_weight_options()) {}

  Tensor forward(const Tensor& x_BTD, const Plan& plan, std::span<const Tensor> state,
                 std::vector<Tensor>& final_state) {
    Tensor history_BSC;
    const Projected in = project(x_BTD, state, plan.lengths_B, history_BSC);
    const auto [fast_state, ring] = parted(state);
    const Tensor fast_BTHV = memory_.forward(fast_input(x_BTD, in.query, in.key, in.value), fast_state, plan.lengths_B,
                                             final_state, plan.forgets);
    const WindowPlan::Output window = plan.attend(in, ring);
    final_state.insert(final_state.end(), {window.ring.key_BSHK, window.ring.value_BSHV});
    if (history_BSC.defined()) final_state.push_back(history_BSC);
    return mix(x_BTD, fast_BTHV, window.output_BTHV);
  }

  Tensor step(const Tensor& x_BD, const StepPlan& plan, std::span<const Tensor> state, LayerView* view) {
    const Projected in = project_step(x_BD, state);
    const auto [fast_state, ring] = parted(state);
    const FastWeightInput fast = fast_input(x_BD, in.query, in.key, in.value);
    if (view != nullptr && memory_.writes_by_delta_rule()) view->write_strength_BH = fast.write;
    const Tensor fast_BHV = memory_.step(fast, fast_state);
    return mix(x_BD, fast_BHV, plan.attend(in, ring, view), view);
  }

  static Support supports_learning(const Options& options) {
    return FastWeightMemory::supports_mixer(options.fast_weight_options());
  }

  std::unique_ptr<cuda::Branch> branch(const FreshRows& rows, torch::Device device) const {
    return cuda::fast_weights_branch(fused_weights(), fused_settings(std::nullopt, device), rows);
  }

  static Support supports_step(const Options& options, torch::ScalarType dtype, torch::Device device) {
    return FastWeightMemory::supports_step(options.fast_weight_options(), dtype, device);
  }
  std::unique_ptr<cuda::ForwardBranch> step_branch(const Tensor& position_B, std::span<const Tensor> state) const {
    const auto [fast_state, ring] = parted(state);
    cuda::FastWeightsStepState step = memory_.step_state(fast_state);
    step.position_B = position_B;
    step.key_BSHK = ring[0];
    step.value_BSHV = ring[1];
    return cuda::fast_weights_step_branch(fused_weights(), fused_settings(std::nullopt, position_B.device()), step);
  }

 private:
  // The fast weights' state, and the window's.
  std::pair<std::span<const Tensor>, std::span<const Tensor>> parted(std::span<const Tensor> state) const {
    const std::size_t fast = state.size() - 2 - (convolution_ ? 1 : 0);
    return {state.first(fast), state.subspan(fast, 2)};
  }
};

}  // namespace

void HqltSharedOptions::list_options(OptionList& list) {
  list_sizes(list, *this, kSwiGluWidth);
  list_window(list, window);
  list.add("mixing", mixing, {{Mixing::kVector, "vector"}, {Mixing::kScalar, "scalar"}, {Mixing::kSum, "sum"}},
           "how fast weights and window are mixed: a gate per channel, two gates per head, or their sum");
  list.add("branch_norm", branch_norm,
           "whether fast weights' and window's outputs are each divided by their root mean square before the mix");
  list_positions(list, positions);
  list_beta_factor(list, beta_factor);
  list_convolution(list, convolution);
  list.add("output_gate", output_gate, "the heads' normalised outputs are multiplied by silu of a map of the input");
  list_training(list);
}

void HqltSharedOptions::check() const {
  check_bounds(*this, kMemorySection);
  check_heads(width, heads);
  check_positions(positions, width, heads);
}

FastWeightsOptions HqltSharedOptions::fast_weight_options() const {
  FastWeightsOptions options;
  options.width = width;
  options.layers = layers;
  options.heads = heads;
  options.beta_factor = beta_factor;
  options.convolution = convolution;
  options.weight_std = weight_std;
  options.output_weights = output_weights;
  options.output_gate = output_gate ? OutputGate::kSilu : OutputGate::kNone;
  return options;
}

void HqltOptions::list_options(OptionList& list) {
  HqltSharedOptions::list_options(list);
  list.add(
      "fast_weights", fast_weights,
      "deltanet, or the rule, decay, write strength, feature map and norms of another one of fast_weights' family, "
      "with settings after its name: gla, fast_weights:rule=sum:decay=fixed");
  list.renewed_by(renewed_fast_weights);
}

void HqltOptions::check() const {
  HqltSharedOptions::check();
  if (has_deltanet()) return;
  if (beta_factor != HqltSharedOptions().beta_factor)
    throw UserError("memory.beta_factor " + std::to_string(beta_factor) +
                    " is of memory.fast_weights deltanet, not of " + fast_weights +
                    ", which takes beta_factor=" + std::to_string(beta_factor) + " after its name");
  try {
    const FastWeightsOptions options = fast_weight_options();
    options.check();
    if (options.householder_steps > 1)
      throw UserError("memory.householder_steps " + std::to_string(options.householder_steps) +
                      " does not go with the one key a step of a window");
  } catch (const UserError& error) {
    throw UserError("memory.fast_weights " + fast_weights + ": " + error.what());
  }
}

FastWeightsOptions HqltOptions::fast_weight_options() const {
  const FastWeightsOptions shared = HqltSharedOptions::fast_weight_options();
  if (has_deltanet()) return shared;
  // Of the named one the memory alone.
  FastWeightsOptions options = parse_fast_weights(fast_weights);
  options.convolution = shared.convolution;
  options.convolution_bias = options.skip = false;
  options.value_silu = true;
  options.output_gate = shared.output_gate;
  options.width = shared.width;
  options.layers = shared.layers;
  options.heads = shared.heads;
  options.weight_std = shared.weight_std;
  options.output_weights = shared.output_weights;
  return options;
}

LayerSpec HqltOptions::layer(std::int64_t) const { return layer_spec<HqltMixer>(*this); }

std::shared_ptr<SequenceModel> HqltOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
