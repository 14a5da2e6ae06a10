// HeadsPass: one way of computing fused heads (heads.h), forward and backward; and PackedHeads, their parameters
// as matrices of all heads.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "nn/fused/heads/heads.h"
#include "nn/fused/rows.h"
#include "nn/fused/weights/packed_weights.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {

using torch::Tensor;
using torch::autograd::variable_list;

constexpr int kActionMultiple = 8;

// In the order in which an autograd function takes parameters and gives gradients.
inline void append(variable_list& list, const HeadWeights& head) {
  list.insert(list.end(),
              {head.weight1_ID, head.bias1_I, head.weight2_II, head.bias2_I, head.weight3_AI, head.bias3_A});
}

// The heads' parameters as one matrix each.
struct PackedHeads {
  PackedHeads(const std::vector<HeadWeights>& weights, int stride)
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

  // A head's columns of a matrix of all heads' hidden units, and its rows of packed weights.
  Tensor own(const Tensor& all_heads, int head) const { return all_heads.narrow(1, head * hidden, hidden); }
  static Tensor rows(const Tensor& packed, int head, int count) { return packed.narrow(0, head * count, count); }

  int hidden, outputs, actions, count;
  PackedWeights weight1, weight2, weight3, hidden_bias, output_bias;
};

// The learning heads forward and backward, the targets forward.
class HeadsPass : public torch::CustomClassHolder {
 public:
  HeadsPass(const Tensor& x_MP, const std::vector<HeadWeights>& learning, bool of_leaves)
      : x_MP_(x_MP), heads_(learning, static_cast<int>(x_MP.size(1))), of_leaves_(of_leaves) {}
  // The outputs of the learning heads, then of the targets, [M, actions] in float32.
  virtual variable_list forward() = 0;
  // The gradients of x and of each learning head's six parameters, given the outputs' gradients, contiguous.
  virtual variable_list backward(const variable_list& gradient) = 0;

  // The learning heads' outputs' gradients, which are undefined where nothing depends on an output.
  variable_list of_learning(const variable_list& gradient) const {
    variable_list own;
    for (std::size_t i = 0; i < static_cast<std::size_t>(heads_.count); ++i)
      own.push_back(gradient[i].defined()
                        ? gradient[i].contiguous()
                        : torch::zeros({x_MP_.size(0), heads_.actions}, x_MP_.options().dtype(torch::kFloat32)));
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
  PackedHeads heads_;
  bool of_leaves_;  // the parameters are
};

inline HeadSizes sizes_of(const std::vector<HeadWeights>& learning, const std::vector<HeadWeights>& targets) {
  return {.width = learning[0].weight1_ID.size(1),
          .hidden = learning[0].weight1_ID.size(0),
          .actions = learning[0].weight3_AI.size(0),
          .learning = static_cast<int>(learning.size()),
          .targets = static_cast<int>(targets.size())};
}

}  // namespace engram::cuda
