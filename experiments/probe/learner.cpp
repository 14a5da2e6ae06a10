#include "experiments/probe/learner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <utility>

#include "nn/layers/seeded_generator.h"

namespace engram {

using torch::Tensor;

namespace {

// Of logits [B, Q, classes]: mean over all answers that are asked, of which there is one at least.
Tensor mean_loss(ProbeLoss loss, const Tensor& logits, const Tensor& label_BQ) {
  const Tensor flat = logits.flatten(0, 1), label = label_BQ.flatten();
  if (loss != ProbeLoss::kSquared) {
    const Tensor nats = torch::nn::functional::cross_entropy(
        flat, label, torch::nn::functional::CrossEntropyFuncOptions().ignore_index(kNotAsked));
    return loss == ProbeLoss::kBits ? nats / std::numbers::ln2 : nats;
  }
  const Tensor asked = label != kNotAsked;
  const Tensor target =
      torch::zeros_like(flat, torch::requires_grad(false)).scatter_(1, label.clamp_min(0).unsqueeze(1), 1);
  return ((flat - target).square().sum(1) * asked).sum() / (2 * asked.sum());
}

constexpr double kSolvedSquaredLoss = 1e-3;  // Schlag et al. 2021, section 6.1.1
constexpr int kBlock = 64;                   // steps whose sequences are drawn and sent together

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
  return {block.symbol_BT[index], block.position_BQ[index], block.label_BQ[index],
          block.right_BQ.defined() ? block.right_BQ[index] : block.right_BQ};
}

ProbeBatch to_device(const ProbeBatch& batch, torch::Device device) {
  return {batch.symbol_BT.to(device), batch.position_BQ.to(device), batch.label_BQ.to(device),
          batch.right_BQ.defined() ? batch.right_BQ.to(device) : batch.right_BQ};
}

}  // namespace

std::vector<float> rates_of_steps(const ProbeTraining& training) {
  std::vector<float> rates;
  const double rising = std::max(1.0, training.warmup * training.steps);
  for (int i = 0; i < training.steps; ++i) {
    const double fraction = (i + 1 - rising) / std::max(1.0, training.steps - rising);
    const double falling =
        training.final_rate + (1 - training.final_rate) * (1 + std::cos(std::numbers::pi * fraction)) / 2;
    const double factor = i + 1 < rising ? (i + 1) / rising : falling;
    rates.push_back(static_cast<float>(training.learning_rate * factor));
  }
  return rates;
}

ProbeLearner::ProbeLearner(const ProbeTask& task, const BackboneConfig& backbone, const ProbeTraining& training,
                           std::uint64_t seed, torch::Device device)
    : task_(task), training_(training), seed_(seed), device_(device), recorded_(device) {
  {
    const SeededGenerator drawing(seed);
    network_ = make_probe_network(task, backbone, training.network, seed);
  }
  network_->to(device);
  for (const auto& item : network_->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    const bool matrix = item.value().dim() >= 2 && !item.key().ends_with("embedding.weight");
    (matrix || training.decayed == Decayed::kAll ? decayed_ : plain_).push_back(item.value());
  }
  for (int moment = 0; moment < 2; ++moment) {
    decayed_moments_[moment] = zeros_like(decayed_);
    plain_moments_[moment] = zeros_like(plain_);
  }
  rate_of_step_ = torch::tensor(rates_of_steps(training)).to(device);
  step_ = torch::zeros({1}, torch::dtype(torch::kInt64).device(device));
  loss_ = torch::zeros({}, torch::dtype(torch::kFloat32).device(device));
}

