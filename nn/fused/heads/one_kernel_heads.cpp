#include "nn/fused/heads/one_kernel_heads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/heads/mlp_heads/mlp_heads.h"
#include "kernels/heads/narrow_heads/narrow_heads.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/weights/prepared_weights.h"

namespace engram::cuda {
namespace {

MlpHeadsShape shape_of(const HeadSizes& sizes, std::int64_t rows) {
  return {.rows = rows,
          .width = static_cast<int>(sizes.width),
          .stride = round_up(sizes.width, kWidthMultiple),
          .hidden = static_cast<int>(sizes.hidden),
          .outputs = static_cast<int>(sizes.actions),
          .heads = sizes.learning + sizes.targets,
          .kept = sizes.learning};
}

// What the kernels are given and give, in bfloat16.
class OneKernelHeads : public HeadsPass {
 public:
  OneKernelHeads(const Tensor& x_MP, const std::vector<HeadWeights>& learning, const std::vector<HeadWeights>& targets,
                 bool of_leaves)
      : HeadsPass(x_MP, learning, of_leaves), shape_(shape_of(sizes_of(learning, targets), x_MP.size(0))) {
    for (const auto* heads : {&learning, &targets})
      for (const HeadWeights& head : *heads) append(parameters_, head);
    for (Tensor& parameter : parameters_) parameter = parameter.detach().contiguous();
  }

 protected:
  // Of the learning heads, then of the targets.
  const std::vector<Tensor>& parameters() const { return parameters_; }
  std::vector<MlpHeadWeights> weights() const {
    std::vector<MlpHeadWeights> weights;
    for (std::size_t i = 0; i < parameters_.size(); i += 6) {
      const auto parameter = [&](std::size_t j) { return parameters_[i + j].data_ptr<float>(); };
      weights.push_back({parameter(0), parameter(1), parameter(2), parameter(3), parameter(4), parameter(5)});
    }
    return weights;
  }
  void make_hidden_layers() {
    first_ = torch::empty({shape_.rows, shape_.kept * shape_.hidden}, x_MP_.options());
    second_ = torch::empty_like(first_);
  }
  variable_list make_outputs(float* (&output_MA)[kMaxMlpHeads]) const {
    variable_list outputs;
    for (int i = 0; i < shape_.heads; ++i) {
      outputs.push_back(torch::empty({shape_.rows, shape_.output_stride()}, float_options()));
      output_MA[i] = outputs.back().data_ptr<float>();
    }
    return outputs;
  }
  torch::TensorOptions float_options() const { return x_MP_.options().dtype(torch::kFloat32); }

  // A head's gradients of biases in those of the first layers of all heads, the second layers, the outputs.
  void set_biases(HeadWeights& gradients, const Tensor& d_bias, int head) const {
    const int count = heads_.count, hidden = heads_.hidden;
    gradients.bias1_I = PackedHeads::rows(d_bias, head, hidden);
    gradients.bias2_I = PackedHeads::rows(d_bias, count + head, hidden);
    gradients.bias3_A = d_bias.narrow(0, 2 * count * hidden + head * heads_.actions, heads_.outputs);
  }
  Tensor make_biases() const {
    return torch::empty({heads_.count * (2 * heads_.hidden + heads_.actions)}, float_options());
  }

  MlpHeadsShape shape_;
  Tensor first_, second_;

 private:
  std::vector<Tensor> parameters_;  // float32
};

// 256 hidden units; the weights' gradients are products of cuBLAS.
class MlpHeads : public OneKernelHeads {
 public:
  using OneKernelHeads::OneKernelHeads;

  variable_list forward() override {
    packed_ = PreparedWeights::made(parameters(), [shape = shape_, weights = weights(), like = parameters()[0]] {
      const Tensor packed = scratch_bytes(mlp_heads_packed_bytes(shape), like);
      mlp_heads_pack(shape, weights, packed.data_ptr(), current_stream());
      return std::vector{packed};
    })[0];
    make_hidden_layers();
    masks_ = scratch_bytes(mlp_heads_mask_bytes(shape_), x_MP_);
    MlpHeadsForward arguments{.shape = shape_,
                              .x_MP = x_MP_.data_ptr(),
                              .packed = packed_.data_ptr(),
                              .first = first_.data_ptr(),
                              .second = second_.data_ptr(),
                              .masks = masks_.data_ptr(),
                              .output_MA = {}};
    const variable_list outputs = make_outputs(arguments.output_MA);
    mlp_heads_forward(arguments, current_stream());
    return outputs;
  }

  variable_list backward(const variable_list& gradient) override {
    const int count = heads_.count, actions = heads_.actions;
    const Tensor d_first = torch::empty_like(first_), d_second = torch::empty_like(first_);
    const Tensor d_output = torch::empty({shape_.rows, count * actions}, x_MP_.options());
    const Tensor d_x = torch::empty_like(x_MP_);
    const Tensor scratch = scratch_bytes(mlp_heads_backward_scratch_bytes(shape_), x_MP_);
    MlpHeadsBackward arguments{.shape = shape_,
                               .packed = packed_.data_ptr(),
                               .masks = masks_.data_ptr(),
                               .d_output_MA = {},
                               .d_first = d_first.data_ptr(),
                               .d_second = d_second.data_ptr(),
                               .d_output_rounded = d_output.data_ptr(),
                               .d_x_MP = d_x.data_ptr()};
    for (std::size_t i = 0; i < gradient.size(); ++i) arguments.d_output_MA[i] = gradient[i].data_ptr<float>();
    mlp_heads_backward(arguments, scratch.data_ptr(), current_stream());

    SideWork side(SideStreamOf::kWeights);
    const Tensor d_bias = make_biases();
    side.add(mlp_heads_bias_sum(shape_, scratch.data_ptr(), d_bias.data_ptr<float>()), scratch);
    std::vector<HeadWeights> d(gradient.size());
    Tensor d_weight1;
    side.run([&] {
      for (int i = 0; i < count; ++i) {
        HeadWeights& own = d[static_cast<std::size_t>(i)];
        const Tensor second = heads_.own(second_, i), d_own_output = d_output.narrow(1, i * actions, actions);
        set_biases(own, d_bias, i);
        own.weight3_AI = heads_.without_padding(product_float(d_own_output.t(), second));
        own.weight2_II = product_float(heads_.own(d_second, i).t(), heads_.own(first_, i));
      }
      d_weight1 = weight_gradient(d_first, x_MP_);
    });
    heads_.set_weight1(d, d_weight1, side);
    side.keep({d_first, d_second, d_output});
    return finish(d_x, d, side);
  }

