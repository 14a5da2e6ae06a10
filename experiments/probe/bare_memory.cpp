#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "experiments/probe/network.h"
#include "memory/backbones/fast_weights/fast_weight_maps.h"
#include "memory/backbones/fast_weights/fast_weights.h"

namespace engram {
namespace {

using torch::Tensor;

// The weights with which a query reads the value of each pair, [B, Q, T], so that an answer is their sum of values.
// Of the delta rule: it writes k_t u_t^T with u_t = b_t (v_t - sum over s < t of (k_t . k_s) u_s), so that with L the
// matrix b_t k_t . k_s below the diagonal U = (I + L)^-1 diag(b) V, and an answer (K q)^T U is V's rows by
// diag(b) (I + L)^-T K q.
Tensor delta_rule_weights(const Tensor& score_BQT, const Tensor& key_BTK, const Tensor& strength_BT) {
  const Tensor product_BTT = torch::matmul(key_BTK, key_BTK.transpose(1, 2));
  const Tensor lower_BTT = (product_BTT * strength_BT.unsqueeze(2)).tril(-1);
  const Tensor solved_BTQ = torch::linalg_solve_triangular(lower_BTT.transpose(1, 2), score_BQT.transpose(1, 2),
                                                           /*upper=*/true, /*left=*/true, /*unitriangular=*/true);
  return solved_BTQ.transpose(1, 2) * strength_BT.unsqueeze(1);
}

class BareMemory final : public ProbeNetwork {
 public:
  BareMemory(const ProbeTask& task, const BackboneConfig& backbone)
      : keys_(task.symbols()),
        pairs_(task.length(Split::kTraining) - task.questions(Split::kTraining)),
        width_(backbone.width()),
        embedding_width_(22 * std::int64_t{task.symbols()} / 10),
        embedding_(register_module("embedding", torch::nn::Embedding(keys_, embedding_width_))),
        query_(register_module("query", torch::nn::Linear(embedding_width_, width_))),
        key_(register_module("key", torch::nn::Linear(embedding_width_ + keys_, width_))) {
    const double bound = 1 / std::sqrt(static_cast<double>(width_));
    torch::nn::init::uniform_(query_->weight, -bound, bound);
    torch::nn::init::uniform_(key_->weight, -bound, bound);
    const auto* const options = backbone.as<FastWeightsOptions>();
    if (options == nullptr) {
      torch::nn::init::xavier_uniform_(query_->weight);
      torch::nn::init::xavier_uniform_(key_->weight);
      return;
    }
    options_ = *options;
    features_ = register_module("features", std::make_shared<FastWeightFeatures>(*options_));
    if (options_->rule == FastRule::kDelta)
      strength_ = register_module("strength", torch::nn::Linear(embedding_width_ + keys_, 1));
  }

  Tensor forward(const ProbeBatch& batch) override {
    const std::int64_t asked = batch.symbol_BT.size(1) - pairs_;
    const Tensor pair_BT = batch.symbol_BT.narrow(1, 0, pairs_);
    const Tensor key_BT = pair_BT.remainder(keys_), value_BT = pair_BT.div(keys_, /*rounding_mode=*/"floor");
    const Tensor asked_BQ = batch.symbol_BT.narrow(1, pairs_, asked).remainder(keys_);

    const Tensor query_BQK = feature(torch::embedding(query_(embedding_->weight), asked_BQ));
    const Tensor key_BTK = feature(of_pairs(key_, key_BT, value_BT));
    const Tensor score_BQT = torch::matmul(query_BQK, key_BTK.transpose(1, 2));
    Tensor weight_BQT = score_BQT;
    if (!options_)
      weight_BQT = torch::softmax(score_BQT / std::sqrt(static_cast<double>(width_)), -1);
    else if (options_->rule == FastRule::kDelta)
      weight_BQT = delta_rule_weights(score_BQT, key_BTK, strength(key_BT, value_BT));
    else if (options_->attention_norm == AttentionNorm::kSum)
      weight_BQT = score_BQT / (score_BQT.sum(-1, /*keepdim=*/true) + 1e-6);
    const Tensor answer_BQS = torch::zeros({weight_BQT.size(0), asked, keys_}, weight_BQT.options());
    return answer_BQS.scatter_add(2, value_BT.unsqueeze(1).expand({-1, asked, -1}), weight_BQT);
  }

