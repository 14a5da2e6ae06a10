// The definition in double precision of the kernels around fast weights (kernels/fast_weights/passes) against
// LibTorch's differentiation of the layer's own parts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fast_weights/delta_rule/reference.h"
#include "kernels/fast_weights/passes/reference.h"
#include "memory/backbones/fast_weights/fast_weight_memory.h"
#include "memory/ops/short_convolution.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;
namespace passes = engram::fast_weight_passes;

namespace {

// Of the last, which a strip of the convolution does not fill, nor two.
constexpr std::int64_t kBatch = 2, kSteps = 37, kHeads = 2, kChannels = 6, kWidth = kHeads * kChannels;
constexpr double kBound = 1e-7;  // both are in double, but for the kernels' epsilons, which are floats: 3e-8 off

passes::Numbers numbers(const Tensor& x) {
  const Tensor flat = x.detach().contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}
Tensor tensor(const passes::Numbers& x, torch::IntArrayRef shape) {
  return torch::tensor(x, torch::kFloat64).view(shape);
}
Tensor leaf(torch::IntArrayRef shape) { return torch::randn(shape, torch::kFloat64).requires_grad_(); }

struct Map {
  FeatureMap of_options;
  passes::Map of_kernels;
};
const std::vector<Map> kMaps = {
    {FeatureMap::kIdentity, passes::Map::kIdentity}, {FeatureMap::kSilu, passes::Map::kSilu},
    {FeatureMap::kRelu, passes::Map::kRelu},         {FeatureMap::kElu, passes::Map::kElu},
    {FeatureMap::kDpfp, passes::Map::kDpfp},         {FeatureMap::kFavor, passes::Map::kFavor}};
const std::vector<std::pair<KeyNorm, passes::FeatureNorm>> kNorms = {{KeyNorm::kNone, passes::FeatureNorm::kNone},
                                                                     {KeyNorm::kL2, passes::FeatureNorm::kLength},
                                                                     {KeyNorm::kSum, passes::FeatureNorm::kSum}};

struct FeatureCase {
  Map map;
  std::pair<KeyNorm, passes::FeatureNorm> norm;
  int nu;
  bool convolution, value_silu, one;
  double dropout;
  bool bias = false;    // of the convolution
  bool beside = false;  // a window, which reads what the convolution and dropout leave of queries and keys
};

// The layer's parts before its memory, in double precision.
struct Layer : torch::nn::Module {
  Layer(const FastWeightsOptions& options, bool convolves, bool bias = false)
      : memory(*this, options),
        query_dropout(register_module("query_dropout", std::make_shared<Dropout>(options.dropout))),
        key_dropout(register_module("key_dropout", std::make_shared<Dropout>(options.dropout))),
        value_dropout(register_module("value_dropout", std::make_shared<Dropout>(options.dropout))) {
    if (convolves)
      convolution = register_module("convolution", std::make_shared<ShortConvolution>(3 * kWidth, 4, bias));
    to(torch::kFloat64);
    clock = seed_dropout(*this, 1);
  }

