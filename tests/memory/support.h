// Shared by the tests of the backbones: small models of every kind, random inputs, and comparison.
#pragma once

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/core/registry.h"
#include "memory/core/sequence_model.h"
#include "nn/layers/dropout.h"

namespace engram {

// The tensors here are small: a second thread would only wait.
inline const bool kSingleThread = [] {
  torch::set_num_threads(1);
  return true;
}();

struct Variant {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  std::string backbone;
  Settings settings;  // without the section

  bool has(const std::string& key, const std::string& value) const {
    return std::ranges::count(settings, std::pair(key, value)) > 0;
  }

  std::string label() const {
    std::string text = backbone;
    for (const auto& [key, value] : settings) text += " " + key + "=" + value;
    return text;
  }
};

// Every backbone and every option that changes what it computes; widths that are no powers of two. The window of 5 is
// smaller than most sequences of the tests, that of 70 larger than a block of queries; MLPs have the published width or
// an odd one. Normalised branches that are summed are steep where the fast weights first answer with what the window
// sees, times a number below 0: they almost cancel. The draws of the one here stay clear of that.
inline std::vector<Variant> small_variants() {
  const std::pair<std::string, std::string> width{"width", "12"}, layers{"layers", "2"}, odd{"mlp_width", "7"},
      branch_norm{"branch_norm", "true"};
  const std::pair<std::string, std::string> by_channel{"decay", "vector"}, elu{"feature_map", "elu"},
      sum_norm{"key_norm", "sum"}, convolution{"convolution", "true"}, sigmoid_gate{"output_gate", "sigmoid"},
      unit_beta{"beta_factor", "1"};
  return {{"transformer", {width, layers, odd}},
          {"deltanet", {width, layers}},
          {"deltanet", {width, layers, odd, {"heads", "4"}, {"beta_factor", "1"}}},
          {"hqlt", {width, layers, {"window", "5"}}},
          {"hqlt", {width, layers, {"window", "70"}, {"mixing", "scalar"}, {"positions", "none"}}},
          {"hqlt", {width, layers, odd, {"window", "1"}, {"mixing", "sum"}, {"beta_factor", "1"}}},
          {"hqlt", {width, layers, branch_norm, {"window", "5"}}},
          {"hqlt", {width, layers, branch_norm, {"window", "7"}, {"mixing", "scalar"}}},
          {"hqlt", {width, layers, branch_norm, {"heads", "1"}, {"window", "70"}, {"mixing", "sum"}}},
          {"hqlt", {width, layers, {"window", "5"}, {"fast_weights", "mlstm"}}},
          {"hqlt", {width, odd, {"window", "3"}, {"fast_weights", "gated_deltanet"}}},
          {"hqlt_delayed_stream", {width, layers, {"window", "5"}}},
          {"hqlt_delayed_stream", {width, layers, {"window", "70"}, {"mixing", "scalar"}, {"positions", "none"}}},
          {"hqlt_delayed_stream", {width, layers, odd, {"window", "1"}, {"mixing", "sum"}, {"beta_factor", "1"}}},
          {"hqlt_delayed_stream", {width, layers, branch_norm, {"window", "5"}}},
          {"hqlt_delayed_chunk", {width, layers, {"window", "5"}}},
          {"hqlt_delayed_chunk", {width, layers, {"window", "70"}, {"mixing", "scalar"}, {"positions", "none"}}},
          {"hqlt_delayed_chunk", {width, layers, odd, {"window", "1"}, {"mixing", "sum"}, {"beta_factor", "1"}}},
          {"hqlt_delayed_chunk", {width, layers, branch_norm, {"window", "5"}, {"mixing", "scalar"}}},
          {"stack", {width, odd, {"stack", "deltanet:heads=3,window:window=5,hqlt_delayed_chunk:window=4,attention"}}},
          {"stack",
           {width,
            {"stack",
             "shifted_sparse:group=6,expansion_span:chunk=4:block=4:retrieved=1,shifted_sparse:group=80:heads=4:"
             "positions=none"}}},
          {"stack", {width, {"stack", "gla,min_gru:state_width=5,window:window=6,retnet"}}},
          {"stack", {width, {"stack", "window:window=70:positions=none,deltanet:mlp_width=9:beta_factor=1"}}},
          {"transformer++", {width}},
          {"lstm", {width, layers}},
          {"gru", {width}},
          {"fast_weights", {width, {"rule", "gated_sum"}, unit_beta, {"feature_map", "relu"}, sum_norm, convolution}},
          {"fast_weights", {width, layers, odd, by_channel, elu, sum_norm, {"attention_norm", "sum"}, sigmoid_gate}},
          {"fast_weights", {width, {"rule", "sum"}, by_channel, convolution}},
          {"fast_weights", {width, layers, by_channel, elu}},
          {"linear_transformer", {width, layers}},
          {"performer", {width, {"favor_features", "5"}}},
          {"dpfp", {width, {"dpfp_nu", "2"}}},
          {"delta_2021", {width, {"heads", "3"}}},
          {"gated_deltanet", {width, layers}},
          {"delta_product", {width, layers}},
          {"delta_product", {width, {"householder_steps", "3"}, {"decay", "scalar"}, convolution, unit_beta}},
          {"kda", {width, layers}},
          {"kda", {width, {"heads", "4"}, {"householder_steps", "2"}, {"convolution", "false"}, {"beta_factor", "2"}}},
          {"retnet", {width, layers, {"heads", "4"}}},
          {"gla", {width, layers}},
          {"mamba2", {width, layers}},
          {"mlstm", {width, layers}},
          {"rnn", {width, layers}},
          {"ind_rnn", {width, layers}},
          {"ind_rnn", {width, {"layers", "3"}, {"longest", "4"}}},
          {"lmu", {width, {"memory_width", "5"}, {"window", "7"}}},
          {"lmu", {width, {"window", "70"}}},
          {"frame_stack", {width}},
          {"expansion_span", {width, layers, odd, {"chunk", "6"}, {"block", "3"}, {"retrieved", "2"}}},
          {"expansion_span", {width, layers, {"chunk", "20"}, {"block", "10"}, {"positions", "none"}}},
          {"gtrxl", {width, layers, odd, {"window", "5"}}},
          {"gtrxl", {{"width", "9"}, layers, odd, {"heads", "3"}, {"window", "70"}}},
          {"ffm", {width, {"traces", "5"}, {"contexts", "3"}, {"longest", "50"}}},
          {"shm", {width, {"memory_width", "16"}, {"calibrations", "3"}, {"rows", "by_step"}}},
          {"shm", {width, {"memory_width", "5"}, {"rows", "first"}, {"state_limit", "0.2"}}},
          {"slstm", {width, layers, odd}},
          {"min_gru", {width, layers}},
          {"min_gru", {width, layers, odd, {"state_width", "5"}}},
          {"lru", {width, layers, {"state_width", "5"}}},
          {"s5", {width, layers, {"state_width", "7"}}},
          {"rg_lru", {width, layers, {"state_width", "5"}}},
          {"rg_lru", {width, layers, {"scale_first_step", "true"}}},
          {"none", {width, layers}},
          {"hqlt", {width, layers, convolution, {"window", "3"}}},
          {"hqlt_delayed_stream", {width, layers, convolution, {"window", "3"}}},
          {"hqlt_delayed_chunk", {width, layers, convolution, {"window", "3"}, {"positions", "none"}}}};
}

// Whether differences say nothing of its gradients: its maps have corners (many relus of gtrxl and ind_rnn;
// tests/memory/backbones has their gradients), or it divides a fresh memory by 1e-6, as the delta rule does
// with an attention norm (tests/memory/ops/fast_weight_ops.cpp has its gradients elsewhere).
inline bool too_sharp_for_differences(const Variant& variant) {
  return variant.backbone == "gtrxl" || variant.backbone == "ind_rnn" || variant.backbone == "dpfp" ||
         variant.backbone == "delta_2021" || variant.has("feature_map", "relu") ||
         (variant.backbone == "fast_weights" && !variant.has("rule", "sum") && variant.has("attention_norm", "sum"));
}

// Dropout is off unless it is set.
inline std::shared_ptr<SequenceModel> make_model(const Variant& variant, std::int64_t max_steps,
                                                 torch::ScalarType dtype) {
  BackboneConfig config(variant.backbone);
  OptionList options = config.options();
  for (const Option& option : options.options())
    if (option.name == "memory.dropout") option.set("0");
  for (const auto& [key, value] : variant.settings) options.set("memory." + key, value);
  auto model = make_backbone(config, max_steps);
  model->to(dtype);
  seed_dropout(*model, 1);
  return model;
}

// What a config of format 1 means that names this backbone alone.
inline BackboneConfig of_format_1(const std::string& backbone) {
  BackboneConfig config(backbone);
  OptionList list = config.options();
  for (const Option& option : list.options())
    if (option.since > 1) option.set(option.before);
  return config;
}

// Weights large enough for the memory to matter: at initialisation the layers hardly change their input.
inline void enlarge_weights(SequenceModel& model) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : model.parameters())
    if (parameter.dim() == 2)
      parameter.normal_(0, 1.5 / std::sqrt(static_cast<double>(parameter.size(1))));
    else
      parameter.add_(torch::randn_like(parameter) * 0.3);
}

// A model in double precision with enlarged weights, drawn by the seed.
inline std::shared_ptr<SequenceModel> enlarged_model(const Variant& variant, std::int64_t max_steps,
                                                     std::uint64_t seed) {
  torch::manual_seed(seed);
  auto model = make_model(variant, max_steps, torch::kFloat64);
  enlarge_weights(*model);
  return model;
}

// max |a - b| / max |b|
inline double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  if (b.numel() == 0) return 0;
  const double scale = b.abs().max().item<double>();
  return (a - b).abs().max().item<double>() / std::max(scale, 1e-30);
}

inline torch::Tensor random_doubles(const std::vector<std::int64_t>& shape) {
  return torch::randn(shape, torch::kFloat64);
}

inline torch::Tensor lengths(const std::vector<std::int64_t>& values) { return torch::tensor(values, torch::kInt64); }

}  // namespace engram
