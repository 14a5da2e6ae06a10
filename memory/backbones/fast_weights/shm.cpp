// Stable Hadamard Memory (Le et al. 2024, arXiv:2410.10132, section 4): with n = LayerNorm(x_t),
//   C_t = 1 + tanh(theta_t (Wc n)^T),   M_t = M_{t-1} * C_t + sigmoid(w n) (Wv n) k_t^T,   h_t = M_t q_t,
// where * is the product element by element, k and q are relu(W n) divided by its sum, and theta_t is a row of a learnt
// matrix. The output is Wo (h_t + Ws n), and M_t is bounded, as in the authors' public code.
//
// The paper draws the row at random at every step. So is it here in training; outside of training it follows from the
// step's number in its episode, by a hash, so that an episode is played alike whenever it is played.
#include "memory/backbones/fast_weights/shm.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "memory/core/sequence_model.h"
#include "memory/ops/hadamard_memory.h"
#include "memory/ops/hadamard_memory_cuda.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "nn/layers/dropout.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

using torch::Tensor;

// A 32-bit mix of multiplications and shifts, in int64.
Tensor mix(const Tensor& x) {
  constexpr std::int64_t kLow = 0xffffffff;
  constexpr std::int64_t kStart = 0x9e3779b9;
  Tensor h = x + kStart;
  for (const std::int64_t factor : {0x21f0aaad, 0x735a2d97}) {
    h = h.bitwise_and(kLow);
    h = h.bitwise_xor(h.div(1 << 16, "floor")) * factor;
  }
  h = h.bitwise_and(kLow);
  return h.bitwise_xor(h.div(1 << 15, "floor"));
}

// Where in the sequence of all rows a sequence of a forward pass begins.
class FirstRows : public Drawing {
 public:
  Tensor draw_B(std::int64_t batch, torch::Device device) const {
    const Tensor of_pass = mix(seed_tick(device).select(0, 1) + mix(seed_tick(device).select(0, 0)));
    return mix(torch::arange(batch, of_pass.options()) + of_pass);
  }
};

