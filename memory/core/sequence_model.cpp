#include "memory/core/sequence_model.h"

#include <cstddef>
#include <stdexcept>

#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"

namespace engram {
namespace {

// bool, with as many dimensions as `tensor`, to broadcast over all but the first.
torch::Tensor broadcast_rows(const torch::Tensor& mask_B, const torch::Tensor& tensor) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(tensor.dim()), 1);
  shape[0] = -1;
  return mask_B.view(shape);
}

torch::Tensor zero_behind(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) {
  const auto behind_BT = torch::arange(input_BTD.size(1), lengths_B.options()) >= lengths_B.unsqueeze(1);
  return torch::where(behind_BT.unsqueeze(2), 0, input_BTD);  // in one pass, where masked_fill() copies first
}

}  // namespace

void MemoryState::reset_rows(const torch::Tensor& reset_B) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& tensor : tensors) tensor.masked_fill_(broadcast_rows(reset_B, tensor), 0);
}

MemoryState MemoryState::clone() const {
  MemoryState copy;
  for (const torch::Tensor& tensor : tensors) copy.tensors.push_back(tensor.clone());
  return copy;
}

MemoryState MemoryState::detach() const {
  MemoryState copy;
  for (const torch::Tensor& tensor : tensors) copy.tensors.push_back(tensor.detach());
  return copy;
}

SequenceModel::Output SequenceModel::forward(const torch::Tensor& input_BTD, const MemoryState& initial,
                                             const torch::Tensor& lengths_B) {
  return run_masked(input_BTD, initial, lengths_B, Rows::kCarried);
}

SequenceModel::Output SequenceModel::forward(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) {
  return run_masked(input_BTD, initial_state(input_BTD.size(0)), lengths_B, Rows::kFresh);
}

torch::Tensor SequenceModel::forward(const torch::Tensor& input_BTD) {
  const auto lengths_B = torch::full({input_BTD.size(0)}, input_BTD.size(1), input_BTD.options().dtype(torch::kInt64));
  return forward_fresh(input_BTD, lengths_B);
}

torch::Tensor SequenceModel::forward_fresh(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) {
  check_input(input_BTD, lengths_B);
  if (input_BTD.size(1) == 0) return input_BTD;
  const auto dtype = input_BTD.scalar_type();
  const torch::Device device = input_BTD.device();
  if (!PlainOperations::on() && (supports_learning(dtype, device) || supports_blocks(dtype, device)))
    return run_on_kernels(input_BTD, lengths_B);
  const ComputeIn products(device, dtype);
  return run_fresh(zero_behind(in_own_type(input_BTD), lengths_B), lengths_B).to(dtype);
}

torch::Tensor SequenceModel::in_own_type(const torch::Tensor& input) const {
  return input.to(parameters().front().scalar_type());
}

Support SequenceModel::supports_learning(torch::ScalarType, torch::Device) const {
  return Support::no("it has no kernels of its own");
}

Support SequenceModel::supports_fastest_learning(torch::ScalarType dtype, torch::Device device) const {
  return supports_learning(dtype, device);
}

Support SequenceModel::supports_blocks(torch::ScalarType, torch::Device) const {
  return Support::no("it is no stack of such blocks");
}

torch::Tensor SequenceModel::run_fresh(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) {
  return run(input_BTD, initial_state(input_BTD.size(0)), lengths_B, Rows::kFresh).output_BTD;
}

torch::Tensor SequenceModel::run_on_kernels(const torch::Tensor&, const torch::Tensor&) {
  throw std::logic_error("this backbone has no kernels of its own");
}

void SequenceModel::check_state(const MemoryState& state, std::int64_t batch) const {
  const MemoryState row = initial_state(1);
  TORCH_CHECK_VALUE(state.tensors.size() == row.tensors.size(), "memory state has ", state.tensors.size(),
                    " tensors; this backbone has ", row.tensors.size());
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const torch::Tensor &own = state.tensors[i], &like = row.tensors[i];
    std::vector<std::int64_t> shape = like.sizes().vec();
    shape[0] = batch;
    TORCH_CHECK_VALUE(own.sizes() == shape, "memory state tensor ", i, " has shape ", own.sizes(), "; here it must be ",
                      shape);
    TORCH_CHECK_VALUE(own.scalar_type() == like.scalar_type() && own.device() == like.device(), "memory state tensor ",
                      i, " is ", own.scalar_type(), " on ", own.device(), "; here it must be ", like.scalar_type(),
                      " on ", like.device());
  }
}

