#include "memory/backbones/hybrids/stack.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/named_registry.h"
#include "base/text/text.h"
#include "memory/backbones/attention/expansion_span.h"
#include "memory/backbones/fast_weights/fast_weights.h"
#include "memory/backbones/recurrent/linear_rnn.h"
#include "memory/backbones/recurrent/slstm.h"
#include "memory/core/block_stack.h"
#include "memory/fused/attention.h"
#include "memory/ops/attention_maps.h"
#include "memory/ops/ops.h"
#include "memory/ops/window_positions.h"

namespace engram {
namespace {

using torch::Tensor;

// How many steps each head sees at the given positions [...] -> [..., H]; undefined: all of the window.
Tensor seen_steps(const WindowLayerOptions&, const Tensor&) { return Tensor(); }
Tensor seen_steps(const ShiftedSparseLayerOptions& options, const Tensor& positions) {
  const Tensor head_H = torch::arange(options.heads, positions.options());
  const Tensor shift_H = (head_H >= options.heads / 2) * (options.window / 2);
  return (positions.unsqueeze(-1) + shift_H).remainder(options.window) + 1;
}

// Options: WindowLayerOptions or what is derived from them, with the steps that seen_steps() says.
template <class OfLayer>
class WindowMixer : public torch::nn::Module, public AttentionMaps {
 public:
  using Options = OfLayer;
  static constexpr bool kCountsSteps = true;

  struct Plan {
    Plan(const Options& options, const Span& span)
        : window(options.window, span.steps, span.max_position, span.position_B, span.kept_lengths_B(), span.dtype,
                 seen_steps(options, step_positions(span))),
          positions(options, step_positions(span), span.dtype) {}
    WindowPlan window;
    WindowPositions positions;
  };
  struct StepPlan {
    StepPlan(const Options& options, const Tensor& position_B, torch::ScalarType dtype)
        : window(options.window, options.window, position_B, dtype, seen_steps(options, position_B)),
          positions(options, position_B, dtype) {}
    WindowStepPlan window;
    WindowPositions positions;
  };

  explicit WindowMixer(const Options& options)
      : options_(options),
        query_(register_module("query", first_weights(options).inner_map(options.width, options.width))),
        key_(register_module("key", first_weights(options).inner_map(options.width, options.width))),
        value_(register_module("value", first_weights(options).inner_map(options.width, options.width))),
        output_(register_module("output", first_weights(options).output_map(options.width, options.width))) {}

  std::vector<Tensor> output_parameters() const { return {output_->weight}; }

  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    const std::vector<std::int64_t> ring = {options.window, options.heads, options.width / options.heads};
    return {ring, ring};
  }

  Tensor forward(const Tensor& x_BTD, const Plan& plan, std::span<const Tensor> state,
                 std::vector<Tensor>& final_state) {
    const WindowPositions::Projected in = project(x_BTD, plan.positions);
    const WindowPlan::Output out = plan.window.attend(in.query, in.key, in.value, {state[0], state[1]});
    final_state.insert(final_state.end(), {out.ring.key_BSHK, out.ring.value_BSHV});
    return apply_linear(output_, join_heads(out.output_BTHV));
  }

  Tensor step(const Tensor& x_BD, const StepPlan& plan, std::span<const Tensor> state, LayerView* view) {
    const WindowPositions::Projected in = project(x_BD, plan.positions);
    return apply_linear(output_, join_heads(plan.window.attend(in.query, in.key, in.value, {state[0], state[1]},
                                                               /*weight_dropout=*/nullptr,
                                                               view == nullptr ? nullptr : &view->attention_BHA)));
  }

  static Support supports_learning(const Options&) {
    if constexpr (std::is_same_v<Options, ShiftedSparseLayerOptions>)
      return Support::no("attention by groups has no kernels");
    return {};
  }
  std::unique_ptr<cuda::Branch> branch(const FreshRows& rows, torch::Device) const {
    return cuda::attention_branch(fused_weights(), options_.heads, rows, fused_settings());
  }

  static Support supports_step(const Options& options, torch::ScalarType dtype, torch::Device device) {
    if (Support own = supports_learning(options); !own) return own;
    return cuda::supports_step_of_heads(options.width, options.heads, dtype, device);
  }
  std::unique_ptr<cuda::ForwardBranch> step_branch(const Tensor& position_B, std::span<const Tensor> state) const {
    return cuda::attention_step_branch(fused_weights(), options_.heads, position_B, {state[0], state[1]},
                                       fused_settings());
  }

  static std::int64_t multiply_adds_per_step(const Options& options) {
    // Projections, then scores and values of a full window.
    return 4 * std::int64_t{options.width} * options.width + 2 * std::int64_t{options.width} * options.window;
  }

 private:
  cuda::AttentionWeights fused_weights() const {
    return {{query_->weight, {}}, {key_->weight, {}}, {value_->weight, {}}, {output_->weight, {}}};
  }
  cuda::WindowSettings fused_settings() const {
    return {.window = options_.window, .rotary = options_.positions == PositionCode::kRope, .weight_dropout = {}};
  }

  WindowPositions::Projected project(const Tensor& x, const WindowPositions& positions) const {
    return positions.project(query_, key_, value_, x, options_.heads);
  }

