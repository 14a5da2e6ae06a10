#include "nn/fused_heads.h"

#include <utility>

#include "kernels/mlp_heads/mlp_heads.h"
#include "nn/fused_linear.h"
#include "nn/fused_rows.h"
#include "nn/fused_support.h"
#include "nn/side_work.h"
#include "nn/weight_stack.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int kActionMultiple = 8;

// The heads' parameters as stacked matrices.
struct HeadStacks {
  HeadStacks(const std::vector<HeadWeights>& weights, int stride)
      : hidden(static_cast<int>(weights[0].weight1_ID.size(0))),
        actions(round_up(weights[0].weight3_AI.size(0), kActionMultiple)),
        count(static_cast<int>(weights.size())),
        weight1(count * hidden, stride),
        weight2(count * hidden, hidden),
        weight3(count * actions, hidden),
        hidden_bias(2 * count, hidden),
        output_bias(count, actions) {
    TORCH_CHECK(hidden % kVectorElements == 0, count, " heads of hidden width ", hidden);
    const PackGroups all_hidden = padded_to(hidden, hidden), one = padded_to(1, 1);
    for (int i = 0; i < count; ++i) {
      const HeadWeights& head = weights[static_cast<std::size_t>(i)];
      const PackGroups own_actions = padded_to(head.weight3_AI.size(0), actions);
      weight1.add(head.weight1_ID, i * hidden, all_hidden, padded_to(head.weight1_ID.size(1), stride));
      weight2.add(head.weight2_II, i * hidden, all_hidden, all_hidden);
      weight3.add(head.weight3_AI, i * actions, own_actions, all_hidden);
      hidden_bias.add(head.bias1_I, i, one, all_hidden);
      output_bias.add(head.bias3_A, i, one, own_actions);
    }
    for (int i = 0; i < count; ++i)
      hidden_bias.add(weights[static_cast<std::size_t>(i)].bias2_I, count + i, one, all_hidden);
  }

  // Gradients of the stacks as those of each head's six parameters.
  variable_list unpacked(const Tensor& d_weight1, const Tensor& d_weight2, const Tensor& d_weight3,
                         const Tensor& d_hidden_bias, const Tensor& d_output_bias) const {
    const auto weights1 = weight1.unpacked(d_weight1), weights2 = weight2.unpacked(d_weight2),
               weights3 = weight3.unpacked(d_weight3), hidden_biases = hidden_bias.unpacked(d_hidden_bias),
               output_biases = output_bias.unpacked(d_output_bias);
    variable_list gradients;
    for (std::size_t i = 0; i < weights1.size(); ++i)
      gradients.insert(gradients.end(), {weights1[i], hidden_biases[i], weights2[i], hidden_biases[weights1.size() + i],
                                         weights3[i], output_biases[i]});
    return gradients;
  }
  // A head's columns of a matrix of all heads' hidden units, and its rows of a stack.
  Tensor own(const Tensor& all_heads, int head) const { return all_heads.narrow(1, head * hidden, hidden); }
  static Tensor rows(const Tensor& stack, int head, int count) { return stack.narrow(0, head * count, count); }

  int hidden, actions, count;
  WeightStack weight1, weight2, weight3, hidden_bias, output_bias;
};

// The learning heads forward and backward, the targets forward.
class HeadsPass : public torch::CustomClassHolder {
 public:
  HeadsPass(const Tensor& x_MP, const std::vector<HeadWeights>& learning, bool of_leaves)
      : x_MP_(x_MP), stacks_(learning, static_cast<int>(x_MP.size(1))), of_leaves_(of_leaves) {}
  // The outputs of the learning heads, then of the targets, [M, actions] in float32.
  virtual variable_list forward() = 0;
  // The gradients of x and of each learning head's six parameters, given the outputs' gradients, contiguous.
  virtual variable_list backward(const variable_list& gradient) = 0;

  // The learning heads' outputs' gradients, which are undefined where nothing depends on an output.
  variable_list of_learning(const variable_list& gradient) const {
    variable_list own;
    for (std::size_t i = 0; i < static_cast<std::size_t>(stacks_.count); ++i)
      own.push_back(gradient[i].defined()
                        ? gradient[i].contiguous()
                        : torch::zeros({x_MP_.size(0), stacks_.actions}, x_MP_.options().dtype(torch::kFloat32)));
    return own;
  }

 protected:
  Tensor x_MP_;
  HeadStacks stacks_;
  bool of_leaves_;  // the parameters are
};

