// DeltaNet (Yang et al. 2024): fast weights written by the delta rule, read by a query.
//   q, k = l2-normalised dropout(silu(W x)),  v = dropout(silu(Wv x)),  beta = factor * sigmoid(w_b x) per head;
//   o = the delta rule's output, RMS-normalised per head, then Wo.
#include "memory/attention_maps.h"
#include "memory/backbone_options.h"
#include "memory/block_stack.h"
#include "memory/ops.h"

namespace engram {
namespace {

class DeltaNetMixer : public torch::nn::Module, public AttentionMaps {
 public:
  using Options = DeltaNetOptions;
  static constexpr bool kCountsSteps = false;

  using Plan = LengthsPlan;
  using StepPlan = EmptyStepPlan;

  explicit DeltaNetMixer(const Options& options)
      : options_(options),
        query_(register_module("query", first_weights(options).inner_map(options.width, options.width))),
        key_(register_module("key", first_weights(options).inner_map(options.width, options.width))),
        value_(register_module("value", first_weights(options).inner_map(options.width, options.width))),
        beta_(register_module("beta", first_weights(options).inner_map(options.width, options.heads))),
        query_dropout_(register_module("query_dropout", std::make_shared<Dropout>(options.dropout))),
        key_dropout_(register_module("key_dropout", std::make_shared<Dropout>(options.dropout))),
        value_dropout_(register_module("value_dropout", std::make_shared<Dropout>(options.dropout))),
        head_norm_(register_module("head_norm", std::make_shared<RmsNorm>(options.width / options.heads))),
        output_(register_module("output", first_weights(options).output_map(options.width, options.width))) {}

  bool by_softmax() const override { return false; }

  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    const std::int64_t head_width = options.width / options.heads;
    return {{options.heads, head_width, head_width}};
  }

  torch::Tensor forward(const torch::Tensor& x_BTD, const Plan& plan, std::span<const torch::Tensor> state,
                        std::vector<torch::Tensor>& final_state) {
    const Projected in = project(x_BTD);
    const DeltaRuleResult out = delta_rule(in.query, in.key, in.value, in.beta, state[0], plan.lengths_B);
    final_state.push_back(out.state_BHKV);
    return join(out.output_BTHV);
  }

  torch::Tensor step(const torch::Tensor& x_BD, const StepPlan&, std::span<const torch::Tensor> state,
                     LayerView* view) {
    const Projected in = project(x_BD);
    if (view != nullptr) view->write_strength_BH = in.beta;
    return join(delta_rule_step(in.query, in.key, in.value, in.beta, state[0]));
  }

  // Also fills in the mixer's own part of the settings.
  fused::MixerWeights fused_weights(fused::MixerSettings& settings, torch::Device device) const {
    settings.mixing = std::nullopt;
    settings.beta_factor = static_cast<float>(options_.beta_factor);
    settings.query_dropout = query_dropout_->key(device);
    settings.key_dropout = key_dropout_->key(device);
    settings.value_dropout = value_dropout_->key(device);
    return {query_->weight,  key_->weight,         value_->weight, beta_->weight,
            torch::Tensor(), head_norm_->weight(), output_->weight};
  }

  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t width = options.width, head_width = width / options.heads;
    // Projections, then three passes over the fast weights: predict, write, read.
    return 4 * width * width + width * options.heads + 3 * width * head_width;
  }

 private:
  struct Projected {
    torch::Tensor query, key, value;  // [..., H, D / H]
    torch::Tensor beta;               // [..., H]
  };

  Projected project(const torch::Tensor& x) {
    const auto feature = [&](torch::nn::Linear& linear, const Dropout& dropout) {
      return dropout.forward(torch::silu(split_heads(linear->forward(x), options_.heads)));
    };
    return {l2_normalize(feature(query_, *query_dropout_)), l2_normalize(feature(key_, *key_dropout_)),
            feature(value_, *value_dropout_), options_.beta_factor * torch::sigmoid(beta_->forward(x))};
  }

  torch::Tensor join(const torch::Tensor& heads) { return output_->forward(join_heads(head_norm_->forward(heads))); }

  Options options_;
  torch::nn::Linear query_, key_, value_, beta_;
  std::shared_ptr<Dropout> query_dropout_, key_dropout_, value_dropout_;
  std::shared_ptr<RmsNorm> head_norm_;
  torch::nn::Linear output_;
};

}  // namespace

void DeltaNetOptions::list_options(OptionList& list) {
  list_width(list, width);
  list_layers(list, layers);
  list_heads(list, heads);
  list_mlp_width(list, mlp_width, kSwiGluWidth);
  list_beta_factor(list, beta_factor);
  list_dropout(list, dropout);
  list_first_weights(list, weight_std, output_weights);
}

void DeltaNetOptions::check() const {
  check_bounds(*this, kMemorySection);
  check_heads(width, heads);
}

LayerSpec DeltaNetOptions::layer(std::int64_t) const { return layer_spec<DeltaNetMixer>(*this); }

std::shared_ptr<SequenceModel> DeltaNetOptions::make(std::int64_t max_steps) const {
  check();
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