void SequenceModel::check_input(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) const {
  TORCH_CHECK_VALUE(input_BTD.dim() == 3 && input_BTD.size(2) == width() && input_BTD.size(0) >= 1, "input has shape ",
                    input_BTD.sizes(), "; it must be [batch, time, ", width(), "] with at least one row");
  const std::int64_t batch = input_BTD.size(0), steps = input_BTD.size(1);
  TORCH_CHECK_VALUE(lengths_B.scalar_type() == torch::kInt64 && lengths_B.dim() == 1 && lengths_B.size(0) == batch,
                    "lengths must be int64 [", batch, "], not ", lengths_B.scalar_type(), " ", lengths_B.sizes());
  if (!lengths_B.is_cpu()) return;
  const auto [least, most] = lengths_B.aminmax();
  for (const std::int64_t length : {least.item<std::int64_t>(), most.item<std::int64_t>()})
    TORCH_CHECK_VALUE(length >= 0 && length <= steps, "lengths must lie in 0..", steps, ", not ", length);
}

SequenceModel::Output SequenceModel::run_masked(const torch::Tensor& input_BTD, const MemoryState& initial,
                                                const torch::Tensor& lengths_B, Rows rows) {
  check_input(input_BTD, lengths_B);
  if (rows == Rows::kCarried) check_state(initial, input_BTD.size(0));
  if (input_BTD.size(1) == 0) return {input_BTD, initial.clone()};
  return run(zero_behind(input_BTD, lengths_B), initial, lengths_B, rows);
}

void SequenceModel::check_step(const torch::Tensor& input_BD, const MemoryState& state) const {
  TORCH_CHECK_VALUE(input_BD.dim() == 2 && input_BD.size(1) == width(), "input has shape ", input_BD.sizes(),
                    "; it must be [batch, ", width(), "]");
  TORCH_CHECK_VALUE(state.tensors.empty() || state.batch() == input_BD.size(0), "memory state has ", state.batch(),
                    " rows, the input ", input_BD.size(0));
}

torch::Tensor SequenceModel::step(const torch::Tensor& input_BD, MemoryState& state) {
  check_step(input_BD, state);
  const torch::NoGradGuard no_grad;
  if (!PlainOperations::on() && input_BD.is_cuda()) {
    const auto dtype = product_dtype(input_BD.device(), parameters().front().scalar_type());
    if (supports_step(dtype, input_BD.device()) || supports_step_blocks(dtype, input_BD.device()))
      return in_own_type(run_step_on_kernels(input_BD, state, dtype));
  }
  return run_step(in_own_type(input_BD), state);
}

Support SequenceModel::supports_step(torch::ScalarType, torch::Device) const {
  return Support::no("its step has no kernels of its own");
}

Support SequenceModel::supports_step_blocks(torch::ScalarType, torch::Device) const {
  return Support::no("it is no stack of such blocks");
}

torch::Tensor SequenceModel::run_step_on_kernels(const torch::Tensor&, MemoryState&, torch::ScalarType) {
  throw std::logic_error("this backbone's step has no kernels of its own");
}

torch::Tensor SequenceModel::step(const torch::Tensor& input_BD, MemoryState& state, MemoryView& view) {
  check_step(input_BD, state);
  if (state.tensors.empty()) throw std::logic_error("this backbone has no memory to show");
  const torch::NoGradGuard no_grad;
  return run_viewed_step(in_own_type(input_BD), state, view);
}

torch::Tensor SequenceModel::run_viewed_step(const torch::Tensor& input_BD, MemoryState& state, MemoryView& view) {
  torch::Tensor output_BD = run_step(input_BD, state);
  view.layers.assign(1, {});
  for (const torch::Tensor& tensor : state.tensors)
    if (tensor.is_floating_point()) view.layers[0].states.push_back(state_view("state", tensor));
  return output_BD;
}

ModelCost SequenceModel::cost() const {
  ModelCost cost;
  for (const torch::Tensor& parameter : parameters()) cost.parameters += parameter.numel();
  for (const torch::Tensor& tensor : initial_state(1).tensors)
    cost.state_bytes += tensor.numel() * (tensor.is_floating_point() ? 4 : 8);
  cost.multiply_adds_per_step = multiply_adds_per_step();
  const std::vector<torch::Tensor> mlp = mlp_parameters();
  for (const torch::Tensor& parameter : mlp) cost.mlp_parameters += parameter.numel();
  cost.mlp_multiply_adds_per_step = multiply_adds_of(mlp);
  return cost;
}

std::int64_t SequenceModel::multiply_adds_of(const std::vector<torch::Tensor>& parameters) {
  std::int64_t products = 0;
  for (const torch::Tensor& parameter : parameters)
    if (parameter.dim() == 2) products += parameter.numel();
  return products;
}

}  // namespace engram
