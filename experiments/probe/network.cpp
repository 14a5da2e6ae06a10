#include "experiments/probe/network.h"

#include <algorithm>
#include <cmath>

#include "nn/layers/dropout.h"

namespace engram {
namespace {

using torch::Tensor;

// Sines and cosines of places [...]: D / 2 frequencies from 1 to 1 / 10,000 (Vaswani et al. 2017; one after the other,
// as Poli et al. 2024 have them) -> [..., D].
Tensor place_code(const Tensor& place, std::int64_t width) {
  const std::int64_t count = (width + 1) / 2;
  const Tensor exponent = torch::arange(count, place.options().dtype(torch::kFloat32)) /
                          static_cast<double>(std::max<std::int64_t>(1, count - 1));
  const Tensor angle = place.to(torch::kFloat32).unsqueeze(-1) * torch::pow(10'000.0, -exponent);
  return torch::cat({angle.sin(), angle.cos()}, -1).narrow(-1, 0, width);
}

// What says a symbol of the whole sequence from one vector and the symbol's place: an MLP as in Poli et al. 2024.
class PlaceDecoder : public torch::nn::Module {
 public:
  explicit PlaceDecoder(std::int64_t width)
      : width_(width),
        first_(register_module("first", torch::nn::Linear(width, width))),
        second_(register_module("second", torch::nn::Linear(width, width))) {
    for (auto* norm : {&first_norm_, &second_norm_, &last_norm_})
      *norm = torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
    register_module("first_norm", first_norm_);
    register_module("second_norm", second_norm_);
    register_module("last_norm", last_norm_);
  }
  // [B, D], [B, Q] -> [B, Q, D]
  Tensor forward(const Tensor& y_BD, const Tensor& position_BQ) {
    Tensor x = y_BD.unsqueeze(1) + place_code(position_BQ, width_);
    x = torch::gelu(first_(first_norm_(x)));
    x = torch::gelu(second_(second_norm_(x)));
    return last_norm_(x);
  }

 private:
  std::int64_t width_;
  torch::nn::Linear first_, second_;
  torch::nn::LayerNorm first_norm_{nullptr}, second_norm_{nullptr}, last_norm_{nullptr};
};

class BackboneNetwork final : public ProbeNetwork {
 public:
  BackboneNetwork(const ProbeTask& task, const BackboneConfig& backbone, const ProbeNetworkOptions& options,
                  std::uint64_t seed)
      : bfloat16_(options.bfloat16),
        symbols_(task.symbols()),
        second_width_(task.second_symbols() > 0 ? backbone.width() / 2 : 0),
        embedding_(
            register_module("embedding", torch::nn::Embedding(task.symbols(), backbone.width() - second_width_))),
        backbone_(register_module(
            "backbone", make_backbone(backbone, std::max(task.length(Split::kTraining), task.length(Split::kTest))))),
        classes_(task.classes()) {
    if (options.answers_by == AnswersBy::kEmbeddings)
      first_class_symbol_ = task.first_class_symbol().value();
    else
      output_ = register_module("output", torch::nn::Linear(backbone.width(), classes_));
    if (second_width_ > 0)
      second_embedding_ =
          register_module("second_embedding", torch::nn::Embedding(task.second_symbols(), second_width_));
    for (torch::nn::Embedding* embedding : {&embedding_, &second_embedding_})
      if (*embedding) (*embedding)->weight.data().mul_(options.embedding_std);
    if (task.model() == ProbeModel::kLast)
      decoder_ = register_module("decoder", std::make_shared<PlaceDecoder>(backbone.width()));
    clock_ = seed_dropout(*this, seed);
  }

  Tensor forward(const ProbeBatch& batch) override {
    if (is_training()) clock_->tick();
    Tensor x_BTD = embed(batch.symbol_BT);
    if (bfloat16_) x_BTD = x_BTD.to(torch::kBFloat16);
    const Tensor lengths_B = torch::full({x_BTD.size(0)}, x_BTD.size(1), batch.symbol_BT.options());
    const Tensor y_BTD = backbone_->forward_fresh(x_BTD, lengths_B);
    if (decoder_)
      return logits(decoder_->forward(y_BTD.select(1, y_BTD.size(1) - 1).to(torch::kFloat32), batch.position_BQ));
    const Tensor index = batch.position_BQ.unsqueeze(2).expand({-1, -1, y_BTD.size(2)});
    return logits(y_BTD.gather(1, index).to(torch::kFloat32));
  }

  ModelCost backbone_cost() const override { return backbone_->cost(); }

  void visit_drawing(StateArchive& archive) override {
    Tensor seed_tick = clock_->seed_tick(embedding_->weight.device());
    archive.tensor("seed_tick", seed_tick);
  }

 private:
  Tensor logits(const Tensor& y_BQD) {
    if (output_) return output_(y_BQD);
    return torch::matmul(y_BQD, embedding_->weight.narrow(0, first_class_symbol_, classes_).t());
  }

  Tensor embed(const Tensor& symbol_BT) {
    if (second_width_ == 0) return embedding_(symbol_BT);
    return torch::cat({embedding_(symbol_BT.remainder(symbols_)),
                       second_embedding_(symbol_BT.div(symbols_, /*rounding_mode=*/"floor"))},
                      -1);
  }

  bool bfloat16_;
  std::int64_t symbols_, second_width_;
  torch::nn::Embedding embedding_, second_embedding_{nullptr};
  std::shared_ptr<SequenceModel> backbone_;
  std::shared_ptr<PlaceDecoder> decoder_;
  std::int64_t classes_, first_class_symbol_ = 0;
  torch::nn::Linear output_{nullptr};  // empty: the embeddings say the answers
  std::shared_ptr<DropoutClock> clock_;
};

}  // namespace

std::shared_ptr<ProbeNetwork> make_probe_network(const ProbeTask& task, const BackboneConfig& backbone,
                                                 const ProbeNetworkOptions& options, std::uint64_t seed) {
  if (task.model() == ProbeModel::kMemory) return make_bare_memory(task, backbone);
  return std::make_shared<BackboneNetwork>(task, backbone, options, seed);
}

}  // namespace engram
