#include "nn/fused/gelu_mlp.h"

#include "kernels/block/elementwise.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/rows.h"
#include "nn/fused/weights/packed_weights.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {
namespace {

using torch::Tensor;

class GeluMlpBranch : public Branch {
 public:
  explicit GeluMlpBranch(const GeluMlpWeights& weights)
      : Branch(list_of({weights.up, weights.down})),
        up_bias_I_(weights.up.bias_O.detach()),
        width_(static_cast<int>(weights.down.bias_O.size(0))),
        inner_(round_up(up_bias_I_.size(0), kWidthMultiple)),
        up_packed_(inner_, round_up(width_, kWidthMultiple)),
        down_packed_(round_up(width_, kWidthMultiple), inner_),
        down_bias_packed_(1, round_up(width_, kWidthMultiple)) {
    const PackGroups inner = padded_to(up_bias_I_.size(0), inner_);
    const PackGroups by_row = padded_to(width_, round_up(width_, kWidthMultiple));
    up_packed_.add(weights.up.weight_OI, 0, inner, by_row);
    down_packed_.add(weights.down.weight_OI, 0, by_row, inner);
    down_bias_packed_.add(weights.down.bias_O, 0, padded_to(1, 1), by_row);
  }

  void pack_weights(WeightPacking& packing) override {
    up_weight_ = packing.add(up_packed_);
    down_weight_ = packing.add(down_packed_);
    down_bias_ = packing.add(down_bias_packed_).view({-1});
  }

  Tensor forward(const Tensor& normed_MP) override {
    normed_MP_ = normed_MP;
    up_ = product(normed_MP_, up_weight_.t());
    hidden_ = torch::empty_like(up_);
    gelu_bias_forward(gelu(), hidden_.data_ptr(), current_stream());
    return torch::addmm(down_bias_, hidden_, down_weight_.t());
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    Tensor d_up_weight, d_down_weight;
    side.run([&] { d_down_weight = weight_gradient(d_output_MP, hidden_); });
    const Tensor d_down_bias = column_sums(d_output_MP, side).narrow(0, 0, width_);
    const Tensor d_up = product(d_output_MP, down_weight_);  // of the hidden layer, and before gelu
    const Tensor d_up_bias = torch::empty_like(up_bias_I_);
    const Tensor scratch = scratch_bytes(gelu_bias_backward_scratch_bytes(gelu()), up_);
    gelu_bias_backward(gelu(), d_up.data_ptr(), d_up.data_ptr(), scratch.data_ptr(), current_stream());
    side.add(gelu_bias_sum(gelu(), scratch.data_ptr(), d_up_bias.data_ptr<float>()), scratch);
    side.run([&] { d_up_weight = weight_gradient(d_up, normed_MP_); });
    side.keep({d_output_MP, d_up});
    return {product(d_up, up_weight_),
            {up_packed_.gradients(d_up_weight, side)[0], d_up_bias, down_packed_.gradients(d_down_weight, side)[0],
             d_down_bias}};
  }

 private:
  GeluBias gelu() const {
    return {.rows = up_.size(0),
            .columns = inner_,
            .width = static_cast<int>(up_bias_I_.size(0)),
            .dtype = kernel_dtype(up_),
            .x = up_.data_ptr(),
            .bias = up_bias_I_.data_ptr<float>()};
  }

  Tensor up_bias_I_;
  int width_, inner_;
  PackedWeights up_packed_, down_packed_, down_bias_packed_;
  Tensor up_weight_, down_weight_, down_bias_;
  Tensor normed_MP_, up_, hidden_;
};

}  // namespace

std::vector<Tensor> list_of(std::initializer_list<AffineWeights> parts) {
  std::vector<Tensor> list;
  for (const AffineWeights& part : parts) {
    list.push_back(part.weight_OI);
    if (part.bias_O.defined()) list.push_back(part.bias_O);
  }
  return list;
}

std::unique_ptr<Branch> gelu_mlp_branch(const GeluMlpWeights& weights) {
  return std::make_unique<GeluMlpBranch>(weights);
}

}  // namespace engram::cuda
