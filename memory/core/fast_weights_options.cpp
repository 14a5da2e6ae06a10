#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/suggest.h"
#include "base/text/text.h"
#include "memory/backbones/fast_weights/fast_weights.h"

namespace engram {
namespace {

const EnumNames<FastRule> kRules{
    {FastRule::kSum, "sum"}, {FastRule::kDelta, "delta"}, {FastRule::kGatedSum, "gated_sum"}};
const EnumNames<Decay> kDecays{{Decay::kNone, "none"},
                               {Decay::kFixed, "fixed"},
                               {Decay::kScalar, "scalar"},
                               {Decay::kVector, "vector"},
                               {Decay::kVectorStep, "vector_step"}};
const EnumNames<FirstDecay> kFirstDecays{
    {FirstDecay::kMamba2, "mamba2"}, {FirstDecay::kGatedDeltaNet, "gated_deltanet"}, {FirstDecay::kMLstm, "mlstm"}};
const EnumNames<WriteStrength> kWriteStrengths{{WriteStrength::kOne, "one"},
                                               {WriteStrength::kSigmoid, "sigmoid"},
                                               {WriteStrength::kStep, "step"},
                                               {WriteStrength::kExponential, "exponential"}};
const EnumNames<FeatureMap> kFeatureMaps{{FeatureMap::kSilu, "silu"},   {FeatureMap::kRelu, "relu"},
                                         {FeatureMap::kElu, "elu"},     {FeatureMap::kDpfp, "dpfp"},
                                         {FeatureMap::kFavor, "favor"}, {FeatureMap::kIdentity, "identity"}};
const EnumNames<KeyNorm> kKeyNorms{{KeyNorm::kL2, "l2"}, {KeyNorm::kSum, "sum"}, {KeyNorm::kNone, "none"}};
const EnumNames<AttentionNorm> kAttentionNorms{
    {AttentionNorm::kNone, "none"}, {AttentionNorm::kSum, "sum"}, {AttentionNorm::kAtLeastOne, "at_least_one"}};
const EnumNames<OutputGate> kOutputGates{{OutputGate::kNone, "none"},
                                         {OutputGate::kSilu, "silu"},
                                         {OutputGate::kSigmoid, "sigmoid"},
                                         {OutputGate::kLowRankSigmoid, "low_rank_sigmoid"}};

// "memory.KEY VALUE"
template <class Enum>
std::string setting(const char* key, Enum value, const EnumNames<Enum>& names) {
  for (const auto& [candidate, name] : names)
    if (candidate == value) return std::string(kMemorySection) + "." + key + " " + name;
  return key;
}

void refuse_if(bool contradiction, const std::string& what, const std::string& why) {
  if (contradiction) throw UserError(what + " " + why);
}

// The defaults of one of the family. Throws UserError for an unknown name.
FastWeightsOptions member_named(const std::string& name) {
  std::optional<FastWeightsOptions> options;
  std::vector<std::string> names;
  std::apply(
      [&](const auto&... member) {
        (names.emplace_back(member.kName), ...);
        ((name == member.kName ? void(options = member) : void()), ...);
      },
      FastWeightFamily{});
  if (!options) throw UserError(unknown_name("fast weights", name, names, "engram list"));
  return *options;
}

}  // namespace

void FastWeightsOptions::list_options(OptionList& list) {
  list_sizes(list, *this, kSwiGluWidth);
  list_memory(list);
  list.add("householder_steps", householder_steps, {1, 16},
           "of rule delta: how often a step writes, with keys, values and write strengths of their own");
  list_convolution(list, convolution);
  list.add("convolution_bias", convolution_bias, "a bias in the convolution");
  list.since(2, "false");
  list.add("value_silu", value_silu, "silu on the values");
  list.add("skip", skip, "what is read has the step's own value added, times a learnt number a head that begins at 1");
  list.since(2, "false");
  list.add("output_gate", output_gate, kOutputGates, "what multiplies the normalised outputs of the heads");
  list_training(list);
}

void FastWeightsOptions::list_memory(OptionList& list) {
  list.add("rule", rule, kRules, "what a step writes: its pair, its correction, or a mix of its pair and the memory");
  list.add("decay", decay, kDecays,
           "what a step leaves: all, RetNet's constants, an input's number a head or a channel");
  list.add("first_decay", first_decay, kFirstDecays, "whose first values decay scalar has");
  list.since(2, "mamba2");
  list.add("write_strength", write_strength, kWriteStrengths,
           "of a head's step: 1, beta_factor sigmoid, the step size of decay scalar, or exp as in mLSTM");
  list.add("write_bias", write_bias,
           "a bias in the map to write_strength sigmoid or exponential, whose weights then begin at 0");
  list.since(2, "false");
  list_beta_factor(list, beta_factor);
  list.add("feature_map", feature_map, kFeatureMaps, "what queries and keys pass before the memory");
  list.add("dpfp_nu", dpfp_nu, {1, 1 << 10}, "of feature_map dpfp: a key has 2 nu times its head's channels");
  list.add("favor_features", favor_features, {1, 1 << 12},
           "of feature_map favor: random directions, each of which gives a key two channels");
  list.add("key_norm", key_norm, kKeyNorms, "what queries and keys are divided by: their length, their sum, nothing");
  list.add("attention_norm", attention_norm, kAttentionNorms,
           "what is read is divided by: nothing, the query's weight in the sum of keys, or that but at least 1");
}

bool FastWeightsOptions::is_deltanet() const {
  return rule == FastRule::kDelta && decay == Decay::kNone && feature_map == FeatureMap::kSilu &&
         key_norm == KeyNorm::kL2 && attention_norm == AttentionNorm::kNone && !write_bias && !convolution &&
         value_silu && !skip && output_gate == OutputGate::kNone && householder_steps == 1;
}

std::int64_t FastWeightsOptions::key_width() const {
  const std::int64_t channels = width / heads;
  if (feature_map == FeatureMap::kDpfp) return 2 * channels * dpfp_nu;
  if (feature_map == FeatureMap::kFavor) return 2 * std::int64_t{favor_features};
  return channels;
}

void FastWeightsOptions::check() const {
  check_bounds(*this, kMemorySection);
  check_heads(width, heads);
  const std::string rule_text = setting("rule", rule, kRules), decay_text = setting("decay", decay, kDecays);
  const std::string write_text = setting("write_strength", write_strength, kWriteStrengths);
  const std::string norm_text = setting("attention_norm", attention_norm, kAttentionNorms);
  const bool gated_sum = rule == FastRule::kGatedSum;

  refuse_if(rule != FastRule::kSum && write_strength != WriteStrength::kSigmoid, rule_text,
            "needs memory.write_strength sigmoid, not " + write_text.substr(write_text.rfind(' ') + 1));
  refuse_if(gated_sum && decay != Decay::kNone, rule_text,
            "decays by 1 - its write strength: it takes memory.decay none, not " +
                decay_text.substr(decay_text.rfind(' ') + 1));
  refuse_if(gated_sum && beta_factor != 1, rule_text,
            "decays by 1 - its write strength: it takes memory.beta_factor 1, not " + std::to_string(beta_factor));
  refuse_if(write_strength == WriteStrength::kStep && decay != Decay::kScalar, write_text,
            "is the step size of memory.decay scalar, not of " + decay_text);
  refuse_if(
      write_strength == WriteStrength::kExponential && attention_norm != AttentionNorm::kAtLeastOne, write_text,
      "has no bound: it needs memory.attention_norm at_least_one, not " + norm_text.substr(norm_text.rfind(' ') + 1));
  refuse_if(write_strength == WriteStrength::kExponential && decays_by_channel(), write_text,
            "is scaled by head: it does not go with " + decay_text);
  refuse_if(attention_norm == AttentionNorm::kAtLeastOne && rule != FastRule::kSum, norm_text,
            "goes with memory.rule sum, not with " + rule_text);
  const bool signed_features = feature_map == FeatureMap::kSilu || feature_map == FeatureMap::kIdentity;
  const std::string map_text = setting("feature_map", feature_map, kFeatureMaps);
  refuse_if(signed_features && key_norm == KeyNorm::kSum, "memory.key_norm sum",
            "needs features that are not negative, which " + map_text + " has");
  refuse_if(signed_features && attention_norm == AttentionNorm::kSum, norm_text,
            "needs features that are not negative, which " + map_text + " has");
  refuse_if(skip && attention_norm != AttentionNorm::kNone, "memory.skip true",
            "adds to what is not divided: it takes memory.attention_norm none, not " +
                norm_text.substr(norm_text.rfind(' ') + 1));
  const std::string steps_text = "memory.householder_steps " + std::to_string(householder_steps);
  refuse_if(householder_steps > 1 && rule != FastRule::kDelta, steps_text,
            "writes by the delta rule: it takes memory.rule delta, not " + rule_text.substr(rule_text.rfind(' ') + 1));
  refuse_if(householder_steps > 1 && attention_norm != AttentionNorm::kNone, steps_text,
            "has no sum of one key a step: it takes memory.attention_norm none, not " +
                norm_text.substr(norm_text.rfind(' ') + 1));
  refuse_if(householder_steps > 1 && skip, steps_text, "has no one value a step that memory.skip true could add");
  refuse_if(feature_map == FeatureMap::kDpfp && dpfp_nu >= 2 * (width / heads),
            "memory.dpfp_nu " + std::to_string(dpfp_nu),
            "is not below 2 memory.width / memory.heads = " + std::to_string(2 * (width / heads)));
}

void FastWeightsOptions::as_linear_attention(FeatureMap map, KeyNorm norm) {
  rule = FastRule::kSum;
  write_strength = WriteStrength::kOne;
  beta_factor = 1;
  feature_map = map;
  key_norm = norm;
  value_silu = false;
}

LinearTransformerOptions::LinearTransformerOptions() {
  as_linear_attention(FeatureMap::kElu, KeyNorm::kNone);
  attention_norm = AttentionNorm::kSum;
}

PerformerOptions::PerformerOptions() {
  as_linear_attention(FeatureMap::kFavor, KeyNorm::kNone);
  attention_norm = AttentionNorm::kSum;
}

DpfpOptions::DpfpOptions() {
  as_linear_attention(FeatureMap::kDpfp, KeyNorm::kNone);
  attention_norm = AttentionNorm::kSum;
}

Delta2021Options::Delta2021Options() {
  as_linear_attention(FeatureMap::kDpfp, KeyNorm::kSum);
  rule = FastRule::kDelta;
  write_strength = WriteStrength::kSigmoid;
}

GatedDeltaNetOptions::GatedDeltaNetOptions() {
  decay = Decay::kScalar;
  first_decay = FirstDecay::kGatedDeltaNet;
  beta_factor = 1;
  convolution = true;
  output_gate = OutputGate::kSilu;
}

DeltaProductOptions::DeltaProductOptions() {
  householder_steps = 2;
  convolution = true;
  output_gate = OutputGate::kSilu;
}

KdaOptions::KdaOptions() {
  decay = Decay::kVectorStep;
  beta_factor = 1;
  convolution = true;
  output_gate = OutputGate::kLowRankSigmoid;
}

RetNetOptions::RetNetOptions() {
  as_linear_attention(FeatureMap::kIdentity, KeyNorm::kNone);
  decay = Decay::kFixed;
  output_gate = OutputGate::kSilu;
}

GlaOptions::GlaOptions() {
  as_linear_attention(FeatureMap::kIdentity, KeyNorm::kNone);
  decay = Decay::kVector;
  output_gate = OutputGate::kSilu;
}

Mamba2Options::Mamba2Options() {
  as_linear_attention(FeatureMap::kSilu, KeyNorm::kNone);
  decay = Decay::kScalar;
  write_strength = WriteStrength::kStep;
  value_silu = true;
  convolution = true;
  convolution_bias = true;
  skip = true;
  output_gate = OutputGate::kSilu;
}

MLstmOptions::MLstmOptions() {
  as_linear_attention(FeatureMap::kIdentity, KeyNorm::kNone);
  decay = Decay::kScalar;
  first_decay = FirstDecay::kMLstm;
  write_strength = WriteStrength::kExponential;
  write_bias = true;
  attention_norm = AttentionNorm::kAtLeastOne;
  output_gate = OutputGate::kSigmoid;
}

FastWeightsOptions parse_fast_weights(const std::string& entry) {
  const NamedSettings parsed = parse_named_settings(entry);
  FastWeightsOptions options = member_named(parsed.name);
  OptionList list("");
  options.list_memory(list);
  for (const auto& [key, value] : parsed.settings) list.set(key, value);
  return options;
}

std::string renewed_fast_weights(const std::string& entry, int format) {
  FastWeightsOptions options = member_named(parse_named_settings(entry).name);
  OptionList list("");
  options.list_memory(list);
  return renewed_entry(entry, list, format);
}

}  // namespace engram
