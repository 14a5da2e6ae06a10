// fast_weights and its presets against their definition, computed step by step and head by head in double precision.
#include "memory/backbones/fast_weights/fast_weights.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "memory/backbones/fast_weights/fast_weight_memory.h"
#include "memory/ops/fast_weight_ops.h"
#include "tests/memory/ops/fast_weights_definition.h"

using namespace engram;
using namespace fast_weights_definition;
using torch::Tensor;

namespace {

constexpr std::int64_t kSteps = 20;
// Every preset, and settings that together have every value of every option.
const std::vector<Variant> kDefined = {
    {"fast_weights", {}},
    {"fast_weights", {{"rule", "sum"}, {"write_strength", "one"}, {"beta_factor", "1"}, {"key_norm", "none"}}},
    {"fast_weights", {{"rule", "sum"}, {"decay", "vector"}, {"value_silu", "false"}}},
    {"fast_weights", {{"rule", "sum"}, {"feature_map", "identity"}, {"attention_norm", "at_least_one"}}},
    {"fast_weights", {{"rule", "gated_sum"}, {"beta_factor", "1"}, {"feature_map", "relu"}, {"key_norm", "sum"}}},
    {"fast_weights", {{"rule", "gated_sum"}, {"beta_factor", "1"}, {"feature_map", "elu"}, {"attention_norm", "sum"}}},
    {"fast_weights", {{"feature_map", "elu"}, {"attention_norm", "sum"}, {"output_gate", "sigmoid"}}},
    {"fast_weights", {{"decay", "fixed"}, {"feature_map", "elu"}, {"key_norm", "sum"}, {"attention_norm", "sum"}}},
    {"fast_weights", {{"decay", "vector"}, {"feature_map", "dpfp"}, {"dpfp_nu", "3"}, {"convolution", "true"}}},
    {"fast_weights", {{"decay", "scalar"}, {"feature_map", "favor"}, {"favor_features", "7"}, {"key_norm", "sum"}}},
    {"fast_weights",
     {{"rule", "sum"}, {"write_strength", "exponential"}, {"decay", "fixed"}, {"attention_norm", "at_least_one"}}},
    {"fast_weights", {{"rule", "sum"}, {"write_strength", "exponential"}, {"attention_norm", "at_least_one"}}},
    {"fast_weights", {{"write_bias", "true"}, {"skip", "true"}}},
    {"mamba2", {{"convolution_bias", "false"}, {"skip", "false"}}},
    {"mlstm", {{"write_bias", "false"}}},
    {"linear_transformer", {}},
    {"performer", {}},
    {"dpfp", {{"dpfp_nu", "2"}}},
    {"delta_2021", {}},
    {"gated_deltanet", {}},
    {"delta_product", {}},
    {"delta_product", {{"householder_steps", "3"}, {"beta_factor", "1"}, {"decay", "scalar"}, {"write_bias", "true"}}},
    {"delta_product", {{"householder_steps", "2"}, {"decay", "vector"}, {"convolution_bias", "true"}}},
    {"kda", {}},
    {"kda", {{"beta_factor", "2"}, {"convolution", "false"}, {"householder_steps", "2"}}},
    {"fast_weights", {{"rule", "sum"}, {"decay", "vector_step"}, {"output_gate", "low_rank_sigmoid"}}},
    {"retnet", {}},
    {"gla", {}},
    {"mamba2", {}},
    {"mlstm", {}}};

FastWeightsOptions options_of(Variant variant, const std::string& more_heads = "2") {
  variant.settings.insert(variant.settings.begin(), {{"width", "12"}, {"layers", "2"}, {"heads", more_heads}});
  BackboneConfig config(variant.backbone);
  OptionList list = config.options();
  for (const auto& [key, value] : variant.settings) list.set("memory." + key, value);
  return *config.as<FastWeightsOptions>();
}

// What the mixer makes of normed [T, D], from its parameters.
Tensor mixer(const FastWeightsOptions& options, const Tensor& normed_TD, const Parameters& p, const std::string& name) {
  const auto map = [&](const std::string& weight) { return normed_TD.matmul(p.at(name + weight).t()); };
  Tensor query = map("query.weight"), key = map("key.weight"), value = map("value.weight");
  if (options.convolution) {
    const Tensor weight_CW = p.at(name + "convolution.weight");
    const Tensor all_TC = torch::cat({query, key, value}, 1);
    Tensor out_TC = torch::zeros_like(all_TC);
    if (options.convolution_bias) out_TC += p.at(name + "convolution.bias");
    for (std::int64_t t = 0; t < all_TC.size(0); ++t)
      for (std::int64_t j = 0; j < 4; ++j)  // the last weight is the current step's
        if (t - 3 + j >= 0) out_TC[t] += weight_CW.select(1, j) * all_TC[t - 3 + j];
    const std::int64_t written = 12 * options.householder_steps;
    query = out_TC.narrow(1, 0, 12), key = out_TC.narrow(1, 12, written),
    value = out_TC.narrow(1, 12 + written, written);
  }
  if (options.value_silu) value = plain_silu(value);
  std::vector<Tensor> heads;
  for (Tensor read : reads(options, normed_TD, query, key, value, p, name)) {
    const auto h = static_cast<std::int64_t>(heads.size());
    if (options.skip)
      read = read + p.at(name + "skip")[h] * value.narrow(1, h * kChannels, kChannels) / std::sqrt(double{kChannels});
    heads.push_back(plain_rms_norm(read, p.at(name + "head_norm.weight")));
  }
  Tensor joined = torch::cat(heads, 1);
  if (options.output_gate == OutputGate::kSilu) joined = joined * plain_silu(map("gate.weight"));
  if (options.output_gate == OutputGate::kSigmoid) joined = joined * plain_sigmoid(map("gate.weight"));
  if (options.output_gate == OutputGate::kLowRankSigmoid)
    joined = joined * plain_sigmoid(map("gate_down.weight").matmul(p.at(name + "gate_up.weight").t()) +
                                    p.at(name + "gate_bias"));
  return joined.matmul(p.at(name + "output.weight").t());
}

}  // namespace

