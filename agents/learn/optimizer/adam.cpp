#include "agents/learn/optimizer/adam.h"

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "agents/learn/optimizer/fused_lists.h"

namespace engram {

Adam::Adam(std::vector<torch::Tensor> parameters, double learning_rate, double weight_decay)
    : weight_decay_(weight_decay), parameters_(std::move(parameters)) {
  for (const torch::Tensor& parameter : parameters_) {
    mean_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
    mean_square_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
  }
  const torch::Device device = parameters_.at(0).device();
  step_ = torch::zeros({}, torch::dtype(torch::kFloat32).device(device));
  learning_rate_ =
      torch::full({}, learning_rate, torch::dtype(device.is_cpu() ? torch::kFloat64 : torch::kFloat32).device(device));
}

std::vector<torch::Tensor> Adam::gradients() const {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters_) {
    if (!parameter.grad().defined()) throw std::logic_error("a trained parameter has no gradient");
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

void Adam::set_gradients(const std::vector<torch::Tensor>& gradients) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients.at(i);
}

void Adam::zero_gradients() {
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void Adam::step(const torch::Tensor& skip) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> all_gradients = gradients();
  if (supports_fused_lists(parameters_[0]))
    return fused_adam_step({parameters_, all_gradients, mean_, mean_square_}, learning_rate_, weight_decay_, step_,
                           skip);
  if (skip.defined())
    step_.add_(1 - skip);
  else
    step_.add_(1);
  const std::vector<torch::Tensor> steps(parameters_.size(), step_);
  torch::_fused_adamw_(parameters_, all_gradients, mean_, mean_square_, /*max_exp_avg_sqs=*/{}, steps, learning_rate_,
                       /*beta1=*/0.9, /*beta2=*/0.999, weight_decay_, /*eps=*/1e-8, /*amsgrad=*/false,
                       /*maximize=*/false, /*grad_scale=*/{},
                       skip.defined() ? std::optional<torch::Tensor>(skip) : std::nullopt);
}

void Adam::set_learning_rate(double learning_rate) {
  const torch::NoGradGuard no_grad;
  learning_rate_.fill_(learning_rate);
}

void Adam::visit_state(StateArchive& archive) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string number = std::to_string(i);
    archive.tensor("mean" + number, mean_[i]);
    archive.tensor("mean_square" + number, mean_square_[i]);
  }
  archive.tensor("step", step_);
}

}  // namespace engram