  FastWeightMemory memory;
  std::shared_ptr<Dropout> query_dropout, key_dropout, value_dropout;
  std::shared_ptr<ShortConvolution> convolution;
  std::shared_ptr<DropoutClock> clock;
};

// Queries, keys and values side by side, [B, T, 3, H, W], zero behind the features of each, and what a window reads,
// [B, T, 2, H, C]; undefined: none.
struct Features {
  Tensor features, window_rows;
};
Features defined_features(const Layer& layer, const FastWeightsOptions& options, const FeatureCase& c,
                          const Tensor& x) {
  Tensor all = x.flatten(2);
  if (layer.convolution)
    all = layer.convolution
              ->forward(all, torch::zeros({kBatch, 3, 3 * kWidth}, torch::kFloat64), lengths({kSteps, kSteps}))
              .output_BTC;
  std::vector<Tensor> parts = all.view({kBatch, kSteps, 3, kHeads, kChannels}).unbind(2);
  const Tensor value =
      layer.value_dropout->forward(c.value_silu ? torch::silu(parts[2].contiguous()) : parts[2].contiguous());
  if (c.beside) {
    parts[0] = layer.query_dropout->forward(parts[0].contiguous());
    parts[1] = layer.key_dropout->forward(parts[1].contiguous());
  }
  std::vector<Tensor> features = {layer.memory.feature(parts[0], c.beside ? nullptr : layer.query_dropout.get()),
                                  layer.memory.feature(parts[1], c.beside ? nullptr : layer.key_dropout.get()),
                                  c.one ? torch::constant_pad_nd(value, {0, 1}, 1) : value};
  const std::int64_t width = std::max(options.key_width(), features[2].size(3));
  for (Tensor& part : features) part = torch::constant_pad_nd(part, {0, width - part.size(3)});
  return {torch::stack(features, 2), c.beside ? torch::stack({parts[0], parts[1]}, 2) : Tensor()};
}

void check_features(const FeatureCase& c) {
  CAPTURE(static_cast<int>(c.map.of_kernels));
  CAPTURE(static_cast<int>(c.norm.second));
  CAPTURE(c.nu);
  CAPTURE(c.convolution);
  CAPTURE(c.bias);
  CAPTURE(c.beside);
  FastWeightsOptions options;
  options.width = kWidth, options.heads = kHeads;
  options.feature_map = c.map.of_options, options.key_norm = c.norm.first, options.dpfp_nu = c.nu;
  options.favor_features = 7;
  options.dropout = c.dropout;
  const Layer layer(options, c.convolution, c.bias);
  const Tensor x = leaf({kBatch, kSteps, 3, kHeads, kChannels});
  const auto [expected, expected_rows] = defined_features(layer, options, c, x);
  const Tensor weight = torch::randn_like(expected);

  const auto of_keys = [&](const Dropout& dropout) {
    return passes::FeaturePart{c.map.of_kernels,
                               c.norm.second,
                               dropout.key(torch::kCPU),
                               kChannels,
                               static_cast<int>(options.key_width()),
                               c.nu,
                               false,
                               c.beside};
  };
  const passes::FeaturesReference input{
      static_cast<int>(kBatch),
      static_cast<int>(kSteps),
      static_cast<int>(kHeads),
      {of_keys(*layer.query_dropout),
       of_keys(*layer.key_dropout),
       {c.value_silu ? passes::Map::kSilu : passes::Map::kIdentity, passes::FeatureNorm::kNone,
        layer.value_dropout->key(torch::kCPU), kChannels, kChannels, 0, c.one}},
      numbers(x),
      c.convolution ? numbers(layer.convolution->weight_CW()) : passes::Numbers(),
      c.bias ? numbers(layer.convolution->bias_C()) : passes::Numbers(),
      layer.memory.fused_weights().directions_FC.defined() ? numbers(layer.memory.fused_weights().directions_FC)
                                                           : passes::Numbers()};
  REQUIRE(input.features_width() == expected.size(4));
  passes::Numbers window_rows;
  CHECK(relative_error(tensor(features_reference(input, nullptr, &window_rows), expected.sizes()), expected.detach()) <
        kBound);

  std::vector<Tensor> leaves{x};
  if (c.convolution) leaves.push_back(layer.convolution->weight_CW());
  if (c.bias) leaves.push_back(layer.convolution->bias_C());
  std::vector<Tensor> outputs{expected}, weights{weight};
  passes::WindowGradient window;
  if (c.beside) {
    CHECK(relative_error(tensor(window_rows, expected_rows.sizes()), expected_rows.detach()) < kBound);
    outputs.push_back(expected_rows);
    weights.push_back(torch::randn_like(expected_rows));
    window.rows = numbers(weights.back());
  }
  const auto wanted = torch::autograd::grad(outputs, leaves, weights);
  const auto got = features_reference_backward(input, numbers(weight), window);
  CHECK(relative_error(tensor(got.projected, x.sizes()), wanted[0]) < kBound);
  if (c.convolution) CHECK(relative_error(tensor(got.convolution, {3 * kWidth, 4}), wanted[1]) < kBound);
  if (c.bias) CHECK(relative_error(tensor(got.bias, {3 * kWidth}), wanted[2]) < kBound);
}

}  // namespace

