#include "experiments/probe/learner.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "nn/layers/dropout.h"
#include "nn/layers/seeded_generator.h"

namespace engram {

using torch::Tensor;

class ProbeLearner::Model : public torch::nn::Module {
 public:
  // seed: of what the backbone draws in training.
  Model(const ProbeTask& task, const BackboneConfig& backbone, bool bfloat16, std::uint64_t seed)
      : bfloat16_(bfloat16),
        symbols_(task.symbols()),
        second_width_(task.second_symbols() > 0 ? backbone.width() / 2 : 0),
        embedding_(
            register_module("embedding", torch::nn::Embedding(task.symbols(), backbone.width() - second_width_))),
        backbone_(register_module(
            "backbone", make_backbone(backbone, std::max(task.length(Split::kTraining), task.length(Split::kTest))))),
        output_(register_module("output", torch::nn::Linear(backbone.width(), task.classes()))) {
    if (second_width_ > 0)
      second_embedding_ =
          register_module("second_embedding", torch::nn::Embedding(task.second_symbols(), second_width_));
    clock_ = seed_dropout(*this, seed);
  }

  // Logits [B, Q, classes].
  Tensor forward(const ProbeBatch& batch) {
    if (is_training()) clock_->tick();
    Tensor x_BTD = embed(batch.symbol_BT);
    if (bfloat16_) x_BTD = x_BTD.to(torch::kBFloat16);
    const Tensor lengths_B = torch::full({x_BTD.size(0)}, x_BTD.size(1), batch.symbol_BT.options());
    const Tensor y_BTD = backbone_->forward_fresh(x_BTD, lengths_B);
    const Tensor index = batch.position_BQ.unsqueeze(2).expand({-1, -1, y_BTD.size(2)});
    return output_(y_BTD.gather(1, index).to(torch::kFloat32));
  }

  const SequenceModel& backbone() const { return *backbone_; }

