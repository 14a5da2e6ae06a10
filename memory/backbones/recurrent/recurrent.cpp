// RNN, LSTM and GRU from LibTorch's own modules, with its first weights or orthogonal ones (RecurrentWeights).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "memory/core/backbone_options.h"
#include "memory/core/sequence_model.h"
#include "memory/ops/recurrences/cpu_gated_rnn.h"
#include "memory/ops/recurrences/gated_rnn_cuda.h"
#include "nn/cpu/layers.h"
#include "nn/device/autocast.h"

namespace engram {
namespace {

namespace rnn = torch::nn::utils::rnn;
using torch::Tensor;
using Memory = std::vector<Tensor>;  // h, and for the LSTM c, each [layers, B, D]

// One form for all cells: the input, whole or packed, and the memory in; the output and the new memory out.
template <class Output>
struct CellOutput {
  Output output;
  Memory memory;
};

CellOutput<Tensor> run_cell(torch::nn::LSTM& lstm, const Tensor& input_BTD, const Memory& memory) {
  auto [output, state] = lstm->forward(input_BTD, std::make_tuple(memory[0], memory[1]));
  return {output, {std::get<0>(state), std::get<1>(state)}};
}

CellOutput<rnn::PackedSequence> run_cell(torch::nn::LSTM& lstm, const rnn::PackedSequence& input,
                                         const Memory& memory) {
  auto [output, state] = lstm->forward_with_packed_input(input, std::make_tuple(memory[0], memory[1]));
  return {output, {std::get<0>(state), std::get<1>(state)}};
}

// GRU and RNN, whose memory is h alone.
template <class Cell>
CellOutput<Tensor> run_cell(Cell& cell, const Tensor& input_BTD, const Memory& memory) {
  auto [output, state] = cell->forward(input_BTD, memory[0]);
  return {output, {state}};
}

template <class Cell>
CellOutput<rnn::PackedSequence> run_cell(Cell& cell, const rnn::PackedSequence& input, const Memory& memory) {
  auto [output, state] = cell->forward_with_packed_input(input, memory[0]);
  return {output, {state}};
}

// A layer's memory after one step, from the gates' products with the input and with h.
Memory next_memory(const torch::nn::LSTM&, const Tensor& from_input, const Tensor& from_memory, const Memory& memory) {
  const auto [hidden, cell, unused] = at::_thnn_fused_lstm_cell(from_input, from_memory, memory[1]);
  return {hidden, cell};
}

Memory next_memory(const torch::nn::GRU&, const Tensor& from_input, const Tensor& from_memory, const Memory& memory) {
  return {std::get<0>(at::_thnn_fused_gru_cell(from_input, from_memory, memory[0]))};
}

Memory next_memory(const torch::nn::RNN&, const Tensor& from_input, const Tensor& from_memory, const Memory&) {
  return {(from_input + from_memory).tanh()};
}

// The same, computed in the memory's type.
template <class Cell>
Memory next_memory_in_own_type(const Cell& cell, const Tensor& from_input, const Tensor& from_memory,
                               const Memory& memory) {
  const auto dtype = memory[0].scalar_type();
  const ComputeIn products(memory[0].device(), dtype);
  return next_memory(cell, from_input.to(dtype), from_memory.to(dtype), memory);
}

template <class Cell, class CellOptions, std::size_t memory_tensors, GatedCell kind>
class Recurrent final : public SequenceModel {
 public:
  template <class Options>
  explicit Recurrent(const Options& options)
      : width_(options.width),
        layers_(options.layers),
        cell_(register_module(
            Options::kName,
            Cell(CellOptions(options.width, options.width).num_layers(options.layers).batch_first(true)))) {
    if (options.first_weights == RecurrentWeights::kUniform) return;
    for (Tensor& parameter : cell_->parameters()) {
      if (parameter.dim() == 2)
        torch::nn::init::orthogonal_(parameter);
      else
        torch::nn::init::zeros_(parameter);
    }
  }