TEST_CASE("fast weights equal their definition, computed step by step from their named parameters") {
  const torch::NoGradGuard no_grad;
  for (const Variant& variant : kDefined) {
    CAPTURE(variant.label());
    torch::manual_seed(1);
    Variant sized = variant;
    sized.settings.insert(sized.settings.begin(), {{"width", "12"}, {"layers", "2"}});
    auto model = make_model(sized, kSteps, torch::kFloat64);
    enlarge_weights(*model);
    const Parameters p = parameters_by_name(*model);
    const FastWeightsOptions options = options_of(variant);
    Tensor x_TD = torch::randn({kSteps, 12}, torch::kFloat64);
    const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
    for (const std::string block : {"blocks.0.", "blocks.1."}) {
      x_TD = x_TD + mixer(options, plain_rms_norm(x_TD, p.at(block + "mixer_norm.weight")), p, block + "mixer.");
      x_TD = x_TD + swiglu(plain_rms_norm(x_TD, p.at(block + "mlp_norm.weight")), p, block + "mlp.");
    }
    CHECK(relative_error(output_TD, plain_rms_norm(x_TD, p.at("norm.weight"))) < 1e-9);
  }
}

TEST_CASE("FAVOR+ draws its directions once: they are kept with the weights, and no gradient reaches them") {
  torch::manual_seed(4);
  auto model = make_model({"performer", {{"width", "12"}, {"favor_features", "14"}}}, 10, torch::kFloat64);
  const Tensor directions = model->named_parameters()["blocks.0.mixer.features.directions"];
  CHECK(directions.sizes() == torch::IntArrayRef({14, 6}));
  CHECK(!directions.requires_grad());
  // Orthogonal in groups of six.
  const Tensor unit = directions / directions.norm(2, 1, true);
  for (const std::int64_t first : {0, 6}) {
    const Tensor group = unit.narrow(0, first, 6);
    CHECK((group.matmul(group.t()) - torch::eye(6, torch::kFloat64)).abs().max().item<double>() < 1e-6);
  }
  const Tensor before = directions.clone(), input = torch::randn({2, 9, 12}, torch::kFloat64);
  model->train();
  const Tensor output = model->forward(input);
  output.sum().backward();
  CHECK(!directions.grad().defined());
  CHECK(torch::equal(output, model->forward(input)));
  CHECK(torch::equal(directions, before));
  // The features estimate exp(q . k / sqrt(C)): without bias, over many directions.
  torch::manual_seed(5);
  auto many =
      make_model({"performer", {{"width", "12"}, {"heads", "2"}, {"favor_features", "4096"}}}, 10, torch::kFloat64);
  const Tensor drawn = many->named_parameters()["blocks.0.mixer.features.directions"];
  const Numbers q{0.9, -0.5, 0.3, 1.1, -0.2, 0.4}, k{0.7, 0.6, -0.8, 0.9, 0.1, -1.0};
  FastWeightsOptions options;
  options.feature_map = FeatureMap::kFavor;
  options.key_norm = KeyNorm::kNone;
  CHECK(fast_weights_definition::dot(feature(options, q, drawn), feature(options, k, drawn)) ==
        doctest::Approx(std::exp(fast_weights_definition::dot(q, k) / std::sqrt(6.0))).epsilon(0.03));
}

