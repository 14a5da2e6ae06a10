#include "agents/adam.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#ifdef ENGRAM_WITH_CUDA
#include "kernels/adam/adam.h"
#include "nn/cuda_support.h"
#endif

namespace engram {

Adam::Adam(std::vector<torch::Tensor> parameters, double learning_rate)
    : learning_rate_(learning_rate), parameters_(std::move(parameters)) {
  for (const torch::Tensor& parameter : parameters_) {
    mean_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
    mean_square_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
  }
  step_ = torch::zeros({}, torch::dtype(torch::kFloat32).device(parameters_.at(0).device()));
}

std::vector<torch::Tensor> Adam::gradients() const {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters_) {
    if (!parameter.grad().defined()) throw std::logic_error("a trained parameter has no gradient");
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

void Adam::zero_gradients() {
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void Adam::step(const torch::Tensor& skip) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> all_gradients = gradients();
  if (skip.defined())
    step_.add_(1 - skip);
  else
    step_.add_(1);
#ifdef ENGRAM_WITH_CUDA
  if (step_.is_cuda() && parameters_[0].scalar_type() == torch::kFloat32) {
    std::vector<AdamTensor> tensors;
    std::vector<torch::Tensor> contiguous;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      TORCH_CHECK(parameters_[i].is_contiguous(), "a parameter that is not contiguous");
      contiguous.push_back(all_gradients[i].contiguous());
      tensors.push_back({.parameter = parameters_[i].data_ptr<float>(),
                         .gradient = contiguous[i].data_ptr<float>(),
                         .mean = mean_[i].data_ptr<float>(),
                         .mean_square = mean_square_[i].data_ptr<float>(),
                         .size = parameters_[i].numel()});
    }
    adam_step(tensors, static_cast<float>(learning_rate_), step_.data_ptr<float>(),
              skip.defined() ? skip.data_ptr<float>() : nullptr, current_stream());
    return;
  }
#endif
  const std::vector<torch::Tensor> steps(parameters_.size(), step_);
  torch::_fused_adam_(parameters_, all_gradients, mean_, mean_square_, /*max_exp_avg_sqs=*/{}, steps, learning_rate_,
                      /*beta1=*/0.9, /*beta2=*/0.999, /*weight_decay=*/0, /*eps=*/1e-8, /*amsgrad=*/false,
                      /*maximize=*/false, /*grad_scale=*/{},
                      skip.defined() ? std::optional<torch::Tensor>(skip) : std::nullopt);
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
