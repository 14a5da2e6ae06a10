// PackedWeights: float32 parameters as one padded matrix in the type of the products, and the gradient of that matrix
// back as gradients of the parameters (kernels/block/pack.h). WeightPacking: many of them by one kernel, or what is
// kept of them (prepared_weights.h).
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/block/pack.h"
#include "kernels/block/swiglu/swiglu.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/weights/prepared_weights.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {

// `count` indices in one piece.
inline PackGroups padded_to(std::int64_t count, int padded) {
  return {static_cast<int>(count), static_cast<int>(count), padded};
}

class PackedWeights {
 public:
  PackedWeights(int rows, int columns) : rows_(rows), columns_(columns) {}

  // A parameter [rows, columns], or [columns] for one row.
  void add(const torch::Tensor& parameter, int first_row, PackGroups rows, PackGroups columns) {
    parameters_.push_back(parameter.detach().contiguous());
    segments_.push_back({parameters_.back().data_ptr<float>(), first_row, rows, columns});
  }

  // Rows of zeros from `row` on, up to what stands behind them.
  void add_zeros(int row) { segments_.push_back({nullptr, row, {0, 1, 1}, {0, 1, 1}}); }

  // The gradients in the order of add(), each in its parameter's shape, which the side makes of the matrix's, float32
  // [rows, columns], or of parts of it, [N, rows, columns].
  std::vector<torch::Tensor> gradients(const torch::Tensor& gradient, SideWork& side) const {
    const std::int64_t parts = gradient.dim() == 3 ? gradient.size(0) : 1, size = std::int64_t{rows_} * columns_;
    TORCH_CHECK(gradient.numel() == parts * size && gradient.is_contiguous(), "the gradient of ", rows_, " x ",
                columns_, " weights has the shape ", gradient.sizes());
    std::vector<torch::Tensor> gradients;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      gradients.push_back(torch::empty_like(parameters_[i]));
      const auto& [matrix, first_row, rows, columns] = segments_[i];
      side.add({.parts = gradient.data_ptr<float>() + std::int64_t{first_row} * columns_,
                .count = static_cast<int>(parts),
                .stride = columns_,
                .distance = size,
                .rows = rows,
                .columns = columns,
                .gradient = gradients[i].data_ptr<float>()},
               gradient);
    }
    return gradients;
  }

 private:
  friend class WeightPacking;

  int rows_, columns_;
  std::vector<PackSegment> segments_;
  std::vector<torch::Tensor> parameters_;  // what the segments point into
};

// Matrices to be written by one launch of each kernel. What is packed must live until run().
class WeightPacking {
 public:
  explicit WeightPacking(torch::ScalarType dtype) : dtype_(dtype) {}

  // [rows, columns], in the type of the products or another one; written by run(), or kept from before.
  torch::Tensor add(const PackedWeights& weights, torch::ScalarType dtype);
  torch::Tensor add(const PackedWeights& weights) { return add(weights, dtype_); }
  // The bytes that fused_swiglu_pack() makes of these tensors, to which `packing` points.
  torch::Tensor add(SwiGluPacking packing, const std::vector<torch::Tensor>& weights);

  void run() const;

 private:
  friend class PreparedWeights;

  torch::ScalarType dtype_;  // of the products
  std::vector<PackedMatrix> matrices_;
  std::vector<SwiGluPacking> swiglus_;
};

}  // namespace engram::cuda