TEST_CASE("first gates are those of the published code") {
  torch::manual_seed(8);
  const auto parameters = [](const std::string& name, const std::string& heads) {
    const Variant::Settings settings = {{"width", heads}, {"layers", "1"}, {"heads", heads}};
    Parameters p;
    for (const auto& [key, value] : parameters_by_name(*make_model({name, settings}, 10, torch::kFloat64)))
      if (key.starts_with("blocks.0.mixer.")) p[key.substr(15)] = value;
    return p;
  };
  // Of one number a head, so that many heads are many draws.
  const auto in_range = [](const Tensor& x, double low, double high) {
    const double width = high - low, least = x.min().item<double>(), most = x.max().item<double>();
    return least >= low && least < low + 0.05 * width && most <= high && most > high - 0.05 * width &&
           std::abs(x.mean().item<double>() - (low + high) / 2) < 0.1 * width;
  };
  const double low_step = std::log(1e-3), high_step = std::log(0.1);
  for (const auto& [name, low_rate] : {std::pair("gated_deltanet", 0.0), {"mamba2", 1.0}}) {
    CAPTURE(name);
    const Parameters p = parameters(name, "256");
    CHECK(in_range(p.at("decay.log_rate").exp(), low_rate, 16));
    CHECK(in_range(torch::softplus(p.at("decay.bias")).log(), low_step, high_step));
  }
  // Of Kimi delta attention a rate a head and a step a key channel; with a channel a head as many of each.
  const Parameters kda = parameters("kda", "256");
  CHECK(in_range(kda.at("decay.log_rate").exp(), 1, 16));
  CHECK(in_range(torch::softplus(kda.at("decay.bias")).log(), low_step, high_step));
  CHECK(kda.at("gate_bias").eq(0).all().item<bool>());
  CHECK(torch::equal(parameters("mamba2", "3").at("skip"), torch::ones({3}, torch::kFloat64)));
  const Parameters p = parameters("mamba2", "256");
  CHECK(in_range(p.at("convolution.bias"), -0.5, 0.5));

  const Parameters mlstm = parameters("mlstm", "4");
  const Tensor logits = torch::tensor({3.0, 4.0, 5.0, 6.0}, torch::kFloat64);
  const Tensor forget_H =
      (-mlstm.at("decay.log_rate").exp() * torch::softplus(mlstm.at("decay.bias"))).exp();  // without an input
  CHECK(relative_error(forget_H, logits.sigmoid()) < 1e-6);
  CHECK(mlstm.at("decay.map.weight").eq(0).all().item<bool>());
  CHECK(mlstm.at("beta.weight").eq(0).all().item<bool>());
  const double deviation = parameters("mlstm", "256").at("beta_bias").std().item<double>();
  CHECK(deviation > 0.08);
  CHECK(deviation < 0.12);
}

