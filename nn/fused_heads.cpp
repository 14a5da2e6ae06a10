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

// In the order in which an autograd function takes parameters and gives gradients.
void append(variable_list& list, const HeadWeights& head) {
  list.insert(list.end(),
              {head.weight1_ID, head.bias1_I, head.weight2_II, head.bias2_I, head.weight3_AI, head.bias3_A});
}

// The heads' parameters as stacked matrices.
struct HeadStacks {
  HeadStacks(const std::vector<HeadWeights>& weights, int stride)
      : hidden(static_cast<int>(weights[0].weight1_ID.size(0))),
        outputs(static_cast<int>(weights[0].weight3_AI.size(0))),
        actions(round_up(outputs, kActionMultiple)),
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
      const PackGroups own_actions = padded_to(outputs, actions);
      weight1.add(head.weight1_ID, i * hidden, all_hidden, padded_to(head.weight1_ID.size(1), stride));
      weight2.add(head.weight2_II, i * hidden, all_hidden, all_hidden);
      weight3.add(head.weight3_AI, i * actions, own_actions, all_hidden);
      hidden_bias.add(head.bias1_I, i, one, all_hidden);
      output_bias.add(head.bias3_A, i, one, own_actions);
    }
    for (int i = 0; i < count; ++i)
      hidden_bias.add(weights[static_cast<std::size_t>(i)].bias2_I, count + i, one, all_hidden);
  }

  // The gradients of the heads' weights, of which second and third layers' need no copy: of d_weight1 [count * hidden,
  // stride] of all heads, and of one head's [hidden, hidden] and [actions, hidden].
  void set_weight1(std::vector<HeadWeights>& gradients, const Tensor& d_weight1, SideWork& side) const {
    const std::vector<Tensor> own = weight1.gradients(d_weight1, side);
    for (std::size_t i = 0; i < own.size(); ++i) gradients[i].weight1_ID = own[i];
  }
  Tensor without_padding(const Tensor& d_layer3) const { return d_layer3.narrow(0, 0, outputs); }

  // A head's columns of a matrix of all heads' hidden units, and its rows of a stack.
  Tensor own(const Tensor& all_heads, int head) const { return all_heads.narrow(1, head * hidden, hidden); }
  static Tensor rows(const Tensor& stack, int head, int count) { return stack.narrow(0, head * count, count); }

  int hidden, outputs, actions, count;
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
  // All of the gradients, those of the heads the side's.
  variable_list finish(const Tensor& d_x, const std::vector<HeadWeights>& d_heads, SideWork& side) const {
    variable_list gradients;
    for (const HeadWeights& head : d_heads) append(gradients, head);
    side.finish(gradients, of_leaves_);
    gradients.insert(gradients.begin(), d_x);
    return gradients;
  }

  Tensor x_MP_;
  HeadStacks stacks_;
  bool of_leaves_;  // the parameters are
};

// A product a layer. Heads run beside each other: each is a chain of products too small for a GPU.
class LayeredHeads : public HeadsPass {
 public:
  LayeredHeads(const Tensor& x_MP, const std::vector<HeadWeights>& learning, const std::vector<HeadWeights>& targets,
               bool of_leaves)
      : HeadsPass(x_MP, learning, of_leaves), targets_(targets) {}

  variable_list forward() override {
    WeightPacking packing(x_MP_.scalar_type());
    packed_ = pack(stacks_, packing);
    if (targets_.empty()) {
      packing.run();
      return forward(stacks_, packed_, layers_);
    }
    const HeadStacks targets(targets_, static_cast<int>(x_MP_.size(1)));
    const Packed packed_targets = pack(targets, packing);
    packing.run();
    variable_list of_targets;
    const SideWork side(SideStreamOf::kWeights);
    side.run([&] {
      Layers unused;
      of_targets = forward(targets, packed_targets, unused);
    });
    variable_list outputs = forward(stacks_, packed_, layers_);
    side.join();
    outputs.insert(outputs.end(), of_targets.begin(), of_targets.end());
    return outputs;
  }