TEST_CASE("features of fast weights and their gradients are the layer's: maps, norms, convolution, dropout") {
  torch::manual_seed(21);
  for (const Map& map : kMaps)
    for (const auto& norm : kNorms) {
      const bool is_signed = map.of_options == FeatureMap::kIdentity || map.of_options == FeatureMap::kSilu;
      if (is_signed && norm.first == KeyNorm::kSum) continue;
      for (const int nu : map.of_options == FeatureMap::kDpfp ? std::vector{1, 3} : std::vector{1})
        for (const bool convolution : {false, true})
          check_features({map, norm, nu, convolution, /*value_silu=*/nu == 1, /*one=*/convolution, 0.3});
      check_features({map, norm, 1, true, true, false, 0.3, /*bias=*/true});
      check_features({map, norm, 1, true, true, true, 0.3, /*bias=*/false, /*beside=*/true});
      check_features({map, norm, 1, false, false, false, 0});
    }
}

// The same text runs on a GPU, where nothing else would tell.
TEST_CASE("a query, key or value that is not a number gives features that are none, through every map") {
  for (const Map& map : kMaps)
    for (const int spoilt : {0, 1, 2}) {
      CAPTURE(static_cast<int>(map.of_kernels));
      CAPTURE(spoilt);
      FastWeightsOptions options;
      options.width = kChannels, options.heads = 1, options.feature_map = map.of_options, options.favor_features = 7;
      const Layer layer(options, false);
      const passes::FeaturePart part{
          map.of_kernels, passes::FeatureNorm::kNone, {}, kChannels, static_cast<int>(options.key_width()), 1, false};
      passes::FeaturesReference input{1,
                                      1,
                                      1,
                                      {part, part, part},
                                      passes::Numbers(3 * kChannels, 0.5),
                                      {},
                                      {},
                                      layer.memory.fused_weights().directions_FC.defined()
                                          ? numbers(layer.memory.fused_weights().directions_FC)
                                          : passes::Numbers()};
      input.projected[spoilt * kChannels + 2] = std::nan("");
      const passes::Numbers features = features_reference(input);
      const auto first = features.begin() + spoilt * input.features_width();
      CHECK(std::any_of(first, first + input.features_width(), [](double x) { return std::isnan(x); }));
    }
}