  std::int64_t width() const override { return width_; }

  Support supports_learning(torch::ScalarType dtype, torch::Device device) const override {
    return cuda::supports_gated_rnn(kind, width_, dtype, device);
  }

  MemoryState initial_state(std::int64_t batch) const override {
    MemoryState state;
    const auto options = cell_->parameters().front().options().requires_grad(false);
    for (std::size_t i = 0; i < memory_tensors; ++i)
      state.tensors.push_back(torch::zeros({batch, layers_, width_}, options));
    return state;
  }

 private:
  static Memory layer_first(const MemoryState& state) {
    Memory memory;
    for (const Tensor& tensor_BLD : state.tensors) memory.push_back(tensor_BLD.transpose(0, 1).contiguous());
    return memory;
  }

  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows) override {
    let_cudnn_round();
    const std::int64_t steps = input_BTD.size(1);
    const Memory memory = layer_first(initial);
    const Tensor lengths_on_host_B = lengths_B.cpu();
    Output result;
    if ((lengths_on_host_B == steps).all().item<bool>()) {
      const auto out = run_cell(cell_, input_BTD, memory);
      result.output_BTD = out.output;
      for (const Tensor& tensor_LBD : out.memory) result.final_state.tensors.push_back(tensor_LBD.transpose(0, 1));
      return result;
    }
    // Packing takes rows of at least one step: an empty row takes one and then keeps its old memory.
    const auto out = run_cell(cell_,
                              rnn::pack_padded_sequence(input_BTD, lengths_on_host_B.clamp_min(1), /*batch_first=*/true,
                                                        /*enforce_sorted=*/false),
                              memory);
    result.output_BTD = std::get<0>(rnn::pad_packed_sequence(out.output, /*batch_first=*/true, 0.0, steps));
    const Tensor empty_B11 = (lengths_B == 0).unsqueeze(1).unsqueeze(2);
    for (std::size_t i = 0; i < memory_tensors; ++i)
      result.final_state.tensors.push_back(torch::where(empty_B11, initial.tensors[i], out.memory[i].transpose(0, 1)));
    return result;
  }

  // On a GPU rows are not packed, because that would wait for it: no valid output reads what comes after it.
  Tensor run_fresh(const Tensor& input_BTD, const Tensor& lengths_B) override {
    if (cpu::takes(input_BTD)) return run_layers(cpu::gated_rnn, input_BTD, lengths_B);
    if (!input_BTD.is_cuda()) return SequenceModel::run_fresh(input_BTD, lengths_B);
    let_cudnn_round();
    // LibTorch would cast for cuDNN to float16, whatever type is asked for.
    const ComputeIn products(input_BTD.device(), torch::kFloat32);
    return run_cell(cell_, input_BTD, layer_first(initial_state(input_BTD.size(0)))).output;
  }

  Tensor run_on_kernels(const Tensor& input_BTD, const Tensor& lengths_B) override {
    return run_layers(cuda::gated_rnn, input_BTD, lengths_B);
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override {
    if (!products_are_cast()) {
      let_cudnn_round();
      const auto out = run_cell(cell_, input_BD.unsqueeze(1), layer_first(state));
      for (std::size_t i = 0; i < memory_tensors; ++i) state.tensors[i].copy_(out.memory[i].transpose(0, 1));
      return out.output.squeeze(1);
    }
    Tensor x_BD = input_BD;
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const Layer weights = layer_weights(layer);
      const Memory before = layer_memory(state, layer);
      const Memory after = next_memory_in_own_type(cell_, weights.of_input(x_BD), weights.of_memory(before[0]), before);
      for (std::size_t i = 0; i < memory_tensors; ++i) state.tensors[i].select(1, layer).copy_(after[i]);
      x_BD = after[0];
    }
    return x_BD;
  }