 private:
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
  torch::nn::Linear output_;
  std::shared_ptr<DropoutClock> clock_;
};

namespace {

// Of logits [B, Q, classes]: mean over all answers.
Tensor mean_loss(ProbeLoss loss, const Tensor& logits, const Tensor& label_BQ) {
  const Tensor flat = logits.flatten(0, 1), label = label_BQ.flatten();
  if (loss != ProbeLoss::kSquared) {
    const Tensor nats = torch::nn::functional::cross_entropy(flat, label);
    return loss == ProbeLoss::kBits ? nats / std::numbers::ln2 : nats;
  }
  const Tensor target = torch::zeros_like(flat, torch::requires_grad(false)).scatter_(1, label.unsqueeze(1), 1);
  return (flat - target).square().sum(1).mean() / 2;
}

constexpr double kSolvedSquaredLoss = 1e-3;  // Schlag et al. 2021, section 6.1.1
constexpr int kBlock = 64;                   // steps whose sequences are drawn and sent together

Tensor schedule(const ProbeTraining& training) {
  std::vector<float> rates;
  const double rising = std::max(1.0, 0.1 * training.steps);
  for (int i = 0; i < training.steps; ++i) {
    const double fraction = (i + 1 - rising) / std::max(1.0, training.steps - rising);
    const double factor = i + 1 < rising ? (i + 1) / rising : 0.5 * (1 + std::cos(std::numbers::pi * fraction));
    rates.push_back(static_cast<float>(training.learning_rate * factor));
  }
  return torch::tensor(rates);
}

std::vector<Tensor> zeros_like(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> zeros;
  for (const Tensor& parameter : parameters) zeros.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
  return zeros;
}

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

ProbeBatch select(const ProbeBatch& block, std::int64_t index) {
  return {block.symbol_BT[index], block.position_BQ[index], block.label_BQ[index]};
}

ProbeBatch to_device(const ProbeBatch& batch, torch::Device device) {
  return {batch.symbol_BT.to(device), batch.position_BQ.to(device), batch.label_BQ.to(device)};
}

}  // namespace

ProbeLearner::ProbeLearner(const ProbeTask& task, const BackboneConfig& backbone, const ProbeTraining& training,
                           std::uint64_t seed, torch::Device device)
    : task_(task), training_(training), seed_(seed), device_(device), recorded_(device) {
  {
    const SeededGenerator drawing(seed);
    model_ = std::make_shared<Model>(task, backbone, training.bfloat16, seed);
  }
  model_->to(device);
  for (const auto& item : model_->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    const bool matrix = item.value().dim() >= 2 && !item.key().ends_with("embedding.weight");
    (matrix ? decayed_ : plain_).push_back(item.value());
  }
  for (int moment = 0; moment < 2; ++moment) {
    decayed_moments_[moment] = zeros_like(decayed_);
    plain_moments_[moment] = zeros_like(plain_);
  }
  rate_of_step_ = schedule(training).to(device);
  step_ = torch::zeros({1}, torch::dtype(torch::kInt64).device(device));
  loss_ = torch::zeros({}, torch::dtype(torch::kFloat32).device(device));
}

std::optional<int> ProbeLearner::train(int validation_sequences) {
  std::optional<int> diverged_at;
  for (int first = 0, count = 0; first < training_.steps; first += count) {
    model_->train();
    const int until_validation = training_.validate_every - first % training_.validate_every;
    count = std::min({kBlock, training_.steps - first, until_validation});
    const ProbeBatch block = to_device(
        task_.draw(Split::kTraining, seed_, static_cast<std::uint32_t>(first), count, training_.batch), device_);
    loss_.zero_();
    for (int i = 0; i < count; ++i) step(select(block, i));
    last_loss_ = loss_.item<double>() / count;
    if (!std::isfinite(last_loss_)) {
      diverged_at = first + count;
      break;
    }
    const bool due = count == until_validation || first + count == training_.steps;
    if (due && validate(first + count, validation_sequences)) break;
  }
  const torch::NoGradGuard no_grad;
  if (!best_parameters_.empty()) torch::_foreach_copy_(parameters(), best_parameters_);
  return diverged_at;
}

bool ProbeLearner::validate(int step, int sequences) {
  const ProbeAccuracy measured = evaluate(Split::kValidation, sequences);
  validations_.push_back({step, measured.accuracy, measured.loss});
  const ProbeValidation& validation = validations_.back();
  const bool by_loss = task_.loss() != ProbeLoss::kCrossEntropy;
  const bool better = by_loss ? validation.loss < best_.loss : validation.accuracy > best_.accuracy;
  if (best_parameters_.empty() || better) {
    best_ = validation;
    best_parameters_.clear();
    for (const Tensor& parameter : parameters()) best_parameters_.push_back(parameter.detach().clone());
  }
  switch (task_.loss()) {
    case ProbeLoss::kCrossEntropy:
      return validation.accuracy == 1;
    case ProbeLoss::kSquared:
      return validation.loss < kSolvedSquaredLoss;
    case ProbeLoss::kBits:
      return false;
  }
  return false;
}

std::vector<Tensor> ProbeLearner::parameters() const {
  std::vector<Tensor> all = decayed_;
  all.insert(all.end(), plain_.begin(), plain_.end());
  return all;
}

void ProbeLearner::step(const ProbeBatch& batch) {
  recorded_.run({batch.symbol_BT, batch.position_BQ, batch.label_BQ}, [this](const std::vector<Tensor>& inputs) {
    launch_step({inputs[0], inputs[1], inputs[2]});
    return std::vector<Tensor>{};
  });
}

void ProbeLearner::launch_step(const ProbeBatch& batch) {
  const std::vector<Tensor> all = parameters();
  for (const Tensor& parameter : all) parameter.mutable_grad().reset();
  const Tensor loss = mean_loss(task_.loss(), model_->forward(batch), batch.label_BQ);
  loss.backward();

  const torch::NoGradGuard no_grad;
  loss_.add_(loss);
  const std::vector<Tensor> gradients = gradients_of(all);
  const Tensor norm = torch::stack(torch::_foreach_norm(gradients)).norm();
  torch::_foreach_mul_(gradients, (training_.clip_gradient_norm / (norm + 1e-6)).clamp_max(1));

  const Tensor rate = rate_of_step_.index_select(0, step_).squeeze(0);
  step_.add_(1);
  const Tensor count = step_.to(torch::kFloat32).squeeze(0);
  const auto adamw = [&](std::vector<Tensor>& own, std::vector<Tensor>(&moments)[2], double decay) {
    torch::_fused_adamw_(own, gradients_of(own), moments[0], moments[1], /*max_exp_avg_sqs=*/{},
                         std::vector<Tensor>(own.size(), count), rate, /*beta1=*/0.9, /*beta2=*/0.999, decay,
                         /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
  };
  adamw(decayed_, decayed_moments_, training_.weight_decay);
  adamw(plain_, plain_moments_, 0);
}

ProbeAccuracy ProbeLearner::evaluate(Split split, int sequences) {
  const torch::NoGradGuard no_grad;
  model_->eval();
  const int batches = (sequences + training_.batch - 1) / training_.batch;
  Tensor correct_Q = torch::zeros({task_.questions(split)}, torch::dtype(torch::kInt64).device(device_));
  Tensor loss = torch::zeros({}, torch::dtype(torch::kFloat64).device(device_));
  for (int i = 0; i < batches; ++i) {
    const ProbeBatch batch =
        to_device(select(task_.draw(split, seed_, static_cast<std::uint32_t>(i), 1, training_.batch), 0), device_);
    const Tensor logits = model_->forward(batch);
    correct_Q += (logits.argmax(-1) == batch.label_BQ).sum(0);
    loss += mean_loss(task_.loss(), logits, batch.label_BQ);
  }
  const Tensor fraction_Q = correct_Q.to(torch::kCPU, torch::kFloat64) / (batches * training_.batch);
  const double* const values = fraction_Q.const_data_ptr<double>();
  return {fraction_Q.mean().item<double>(), loss.item<double>() / batches, {values, values + fraction_Q.numel()}};
}

ModelCost ProbeLearner::backbone_cost() const { return model_->backbone().cost(); }

}  // namespace engram
