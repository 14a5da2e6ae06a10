#include "nn/fused/residual_blocks.h"

#include <cstddef>

#include "nn/fused/rows.h"
#include "nn/fused/weights/packed_weights.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Those of all branches, for products in `dtype`.
template <class OfBranch>
void pack_weights(const std::vector<ResidualOf<OfBranch>>& residuals, torch::ScalarType dtype) {
  WeightPacking packing(dtype);
  for (const ResidualOf<OfBranch>& residual : residuals) residual.branch->pack_weights(packing);
  packing.run();
}

class ResidualPass : public torch::CustomClassHolder {
 public:
  ResidualPass(const DropoutKey& input_dropout, std::vector<Residual> residuals, Norm last)
      : input_dropout_(input_dropout), residuals_(std::move(residuals)), last_(std::move(last)) {}

  // In the same order as backward()'s gradients.
  variable_list parameters() const {
    variable_list all;
    const auto add = [&](const variable_list& own) { all.insert(all.end(), own.begin(), own.end()); };
    for (const Residual& residual : residuals_) {
      add(parameters_of(residual.norm));
      add(residual.branch->parameters());
    }
    add(parameters_of(last_));
    return all;
  }
  void set_of_leaves(bool of_leaves) { of_leaves_ = of_leaves; }

  Tensor forward(const Tensor& x) {
    const Tensor input = readable_rows(x);
    const SideWork side(SideStreamOf::kWeights);
    side.run([&] { pack_weights(residuals_, x.scalar_type()); });
    NormedSum rows = normed_sum(input, input_dropout_, Tensor(), norm_before(0));
    side.join();
    for (std::size_t i = 0; i < residuals_.size(); ++i) {
      x_MP_.push_back(rows.x_MP);
      const Tensor output_MP = residuals_[i].branch->forward(rows.normed_MP);
      rows = normed_sum(output_MP, residuals_[i].dropout, rows.x_MP, norm_before(i + 1));
    }
    x_MP_.push_back(rows.x_MP);
    return rows.normed_MP;
  }

  // The gradients of x, as rows, and of the parameters.
  variable_list backward(const Tensor& gradient) {
    SideWork side(SideStreamOf::kWeights);
    // From the gradient after a norm: x's before it, and x's with the dropout of the branch that was added before.
    const auto back = [&](std::size_t i, const Tensor& d_normed, const Tensor& d_x_MP) {
      const bool first = i == 0;
      return normalized_backward(x_MP_[i], norm_before(i), d_normed, d_x_MP,
                                 first ? input_dropout_ : residuals_[i - 1].dropout, /*wants_x=*/!first, side);
    };
    NormGradients d = back(residuals_.size(), readable_rows(gradient), Tensor());
    variable_list reversed;
    const auto add = [&](const variable_list& own) { reversed.insert(reversed.end(), own.rbegin(), own.rend()); };
    add(d.parameters);
    for (std::size_t i = residuals_.size(); i-- > 0;) {
      const Branch::Gradients own = residuals_[i].branch->backward(d.dropped_MP, side);
      d = back(i, own.normed_MP, d.x_MP);
      add(own.parameters);
      add(d.parameters);
      side.join_earlier();
    }
    side.finish(reversed, of_leaves_);
    add({d.dropped_MP});
    return {reversed.rbegin(), reversed.rend()};
  }

 private:
  // The norm of x as it enters branch `i`, or the end.
  const Norm& norm_before(std::size_t i) const { return i < residuals_.size() ? residuals_[i].norm : last_; }

  DropoutKey input_dropout_;
  std::vector<Residual> residuals_;
  Norm last_;
  bool of_leaves_ = false;    // all parameters are
  std::vector<Tensor> x_MP_;  // before each norm
};

class ResidualFunction : public torch::autograd::Function<ResidualFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, at::TensorList parameters,
                        const c10::intrusive_ptr<ResidualPass>& pass) {
    pass->set_of_leaves(are_leaves(parameters));
    context->saved_data["shape"] = x.sizes().vec();
    context->saved_data["pass"] = c10::IValue::make_capsule(pass);
    return unpadded_view(pass->forward(x.detach()), x.sizes());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto pass = context->saved_data["pass"].toCapsule();
    variable_list gradients = static_cast<ResidualPass&>(*pass).backward(gradient[0]);
    gradients[0] = unpadded_view(gradients[0], context->saved_data["shape"].toIntVector());
    gradients.emplace_back();  // of the pass
    return gradients;
  }
};

}  // namespace

Tensor residual_blocks(const Tensor& x, const DropoutKey& input_dropout, std::vector<Residual> residuals, Norm last) {
  auto pass = c10::make_intrusive<ResidualPass>(input_dropout, std::move(residuals), std::move(last));
  const variable_list parameters = pass->parameters();
  return ResidualFunction::apply(x, at::TensorList(parameters), pass);
}

Tensor forward_residual_blocks(const Tensor& x_MD, torch::ScalarType dtype, const DropoutKey& input_dropout,
                               const std::vector<ForwardResidual>& residuals, const Norm& last) {
  const torch::NoGradGuard no_grad;
  const auto norm_before = [&](std::size_t i) { return i < residuals.size() ? residuals[i].norm : last; };
  NormedSum rows = normed_sum(readable_rows(x_MD.to(dtype)), input_dropout, Tensor(), norm_before(0));
  pack_weights(residuals, dtype);
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    const Tensor output_MP = residuals[i].branch->forward(rows.normed_MP);
    rows = normed_sum(output_MP, residuals[i].dropout, rows.x_MP, norm_before(i + 1));
  }
  return unpadded_view(rows.normed_MP, x_MD.sizes());
}

}  // namespace engram::cuda
