// Formulas that the tests of DeltaNet, HQLT and Transformer share: plain, one step and one head at a time.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "memory/core/sequence_model.h"
#include "tests/memory/support.h"

namespace engram {

using Parameters = std::map<std::string, torch::Tensor>;

inline Parameters parameters_by_name(const SequenceModel& model) {
  Parameters parameters;
  for (const auto& item : model.named_parameters()) parameters[item.key()] = item.value().detach();
  return parameters;
}

// What the model's dropout `name` leaves of x [..., C] in this tick.
inline torch::Tensor dropped(const SequenceModel& model, const std::string& name, const torch::Tensor& x) {
  return std::dynamic_pointer_cast<Dropout>(model.named_modules()[name])->forward(x);
}

inline torch::Tensor plain_rms_norm(const torch::Tensor& x, const torch::Tensor& weight) {
  return x / (x.square().mean(-1, true) + 1e-6).sqrt() * weight;
}

// With the weight and the bias of `name`.
inline torch::Tensor plain_layer_norm(const torch::Tensor& x, const Parameters& p, const std::string& name) {
  const torch::Tensor centred = x - x.mean(-1, true);
  return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * p.at(name + ".weight") + p.at(name + ".bias");
}

inline torch::Tensor plain_silu(const torch::Tensor& x) { return x / (1 + (-x).exp()); }
inline torch::Tensor plain_sigmoid(const torch::Tensor& x) { return 1 / (1 + (-x).exp()); }

inline torch::Tensor swiglu(const torch::Tensor& x, const Parameters& p, const std::string& name) {
  const torch::Tensor hidden =
      plain_silu(x.matmul(p.at(name + "gate.weight").t())) * x.matmul(p.at(name + "up.weight").t());
  return hidden.matmul(p.at(name + "down.weight").t());
}

// What a block of DeltaNet or HQLT makes of its input x [T, D] and the outputs of its mixer's heads, each [T, V].
inline torch::Tensor rest_of_block(const SequenceModel& model, const Parameters& p, const std::string& block,
                                   torch::Tensor x_TD, const std::vector<torch::Tensor>& heads) {
  const torch::Tensor mixed = torch::cat(heads, 1).matmul(p.at(block + "mixer.output.weight").t());
  x_TD = x_TD + dropped(model, block + "mixer_dropout", mixed);
  const torch::Tensor mlp = swiglu(plain_rms_norm(x_TD, p.at(block + "mlp_norm.weight")), p, block + "mlp.");
  return x_TD + dropped(model, block + "mlp_dropout", mlp);
}

// One head's fast weights over a sequence: q, k [T, K], v [T, V], beta [T] -> [T, V].
inline torch::Tensor fast_weights(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const torch::Tensor& beta) {
  torch::Tensor state_VK = torch::zeros({v.size(1), k.size(1)}, q.options());
  std::vector<torch::Tensor> outputs;
  for (std::int64_t t = 0; t < q.size(0); ++t) {
    state_VK = state_VK + beta[t] * torch::outer(v[t] - state_VK.mv(k[t]), k[t]);
    outputs.push_back(state_VK.mv(q[t]) / std::sqrt(static_cast<double>(q.size(1))));
  }
  return torch::stack(outputs);
}

inline torch::Tensor unit_length(const torch::Tensor& x) { return x / (x.square().sum(-1, true) + 1e-6).sqrt(); }
inline torch::Tensor fast_feature(const torch::Tensor& x) { return unit_length(plain_silu(x)); }

// One head's softmax attention over the last `window` steps: [T, K], [T, K], [T, V] -> [T, V].
inline torch::Tensor window_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                      std::int64_t window) {
  std::vector<torch::Tensor> outputs;
  for (std::int64_t t = 0; t < q.size(0); ++t) {
    const std::int64_t first = std::max<std::int64_t>(0, t - window + 1), count = t - first + 1;
    const torch::Tensor weights =
        (k.narrow(0, first, count).mv(q[t]) / std::sqrt(static_cast<double>(q.size(1)))).softmax(0);
    outputs.push_back(v.narrow(0, first, count).t().mv(weights));
  }
  return torch::stack(outputs);
}

// The mean and the standard deviation of a weight matrix, within five standard errors of 0 and `std`.
inline void check_normal(const torch::Tensor& weight, double std) {
  const double count = static_cast<double>(weight.numel());
  CHECK(std::abs(weight.mean().item<double>()) < 5 * std / std::sqrt(count));
  CHECK(std::abs(weight.std().item<double>() / std - 1) < 5 / std::sqrt(2 * count));
}

}  // namespace engram