  ModelCost backbone_cost() const override {
    ModelCost cost;
    for (const Tensor& parameter : parameters()) cost.parameters += parameter.numel();
    const std::int64_t key_width = options_ ? options_->key_width() : width_;
    const std::int64_t memory = options_ ? key_width * keys_ : pairs_ * (key_width + keys_);
    const bool counts_keys = options_ && options_->attention_norm == AttentionNorm::kSum;
    cost.state_bytes = 4 * (memory + (counts_keys ? key_width : 0));
    // Of a pair: its maps, and what is written, read and, by the delta rule, predicted.
    const int passes = options_ && options_->rule == FastRule::kDelta ? 3 : 2;
    cost.multiply_adds_per_step = key_->weight.numel() + query_->weight.numel() + passes * memory;
    return cost;
  }

 private:
  // A linear map of [e(key); value]: a lookup in what it makes of each.
  Tensor of_pairs(const torch::nn::Linear& map, const Tensor& key_BT, const Tensor& value_BT) const {
    const Tensor of_key = torch::matmul(embedding_->weight, map->weight.narrow(1, 0, embedding_width_).t());
    const Tensor of_value = map->weight.narrow(1, embedding_width_, keys_).t();
    return torch::embedding(of_key, key_BT) + torch::embedding(of_value, value_BT) + map->bias;
  }
  // Those of one head, [B, N, D] -> [B, N, K].
  Tensor feature(const Tensor& x) const {
    if (!features_) return x;
    return features_->normalize(features_->forward(x.unsqueeze(2))).squeeze(2);
  }
  Tensor strength(const Tensor& key_BT, const Tensor& value_BT) const {
    return options_->beta_factor * of_pairs(strength_, key_BT, value_BT).sigmoid().squeeze(2);
  }

  std::int64_t keys_, pairs_, width_, embedding_width_;
  torch::nn::Embedding embedding_;
  torch::nn::Linear query_, key_, strength_{nullptr};
  std::optional<FastWeightsOptions> options_;  // without: softmax
  std::shared_ptr<FastWeightFeatures> features_;
};

}  // namespace

void check_bare_memory(const BackboneConfig& backbone) {
  const auto refuse_heads = [](int heads) {
    if (heads != 1) throw UserError("a memory alone has one head, not heads " + std::to_string(heads));
  };
  if (const auto* const attention = backbone.as<TransformerOptions>()) return refuse_heads(attention->heads);
  const auto* const options = backbone.as<FastWeightsOptions>();
  if (options == nullptr)
    throw UserError("'" + backbone.name() + "' has no memory that stands alone; transformer and fast weights have one");
  refuse_heads(options->heads);
  const bool sum = options->rule == FastRule::kSum && options->write_strength == WriteStrength::kOne &&
                   options->attention_norm != AttentionNorm::kAtLeastOne;
  const bool delta = options->rule == FastRule::kDelta && options->attention_norm == AttentionNorm::kNone;
  if (options->decay != Decay::kNone || !(sum || delta))
    throw UserError("'" + backbone.name() +
                    "' has fast weights that do not stand alone: it takes rule sum with write_strength one or rule "
                    "delta with attention_norm none, and decay none");
}

std::shared_ptr<ProbeNetwork> make_bare_memory(const ProbeTask& task, const BackboneConfig& backbone) {
  check_bare_memory(backbone);
  return std::make_shared<BareMemory>(task, backbone);
}

}  // namespace engram