TEST_CASE("write strengths and decays of fast weights and their gradients are the layer's") {
  torch::manual_seed(22);
  struct Kind {
    FastRule rule;
    Decay decay;
    WriteStrength write;
    passes::StrengthKind of_kernels;
    bool write_bias = false;
  };
  using passes::LogDecay;
  using passes::Write;
  for (const Kind& kind :
       {Kind{FastRule::kSum, Decay::kFixed, WriteStrength::kOne, {Write::kOne, LogDecay::kFixed, 1}},
        {FastRule::kDelta, Decay::kNone, WriteStrength::kSigmoid, {Write::kSigmoid, LogDecay::kNone, 2}},
        {FastRule::kDelta, Decay::kScalar, WriteStrength::kSigmoid, {Write::kSigmoid, LogDecay::kScalar, 2}},
        {FastRule::kSum, Decay::kScalar, WriteStrength::kOne, {Write::kOne, LogDecay::kScalar, 1}},
        {FastRule::kSum, Decay::kScalar, WriteStrength::kStep, {Write::kStep, LogDecay::kScalar, 1}},
        {FastRule::kGatedSum, Decay::kNone, WriteStrength::kSigmoid, {Write::kSigmoid, LogDecay::kOfWrite, 1}},
        {FastRule::kDelta, Decay::kScalar, WriteStrength::kSigmoid, {Write::kSigmoid, LogDecay::kScalar, 2}, true},
        {FastRule::kGatedSum, Decay::kNone, WriteStrength::kSigmoid, {Write::kSigmoid, LogDecay::kOfWrite, 1}, true}}) {
    CAPTURE(static_cast<int>(kind.of_kernels.write));
    CAPTURE(static_cast<int>(kind.of_kernels.decay));
    FastWeightsOptions options;
    options.width = kWidth, options.heads = kHeads;
    options.rule = kind.rule, options.decay = kind.decay, options.write_strength = kind.write;
    options.beta_factor = static_cast<int>(kind.of_kernels.beta_factor);
    options.write_bias = kind.write_bias;
    Layer layer(options, false);
    const Tensor x = torch::randn({kBatch, kSteps, kWidth}, torch::kFloat64);
    const Tensor heads = torch::randn({kBatch, kSteps, kHeads, kChannels}, torch::kFloat64);
    const bool has_write = kind.write == WriteStrength::kSigmoid, has_decay = kind.decay == Decay::kScalar;
    {
      const torch::NoGradGuard no_grad;  // so that logits differ
      if (has_write) layer.memory.fused_weights().write_HD.normal_();
      if (has_decay) layer.memory.fused_weights().decay_HD.normal_();
    }
    const FastWeightInput defined = layer.memory.input(x, heads, heads, heads);
    const bool decays = defined.log_decay.defined();

    passes::StrengthsReference input{
        kind.of_kernels, static_cast<int>(kSteps), static_cast<int>(kHeads), {}, {}, {}, {}, {}};
    if (has_write) input.write_logits = numbers(x.matmul(layer.memory.fused_weights().write_HD.t()));
    if (has_decay) {
      input.decay_logits = numbers(x.matmul(layer.memory.fused_weights().decay_HD.t()));
      input.bias_H = numbers(layer.memory.fused_weights().decay_bias_H);
      input.log_rate_H = numbers(layer.memory.fused_weights().log_rate_H);
    }
    if (kind.write_bias) input.write_bias_H = numbers(layer.memory.fused_weights().write_bias_H);
    const std::vector<std::int64_t> shape{kBatch, kSteps, kHeads};
    const auto own = strengths_reference(input, static_cast<int>(kBatch * kSteps));
    CHECK(relative_error(tensor(own.write, shape), defined.write.detach()) < kBound);
    if (decays) CHECK(relative_error(tensor(own.log_decay, shape), defined.log_decay.detach().squeeze(3)) < kBound);

    std::vector<Tensor> weights;
    if (has_write) weights.push_back(layer.memory.fused_weights().write_HD);
    if (has_decay)
      weights.insert(weights.end(), {layer.memory.fused_weights().decay_HD, layer.memory.fused_weights().decay_bias_H,
                                     layer.memory.fused_weights().log_rate_H});
    if (kind.write_bias) weights.push_back(layer.memory.fused_weights().write_bias_H);
    if (weights.empty()) continue;
    const Tensor d_write = torch::randn(shape, torch::kFloat64), d_log_decay = torch::randn(shape, torch::kFloat64);
    Tensor loss = (defined.write * d_write).sum();
    if (decays) loss = loss + (defined.log_decay.squeeze(3) * d_log_decay).sum();
    const auto wanted = torch::autograd::grad({loss}, weights);
    const auto got = strengths_reference_backward(input, {numbers(d_write), numbers(d_log_decay), {}});
    const auto of_map = [&](const passes::Numbers& d_logits) {
      return tensor(d_logits, {kBatch * kSteps, kHeads}).t().matmul(x.flatten(0, 1));
    };
    std::vector<Tensor> own_gradients;
    if (has_write) own_gradients.push_back(of_map(got.write_logits));
    if (has_decay)
      own_gradients.insert(own_gradients.end(),
                           {of_map(got.decay_logits), tensor(got.bias_H, {kHeads}), tensor(got.log_rate_H, {kHeads})});
    if (kind.write_bias) own_gradients.push_back(tensor(got.write_bias_H, {kHeads}));
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(relative_error(own_gradients[i], wanted[i]) < kBound);
  }
}