TEST_CASE("a preset is fast_weights with other defaults, and its options may be changed as well") {
  for (const auto& [preset, settings] :
       std::vector<std::pair<std::string, Variant::Settings>>{{"linear_transformer",
                                                               {{"rule", "sum"},
                                                                {"write_strength", "one"},
                                                                {"feature_map", "elu"},
                                                                {"key_norm", "none"},
                                                                {"attention_norm", "sum"},
                                                                {"value_silu", "false"}}},
                                                              {"gated_deltanet",
                                                               {{"decay", "scalar"},
                                                                {"first_decay", "gated_deltanet"},
                                                                {"beta_factor", "1"},
                                                                {"convolution", "true"},
                                                                {"output_gate", "silu"}}},
                                                              {"mamba2",
                                                               {{"rule", "sum"},
                                                                {"decay", "scalar"},
                                                                {"write_strength", "step"},
                                                                {"key_norm", "none"},
                                                                {"convolution", "true"},
                                                                {"convolution_bias", "true"},
                                                                {"skip", "true"},
                                                                {"output_gate", "silu"}}}}) {
    CAPTURE(preset);
    const Tensor input = torch::randn({2, 9, 100});
    const auto output = [&](const Variant& variant) {
      torch::manual_seed(6);
      return make_model(variant, 10, torch::kFloat32)->forward(input);
    };
    CHECK(torch::equal(output({preset, {}}), output({"fast_weights", settings})));
    CHECK(!torch::equal(output({preset, {}}), output({"fast_weights", {}})));
    CHECK(!torch::equal(output({preset, {}}), output({preset, {{"key_norm", "l2"}, {"output_gate", "sigmoid"}}})));
  }
}

TEST_CASE("state bytes and multiply-adds of the presets at width 100, 3 layers and 2 heads of 50") {
  struct Expected {
    const char* name;
    std::int64_t state, products;  // of a layer: numbers, and multiply-adds but for SwiGLU
  };
  const std::int64_t maps = 4 * 100 * 100, gate = 100 * 100, convolution = 3 * 100 * 4;
  for (const Expected& expected :
       {Expected{"fast_weights", 2 * 50 * 50, maps + 200 + 3 * 100 * 50},
        {"linear_transformer", 2 * 50 * 50 + 2 * 50, maps + 2 * 100 * 50 + 2 * 50},
        {"performer", 2 * 128 * 50 + 2 * 128, maps + 2 * 100 * 64 + 2 * 100 * 128 + 2 * 128},
        {"dpfp", 2 * 100 * 50 + 2 * 100, maps + 2 * 100 * 100 + 2 * 100},
        {"delta_2021", 2 * 100 * 50, maps + 200 + 3 * 100 * 100},
        {"gated_deltanet", 2 * 50 * 50 + 3 * 300, maps + gate + convolution + 2 * 200 + 3 * 100 * 50},
        // Two keys, values and write strengths a step, which is convolved with them.
        {"delta_product", 2 * 50 * 50 + 3 * 500, maps + 2 * 100 * 100 + gate + 5 * 100 * 4 + 2 * 200 + 5 * 100 * 50},
        {"kda", 2 * 50 * 50 + 3 * 300, maps + 2 * 50 * 100 + convolution + 200 + 50 * (100 + 100) + 3 * 100 * 50},
        {"retnet", 2 * 50 * 50, maps + gate + 2 * 100 * 50},
        {"gla", 2 * 50 * 50, maps + gate + 16 * 200 + 2 * 100 * 50},
        {"mamba2", 2 * 50 * 50 + 3 * 300, maps + gate + convolution + 200 + 2 * 100 * 50 + 100},
        {"mlstm", 2 * 50 * 50 + 2 * 50 + 2, maps + gate + 2 * 200 + 2 * 100 * 50 + 2 * 50}}) {
    CAPTURE(expected.name);
    const ModelCost cost = make_model({expected.name, {}}, 10, torch::kFloat32)->cost();
    CHECK(cost.state_bytes == 3 * 4 * expected.state);
    CHECK(cost.multiply_adds_per_step == 3 * (expected.products + 3 * 100 * 512));
  }
}

