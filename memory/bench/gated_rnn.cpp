#include "memory/bench/gated_rnn.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/recurrences/gated_rnn/gated_rnn.h"
#include "kernels/recurrences/gated_rnn/reference.h"
#include "memory/bench/kernel_case.h"

namespace engram {
namespace {

using torch::Tensor;

__nv_bfloat16* halves(const Tensor& x) { return reinterpret_cast<__nv_bfloat16*>(x.data_ptr<at::BFloat16>()); }

// The recurrence alone: the gates of the input are there. LibTorch's module, which is cuDNN's, in float16, its fastest
// type, has the product of the input with it, the smaller part of its work.
template <class Module, class ModuleOptions>
class GatedRnnBench {
 public:
  GatedRnnBench(GatedCell cell, int batch, int time, int width)
      : cell_(cell),
        gates_(gates_of(cell)),
        batch_(batch),
        time_(time),
        width_(width),
        gates_BTX_(half({batch, time, gates_ * width})),
        recurrent_XD_(half({gates_ * width, width}) / std::sqrt(static_cast<double>(width))),
        bias_D_(torch::randn({width}, on_gpu(torch::kFloat32))),
        d_h_BTD_(half({batch, time, width})),
        h_BTD_(torch::empty_like(d_h_BTD_)),
        h_before_BTD_(torch::empty_like(d_h_BTD_)),
        saved_(torch::empty({batch, time, saved_numbers_of(cell) * width}, on_gpu(torch::kFloat16))),
        cells_BTD_(torch::empty({batch, time, width}, on_gpu(torch::kFloat32))),
        d_gates_BTX_(torch::empty_like(gates_BTX_)),
        d_candidate_BTD_(torch::empty_like(d_h_BTD_)),
        length_B_(torch::full({batch}, time, on_gpu(torch::kInt32))),
        module_(ModuleOptions(width, width).batch_first(true)),
        input_BTD_(torch::randn({batch, time, width}, on_gpu(torch::kFloat16)).requires_grad_()) {
    module_->to(torch::kCUDA, torch::kFloat16);
    module_->flatten_parameters();
  }

  void forward(cudaStream_t stream) const {
    gated_rnn_forward(problem(), halves(gates_BTX_), halves(h_BTD_), saved(), stream);
  }
  void backward(cudaStream_t stream) const {
    gated_rnn_backward(problem(), saved(), halves(d_h_BTD_), halves(d_gates_BTX_),
                       cell_ == GatedCell::kGru ? halves(d_candidate_BTD_) : nullptr, stream);
  }

  // Rows do not depend on each other: the first and the last are compared.
  ForwardBackward check() const {
    forward(nullptr);
    backward(nullptr);
    const auto some = [&](const Tensor& x) {
      return numbers(x.slice(0, 0, batch_, std::max(1, batch_ - 1)).to(torch::kCPU, torch::kFloat64).contiguous());
    };
    const GatedRnnReferenceInput input{
        cell_,
        std::min(batch_, 2),
        time_,
        width_,
        some(gates_BTX_),
        numbers(recurrent_XD_.to(torch::kCPU, torch::kFloat64)),
        cell_ == GatedCell::kGru ? numbers(bias_D_.to(torch::kCPU, torch::kFloat64)) : std::vector<double>(),
        std::vector<int>(static_cast<std::size_t>(std::min(batch_, 2)), time_)};
    const auto error = [](const std::vector<double>& actual, const std::vector<double>& expected) {
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        difference += std::pow(actual[i] - expected[i], 2);
        size += std::pow(expected[i], 2);
      }
      return std::sqrt(difference / size);
    };
    return {error(some(h_BTD_), gated_rnn_reference(input)),
            error(some(d_gates_BTX_), gated_rnn_reference_backward(input, some(d_h_BTD_)).gates_BTX)};
  }

  void plain_forward() const { module_->forward(input_BTD_); }
  void plain_forward_and_backward() const {
    std::vector<Tensor> inputs = module_->parameters();
    inputs.push_back(input_BTD_);
    torch::autograd::grad({std::get<0>(module_->forward(input_BTD_))}, inputs, {d_h_BTD_.to(torch::kFloat16)});
  }

 private:
  static Tensor half(torch::IntArrayRef shape) { return torch::randn(shape, on_gpu(torch::kBFloat16)); }
  GatedRnn problem() const {
    return {cell_,
            batch_,
            time_,
            width_,
            halves(recurrent_XD_),
            cell_ == GatedCell::kGru ? bias_D_.const_data_ptr<float>() : nullptr,
            length_B_.const_data_ptr<int>()};
  }
  GatedRnnSaved saved() const {
    return {halves(h_before_BTD_), reinterpret_cast<__half*>(saved_.data_ptr<at::Half>()),
            cell_ == GatedCell::kLstm ? cells_BTD_.data_ptr<float>() : nullptr};
  }

  const GatedCell cell_;
  const int gates_, batch_, time_, width_;
  const Tensor gates_BTX_, recurrent_XD_, bias_D_, d_h_BTD_;
  const Tensor h_BTD_, h_before_BTD_, saved_, cells_BTD_, d_gates_BTX_, d_candidate_BTD_, length_B_;
  mutable Module module_;
  const Tensor input_BTD_;
};

// Products of each gate and step, forward and backward; bytes of gates, what is saved, h and their gradients.
template <class Module, class ModuleOptions>
KernelRow gated_rnn_row(GatedCell cell, int batch, int time, int width) {
  constexpr const char* kNames[] = {"Elman", "GRU", "LSTM"};
  const bool gru = cell == GatedCell::kGru;
  const double steps = 1.0 * batch * time, gates = gates_of(cell), flops = 2 * gates * width * width * steps;
  // Bytes of a channel and step: h_{t-1}, the cell's numbers, c_t.
  const double saved = 2 + 2 * saved_numbers_of(cell) + (cell == GatedCell::kLstm ? 4 : 0), given = 2 * gates;
  return with_work(
      {.operation = kNames[static_cast<int>(cell)],
       .shape = "B " + std::to_string(batch) + " T " + std::to_string(time) + " D " + std::to_string(width),
       .flops = {flops, flops},
       .bytes = {steps * width * (given + 2 + saved), steps * width * (saved + 2 + given + (gru ? 2 : 0))},
       .bound = {0.006, 0.012}},
      std::make_shared<GatedRnnBench<Module, ModuleOptions>>(cell, batch, time, width));
}

}  // namespace

std::vector<std::function<KernelRow()>> gated_rnn_rows() {
  std::vector<std::function<KernelRow()>> rows;
  for (const int width : {64, 256}) {
    rows.push_back(
        [=] { return gated_rnn_row<torch::nn::RNN, torch::nn::RNNOptions>(GatedCell::kElman, 640, 52, width); });
    rows.push_back(
        [=] { return gated_rnn_row<torch::nn::GRU, torch::nn::GRUOptions>(GatedCell::kGru, 640, 52, width); });
    rows.push_back(
        [=] { return gated_rnn_row<torch::nn::LSTM, torch::nn::LSTMOptions>(GatedCell::kLstm, 640, 52, width); });
  }
  rows.push_back([] { return gated_rnn_row<torch::nn::GRU, torch::nn::GRUOptions>(GatedCell::kGru, 79, 104, 256); });
  return rows;
}

}  // namespace engram