TEST_CASE("an answer's norms and gate and their gradients are LibTorch's") {
  torch::manual_seed(23);
  constexpr std::int64_t kRows = 29;  // and one more, behind the end of its sequence, whose gradients must be numbers
  using passes::AnswerGate;
  using passes::AnswerNorm;
  for (const AnswerNorm norm : {AnswerNorm::kNone, AnswerNorm::kSum, AnswerNorm::kAtLeastOne})
    for (const AnswerGate kind : {AnswerGate::kNone, AnswerGate::kSilu, AnswerGate::kSigmoid}) {
      CAPTURE(static_cast<int>(norm));
      CAPTURE(static_cast<int>(kind));
      const bool normed = norm != AnswerNorm::kNone, gated = kind != AnswerGate::kNone;
      const Tensor answer = leaf({kRows + 1, kHeads, kChannels + (normed ? 1 : 0)});
      const Tensor gate = leaf({kRows + 1, kHeads, kChannels}), weight = leaf({kChannels});
      {
        const torch::NoGradGuard no_grad;
        if (norm == AnswerNorm::kSum) answer.select(2, kChannels).abs_().add_(0.1);
        if (normed) answer[kRows].zero_();          // behind a row's end
        answer.narrow(2, 0, kChannels).mul_(1e-2);  // so that the RMS norm's 1e-6 is felt
      }
      constexpr double kEpsilon = 1e-6;
      Tensor read = answer.narrow(2, 0, kChannels);
      if (normed) {
        const Tensor sum = answer.narrow(2, kChannels, 1);
        read = read / (norm == AnswerNorm::kSum ? sum + 1e-6 : sum.abs().clamp_min(1));
      }
      Tensor out = torch::rms_norm(read, kChannels, weight, kEpsilon);
      if (gated) out = out * (kind == AnswerGate::kSilu ? torch::silu(gate) : gate.sigmoid());

      const passes::AnswerReference input{{norm, kind, kChannels, static_cast<float>(kEpsilon)},
                                          numbers(answer),
                                          gated ? numbers(gate) : passes::Numbers(),
                                          numbers(weight),
                                          {},
                                          {},
                                          0,
                                          {}};
      CHECK(relative_error(tensor(answer_reference(input), out.sizes()), out.detach()) < kBound);
      const Tensor d_out = torch::randn_like(out);
      std::vector<Tensor> leaves{answer, weight};
      if (gated) leaves.push_back(gate);
      const auto wanted = torch::autograd::grad({out}, leaves, {d_out});
      const auto got = answer_reference_backward(input, numbers(d_out));
      CHECK(relative_error(tensor(got.weight, weight.sizes()), wanted[1]) < kBound);
      if (gated) CHECK(relative_error(tensor(got.gate, gate.sizes()), wanted[2]) < kBound);
      // The gradient of the norm's channel is of another size.
      CHECK(torch::isfinite(torch::tensor(got.answer)).all().item<bool>());
      const Tensor d_answer = tensor(got.answer, answer.sizes()).narrow(0, 0, kRows);
      const Tensor wanted_answer = wanted[0].narrow(0, 0, kRows);
      CHECK(relative_error(d_answer.narrow(2, 0, kChannels), wanted_answer.narrow(2, 0, kChannels)) < kBound);
      if (normed)
        CHECK(relative_error(d_answer.narrow(2, kChannels, 1), wanted_answer.narrow(2, kChannels, 1)) < kBound);
    }
}