// A product a layer.
class LayeredHeads : public HeadsPass {
 public:
  LayeredHeads(const Tensor& x_MP, const std::vector<HeadWeights>& learning, const std::vector<HeadWeights>& targets,
               bool of_leaves)
      : HeadsPass(x_MP, learning, of_leaves), targets_(targets) {}

  variable_list forward() override {
    variable_list outputs = forward(stacks_, &kept_);
    if (!targets_.empty()) {
      Kept unused;
      const variable_list own = forward(HeadStacks(targets_, static_cast<int>(x_MP_.size(1))), &unused);
      outputs.insert(outputs.end(), own.begin(), own.end());
    }
    return outputs;
  }

  variable_list backward(const variable_list& gradient) override {
    const auto& [packed1, packed2, packed3, first, seconds] = kept_;
    const int count = stacks_.count, hidden = stacks_.hidden, actions = stacks_.actions;
    const auto dtype = x_MP_.scalar_type();
    const Tensor d_first = torch::empty_like(first);
    const auto float_options = first.options().dtype(torch::kFloat32);
    const Tensor d_weight2 = torch::empty({count * hidden, hidden}, float_options);
    const Tensor d_weight3 = torch::empty({count * actions, hidden}, float_options);
    const Tensor d_hidden_bias = torch::empty({2 * count, hidden}, float_options);
    const Tensor d_output_bias = torch::empty({count, actions}, float_options);
    SideWork side(SideStreamOf::kWeights);
    // Also the side's work: the gradient of the bias goes where all of them are unpacked from.
    const auto take = [&](const BiasGradient& gradient, const Tensor& to) {
      side.run([&] { to.copy_(gradient.bias.view(to.sizes())); });
      side.keep({gradient.bias, gradient.scratch});
    };
    for (int i = 0; i < count; ++i) {
      const Tensor& d_output = gradient[static_cast<std::size_t>(i)];
      const Tensor& second = seconds[static_cast<std::size_t>(i)];
      const Tensor d_narrow = d_output.to(dtype);
      take(relu_backward(d_output, {}, {}, side), d_output_bias.select(0, i));
      side.run([&] { HeadStacks::rows(d_weight3, i, actions).copy_(product_float(d_narrow.t(), second)); });
      const Tensor d_second = product(d_narrow, HeadStacks::rows(packed3, i, actions));
      take(relu_backward(d_second, second, d_second, side), d_hidden_bias.select(0, count + i));
      side.run(
          [&] { HeadStacks::rows(d_weight2, i, hidden).copy_(product_float(d_second.t(), stacks_.own(first, i))); });
      Tensor own_d_first = stacks_.own(d_first, i);
      torch::mm_out(own_d_first, d_second, HeadStacks::rows(packed2, i, hidden));
      side.keep({d_output, d_narrow, d_second});
    }
    take(relu_backward(d_first, first, d_first, side), d_hidden_bias.narrow(0, 0, count));
    variable_list parameters;
    side.run([&] {
      parameters =
          stacks_.unpacked(product_float(d_first.t(), x_MP_), d_weight2, d_weight3, d_hidden_bias, d_output_bias);
    });
    variable_list gradients{product(d_first, packed1)};
    side.keep({d_first, d_weight2, d_weight3, d_hidden_bias, d_output_bias});
    side.finish(parameters, of_leaves_);
    gradients.insert(gradients.end(), parameters.begin(), parameters.end());
    return gradients;
  }

 private:
  // What the backward pass needs.
  struct Kept {
    Tensor packed1, packed2, packed3;
    Tensor first;
    std::vector<Tensor> second;
  };

  variable_list forward(const HeadStacks& stacks, Kept* kept) const {
    const auto dtype = x_MP_.scalar_type();
    const auto packed = WeightStack::packed({{stacks.weight1, dtype},
                                             {stacks.weight2, dtype},
                                             {stacks.weight3, dtype},
                                             {stacks.hidden_bias, dtype},
                                             {stacks.output_bias, torch::kFloat32}});
    const Tensor &hidden_bias = packed[3], &output_bias = packed[4];
    const int count = stacks.count;
    *kept = {packed[0],
             packed[1],
             packed[2],
             affine(x_MP_, packed[0], hidden_bias.narrow(0, 0, count).reshape({-1}), /*relu=*/true),
             {}};
    variable_list outputs;
    for (int i = 0; i < count; ++i) {
      kept->second.push_back(affine(stacks.own(kept->first, i), HeadStacks::rows(kept->packed2, i, stacks.hidden),
                                    hidden_bias.select(0, count + i), /*relu=*/true));
      const Tensor weight3 = HeadStacks::rows(kept->packed3, i, stacks.actions);
      outputs.push_back(product_float(kept->second.back(), weight3.t()).add_(output_bias.select(0, i)));
    }
    return outputs;
  }