std::optional<int> ProbeLearner::train(int validation_sequences, const std::function<void()>& keep) {
  const auto steps_from = [this](int first) {
    return std::min({kBlock, training_.steps - first, training_.validate_every - first % training_.validate_every});
  };
  const auto draw = [&](int first) {
    return task_.draw(Split::kTraining, seed_, static_cast<std::uint32_t>(first), steps_from(first), training_.batch);
  };
  std::optional<int> diverged_at;
  ProbeBatch next;
  if (steps_made_ < training_.steps) next = draw(steps_made_);
  for (int first = steps_made_, made = 0; first < training_.steps; first = made) {
    network_->train();
    const int count = steps_from(first);
    made = first + count;
    const ProbeBatch block = to_device(next, device_);
    loss_.zero_();
    for (int i = 0; i < count; ++i) step(select(block, i));
    const bool goes_on = made < training_.steps;
    if (goes_on) next = draw(made);  // while a GPU makes these
    last_loss_ = loss_.item<double>() / count;
    if (!std::isfinite(last_loss_)) {
      diverged_at = made;
      break;
    }
    if (made % training_.validate_every != 0 && goes_on) continue;
    steps_made_ = made;
    if (validate(made, validation_sequences)) break;
    if (keep && goes_on) keep();
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
  if (training_.patience > 0 && step - best_.step >= training_.patience) return true;
  switch (task_.loss()) {
    case ProbeLoss::kCrossEntropy:
      return validation.accuracy >= training_.stop_accuracy;
    case ProbeLoss::kSquared:
      return validation.loss < kSolvedSquaredLoss;
    case ProbeLoss::kBits:
      return false;
  }
  return false;
}

void ProbeLearner::visit_state(StateArchive& archive) {
  archive.value("steps_made", steps_made_);
  if (steps_made_ < 0 || steps_made_ > training_.steps) archive.refuse("steps_made", "it is not one of the training's");
  archive.value("last_loss", last_loss_);
  archive.object("best_validation", best_);
  if (best_.step < 0 || best_.step > steps_made_) archive.refuse("best_validation", "it is of another step");
  archive.array("validations", validations_);
  const auto list = [&archive](const std::string& name, std::vector<Tensor>& tensors) {
    archive.within(name, [&] {
      for (std::size_t i = 0; i < tensors.size(); ++i) archive.tensor(std::to_string(i), tensors[i]);
    });
  };
  network_->visit_drawing(archive);
  const torch::NoGradGuard no_grad;
  step_.fill_(steps_made_);
  list("decayed", decayed_);
  list("plain", plain_);
  for (int moment = 0; moment < 2; ++moment) {
    list("decayed_moment" + std::to_string(moment), decayed_moments_[moment]);
    list("plain_moment" + std::to_string(moment), plain_moments_[moment]);
  }
  if (archive.restoring()) best_parameters_ = zeros_like(parameters());
  list("best", best_parameters_);
}

std::vector<Tensor> ProbeLearner::parameters() const {
  std::vector<Tensor> all = decayed_;
  all.insert(all.end(), plain_.begin(), plain_.end());
  return all;
}

void ProbeLearner::step(const ProbeBatch& batch) {
  recorded_.run({batch.symbol_BT, batch.position_BQ, batch.label_BQ}, [this](const std::vector<Tensor>& inputs) {
    launch_step({inputs[0], inputs[1], inputs[2], {}});
    return std::vector<Tensor>{};
  });
}

void ProbeLearner::launch_step(const ProbeBatch& batch) {
  const std::vector<Tensor> all = parameters();
  for (const Tensor& parameter : all) parameter.mutable_grad().reset();
  const Tensor loss = mean_loss(task_.loss(), network_->forward(batch), batch.label_BQ);
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
    if (own.empty()) return;  // LibTorch's kernel for a GPU reads the first without asking
    torch::_fused_adamw_(own, gradients_of(own), moments[0], moments[1], /*max_exp_avg_sqs=*/{},
                         std::vector<Tensor>(own.size(), count), rate, /*beta1=*/0.9, /*beta2=*/0.999, decay,
                         /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
  };
  adamw(decayed_, decayed_moments_, training_.weight_decay);
  adamw(plain_, plain_moments_, 0);
}

ProbeAccuracy ProbeLearner::evaluate(Split split, int sequences) {
  const torch::NoGradGuard no_grad;
  network_->eval();
  const int batches = (sequences + training_.batch - 1) / training_.batch;
  Tensor correct_Q = torch::zeros({task_.questions(split)}, torch::dtype(torch::kInt64).device(device_));
  Tensor asked_Q = torch::zeros_like(correct_Q);
  Tensor loss = torch::zeros({}, torch::dtype(torch::kFloat64).device(device_));
  for (int i = 0; i < batches; ++i) {
    const ProbeBatch batch =
        to_device(select(task_.draw(split, seed_, static_cast<std::uint32_t>(i), 1, training_.batch), 0), device_);
    const Tensor logits = network_->forward(batch), answer_BQ = logits.argmax(-1),
                 asked_BQ = batch.label_BQ != kNotAsked;
    const Tensor right_BQ = batch.right_BQ.defined() ? batch.right_BQ.bitwise_right_shift(answer_BQ).bitwise_and(1) == 1
                                                     : answer_BQ == batch.label_BQ;
    correct_Q += (right_BQ & asked_BQ).sum(0);
    asked_Q += asked_BQ.sum(0);
    loss += mean_loss(task_.loss(), logits, batch.label_BQ) * asked_BQ.sum();
  }
  const double asked = asked_Q.sum().item<double>();
  const Tensor fraction_Q = correct_Q.to(torch::kCPU, torch::kFloat64) / asked_Q.to(torch::kCPU, torch::kFloat64);
  const double* const values = fraction_Q.const_data_ptr<double>();
  return {correct_Q.sum().item<double>() / asked, loss.item<double>() / asked, {values, values + fraction_Q.numel()}};
}

ModelCost ProbeLearner::backbone_cost() const { return network_->backbone_cost(); }

}  // namespace engram