TEST_CASE("an answer's skip and its gradients are LibTorch's") {
  torch::manual_seed(25);
  constexpr double kScale = 0.3, kEpsilon = 1e-6;
  const Tensor answer = leaf({29, kHeads, kChannels}), values = leaf(answer.sizes()), gate = leaf(answer.sizes());
  const Tensor weight = leaf({kChannels}), skip_H = leaf({kHeads});
  const Tensor out =
      torch::rms_norm(answer + kScale * skip_H.unsqueeze(1) * values, kChannels, weight, kEpsilon) * torch::silu(gate);
  const passes::AnswerReference input{
      {passes::AnswerNorm::kNone, passes::AnswerGate::kSilu, kChannels, static_cast<float>(kEpsilon)},
      numbers(answer),
      numbers(gate),
      numbers(weight),
      {},
      numbers(skip_H),
      kScale,
      numbers(values)};
  CHECK(relative_error(tensor(answer_reference(input), out.sizes()), out.detach()) < kBound);
  const Tensor d_out = torch::randn_like(out);
  const std::vector<Tensor> leaves{answer, values, gate, weight, skip_H};
  const auto wanted = torch::autograd::grad({out}, leaves, {d_out});
  const auto d = answer_reference_backward(input, numbers(d_out));
  const std::vector<passes::Numbers> got{d.answer, d.values, d.gate, d.weight, d.skip_H};
  for (std::size_t i = 0; i < leaves.size(); ++i)
    CHECK(relative_error(tensor(got[i], leaves[i].sizes()), wanted[i]) < kBound);
}

