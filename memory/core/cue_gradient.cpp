#include "memory/core/cue_gradient.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "memory/core/memory_view.h"

namespace engram {
namespace {

using torch::Tensor;

// NaN without tensors.
double root_mean_square(const std::vector<Tensor>& tensors) {
  double sum = 0, count = 0;
  for (const Tensor& tensor : tensors) {
    sum += tensor.to(torch::kFloat64).square().sum().item<double>();
    count += static_cast<double>(tensor.numel());
  }
  return std::sqrt(sum / count);
}

// Of the last of the steps.
MemoryView last_view(SequenceModel& model, const Tensor& input_BTD) {
  MemoryState state = model.initial_state(input_BTD.size(0));
  const std::int64_t last = input_BTD.size(1) - 1;
  for (std::int64_t t = 0; t < last; ++t) model.step(input_BTD.select(1, t), state);
  MemoryView view;
  model.step(input_BTD.select(1, last), state, view);
  return view;
}

}  // namespace

CueGradient cue_gradient(SequenceModel& model, const Tensor& input_BTD, std::int64_t cue_steps) {
  if (cue_steps < 1 || cue_steps > input_BTD.size(1)) throw std::invalid_argument("a cue of no steps, or of too many");
  if (model.is_training()) throw std::invalid_argument("dropout would hide what reaches the cue");
  const Tensor input = input_BTD.detach().requires_grad_();
  const Tensor last_BD = model.forward(input).select(1, -1);
  const Tensor loss = (last_BD * torch::randn_like(last_BD)).sum();
  // Rows are independent: of each row the gradient of its own part of the sum.
  const Tensor gradient_BTD = torch::autograd::grad({loss}, {input})[0];
  const auto norm_B = [](const Tensor& part_BTD) { return part_BTD.to(torch::kFloat64).square().sum({1, 2}).sqrt(); };
  CueGradient result{(norm_B(gradient_BTD.narrow(1, 0, cue_steps)) / norm_B(gradient_BTD)).mean().item<double>(), NAN,
                     NAN};
  if (!model.shows_memory()) return result;
  std::vector<Tensor> fast, window;
  for (const LayerView& layer : last_view(model, input_BTD).layers) {
    if (layer.fast_output_BHV.defined()) fast.push_back(layer.fast_output_BHV);
    if (layer.window_output_BHV.defined()) window.push_back(layer.window_output_BHV);
  }
  if (!fast.empty()) result.fast_rms = root_mean_square(fast);
  if (!window.empty()) result.window_rms = root_mean_square(window);
  return result;
}

}  // namespace engram