  variable_list backward(const variable_list& gradient) override {
    const auto& [first, seconds] = layers_;
    const int hidden = stacks_.hidden;
    const Tensor d_first = torch::empty_like(first);
    SideWork side(SideStreamOf::kWeights);
    std::vector<HeadWeights> d(gradient.size());
    variable_list d_outputs(gradient.size()), d_seconds(gradient.size());  // in the type of the products
    side_by_side(gradient.size(), [&](std::size_t i) {
      const int head = static_cast<int>(i);
      d_outputs[i] = gradient[i].to(x_MP_.scalar_type());
      d_seconds[i] = product(d_outputs[i], HeadStacks::rows(packed_.weight3, head, stacks_.actions));
      d[i].bias2_I = relu_backward(d_seconds[i], seconds[i], d_seconds[i], side);
      Tensor own_d_first = stacks_.own(d_first, head);
      torch::mm_out(own_d_first, d_seconds[i], HeadStacks::rows(packed_.weight2, head, hidden));
    });
    side.run([&] {
      for (std::size_t i = 0; i < d.size(); ++i) {
        d[i].weight3_AI = stacks_.without_padding(product_float(d_outputs[i].t(), seconds[i]));
        d[i].weight2_II = product_float(d_seconds[i].t(), stacks_.own(first, static_cast<int>(i)));
      }
    });
    const Tensor d_bias1 = relu_backward(d_first, first, d_first, side);
    for (std::size_t i = 0; i < d.size(); ++i) {
      d[i].bias1_I = HeadStacks::rows(d_bias1, static_cast<int>(i), hidden);
      d[i].bias3_A = stacks_.without_padding(column_sums(gradient[i], side));
    }
    Tensor d_weight1;
    side.run([&] { d_weight1 = product_float(d_first.t(), x_MP_); });
    stacks_.set_weight1(d, d_weight1, side);
    side.keep({d_first});
    side.keep(gradient);
    side.keep(d_outputs);
    side.keep(d_seconds);
    return finish(product(d_first, packed_.weight1), d, side);
  }

 private:
  struct Packed {
    Tensor weight1, weight2, weight3, hidden_bias, output_bias;
  };
  struct Layers {
    Tensor first;  // of all heads
    std::vector<Tensor> second;
  };

  static Packed pack(const HeadStacks& stacks, WeightPacking& packing) {
    return {packing.add(stacks.weight1), packing.add(stacks.weight2), packing.add(stacks.weight3),
            packing.add(stacks.hidden_bias), packing.add(stacks.output_bias, torch::kFloat32)};
  }

  variable_list forward(const HeadStacks& stacks, const Packed& packed, Layers& layers) const {
    const auto count = static_cast<std::size_t>(stacks.count);
    layers.first = affine(x_MP_, packed.weight1, packed.hidden_bias.narrow(0, 0, stacks.count).reshape({-1}),
                          /*relu=*/true);
    layers.second.resize(count);
    variable_list outputs(count);
    side_by_side(count, [&](std::size_t i) {
      const int head = static_cast<int>(i);
      layers.second[i] = affine(stacks.own(layers.first, head), HeadStacks::rows(packed.weight2, head, stacks.hidden),
                                packed.hidden_bias.select(0, stacks.count + head), /*relu=*/true);
      const Tensor weight3 = HeadStacks::rows(packed.weight3, head, stacks.actions);
      outputs[i] = product_float(layers.second[i], weight3.t()).add_(packed.output_bias.select(0, head));
    });
    return outputs;
  }

  std::vector<HeadWeights> targets_;
  Packed packed_;  // of the learning heads, as what follows
  Layers layers_;
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
    // Of the first layers of all heads, the second layers, the outputs.
    const Tensor d_bias = torch::empty({count * (2 * hidden + actions)}, float_options);
    side.add(mlp_heads_bias_sum(shape_, scratch.data_ptr(), d_bias.data_ptr<float>()), scratch);
    std::vector<HeadWeights> d(gradient.size());
    Tensor d_weight1;
    side.run([&] {
      for (int i = 0; i < count; ++i) {
        HeadWeights& own = d[static_cast<std::size_t>(i)];
        const Tensor second = stacks_.own(second_, i), d_own_output = d_output.narrow(1, i * actions, actions);
        own.bias1_I = HeadStacks::rows(d_bias, i, hidden);
        own.bias2_I = HeadStacks::rows(d_bias, count + i, hidden);
        own.bias3_A = d_bias.narrow(0, 2 * count * hidden + i * actions, stacks_.outputs);
        own.weight3_AI = stacks_.without_padding(product_float(d_own_output.t(), second));
        own.weight2_II = product_float(stacks_.own(d_second, i).t(), stacks_.own(first_, i));
      }
      d_weight1 = product_float(d_first.t(), x_MP_);
    });
    stacks_.set_weight1(d, d_weight1, side);
    side.keep({d_first, d_second, d_output});
    return finish(d_x, d, side);
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
  for (const HeadWeights& head : learning) append(parameters, head);
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