  std::vector<HeadWeights> targets_;
  Kept kept_;
};

HeadSizes sizes_of(const std::vector<HeadWeights>& learning, const std::vector<HeadWeights>& targets) {
  return {.width = learning[0].weight1_ID.size(1),
          .hidden = learning[0].weight1_ID.size(0),
          .actions = learning[0].weight3_AI.size(0),
          .learning = static_cast<int>(learning.size()),
          .targets = static_cast<int>(targets.size())};
}

MlpHeadsShape shape_of(const HeadSizes& sizes, std::int64_t rows) {
  return {.rows = rows,
          .width = static_cast<int>(sizes.width),
          .stride = round_up(sizes.width, kWidthMultiple),
          .hidden = static_cast<int>(sizes.hidden),
          .outputs = static_cast<int>(sizes.actions),
          .heads = sizes.learning + sizes.targets,
          .kept = sizes.learning};
}

// All layers in one kernel (kernels/mlp_heads), in bfloat16 on a device that it is for.
class FusedHeads : public HeadsPass {
 public:
  FusedHeads(const Tensor& x_MP, const std::vector<HeadWeights>& learning, const std::vector<HeadWeights>& targets,
             bool of_leaves)
      : HeadsPass(x_MP, learning, of_leaves), shape_(shape_of(sizes_of(learning, targets), x_MP.size(0))) {
    for (const auto* heads : {&learning, &targets})
      for (const HeadWeights& head : *heads)
        for (const Tensor& parameter :
             {head.weight1_ID, head.bias1_I, head.weight2_II, head.bias2_I, head.weight3_AI, head.bias3_A})
          parameters_.push_back(parameter.detach().contiguous());
  }

  variable_list forward() override {
    std::vector<MlpHeadWeights> weights;
    for (std::size_t i = 0; i < parameters_.size(); i += 6) {
      const auto parameter = [&](std::size_t j) { return parameters_[i + j].data_ptr<float>(); };
      weights.push_back({parameter(0), parameter(1), parameter(2), parameter(3), parameter(4), parameter(5)});
    }
    packed_ = scratch_bytes(mlp_heads_packed_bytes(shape_), x_MP_);
    mlp_heads_pack(shape_, weights, packed_.data_ptr(), current_stream());
    first_ = torch::empty({shape_.rows, shape_.kept * shape_.hidden}, x_MP_.options());
    second_ = torch::empty_like(first_);
    masks_ = scratch_bytes(mlp_heads_mask_bytes(shape_), x_MP_);
    MlpHeadsForward arguments{.shape = shape_,
                              .x_MP = x_MP_.data_ptr(),
                              .packed = packed_.data_ptr(),
                              .first = first_.data_ptr(),
                              .second = second_.data_ptr(),
                              .masks = masks_.data_ptr(),
                              .output_MA = {}};
    variable_list outputs;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      outputs.push_back(torch::empty({shape_.rows, shape_.output_stride()}, x_MP_.options().dtype(torch::kFloat32)));
      arguments.output_MA[i] = outputs.back().data_ptr<float>();
    }
    mlp_heads_forward(arguments, current_stream());
    return outputs;
  }

  variable_list backward(const variable_list& gradient) override {
    const int count = stacks_.count, hidden = stacks_.hidden, actions = stacks_.actions;
    const auto float_options = x_MP_.options().dtype(torch::kFloat32);
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
    const Tensor d_bias = torch::empty({count * (2 * hidden + actions)}, float_options);
    const Tensor d_weight2 = torch::empty({count * hidden, hidden}, float_options);
    const Tensor d_weight3 = torch::empty({count * actions, hidden}, float_options);
    variable_list parameters;
    side.run([&] {
      mlp_heads_bias_sums(shape_, scratch.data_ptr(), d_bias.data_ptr<float>(), current_stream());
      for (int i = 0; i < count; ++i) {
        const Tensor second = stacks_.own(second_, i), d_own_output = d_output.narrow(1, i * actions, actions);
        HeadStacks::rows(d_weight3, i, actions).copy_(product_float(d_own_output.t(), second));
        HeadStacks::rows(d_weight2, i, hidden)
            .copy_(product_float(stacks_.own(d_second, i).t(), stacks_.own(first_, i)));
      }
      const int hidden_biases = 2 * count * hidden;
      parameters = stacks_.unpacked(product_float(d_first.t(), x_MP_), d_weight2, d_weight3,
                                    d_bias.narrow(0, 0, hidden_biases).view({2 * count, hidden}),
                                    d_bias.narrow(0, hidden_biases, count * actions).view({count, actions}));
    });
    side.keep({d_first, d_second, d_output, scratch, d_bias, d_weight2, d_weight3});
    side.finish(parameters, of_leaves_);
    variable_list gradients{d_x};
    gradients.insert(gradients.end(), parameters.begin(), parameters.end());
    return gradients;
  }

 private:
  MlpHeadsShape shape_;
  std::vector<Tensor> parameters_;  // float32, of the learning heads, then of the targets
  Tensor packed_, masks_, first_, second_;
};

