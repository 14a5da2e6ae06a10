#include "nn/fused/heads/heads.h"

#include <cstddef>
#include <string>
#include <utility>

#include "nn/fused/heads/heads_pass.h"
#include "nn/fused/heads/one_kernel_heads.h"
#include "nn/fused/linear.h"
#include "nn/fused/support.h"

namespace engram::cuda {
namespace {

using torch::autograd::AutogradContext;

// A product a layer. Heads run beside each other: each is a chain of products too small for a GPU.
class LayeredHeads : public HeadsPass {
 public:
  LayeredHeads(const Tensor& x_MP, const std::vector<HeadWeights>& learning, const std::vector<HeadWeights>& targets,
               bool of_leaves)
      : HeadsPass(x_MP, learning, of_leaves), targets_(targets) {}

  variable_list forward() override {
    WeightPacking packing(x_MP_.scalar_type());
    packed_ = pack(heads_, packing);
    if (targets_.empty()) {
      packing.run();
      return forward(heads_, packed_, layers_);
    }
    const PackedHeads targets(targets_, static_cast<int>(x_MP_.size(1)));
    const Packed packed_targets = pack(targets, packing);
    packing.run();
    variable_list of_targets;
    const SideWork side(SideStreamOf::kWeights);
    side.run([&] {
      Layers unused;
      of_targets = forward(targets, packed_targets, unused);
    });
    variable_list outputs = forward(heads_, packed_, layers_);
    side.join();
    outputs.insert(outputs.end(), of_targets.begin(), of_targets.end());
    return outputs;
  }

  variable_list backward(const variable_list& gradient) override {
    const auto& [first, seconds] = layers_;
    const int hidden = heads_.hidden;
    const Tensor d_first = torch::empty_like(first);
    SideWork side(SideStreamOf::kWeights);
    std::vector<HeadWeights> d(gradient.size());
    variable_list d_outputs(gradient.size()), d_seconds(gradient.size());  // in the type of the products
    side_by_side(gradient.size(), [&](std::size_t i) {
      const int head = static_cast<int>(i);
      d_outputs[i] = gradient[i].to(x_MP_.scalar_type());
      d_seconds[i] = product(d_outputs[i], PackedHeads::rows(packed_.weight3, head, heads_.actions));
      d[i].bias2_I = relu_backward(d_seconds[i], seconds[i], d_seconds[i], side);
      Tensor own_d_first = heads_.own(d_first, head);
      torch::mm_out(own_d_first, d_seconds[i], PackedHeads::rows(packed_.weight2, head, hidden));
    });
    side.run([&] {
      for (std::size_t i = 0; i < d.size(); ++i) {
        d[i].weight3_AI = heads_.without_padding(product_float(d_outputs[i].t(), seconds[i]));
        d[i].weight2_II = product_float(d_seconds[i].t(), heads_.own(first, static_cast<int>(i)));
      }
    });
    const Tensor d_bias1 = relu_backward(d_first, first, d_first, side);
    for (std::size_t i = 0; i < d.size(); ++i) {
      d[i].bias1_I = PackedHeads::rows(d_bias1, static_cast<int>(i), hidden);
      d[i].bias3_A = heads_.without_padding(column_sums(gradient[i], side));
    }
    Tensor d_weight1;
    side.run([&] { d_weight1 = weight_gradient(d_first, x_MP_); });
    heads_.set_weight1(d, d_weight1, side);
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

  static Packed pack(const PackedHeads& heads, WeightPacking& packing) {
    return {packing.add(heads.weight1), packing.add(heads.weight2), packing.add(heads.weight3),
            packing.add(heads.hidden_bias), packing.add(heads.output_bias, torch::kFloat32)};
  }

  variable_list forward(const PackedHeads& heads, const Packed& packed, Layers& layers) const {
    const auto count = static_cast<std::size_t>(heads.count);
    layers.first = affine(x_MP_, packed.weight1, packed.hidden_bias.narrow(0, 0, heads.count).reshape({-1}),
                          /*relu=*/true);
    layers.second.resize(count);
    variable_list outputs(count);
    side_by_side(count, [&](std::size_t i) {
      const int head = static_cast<int>(i);
      layers.second[i] = affine(heads.own(layers.first, head), PackedHeads::rows(packed.weight2, head, heads.hidden),
                                packed.hidden_bias.select(0, heads.count + head), /*relu=*/true);
      const Tensor weight3 = PackedHeads::rows(packed.weight3, head, heads.actions);
      outputs[i] = affine_float(layers.second[i], weight3, packed.output_bias.select(0, head));
    });
    return outputs;
  }

  std::vector<HeadWeights> targets_;
  Packed packed_;  // of the learning heads, as what follows
  Layers layers_;
};

class HeadsFunction : public torch::autograd::Function<HeadsFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x_MP, at::TensorList parameters,
                               const std::vector<HeadWeights>& targets) {
    std::vector<HeadWeights> learning;
    for (std::size_t i = 0; i < parameters.size(); i += 6)
      learning.push_back({parameters[i], parameters[i + 1], parameters[i + 2], parameters[i + 3], parameters[i + 4],
                          parameters[i + 5]});
    const Tensor x = x_MP.detach();
    const bool of_leaves = are_leaves(parameters);
    c10::intrusive_ptr<HeadsPass> pass = one_kernel_heads(x, learning, targets, of_leaves);
    if (!pass) pass = c10::make_intrusive<LayeredHeads>(x, learning, targets, of_leaves);
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

Support supports_heads(const HeadSizes& sizes, torch::ScalarType dtype, torch::Device device) {
  if (Support on_device = supports_device(dtype, device); !on_device) return on_device;
  if (sizes.hidden % kVectorElements != 0)
    return Support::no("hidden width " + std::to_string(sizes.hidden) + " is not a multiple of 8");
  return at_most("hidden width", sizes.hidden, kMaxHeadHidden);
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

}  // namespace engram::cuda