 private:
  Tensor packed_, masks_;
};

// Few hidden units, in small blocks.
class NarrowHeads : public OneKernelHeads {
 public:
  using OneKernelHeads::OneKernelHeads;

  variable_list forward() override {
    make_hidden_layers();
    NarrowHeadsForward arguments{.shape = shape_,
                                 .x_MP = x_MP_.data_ptr(),
                                 .weights = {},
                                 .first = first_.data_ptr(),
                                 .second = second_.data_ptr(),
                                 .output_MA = {}};
    std::ranges::copy(weights(), arguments.weights);
    const variable_list outputs = make_outputs(arguments.output_MA);
    narrow_heads_forward(arguments, current_stream());
    return outputs;
  }

  variable_list backward(const variable_list& gradient) override {
    const int count = heads_.count, hidden = heads_.hidden, outputs = heads_.outputs;
    const Tensor d_x = torch::empty_like(x_MP_);
    const Tensor scratch = scratch_bytes(narrow_heads_backward_scratch_bytes(shape_), x_MP_);
    NarrowHeadsBackward arguments{.shape = shape_,
                                  .x_MP = x_MP_.data_ptr(),
                                  .weights = {},
                                  .first = first_.data_ptr(),
                                  .second = second_.data_ptr(),
                                  .d_output_MA = {},
                                  .d_x_MP = d_x.data_ptr()};
    std::copy_n(weights().begin(), count, arguments.weights);
    for (std::size_t i = 0; i < gradient.size(); ++i) arguments.d_output_MA[i] = gradient[i].data_ptr<float>();
    narrow_heads_backward(arguments, scratch.data_ptr(), current_stream());

    SideWork side(SideStreamOf::kWeights);
    const Tensor d_weight1 = torch::empty({count * hidden, shape_.width}, float_options());
    const Tensor d_weight2 = torch::empty({count * hidden, hidden}, float_options());
    const Tensor d_weight3 = torch::empty({count * outputs, hidden}, float_options());
    const Tensor d_bias = make_biases();
    for (const GradientSum& sum : narrow_heads_sums(shape_, scratch.data_ptr(),
                                                    {d_weight1.data_ptr<float>(), d_weight2.data_ptr<float>(),
                                                     d_weight3.data_ptr<float>(), d_bias.data_ptr<float>()}))
      side.add(sum, scratch);
    std::vector<HeadWeights> d(gradient.size());
    for (int i = 0; i < count; ++i) {
      HeadWeights& own = d[static_cast<std::size_t>(i)];
      own.weight1_ID = PackedHeads::rows(d_weight1, i, hidden);
      own.weight2_II = PackedHeads::rows(d_weight2, i, hidden);
      own.weight3_AI = PackedHeads::rows(d_weight3, i, outputs);
      set_biases(own, d_bias, i);
    }
    return finish(d_x, d, side);
  }
};

}  // namespace

c10::intrusive_ptr<HeadsPass> one_kernel_heads(const Tensor& x_MP, const std::vector<HeadWeights>& learning,
                                               const std::vector<HeadWeights>& targets, bool of_leaves) {
  const HeadSizes sizes = sizes_of(learning, targets);
  if (!supports_one_kernel_heads(sizes, x_MP.scalar_type(), x_MP.device())) return {};
  if (sizes.hidden == kMlpHeadsHidden) return c10::make_intrusive<MlpHeads>(x_MP, learning, targets, of_leaves);
  return c10::make_intrusive<NarrowHeads>(x_MP, learning, targets, of_leaves);
}

Support supports_one_kernel_heads_sizes(const HeadSizes& sizes, torch::ScalarType dtype) {
  if (dtype != torch::kBFloat16) return Support::no("the kernels compute in bfloat16 alone");
  const MlpHeadsShape shape = shape_of(sizes, /*rows=*/1);
  if (supports_mlp_heads_sizes(shape) || supports_narrow_heads_sizes(shape)) return {};
  if (Support limits = supports_mlp_heads_limits(shape); !limits) return limits;
  return Support::no("hidden width " + std::to_string(sizes.hidden) + " is not 64, 128 or 256");
}

Support supports_one_kernel_heads(const HeadSizes& sizes, torch::ScalarType dtype, torch::Device device) {
  if (Support own = supports_heads(sizes, dtype, device); !own) return own;
  if (Support own = supports_one_kernel_heads_sizes(sizes, dtype); !own) return own;
  const MlpHeadsShape shape = shape_of(sizes, /*rows=*/1);
  return sizes.hidden == kMlpHeadsHidden ? supports_mlp_heads(shape) : supports_narrow_heads(shape);
}

}  // namespace engram::cuda
