// WeightStack: float32 parameters as one padded matrix in the type of the products, and the gradient of that matrix
// back as gradients of the parameters (kernels/block/pack.h).
#pragma once

#include <torch/torch.h>

#include <vector>

#include "kernels/block/pack.h"
#include "nn/cuda_support.h"

namespace engram::fused {

// `count` indices in one piece.
inline PackGroups padded_to(std::int64_t count, int padded) {
  return {static_cast<int>(count), static_cast<int>(count), padded};
}

class WeightStack {
 public:
  WeightStack(int rows, int columns) : matrix_{} {
    matrix_.rows = rows;
    matrix_.columns = columns;
  }

  // At most kMaxPackSegments parameters [rows, columns], or [columns] for one row.
  void add(const torch::Tensor& parameter, int first_row, PackGroups rows, PackGroups columns) {
    TORCH_CHECK(matrix_.segments < kMaxPackSegments, "more than ", kMaxPackSegments, " parameters in one matrix");
    parameters_.push_back(parameter.detach().contiguous());
    matrix_.segment[matrix_.segments++] = {parameters_.back().data_ptr<float>(), first_row, rows, columns};
  }

  // Each [rows, columns], of one kernel.
  struct Wanted {
    const WeightStack& stack;
    torch::ScalarType dtype;
  };
  static std::vector<torch::Tensor> packed(const std::vector<Wanted>& wanted) {
    std::vector<torch::Tensor> out;
    std::vector<PackedMatrix> matrices;
    for (const auto& [stack, dtype] : wanted) {
      out.push_back(
          torch::empty({stack.matrix_.rows, stack.matrix_.columns}, stack.parameters_[0].options().dtype(dtype)));
      matrices.push_back(stack.with_data(out.back()));
    }
    pack(matrices, current_stream());
    return out;
  }

  // The gradients in the order of add(), each in its parameter's shape.
  std::vector<torch::Tensor> unpacked(const torch::Tensor& gradient) const {
    PackedMatrix matrix = with_data(gradient);
    std::vector<torch::Tensor> gradients;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      gradients.push_back(torch::empty_like(parameters_[i]));
      matrix.segment[i].matrix = gradients[i].data_ptr<float>();
    }
    unpack({matrix}, current_stream());
    return gradients;
  }

 private:
  PackedMatrix with_data(const torch::Tensor& tensor) const {
    PackedMatrix matrix = matrix_;
    matrix.dtype = kernel_dtype(tensor);
    matrix.data = tensor.data_ptr();
    return matrix;
  }

  PackedMatrix matrix_;
  std::vector<torch::Tensor> parameters_;  // what the segments point into
};

}  // namespace engram::fused