class HeadsFunction : public torch::autograd::Function<HeadsFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x_MP, at::TensorList parameters,
                               const std::vector<HeadWeights>& targets) {
    std::vector<HeadWeights> learning;
    for (std::size_t i = 0; i < parameters.size(); i += 6)
      learning.push_back({parameters[i], parameters[i + 1], parameters[i + 2], parameters[i + 3], parameters[i + 4],
                          parameters[i + 5]});
    c10::intrusive_ptr<HeadsPass> pass;
    if (one_kernel_heads_support(sizes_of(learning, targets), x_MP.scalar_type(), x_MP.device()))
      pass = c10::make_intrusive<FusedHeads>(x_MP.detach(), learning, targets, are_leaves(parameters));
    else
      pass = c10::make_intrusive<LayeredHeads>(x_MP.detach(), learning, targets, are_leaves(parameters));
    variable_list outputs = pass->forward();
    context->set_materialize_grads(false);  // of the targets' outputs
    context->mark_non_differentiable({outputs.begin() + static_cast<std::ptrdiff_t>(learning.size()), outputs.end()});
    context->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return outputs;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto holder = context->saved_data["pass"].toCapsule();
    HeadsPass& pass = static_cast<HeadsPass&>(*holder);
    variable_list gradients = pass.backward(pass.of_learning(gradient));
    gradients.emplace_back();  // of the targets
    return gradients;
  }
};

}  // namespace

Support heads_support(const HeadSizes& sizes, torch::ScalarType dtype, torch::Device device) {
  if (Support on_device = device_support(dtype, device); !on_device) return on_device;
  if (sizes.hidden % kVectorElements != 0)
    return Support::no("hidden width " + std::to_string(sizes.hidden) + " is not a multiple of 8");
  return at_most("hidden width", sizes.hidden, kMaxHeadHidden);
}

Support one_kernel_heads_sizes(const HeadSizes& sizes, torch::ScalarType dtype) {
  if (dtype != torch::kBFloat16) return Support::no("the kernel computes in bfloat16 alone");
  return mlp_heads_sizes(shape_of(sizes, /*rows=*/1));
}

Support one_kernel_heads_support(const HeadSizes& sizes, torch::ScalarType dtype, torch::Device device) {
  if (Support own = heads_support(sizes, dtype, device); !own) return own;
  if (Support own = one_kernel_heads_sizes(sizes, dtype); !own) return own;
  return mlp_heads_support(shape_of(sizes, /*rows=*/1));
}

HeadOutputs heads(const Tensor& x, const std::vector<HeadWeights>& learning, const std::vector<HeadWeights>& targets) {
  variable_list parameters;
  for (const HeadWeights& head : learning)
    parameters.insert(parameters.end(),
                      {head.weight1_ID, head.bias1_I, head.weight2_II, head.bias2_I, head.weight3_AI, head.bias3_A});
  variable_list outputs = HeadsFunction::apply(to_rows(x), at::TensorList(parameters), targets);
  std::vector<std::int64_t> shape = x.sizes().vec();
  for (Tensor& output : outputs) {
    shape.back() = output.size(1);
    output = output.view(shape);
  }
  const auto behind_learning = outputs.begin() + static_cast<std::ptrdiff_t>(learning.size());
  return {{outputs.begin(), behind_learning}, {behind_learning, outputs.end()}};
}

}  // namespace engram::fused