class Shm final : public SequenceModel {
 public:
  explicit Shm(const ShmOptions& options)
      : options_(options),
        norm_(register_module(
            "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width}).eps(kLayerNormEpsilon)))),
        key_(register_module("key", plain_map(options.width, options.memory_width))),
        query_(register_module("query", plain_map(options.width, options.memory_width))),
        value_(register_module("value", plain_map(options.width, options.memory_width))),
        calibration_(register_module("calibration", plain_map(options.width, options.memory_width))),
        strength_(register_module("strength", plain_map(options.width, 1))),
        shortcut_(register_module("shortcut", torch::nn::Linear(options.width, options.memory_width))),
        output_(register_module("output", torch::nn::Linear(options.memory_width, options.width))),
        theta_LH_(register_parameter("theta", torch::empty({options.calibrations, options.memory_width}))) {
    torch::nn::init::xavier_uniform_(theta_LH_);
    if (options.rows == CalibrationRows::kDrawn)
      first_rows_ = register_module("first_rows", std::make_shared<FirstRows>());
  }

  std::int64_t width() const override { return options_.width; }

  Support supports_learning(torch::ScalarType, torch::Device) const override {
    return Support::no("only its memory has kernels");
  }

  // The position, and M, [H, H].
  MemoryState initial_state(std::int64_t batch) const override {
    const auto options = theta_LH_.options().requires_grad(false);
    return {{torch::zeros({batch}, options.dtype(torch::kInt64)),
             torch::zeros({batch, options_.memory_width, options_.memory_width}, options)}};
  }

 private:
  static torch::nn::Linear plain_map(std::int64_t inputs, std::int64_t outputs) {
    return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
  }

  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows) override {
    const Tensor &position_B = initial.tensors[0], &first_BHH = initial.tensors[1];
    const Tensor step_T = torch::arange(input_BTD.size(1), lengths_B.options());
    const Tensor normed_BTD = norm_->forward(input_BTD);
    const HadamardMemoryVectors vectors = vectors_of(normed_BTD, position_B.unsqueeze(1) + step_T);
    const auto [h_BTH, last_BHH] = !PlainOperations::on() && cuda::supports_hadamard_memory(vectors, first_BHH)
                                       ? cuda::hadamard_memory(vectors, first_BHH, lengths_B, limit())
                                       : plain_hadamard_memory(vectors, first_BHH, lengths_B, limit());
    return {output_of(h_BTH, normed_BTD), {{position_B + lengths_B, last_BHH}}};
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override {
    const Tensor normed_BD = norm_->forward(input_BD);
    const HadamardMemoryVectors vectors = vectors_of(normed_BD, state.tensors[0]);
    state.tensors[0].add_(1);
    return output_of(hadamard_memory_step(vectors, state.tensors[1], limit()), normed_BD);
  }

  HadamardMemoryVectors vectors_of(const Tensor& normed, const Tensor& position) {
    std::vector<Tensor> mapped = apply_linears({calibration_, strength_, value_, key_, query_}, normed);
    for (Tensor& own : mapped) own = own.to(theta_LH_.scalar_type());
    return {theta_of_step(position), mapped[0], mapped[1].sigmoid() * mapped[2], feature(mapped[3]),
            feature(mapped[4])};
  }
  // A row of theta for each step. As a product, so that its gradient is summed in the same order every time.
  Tensor theta_of_step(const Tensor& position) const {
    const auto dtype = theta_LH_.scalar_type();
    const ComputeIn products(theta_LH_.device(), dtype);
    const Tensor row = row_of_step(position).unsqueeze(-1);
    return torch::matmul((row == torch::arange(options_.calibrations, position.options())).to(dtype), theta_LH_);
  }
  // position: [B, T] or [B].
  Tensor row_of_step(const Tensor& position) const {
    if (options_.rows == CalibrationRows::kFirst) return torch::zeros_like(position);
    if (!first_rows_ || !is_training()) return mix(position).remainder(options_.calibrations);
    Tensor first = first_rows_->draw_B(position.size(0), position.device());
    if (position.dim() == 2) first = first.unsqueeze(1);
    return mix(position + first).remainder(options_.calibrations);
  }
  double limit() const {
    return options_.state_limit > 0 ? options_.state_limit : std::numeric_limits<double>::infinity();
  }
  static Tensor feature(const Tensor& x) {
    const Tensor positive = torch::relu(x);
    return positive / (positive.sum(-1, /*keepdim=*/true) + 1e-5);
  }
  Tensor output_of(const Tensor& answer, const Tensor& normed) {
    return apply_linear(output_, answer + apply_linear(shortcut_, normed));
  }

  // Calibration, its product with the memory, what is written, and the read, each of H x H.
  std::int64_t multiply_adds_per_step() const override {
    return multiply_adds_of(parameters()) - theta_LH_.numel() +
           std::int64_t{4} * options_.memory_width * options_.memory_width;
  }

  ShmOptions options_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear key_, query_, value_, calibration_, strength_, shortcut_, output_;
  Tensor theta_LH_;
  std::shared_ptr<FirstRows> first_rows_;  // null unless rows are drawn
};

}  // namespace

void ShmOptions::list_options(OptionList& list) {
  list_width(list, width);
  list.add("memory_width", memory_width, {1, 1 << 10}, "rows and columns of the memory matrix");
  list.add("calibrations", calibrations, {1, 1 << 20}, "rows of the calibration matrix, of which each step takes one");
  list.add(
      "rows", rows,
      {{CalibrationRows::kDrawn, "drawn"}, {CalibrationRows::kByStep, "by_step"}, {CalibrationRows::kFirst, "first"}},
      "which row a step takes: drawn anew in every pass of training, by the step's number, or always the first");
  list.since(2, "by_step");
  list.add("state_limit", state_limit, {0, 1e30}, "bound of the matrix's elements after every write; 0: none");
  list.since(2, "0");
}

void ShmOptions::check() const { check_bounds(*this, kMemorySection); }

std::shared_ptr<SequenceModel> ShmOptions::make(std::int64_t) const {
  check();
  return std::make_shared<Shm>(*this);
}

}  // namespace engram
