#include "memory/backbones/fast_weights/fast_weight_memory.h"

#include <cstddef>
#include <utility>

#include "memory/core/layer.h"
#include "memory/ops/ops.h"

namespace engram {
namespace {

using torch::Tensor;

FastWeightRule rule_of(const FastWeightsOptions& options) {
  return {options.rule == FastRule::kDelta, options.attention_norm,
          options.write_strength == WriteStrength::kExponential};
}

constexpr double kFirstWriteBias = 0.1;  // its standard deviation, mLSTM's

bool has_write_map(const FastWeightsOptions& options) {
  return options.write_strength == WriteStrength::kSigmoid || options.write_strength == WriteStrength::kExponential;
}

// n Householder steps as n steps of the delta rule, over time [B, T, ...]: the decay comes before the first and the
// query after the last. The answers of the others are not asked for.
FastWeightInput one_by_one(const FastWeightInput& in, std::int64_t n) {
  const auto part = [n](const Tensor& x) { return x.unflatten(2, {n, -1}).flatten(1, 2); };
  const auto alone = [](const Tensor& x, std::int64_t before, std::int64_t after) {
    return torch::constant_pad_nd(x.unsqueeze(2), {0, 0, 0, 0, before, after}).flatten(1, 2);
  };
  return {alone(in.query, n - 1, 0), part(in.key), part(in.value), part(in.write),
          in.log_decay.defined() ? alone(in.log_decay, 0, n - 1) : Tensor()};
}

// The i-th of them, of one step [B, ...].
FastWeightInput householder_step(const FastWeightInput& in, std::int64_t i) {
  const std::int64_t heads = in.query.size(1);
  const auto part = [=](const Tensor& x) { return x.narrow(1, i * heads, heads); };
  return {in.query, part(in.key), part(in.value), part(in.write), i == 0 ? in.log_decay : Tensor()};
}

std::int64_t write_strengths(const FastWeightsOptions& options) {
  return std::int64_t{options.heads} * options.householder_steps;
}

// Without decay and norm.
bool plain_delta_rule(const FastWeightsOptions& options) {
  return options.rule == FastRule::kDelta && options.decay == Decay::kNone &&
         options.attention_norm == AttentionNorm::kNone;
}

}  // namespace

FastWeightMemory::FastWeightMemory(torch::nn::Module& layer, const FastWeightsOptions& options)
    : options_(options), rule_(rule_of(options)) {
  if (has_write_map(options))
    beta_ = layer.register_module("beta", first_weights(options).inner_map(options.width, write_strengths(options)));
  if (beta_ && options.write_bias) {
    torch::nn::init::zeros_(beta_->weight);
    write_bias_H_ = layer.register_parameter("beta_bias", torch::randn({write_strengths(options)}) * kFirstWriteBias);
  }
  features_ = layer.register_module("features", std::make_shared<FastWeightFeatures>(options));
  if (options.decay == Decay::kScalar || options.decays_by_channel())
    decay_ = layer.register_module("decay", std::make_shared<InputDecay>(options));
}

std::vector<std::vector<std::int64_t>> FastWeightMemory::state_shapes(const FastWeightsOptions& options) {
  const std::int64_t key_width = options.key_width();
  std::vector<std::vector<std::int64_t>> shapes{{options.heads, key_width, options.width / options.heads}};
  if (options.attention_norm != AttentionNorm::kNone) shapes.push_back({options.heads, key_width});
  if (options.write_strength == WriteStrength::kExponential) shapes.push_back({options.heads});
  return shapes;
}

std::int64_t FastWeightMemory::multiply_adds_per_step(const FastWeightsOptions& options) {
  const std::int64_t width = options.width, heads = options.heads, key_width = options.key_width();
  const bool delta = options.rule == FastRule::kDelta;
  // Passes over the fast weights: write and read, with the delta rule also predict.
  std::int64_t products = (delta ? 2 * options.householder_steps + 1 : 2) * width * key_width;
  if (has_write_map(options)) products += width * write_strengths(options);
  if (options.attention_norm != AttentionNorm::kNone) products += (delta ? 2 : 1) * heads * key_width;
  return products + FastWeightFeatures::multiply_adds(options) + InputDecay::multiply_adds(options);
}

Tensor FastWeightMemory::feature(const Tensor& x, const Dropout* dropout) const {
  const Tensor mapped = features_->forward(x);
  return features_->normalize(dropout == nullptr ? mapped : dropout->forward(mapped));
}

FastWeightInput FastWeightMemory::input(const Tensor& x, Tensor query, Tensor key, Tensor value) {
  FastWeightInput in{std::move(query), std::move(key), std::move(value), {}, {}};
  InputDecay::Output decay;
  if (decay_) decay = decay_->forward(x);
  in.log_decay = decay.log_decay;
  if (options_.decay == Decay::kFixed) in.log_decay = fixed_log_decay(wide(in.value).narrow(-1, 0, 1));
  Tensor logit = beta_ ? apply_linear(beta_, x) : Tensor();
  if (beta_ && !plain_delta_rule(options_)) logit = wide(logit);  // its kernel takes all of one type
  if (write_bias_H_.defined()) logit = logit + write_bias_H_.to(logit.scalar_type());
  switch (options_.write_strength) {
    case WriteStrength::kOne:
      in.write = torch::ones_like(wide(in.value).select(-1, 0));
      break;
    case WriteStrength::kSigmoid:
      in.write = options_.beta_factor * torch::sigmoid(logit);
      break;
    case WriteStrength::kStep:
      in.write = decay.step;
      break;
    case WriteStrength::kExponential:
      in.write = logit;
      break;
  }
  if (options_.rule == FastRule::kGatedSum) in.log_decay = torch::log_sigmoid(-logit).unsqueeze(-1);
  return in;
}

Support FastWeightMemory::supports_learning(const FastWeightsOptions& options) {
  const std::int64_t key_width = options.key_width();
  return supports_fast_weights(rule_of(options), options.decays_by_channel() ? key_width : 1, key_width,
                               options.width / options.heads);
}

Support FastWeightMemory::supports_mixer(const FastWeightsOptions& options) {
  if (const Support memory = supports_learning(options); !memory)
    return Support::no("its fast weights have no kernels: " + memory.reason());
  if (options.decays_by_channel() || options.householder_steps > 1)
    return Support::no("only its fast weights have kernels");
  return {};
}

Support FastWeightMemory::supports_step(const FastWeightsOptions& options, torch::ScalarType dtype,
                                        torch::Device device) {
  return cuda::supports_fast_weights_step(options, dtype, device);
}

Tensor FastWeightMemory::forward(const FastWeightInput& input, std::span<const Tensor> state, const Tensor& lengths_B,
                                 std::vector<Tensor>& final_state, bool forgets) const {
  const std::int64_t n = options_.householder_steps;
  if (n == 1) return remember(input, state, lengths_B, final_state, forgets);
  const Tensor answers = remember(one_by_one(input, n), state, lengths_B * n, final_state, forgets);
  return answers.unflatten(1, {-1, n}).select(2, n - 1);
}

Tensor FastWeightMemory::remember(const FastWeightInput& input, std::span<const Tensor> state, const Tensor& lengths_B,
                                  std::vector<Tensor>& final_state, bool forgets) const {
  if (forgets && supports_fresh_fast_weights(rule_, input)) {
    const FastWeightState unchanged = state_of(state);
    for (const Tensor& tensor : {unchanged.weights_BHKV, unchanged.key_sum_BHK, unchanged.log_scale_BH})
      if (tensor.defined()) final_state.push_back(tensor);
    return fresh_fast_weights(rule_, input, lengths_B);
  }
  const FastWeightResult out = fast_weights(rule_, input, state_of(state), lengths_B);
  for (const Tensor& tensor : {out.state.weights_BHKV, out.state.key_sum_BHK, out.state.log_scale_BH})
    if (tensor.defined()) final_state.push_back(tensor);
  return out.output_BTHV;
}

Tensor FastWeightMemory::step(const FastWeightInput& input, std::span<const Tensor> state) const {
  if (options_.householder_steps == 1) return fast_weight_step(rule_, input, state_of(state));
  Tensor answer;
  for (std::int64_t i = 0; i < options_.householder_steps; ++i)
    answer = fast_weight_step(rule_, householder_step(input, i), state_of(state));
  return answer;
}

FastWeightState FastWeightMemory::state_of(std::span<const Tensor> state) const {
  FastWeightState memory{state[0], {}, {}};
  std::size_t next = 1;
  if (rule_.attention_norm != AttentionNorm::kNone) memory.key_sum_BHK = state[next++];
  if (rule_.log_write) memory.log_scale_BH = state[next];
  return memory;
}

cuda::FastWeightsStepState FastWeightMemory::step_state(std::span<const Tensor> state) const {
  const FastWeightState own = state_of(state);
  cuda::FastWeightsStepState step;
  step.fast_BHKV = own.weights_BHKV;
  step.key_sum_BHK = own.key_sum_BHK;
  return step;
}

cuda::FastWeightsWeights FastWeightMemory::fused_weights() const {
  cuda::FastWeightsWeights weights{};
  if (beta_) weights.write_HD = beta_->weight;
  weights.write_bias_H = write_bias_H_;
  weights.directions_FC = features_->directions_FC();
  if (decay_) {
    weights.decay_HD = decay_->weight_HD();
    weights.decay_bias_H = decay_->bias_H();
    weights.log_rate_H = decay_->log_rate_H();
  }
  return weights;
}

}  // namespace engram
