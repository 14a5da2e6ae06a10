// The SwiGLU branch of a block (residual_blocks.h): as products with the hidden units in memory between them, or as one
// kernel that keeps them on chip where the device has it.
#include "nn/fused/swiglu.h"

#include <memory>
#include <utility>
#include <vector>

#include "kernels/block/elementwise.h"
#include "kernels/block/swiglu/swiglu.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/rows.h"
#include "nn/fused/support.h"
#include "nn/fused/weights/packed_weights.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {
namespace {

using torch::Tensor;

std::vector<Tensor> parameters_of(const SwiGluWeights& weights) {
  return {weights.gate_ID, weights.up_ID, weights.down_DI};
}

// P
int stride_of(const SwiGluWeights& weights) { return round_up(weights.gate_ID.size(1), kWidthMultiple); }

class SwiGluOfProducts : public Branch {
 public:
  explicit SwiGluOfProducts(const SwiGluWeights& weights)
      : Branch(parameters_of(weights)),
        inner_(round_up(weights.gate_ID.size(0), kWidthMultiple)),
        input_packed_(2 * inner_, stride_of(weights)),
        output_packed_(stride_of(weights), inner_) {
    const PackGroups inner = padded_to(weights.gate_ID.size(0), inner_);
    const PackGroups width = padded_to(weights.gate_ID.size(1), stride_of(weights));
    input_packed_.add(weights.gate_ID, 0, inner, width);
    input_packed_.add(weights.up_ID, inner_, inner, width);
    output_packed_.add(weights.down_DI, 0, width, inner);
  }

  void pack_weights(WeightPacking& packing) override {
    input_weight_ = packing.add(input_packed_);
    output_weight_ = packing.add(output_packed_);
  }

  Tensor forward(const Tensor& normed_MP) override {
    normed_MP_ = normed_MP;
    gate_up_ = product(normed_MP_, input_weight_.t());
    hidden_ = torch::empty({normed_MP.size(0), inner_}, gate_up_.options());
    swiglu_forward(normed_MP.size(0), inner_, kernel_dtype(normed_MP), gate_up_.data_ptr(), hidden_.data_ptr(),
                   current_stream());
    return product(hidden_, output_weight_.t());
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    Tensor d_output_weight, d_input_weight;
    side.run([&] { d_output_weight = weight_gradient(d_output_MP, hidden_); });
    const Tensor d_hidden = product(d_output_MP, output_weight_);
    const Tensor d_gate_up = torch::empty_like(gate_up_);
    swiglu_backward(d_hidden.size(0), inner_, kernel_dtype(d_hidden), gate_up_.data_ptr(), d_hidden.data_ptr(),
                    d_gate_up.data_ptr(), current_stream());
    side.run([&] { d_input_weight = weight_gradient(d_gate_up, normed_MP_); });
    side.keep({d_output_MP, d_gate_up});
    Gradients gradients{product(d_gate_up, input_weight_), input_packed_.gradients(d_input_weight, side)};
    gradients.parameters.push_back(output_packed_.gradients(d_output_weight, side)[0]);
    return gradients;
  }

 private:
  int inner_;  // hidden units, those behind the weights' zero
  PackedWeights input_packed_, output_packed_;
  Tensor input_weight_, output_weight_;
  Tensor normed_MP_, gate_up_, hidden_;
};

// Keeps no hidden units, neither forward nor backward.
class SwiGluOnChip : public Branch {
 public:
  explicit SwiGluOnChip(const SwiGluWeights& weights)
      : Branch(parameters_of(weights)),
        gate_ID_(weights.gate_ID.detach().contiguous()),
        up_ID_(weights.up_ID.detach().contiguous()),
        down_DI_(weights.down_DI.detach().contiguous()),
        stride_(stride_of(weights)) {}

  void pack_weights(WeightPacking& packing) override {
    packed_ = packing.add({.width = width(),
                           .stride = stride_,
                           .inner = inner(),
                           .gate_ID = gate_ID_.data_ptr<float>(),
                           .up_ID = up_ID_.data_ptr<float>(),
                           .down_DI = down_DI_.data_ptr<float>(),
                           .weights = nullptr},
                          {gate_ID_, up_ID_, down_DI_});
  }

  Tensor forward(const Tensor& normed_MP) override {
    normed_MP_ = normed_MP;
    const Tensor y_MP = torch::empty_like(normed_MP);
    fused_swiglu_forward(input(), y_MP.data_ptr(), current_stream());
    return y_MP;
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    const Tensor d_normed_MP = torch::empty_like(normed_MP_);
    const Tensor d_gate_ID = torch::empty_like(gate_ID_), d_up_ID = torch::empty_like(up_ID_);
    const Tensor d_down_DI = torch::empty_like(down_DI_);
    const Tensor sums = scratch_bytes(fused_swiglu_weight_gradient_scratch_bytes(input()), normed_MP_);
    fused_swiglu_backward(input(), {d_output_MP.data_ptr(), d_normed_MP.data_ptr()}, current_stream());
    side.run([&] {
      fused_swiglu_weight_gradient(input(),
                                   {.y = d_output_MP.data_ptr(),
                                    .gate_ID = d_gate_ID.data_ptr<float>(),
                                    .up_ID = d_up_ID.data_ptr<float>(),
                                    .down_DI = d_down_DI.data_ptr<float>()},
                                   sums.data_ptr(), current_stream());
    });
    side.keep({d_output_MP, sums});
    return {d_normed_MP, {d_gate_ID, d_up_ID, d_down_DI}};
  }

 private:
  int width() const { return static_cast<int>(gate_ID_.size(1)); }
  int inner() const { return static_cast<int>(gate_ID_.size(0)); }
  FusedSwiGlu input() const {
    return {.rows = normed_MP_.size(0),
            .width = width(),
            .stride = stride_,
            .inner = inner(),
            .weights = packed_.data_ptr(),
            .x = normed_MP_.data_ptr()};
  }

  Tensor gate_ID_, up_ID_, down_DI_;
  int stride_;
  Tensor packed_, normed_MP_;
};

}  // namespace

Support supports_one_kernel_swiglu_sizes(std::int64_t width, std::int64_t inner, torch::ScalarType dtype) {
  if (dtype != torch::kBFloat16) return Support::no("the kernel computes in bfloat16 alone");
  return supports_fused_swiglu_sizes(round_up(width, kWidthMultiple), static_cast<int>(inner));
}

Support supports_one_kernel_swiglu(std::int64_t width, std::int64_t inner, torch::ScalarType dtype,
                                   torch::Device device) {
  if (Support own = supports_device(dtype, device); !own) return own;
  if (Support own = supports_one_kernel_swiglu_sizes(width, inner, dtype); !own) return own;
  return supports_fused_swiglu(round_up(width, kWidthMultiple), static_cast<int>(inner));
}

std::unique_ptr<Branch> swiglu_branch(const SwiGluWeights& weights, torch::ScalarType dtype) {
  const Tensor& gate_ID = weights.gate_ID;
  if (supports_one_kernel_swiglu(gate_ID.size(1), gate_ID.size(0), dtype, gate_ID.device()))
    return std::make_unique<SwiGluOnChip>(weights);
  return std::make_unique<SwiGluOfProducts>(weights);
}

}  // namespace engram::cuda
