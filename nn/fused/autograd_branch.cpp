#include "nn/fused/autograd_branch.h"

#include <cstddef>
#include <utility>

#include "nn/device/autocast.h"
#include "nn/fused/rows.h"

namespace engram::cuda {
namespace {

using torch::Tensor;

// A gradient that an optimizer's leaf can take as it is: of the parameter's layout, and nobody else's.
Tensor own_gradient(const Tensor& gradient, const Tensor& parameter) {
  if (!gradient.defined()) return torch::zeros_like(parameter);
  if (gradient.use_count() == 1 && gradient.strides() == parameter.strides()) return gradient;
  return torch::empty_like(parameter, torch::requires_grad(false)).copy_(gradient);
}

class AutogradBranch : public Branch {
 public:
  AutogradBranch(std::vector<Tensor> parameters, std::vector<std::int64_t> shape,
                 std::function<Tensor(const Tensor&)> operation)
      : Branch(std::move(parameters)), shape_(std::move(shape)), operation_(std::move(operation)) {}

  void pack_weights(WeightPacking&) override {}

  Tensor forward(const Tensor& normed_MP) override {
    const torch::AutoGradMode records(true);
    input_ = unpadded_view(normed_MP, shape_).detach().requires_grad_();
    {
      const ComputeIn products(normed_MP.device(), normed_MP.scalar_type());
      output_ = std::exchange(operation_, nullptr)(input_);
    }
    const Tensor rows_MP = torch::empty_like(normed_MP);  // what stands behind the width is not read
    unpadded_view(rows_MP, shape_).copy_(output_.detach());
    return rows_MP;
  }

  Gradients backward(const Tensor& d_output_MP, SideWork&) override {
    std::vector<Tensor> wanted{input_};
    wanted.insert(wanted.end(), parameters().begin(), parameters().end());
    const Tensor d_output = unpadded_view(d_output_MP, shape_).to(output_.scalar_type());
    std::vector<Tensor> gradients =
        torch::autograd::grad({std::exchange(output_, {})}, wanted, {d_output}, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    Gradients out{readable_rows(gradients[0]), {}};
    for (std::size_t i = 1; i < wanted.size(); ++i) out.parameters.push_back(own_gradient(gradients[i], wanted[i]));
    return out;
  }

 private:
  std::vector<std::int64_t> shape_;
  std::function<Tensor(const Tensor&)> operation_;
  Tensor input_, output_;
};

class OperationsBranch : public ForwardBranch {
 public:
  OperationsBranch(std::int64_t width, std::function<Tensor(const Tensor&)> operation)
      : width_(width), operation_(std::move(operation)) {}

  void pack_weights(WeightPacking&) override {}
  Tensor forward(const Tensor& normed_MP) override {
    const ComputeIn products(normed_MP.device(), normed_MP.scalar_type());
    return readable_rows(operation_(normed_MP.narrow(1, 0, width_)).to(normed_MP.scalar_type()));
  }

 private:
  std::int64_t width_;
  std::function<Tensor(const Tensor&)> operation_;
};

}  // namespace

std::unique_ptr<Branch> autograd_branch(std::vector<Tensor> parameters, std::vector<std::int64_t> shape,
                                        std::function<Tensor(const Tensor&)> operation) {
  std::erase_if(parameters, [](const Tensor& parameter) { return !parameter.requires_grad(); });
  return std::make_unique<AutogradBranch>(std::move(parameters), std::move(shape), std::move(operation));
}

std::unique_ptr<ForwardBranch> operations_branch(std::int64_t width, std::function<Tensor(const Tensor&)> operation) {
  return std::make_unique<OperationsBranch>(width, std::move(operation));
}

}  // namespace engram::cuda