// All of what the kernels make of write strengths without a bound, in their scale: strengths, the memory with a channel
// of ones, the answer; and its gradients, for which the scale is a constant.
TEST_CASE("exponential write strengths in their scale have the answers and gradients of the definition") {
  torch::manual_seed(24);
  constexpr std::int64_t kRead = kChannels + 1;
  const auto at = [](std::int64_t step) { return (torch::arange(kSteps) == step).view({1, kSteps, 1}); };
  const Tensor noise = torch::randn({kBatch, kSteps, kHeads}, torch::kFloat64), spread = 160 * torch::rand_like(noise);
  struct Write {
    const char* name;
    Tensor logits;
  };
  const std::vector<Write> writes = {{"moderate", 3 * noise},
                                     {"to both ends", spread - 80},
                                     {"the first outweighs all", torch::where(at(0), noise + 80, noise)},
                                     {"the last outweighs all", torch::where(at(kSteps - 1), noise + 80, noise - 5)},
                                     {"small", noise - 10},
                                     {"as good as none", noise - 80}};
  struct Forget {
    Decay decay;
    passes::LogDecay of_kernels;
    double logit;  // around which decays of kScalar are drawn
  };
  const std::vector<Forget> forgets = {{Decay::kNone, passes::LogDecay::kNone, 0},
                                       {Decay::kFixed, passes::LogDecay::kFixed, 0},
                                       {Decay::kScalar, passes::LogDecay::kScalar, 0},
                                       {Decay::kScalar, passes::LogDecay::kScalar, 60},
                                       {Decay::kScalar, passes::LogDecay::kScalar, -20}};
  const Tensor lengths_B = lengths({kSteps, 20});
  const Tensor valid = (torch::arange(kSteps) < lengths_B.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
  for (const Write& write : writes)
    for (const Forget& forget : forgets) {
      INFO(write.name);
      CAPTURE(static_cast<int>(forget.of_kernels));
      CAPTURE(forget.logit);
      const bool has_decay = forget.decay == Decay::kScalar;
      const Tensor query = leaf({kBatch, kSteps, kHeads, kChannels}), key = leaf(query.sizes()),
                   value = leaf(query.sizes());
      const Tensor write_logits = write.logits.clone().requires_grad_(), weight = leaf({kChannels});
      const Tensor decay_logits = (torch::randn_like(noise) + forget.logit).requires_grad_();
      const Tensor bias_H = leaf({kHeads}), log_rate_H = leaf({kHeads});
      Tensor log_decay;
      if (forget.decay == Decay::kFixed) log_decay = fixed_log_decay(torch::zeros({1, 1, kHeads, 1}, torch::kFloat64));
      if (has_decay) log_decay = (-torch::softplus(decay_logits + bias_H) * log_rate_H.exp()).unsqueeze(3);
      if (log_decay.defined()) log_decay = log_decay.expand({kBatch, kSteps, kHeads, 1});
      const FastWeightResult defined = fast_weights(
          {false, AttentionNorm::kAtLeastOne, true}, {query, key, value, write_logits, log_decay},
          {torch::zeros({kBatch, kHeads, kChannels, kChannels}, torch::kFloat64),
           torch::zeros({kBatch, kHeads, kChannels}, torch::kFloat64), torch::zeros({kBatch, kHeads}, torch::kFloat64)},
          lengths_B);
      const passes::AnswerKind kind{passes::AnswerNorm::kAtLeastOne, passes::AnswerGate::kNone, kChannels, 1e-6f};
      const Tensor out =
          torch::rms_norm(defined.output_BTHV.masked_fill(valid.logical_not(), 0), kChannels, weight, kind.epsilon);

      const passes::StrengthsReference strengths{{passes::Write::kExponential, forget.of_kernels, 1},
                                                 static_cast<int>(kSteps),
                                                 static_cast<int>(kHeads),
                                                 numbers(write_logits),
                                                 has_decay ? numbers(decay_logits) : passes::Numbers(),
                                                 has_decay ? numbers(bias_H) : passes::Numbers(),
                                                 has_decay ? numbers(log_rate_H) : passes::Numbers(),
                                                 {}};
      const auto strength = strengths_reference(strengths, static_cast<int>(kBatch * kSteps));
      const DeltaRuleReferenceInput memory{{kBatch, kSteps, kHeads, kRead},
                                           1 / std::sqrt(static_cast<double>(kChannels)),
                                           numbers(torch::constant_pad_nd(query, {0, 1})),
                                           numbers(torch::constant_pad_nd(key, {0, 1})),
                                           numbers(torch::constant_pad_nd(value, {0, 1}, 1)),
                                           strength.write,
                                           {kSteps, 20},
                                           passes::Numbers(static_cast<std::size_t>(kBatch * kHeads * kRead * kRead)),
                                           FastWeightWrite::kSum,
                                           strength.log_decay};
      const passes::AnswerReference answer{
          kind, delta_rule_reference(memory).output_BTHD, {}, numbers(weight), strength.one, {}, 0, {}};
      CHECK(relative_error(tensor(answer_reference(answer), out.sizes()), out.detach()) < kBound);

      const Tensor d_out = torch::randn_like(out) * valid;
      std::vector<Tensor> leaves{weight, query, key, value, write_logits};
      if (has_decay) leaves.insert(leaves.end(), {decay_logits, bias_H, log_rate_H});
      const auto wanted = torch::autograd::grad({out}, leaves, {d_out});
      const auto d_answer = answer_reference_backward(answer, numbers(d_out));
      const auto d_memory =
          delta_rule_reference_backward(memory, {d_answer.answer, passes::Numbers(memory.initial_state_BHKV.size())});
      const auto d_strengths = strengths_reference_backward(strengths, {d_memory.beta_BTH, d_memory.log_decay_BTH, {}});
      const auto of_channels = [&](const std::vector<double>& x) {
        return tensor(x, {kBatch, kSteps, kHeads, kRead}).narrow(3, 0, kChannels);
      };
      std::vector<Tensor> got{tensor(d_answer.weight, {kChannels}), of_channels(d_memory.q_BTHD),
                              of_channels(d_memory.k_BTHD), of_channels(d_memory.v_BTHD),
                              tensor(d_strengths.write_logits, noise.sizes())};
      if (has_decay)
        got.insert(got.end(), {tensor(d_strengths.decay_logits, noise.sizes()), tensor(d_strengths.bias_H, {kHeads}),
                               tensor(d_strengths.log_rate_H, {kHeads})});
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        CAPTURE(i);
        CHECK(torch::isfinite(got[i]).all().item<bool>());
        // Where a gradient is nothing LibTorch's has the roundings of what cancels in it.
        const double error = (got[i] - wanted[i]).abs().max().item<double>();
        CHECK(error < kBound * wanted[i].abs().max().item<double>() + 1e-10);
      }
    }
}