TEST_CASE("settings of fast weights that contradict each other are refused in one line") {
  const auto error = [](const Variant& variant) -> std::string {
    try {
      options_of(variant).check();
    } catch (const UserError& refused) {
      return refused.what();
    }
    return "";
  };
  const auto family = [](const Variant::Settings& settings) { return Variant{"fast_weights", settings}; };
  CHECK(error(family({{"rule", "sum"}, {"write_strength", "one"}})) == "");
  CHECK(error(family({{"write_strength", "one"}})) == "memory.rule delta needs memory.write_strength sigmoid, not one");
  CHECK(error(family({{"rule", "gated_sum"}, {"beta_factor", "1"}, {"decay", "scalar"}})) ==
        "memory.rule gated_sum decays by 1 - its write strength: it takes memory.decay none, not scalar");
  CHECK(error(family({{"rule", "gated_sum"}})) ==
        "memory.rule gated_sum decays by 1 - its write strength: it takes memory.beta_factor 1, not 2");
  CHECK(error(family({{"rule", "sum"}, {"write_strength", "step"}})) ==
        "memory.write_strength step is the step size of memory.decay scalar, not of memory.decay none");
  CHECK(error(family({{"rule", "sum"}, {"write_strength", "exponential"}})) ==
        "memory.write_strength exponential has no bound: it needs memory.attention_norm at_least_one, not none");
  CHECK(error({"mlstm", {{"decay", "vector"}}}) ==
        "memory.write_strength exponential is scaled by head: it does not go with memory.decay vector");
  CHECK(error({"mlstm", {{"decay", "vector_step"}}}) ==
        "memory.write_strength exponential is scaled by head: it does not go with memory.decay vector_step");
  CHECK(error({"delta_product", {{"rule", "sum"}}}) ==
        "memory.householder_steps 2 writes by the delta rule: it takes memory.rule delta, not sum");
  CHECK(error({"delta_product", {{"feature_map", "elu"}, {"attention_norm", "sum"}}}) ==
        "memory.householder_steps 2 has no sum of one key a step: it takes memory.attention_norm none, not sum");
  CHECK(error({"delta_product", {{"skip", "true"}}}) ==
        "memory.householder_steps 2 has no one value a step that memory.skip true could add");
  CHECK_THROWS_AS(options_of({"delta_product", {{"householder_steps", "0"}}}), UserError);
  CHECK(error(family({{"attention_norm", "at_least_one"}})) ==
        "memory.attention_norm at_least_one goes with memory.rule sum, not with memory.rule delta");
  CHECK(error(family({{"key_norm", "sum"}})) ==
        "memory.key_norm sum needs features that are not negative, which memory.feature_map silu has");
  CHECK(error({"linear_transformer", {{"feature_map", "identity"}}}) ==
        "memory.attention_norm sum needs features that are not negative, which memory.feature_map identity has");
  CHECK(error({"mamba2", {{"attention_norm", "at_least_one"}}}) ==
        "memory.skip true adds to what is not divided: it takes memory.attention_norm none, not at_least_one");
  CHECK(error({"dpfp", {{"dpfp_nu", "12"}}}) == "memory.dpfp_nu 12 is not below 2 memory.width / memory.heads = 12");
  CHECK(error({"dpfp", {{"dpfp_nu", "11"}}}) == "");
  CHECK_THROWS_AS(options_of(family({{"rule", "gated_delta"}})), UserError);
  CHECK_THROWS_WITH_AS(options_of(family({}), "5").check(), "memory.width 12 is not divisible by memory.heads 5",
                       UserError);
}