  Options options_;
  torch::nn::Linear query_, key_, value_, output_;
};

// What the layers of attention have in common.
void list_attention(OptionList& list, WindowLayerOptions& options) {
  list_heads(list, options.heads);
  list_mlp_width(list, options.mlp_width, kSwiGluWidth);
  list_positions(list, options.positions);
  options.list_training(list);
}

// A kind of layer with its defaults. layer() checks, too.
struct LayerKind {
  std::string name;
  // Of the stack's own options, the number of layers, the settings of one entry, and max_steps.
  std::function<LayerSpec(const StackOptions&, int, const std::vector<std::pair<std::string, std::string>>&,
                          std::int64_t)>
      layer;
  // renewed_entry() with its options.
  std::function<std::string(const std::string& entry, int format)> renewed;
};

template <class Options>
LayerKind kind() {
  return {Options::kName,
          [](const StackOptions& stack, int layers, const auto& settings, std::int64_t max_steps) {
            Options options;
            static_cast<BlockOptions&>(options) = stack;
            options.layers = layers;
            if constexpr (requires { options.heads; }) options.heads = stack.heads;
            OptionList list("");
            options.list_options(list);
            for (const auto& [key, value] : settings) {
              if (key == "width" || key == "layers") throw UserError("'" + key + "' is the whole stack's");
              list.set(key, value);
            }
            options.check();
            return options.layer(max_steps);
          },
          [](const std::string& entry, int format) {
            Options options;
            OptionList list("");
            options.list_options(list);
            return renewed_entry(entry, list, format);
          }};
}

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all = {kind<HqltOptions>(),
                                  kind<HqltDelayedStreamOptions>(),
                                  kind<HqltDelayedChunkOptions>(),
                                  kind<WindowLayerOptions>(),
                                  kind<AttentionLayerOptions>(),
                                  kind<ShiftedSparseLayerOptions>(),
                                  kind<ExpansionSpanOptions>(),
                                  kind<MinGruOptions>(),
                                  kind<LruOptions>(),
                                  kind<S5Options>(),
                                  kind<RgLruOptions>(),
                                  kind<SlstmOptions>()};
    std::apply([&all](const auto&... member) { (all.push_back(kind<std::decay_t<decltype(member)>>()), ...); },
               FastWeightFamily{});
    return all;
  }();
  return kinds;
}

const LayerKind& layer_kind(const std::string& name) { return find_named(layer_kinds(), "layer", name); }

// The layers of options.stack. Layers of equal text are made from one LayerSpec, so that they share their plans.
std::vector<LayerSpec> parse_layers(const StackOptions& options, std::int64_t max_steps) {
  const std::vector<std::string> entries = split_list(options.stack);
  std::vector<LayerSpec> layers;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::size_t same = 0;
    while (entries[same] != entries[i]) ++same;
    if (same < i) {
      layers.push_back(layers[same]);
      continue;
    }
    try {
      const NamedSettings entry = parse_named_settings(entries[i]);
      layers.push_back(
          layer_kind(entry.name).layer(options, static_cast<int>(entries.size()), entry.settings, max_steps));
    } catch (const UserError& error) {
      throw UserError("memory.stack, layer " + std::to_string(i + 1) + ", '" + entries[i] + "': " + error.what());
    }
  }
  return layers;
}

// Option::renewed of StackOptions::stack.
std::string renewed_layers(const std::string& stack, int format) {
  std::string renewed;
  for (const std::string& entry : split_list(stack)) {
    if (!renewed.empty()) renewed += ',';
    renewed += layer_kind(parse_named_settings(entry).name).renewed(entry, format);
  }
  return renewed;
}

}  // namespace

void WindowLayerOptions::list_options(OptionList& list) {
  list_window(list, window);
  list_attention(list, *this);
}

void WindowLayerOptions::check() const {
  check_heads(width, heads);
  check_positions(positions, width, heads);
}

LayerSpec WindowLayerOptions::layer(std::int64_t) const { return layer_spec<WindowMixer<WindowLayerOptions>>(*this); }

void ShiftedSparseLayerOptions::list_options(OptionList& list) {
  list.add("group", window, {2, 1 << 20}, "steps of a group, an even number");
  list_attention(list, *this);
}

void ShiftedSparseLayerOptions::check() const {
  WindowLayerOptions::check();
  if (heads % 2 != 0) throw UserError("memory.heads " + std::to_string(heads) + " has no halves to shift one of");
  if (window % 2 != 0) throw UserError("memory.group " + std::to_string(window) + " is not even");
}

LayerSpec ShiftedSparseLayerOptions::layer(std::int64_t) const {
  return layer_spec<WindowMixer<ShiftedSparseLayerOptions>>(*this);
}

void AttentionLayerOptions::list_options(OptionList& list) { list_attention(list, *this); }

LayerSpec AttentionLayerOptions::layer(std::int64_t max_steps) const {
  AttentionLayerOptions whole = *this;
  whole.window = static_cast<int>(max_steps);
  return layer_spec<WindowMixer<AttentionLayerOptions>>(whole);
}

void StackOptions::list_options(OptionList& list) {
  list.add("stack", stack,
           "the layers from the input on, separated by commas, each with its options: deltanet,window:window=32,hqlt");
  list.renewed_by(renewed_layers);
  list_width(list, width);
  list_heads(list, heads);
  list_mlp_width(list, mlp_width, kSwiGluWidth);
  list_training(list);
}

void StackOptions::check() const {
  check_bounds(*this, kMemorySection);
  parse_layers(*this, /*max_steps=*/1);
}

std::shared_ptr<SequenceModel> StackOptions::make(std::int64_t max_steps) const {
  check();
  return std::make_shared<BlockStack>(width, dropout, parse_layers(*this, max_steps));
}

std::string TransformerPlusPlusOptions::of_layers(int layers) {
  std::string stack = "attention";
  for (int i = 1; i < layers; ++i) stack += ",attention";
  return stack;
}

}  // namespace engram
