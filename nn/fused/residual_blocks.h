// A stack of residual branches on a GPU as one differentiable operation with a backward pass of its own:
//   x <- dropout(x),   x <- x + dropout(branch(norm(x))) for one branch after the other,   and a norm at the end.
// Between two branches one kernel adds to x and normalises the sum; in the backward pass one kernel goes back through
// the norm, adds to the gradient of x and drops what the next branch is given. For acting the same without gradients.
//
// Rows [M, P], types and the clock of a dropout: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/dropout.h"

namespace engram::cuda {

class SideWork;       // weights/side_work.h
class WeightPacking;  // weights/packed_weights.h

constexpr int kWidthMultiple = 16;  // P is one

// A branch of a residual stream, for one forward pass.
class ForwardBranch {
 public:
  virtual ~ForwardBranch() = default;

  // Adds the weights to those that are packed before forward().
  virtual void pack_weights(WeightPacking& packing) = 0;
  virtual torch::Tensor forward(const torch::Tensor& normed_MP) = 0;
};

// And for its backward pass.
class Branch : public ForwardBranch {
 public:
  explicit Branch(std::vector<torch::Tensor> parameters) : parameters_(std::move(parameters)) {}

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }

  struct Gradients {
    torch::Tensor normed_MP;
    std::vector<torch::Tensor> parameters;  // written by the side
  };
  virtual Gradients backward(const torch::Tensor& d_output_MP, SideWork& side) = 0;

 private:
  std::vector<torch::Tensor> parameters_;
};

// RMS norm where it has a weight alone, layer norm where it has a bias too.
struct Norm {
  Norm(torch::Tensor rms_weight_D) : weight_D(std::move(rms_weight_D)) {}
  Norm(torch::Tensor layer_weight_D, torch::Tensor layer_bias_D)
      : weight_D(std::move(layer_weight_D)), bias_D(std::move(layer_bias_D)) {}

  torch::Tensor weight_D, bias_D;
};

template <class OfBranch>
struct ResidualOf {
  Norm norm;
  std::unique_ptr<OfBranch> branch;
  DropoutKey dropout;
};
using Residual = ResidualOf<Branch>;
using ForwardResidual = ResidualOf<ForwardBranch>;

// x [..., D] -> [..., D], a view of rows. Rows of x may stand apart: what to_rows() or a dropout gave is read where it
// stands.
torch::Tensor residual_blocks(const torch::Tensor& x, const DropoutKey& input_dropout, std::vector<Residual> residuals,
                              Norm last);

// The same without gradients, all of it on the current stream, so that a graph may capture it: x [M, D] of any type ->
// [M, D] in `dtype`, in which it is computed.
torch::Tensor forward_residual_blocks(const torch::Tensor& x_MD, torch::ScalarType dtype,
                                      const DropoutKey& input_dropout, const std::vector<ForwardResidual>& residuals,
                                      const Norm& last);

}  // namespace engram::cuda