TEST_CASE("fast weights say why they learn on LibTorch") {
  const auto reason = [](const Variant& variant) {
    return make_model(variant, 10, torch::kFloat32)->supports_learning(torch::kBFloat16, torch::kCUDA).reason();
  };
  // deltanet's kernels are those of its settings, whatever the name.
  CHECK(reason({"fast_weights", {}}) == reason({"deltanet", {}}));
  const std::string none = "its fast weights have no kernels: ";
  for (const char* name :
       {"linear_transformer", "performer", "dpfp", "delta_2021", "gated_deltanet", "retnet", "mamba2", "mlstm"})
    CHECK(reason({name, {}}) == reason({"deltanet", {}}));
  CHECK(reason({"fast_weights", {{"rule", "gated_sum"}, {"beta_factor", "1"}}}) == reason({"deltanet", {}}));
  for (const char* name : {"gla", "kda", "delta_product"})
    CHECK(reason({name, {}}) == "only its fast weights have kernels");
  CHECK(reason({"gla", {{"rule", "delta"}, {"write_strength", "sigmoid"}}}) == "only its fast weights have kernels");
  CHECK(reason({"delta_product", {{"householder_steps", "1"}}}) == reason({"deltanet", {}}));
  CHECK(reason({"fast_weights", {{"output_gate", "low_rank_sigmoid"}}}) == "its output gate has no kernels");
  CHECK(reason({"delta_2021", {{"attention_norm", "sum"}}}) == none + "their delta rule has an attention norm");
  // The sum of keys is one more channel, and widths are even.
  CHECK(reason({"retnet", {{"width", "256"}}}) == reason({"deltanet", {}}));
  CHECK(reason({"linear_transformer", {{"width", "254"}}}) == reason({"deltanet", {}}));
  CHECK(reason({"linear_transformer", {{"width", "256"}}}) == none + "a head has 130 channels, more than 128");
  CHECK(reason({"mlstm", {{"width", "256"}}}) == none + "a head has 130 channels, more than 128");
  CHECK(reason({"dpfp", {{"dpfp_nu", "2"}}}) == none + "a head has 200 channels, more than 128");
}

TEST_CASE("the kernel of a step takes fewer fast weights than those of learning") {
  const FastWeightRule sum{}, normed{false, AttentionNorm::kSum}, unbounded{false, AttentionNorm::kAtLeastOne, true};
  CHECK(static_cast<bool>(supports_fast_weight_step(sum, 1, 50, 50)));
  CHECK(static_cast<bool>(supports_fast_weights(normed, 0, 50, 50)));
  CHECK(supports_fast_weight_step(normed, 0, 50, 50).reason() == "their step has an attention norm");
  CHECK(static_cast<bool>(supports_fast_weights(unbounded, 1, 50, 50)));
  CHECK(supports_fast_weight_step(unbounded, 1, 50, 50).reason() == "their step has an attention norm");
  CHECK(static_cast<bool>(supports_fast_weights(sum, 0, 100, 50)));
  CHECK(supports_fast_weight_step(sum, 0, 100, 50).reason() == "values of 50 channels beside keys of 100");
  CHECK(static_cast<bool>(supports_fast_weights(sum, 0, 9, 9)));
  CHECK(supports_fast_weight_step(sum, 0, 9, 9).reason() == "a head has 9 channels, an odd number");
  CHECK(supports_fast_weight_step(sum, 50, 50, 50).reason() == "they have a decay per key channel");
}

TEST_CASE("of several Householder steps the greatest write strength is shown") {
  auto model = enlarged_model({"delta_product", {{"width", "12"}, {"layers", "1"}}}, 10, 9);
  const Parameters p = parameters_by_name(*model);
  const Tensor x_BD = torch::randn({3, 12}, torch::kFloat64);
  MemoryState state = model->initial_state(3);
  MemoryView view;
  model->step(x_BD, state, view);
  const Tensor strengths_BX =
      2 *
      plain_sigmoid(plain_rms_norm(x_BD, p.at("blocks.0.mixer_norm.weight"))
                        .matmul(p.at("blocks.0.mixer.beta.weight").t()));  // both heads of the first step, then both
  const Tensor greatest_BH = torch::maximum(strengths_BX.narrow(1, 0, 2), strengths_BX.narrow(1, 2, 2));
  CHECK(relative_error(view.layers.at(0).write_strength_BH, greatest_BH) < 1e-12);
}