  Tensor run_viewed_step(const Tensor& input_BD, MemoryState& state, MemoryView& view) override {
    constexpr const char* kNames[] = {"hidden", "cell"};
    Tensor output_BD = run_step(input_BD, state);
    view.layers.assign(static_cast<std::size_t>(layers_), {});
    for (std::int64_t layer = 0; layer < layers_; ++layer)
      for (std::size_t i = 0; i < memory_tensors; ++i)
        view.layers[static_cast<std::size_t>(layer)].states.push_back(
            state_view(kNames[i], state.tensors[i].select(1, layer)));
    return output_BD;
  }

  // cuDNN's cells know float32 but not bfloat16: where products are asked for in bfloat16, cuDNN may round their inputs
  // to TF32, 10 bits of a mantissa to bfloat16's 7; float32 means float32. A setting of the process, by which the
  // backward pass goes that follows.
  void let_cudnn_round() const {
    if (cell_->parameters().front().is_cuda()) at::globalContext().setAllowTF32CuDNN(products_are_cast());
  }

  // By kernels or loops, a layer after the other.
  template <class GatedRnn>
  Tensor run_layers(const GatedRnn& gated_rnn, const Tensor& input_BTD, const Tensor& lengths_B) const {
    Tensor x_BTD = input_BTD;
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const Layer own = layer_weights(layer);
      x_BTD = gated_rnn({own.input_weight, own.memory_weight, own.input_bias, own.memory_bias}, x_BTD, lengths_B);
    }
    return x_BTD;
  }

  // In a scope of nn/device/autocast.h, where the products of a step are taken one by one, and the memory keeps its
  // type. The weights' type decides: in such a scope an input may have been cast already.
  bool products_are_cast() const {
    const Tensor weight = cell_->parameters().front();
    return product_dtype(weight.device(), weight.scalar_type()) != weight.scalar_type();
  }

  struct Layer {
    Tensor input_weight, memory_weight, input_bias, memory_bias;

    Tensor of_input(const Tensor& x) const { return torch::linear(x, input_weight, input_bias); }
    Tensor of_memory(const Tensor& hidden) const { return torch::linear(hidden, memory_weight, memory_bias); }
  };
  Layer layer_weights(std::int64_t layer) const {
    const std::vector<Tensor> all = cell_->parameters();
    const Tensor* const own = &all[static_cast<std::size_t>(4 * layer)];
    return {own[0], own[1], own[2], own[3]};
  }
  static Memory layer_memory(const MemoryState& state, std::int64_t layer) {
    Memory memory;
    for (const Tensor& tensor_BLD : state.tensors) memory.push_back(tensor_BLD.select(1, layer).contiguous());
    return memory;
  }

  // Each gate is a product with the input and one with the memory.
  std::int64_t multiply_adds_per_step() const override { return layers_ * gates_of(kind) * 2 * width_ * width_; }

  std::int64_t width_;
  std::int64_t layers_;
  Cell cell_;
};

}  // namespace

void RecurrentOptions::list_options(OptionList& list) {
  list_width(list, width);
  list_layers(list, layers);
  list.add("first_weights", first_weights,
           {{RecurrentWeights::kUniform, "uniform"}, {RecurrentWeights::kOrthogonal, "orthogonal"}},
           "LibTorch's, or orthogonal ones with biases of zero");
}

void RecurrentOptions::check() const { check_bounds(*this, kMemorySection); }

std::shared_ptr<SequenceModel> RnnOptions::make(std::int64_t) const {
  check();
  return std::make_shared<Recurrent<torch::nn::RNN, torch::nn::RNNOptions, 1, GatedCell::kElman>>(*this);
}

std::shared_ptr<SequenceModel> LstmOptions::make(std::int64_t) const {
  check();
  return std::make_shared<Recurrent<torch::nn::LSTM, torch::nn::LSTMOptions, 2, GatedCell::kLstm>>(*this);
}

std::shared_ptr<SequenceModel> GruOptions::make(std::int64_t) const {
  check();
  return std::make_shared<Recurrent<torch::nn::GRU, torch::nn::GRUOptions, 1, GatedCell::kGru>>(*this);
}

}  // namespace engram