// A rotation is two reflections: one Householder step a token cannot turn what it holds, two can (Siems et al. 2025,
// section 4). With keys of unit length, write strengths of 2 and values of zero the state is multiplied by both.
TEST_CASE("two Householder steps a token turn the state by twice the angle between their keys") {
  const double angle = 0.3;
  const auto unit = [](double at) { return torch::tensor({std::cos(at), std::sin(at)}, torch::kFloat64); };
  FastWeightsOptions options;
  options.width = 2;
  options.heads = 1;
  options.householder_steps = 2;
  torch::nn::Module owner;
  FastWeightMemory memory(owner, options);
  const Tensor key_BTHK = torch::stack({unit(0), unit(angle)}).view({1, 1, 2, 2}).expand({1, 5, 2, 2}).contiguous();
  const FastWeightInput in{unit(0).view({1, 1, 1, 2}).expand({1, 5, 1, 2}).contiguous(),
                           key_BTHK,
                           torch::zeros({1, 5, 2, 2}, torch::kFloat64),
                           torch::full({1, 5, 2}, 2.0, torch::kFloat64),
                           {}};
  const std::vector<Tensor> first{torch::eye(2, torch::kFloat64).view({1, 1, 2, 2})};
  std::vector<Tensor> last;
  memory.forward(in, first, lengths({5}), last, /*forgets=*/false);
  // Reflections across the lines at right angles to both keys: a rotation by 2 angle, five times.
  const double turned = 5 * 2 * angle;
  const Tensor rotation =
      torch::tensor({{std::cos(turned), -std::sin(turned)}, {std::sin(turned), std::cos(turned)}}, torch::kFloat64);
  CHECK(relative_error(last.at(0)[0][0], rotation) < 1e-12);
}

TEST_CASE("the delta rule shows its write strengths, and the sums show what they have summed") {
  for (const char* name : {"fast_weights", "delta_2021", "gated_deltanet"}) {
    CAPTURE(name);
    auto model = enlarged_model({name, {{"width", "12"}, {"layers", "1"}}}, 10, 7);
    const Parameters p = parameters_by_name(*model);
    const Tensor x_BD = torch::randn({3, 12}, torch::kFloat64);
    MemoryState state = model->initial_state(3), plain = state.clone();
    MemoryView view;
    CHECK(torch::equal(model->step(x_BD, state, view), model->step(x_BD, plain)));
    const Tensor logit =
        plain_rms_norm(x_BD, p.at("blocks.0.mixer_norm.weight")).matmul(p.at("blocks.0.mixer.beta.weight").t());
    const double factor = name == std::string("fast_weights") ? 2 : 1;
    CHECK(relative_error(view.layers.at(0).write_strength_BH, factor * plain_sigmoid(logit)) < 1e-12);
  }
  for (const char* name : {"linear_transformer", "performer", "dpfp", "retnet", "gla", "mamba2", "mlstm"}) {
    CAPTURE(name);
    auto model = make_model({name, {{"width", "12"}, {"layers", "1"}}}, 10, torch::kFloat64);
    MemoryState state = model->initial_state(3);
    MemoryView view;
    model->step(torch::randn({3, 12}, torch::kFloat64), state, view);
    const LayerView& layer = view.layers.at(0);
    CHECK(!layer.write_strength_BH.defined());
    REQUIRE(layer.states.size() == 1);
    CHECK(relative_error(layer.states[0].value_BC, state.tensors[0].square().sum(-1).sqrt().flatten(1)) < 1e-12);
  }
}
