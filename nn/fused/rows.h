// What the fused passes share. M = B * T rows of D channels are stored as P channels, D rounded up to a multiple of 16,
// of which those from D on are zero. x is float32 or bfloat16; products are computed in x's type and summed in float32;
// parameters and their gradients are float32; norms, gates, states and softmax are float32 inside. A dropout's clock
// must outlive the backward pass.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dropout.h"
#include "kernels/block/elementwise.h"
#include "kernels/block/row_norm.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/residual_blocks.h"
#include "nn/fused/weights/side_work.h"
#include "nn/layers/layers.h"

namespace engram::cuda {

constexpr int kVectorElements = 8;  // that the kernels load together

inline int round_up(std::int64_t value, int multiple) {
  return static_cast<int>((value + multiple - 1) / multiple * multiple);
}

inline float* float_data(const torch::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

// x [..., D] as [M, P], and back to `shape`, [..., D], a view. Neither they nor their backward passes need rows to be D
// apart: a view that from_rows() gave is read where it stands.
torch::Tensor to_rows(const torch::Tensor& x);
torch::Tensor from_rows(const torch::Tensor& x_MP, const std::vector<std::int64_t>& shape);

// a b in the operands' type, summed in float32; the result in the operands' type or in float32.
torch::Tensor product(const torch::Tensor& a, const torch::Tensor& b);
torch::Tensor product_float(const torch::Tensor& a, const torch::Tensor& b);

// The gradient of a map's weights, [O, I] in float32, of its outputs' gradient and its inputs: as parts [N, O, I] whose
// sum it is, for PackedWeights::gradients() or sum_of_parts().
torch::Tensor weight_gradient(const torch::Tensor& d_y_MO, const torch::Tensor& x_MI);
// Which the side makes.
torch::Tensor sum_of_parts(const torch::Tensor& parts_NOI, SideWork& side);

// Where element `offset` of the tensor stands.
inline void* at_element(const torch::Tensor& tensor, std::int64_t offset) {
  return static_cast<char*>(tensor.data_ptr()) + offset * static_cast<std::int64_t>(tensor.element_size());
}

// The first D channels of [M, P] as `shape`, [..., D].
inline torch::Tensor unpadded_view(const torch::Tensor& x_MP, torch::IntArrayRef shape) {
  return x_MP.narrow(1, 0, shape.back()).view(shape);
}

inline std::vector<torch::Tensor> parameters_of(const Norm& norm) {
  if (norm.bias_D.defined()) return {norm.weight_D, norm.bias_D};
  return {norm.weight_D};
}

inline RowNorm row_norm(const Norm& norm, const torch::Tensor& x_MP) {
  const bool layer = norm.bias_D.defined();
  return {.kind = layer ? NormKind::kLayer : NormKind::kRms,
          .rows = x_MP.size(0),
          .width = static_cast<int>(norm.weight_D.size(0)),
          .stride = static_cast<int>(x_MP.size(1)),
          .epsilon = static_cast<float>(layer ? kLayerNormEpsilon : kRmsNormEpsilon),
          .dtype = kernel_dtype(x_MP),
          .x = x_MP.data_ptr(),
          .weight = norm.weight_D.data_ptr<float>(),
          .bias = float_data(norm.bias_D)};
}

// Contiguous where the kernels can read them.
inline torch::Tensor aligned(const torch::Tensor& x) {
  const torch::Tensor own = x.contiguous();
  return reinterpret_cast<std::uintptr_t>(own.data_ptr()) % 16 == 0 ? own : own.clone();
}

// Rows that the kernels can read where they stand: x [..., D] as [M, D], a multiple of 8 elements apart. The elements
// between them are undefined.
inline torch::Tensor readable_rows(const torch::Tensor& x) {
  const torch::Tensor x_MD = x.reshape({-1, x.size(-1)});
  const std::int64_t padded = round_up(x_MD.size(1), kVectorElements), stride = x_MD.stride(0);
  const auto end = static_cast<std::size_t>(x_MD.storage_offset() + (x_MD.size(0) - 1) * stride + padded);
  if (x_MD.stride(1) == 1 && stride >= padded && stride % kVectorElements == 0 &&
      end * x_MD.element_size() <= x_MD.storage().nbytes() &&
      reinterpret_cast<std::uintptr_t>(x_MD.data_ptr()) % 16 == 0)
    return x_MD;
  const torch::Tensor copy_MP = torch::empty({x_MD.size(0), padded}, x.options().requires_grad(false));
  return copy_MP.narrow(1, 0, x_MD.size(1)).copy_(x_MD);
}

// Whether nothing but an optimizer reads their gradients.
inline bool are_leaves(at::TensorList parameters) { return std::ranges::all_of(parameters, &torch::Tensor::is_leaf); }

struct NormedSum {
  torch::Tensor x_MP, normed_MP;
};
// x = dropout(branch) [+ residual] and its norm. The branch is [M, D] or [M, P].
inline NormedSum normed_sum(const torch::Tensor& branch, const DropoutKey& dropout, const torch::Tensor& residual_MP,
                            const Norm& norm) {
  const std::int64_t padded = round_up(norm.weight_D.size(0), kWidthMultiple);
  const auto rows = [&] { return torch::empty({branch.size(0), padded}, branch.options()); };
  const NormedSum out{rows(), rows()};
  residual_norm_forward(row_norm(norm, out.x_MP),
                        {.dropout = dropout,
                         .branch = branch.data_ptr(),
                         .branch_stride = branch.stride(0),
                         .residual = residual_MP.defined() ? residual_MP.data_ptr() : nullptr,
                         .x = out.x_MP.data_ptr()},
                        out.normed_MP.data_ptr(), current_stream());
  return out;
}

struct NormGradients {
  torch::Tensor x_MP;                     // undefined where it is not wanted
  torch::Tensor dropped_MP;               // dropout(x_MP)
  std::vector<torch::Tensor> parameters;  // weight [and bias]
};
// The gradient is [M, D] or [M, P]. residual_MP: added to x's gradient; may be undefined. The side computes the
// gradients of weight and bias.
inline NormGradients normalized_backward(const torch::Tensor& x_MP, const Norm& norm, const torch::Tensor& gradient,
                                         const torch::Tensor& residual_MP, const DropoutKey& dropout, bool wants_x,
                                         SideWork& side) {
  const RowNorm rows = row_norm(norm, x_MP);
  NormGradients out;
  if (wants_x || !dropout.drops()) out.x_MP = torch::empty_like(x_MP);
  out.dropped_MP = dropout.drops() ? torch::empty_like(x_MP) : out.x_MP;
  for (const torch::Tensor& parameter : parameters_of(norm))
    out.parameters.push_back(torch::empty_like(parameter, torch::requires_grad(false)));
  const torch::Tensor scratch = scratch_bytes(row_norm_backward_scratch_bytes(rows), x_MP);
  const RowNormGradient into{.y = gradient.data_ptr(),
                             .y_stride = gradient.stride(0),
                             .residual = residual_MP.defined() ? residual_MP.data_ptr() : nullptr,
                             .x = out.x_MP.defined() ? out.x_MP.data_ptr() : nullptr,
                             .weight = out.parameters[0].data_ptr<float>(),
                             .bias = norm.bias_D.defined() ? out.parameters[1].data_ptr<float>() : nullptr,
                             .dropout = dropout,
                             .dropped = dropout.drops() ? out.dropped_MP.data_ptr() : nullptr};
  row_norm_backward(rows, into, scratch.data_ptr(), current_stream());
  for (const GradientSum& sum : row_norm_sums(rows, into, scratch.data_ptr())) side.add(sum, scratch);
  return out;
}

// relu_bias_backward() in blocks of as many columns as it takes.
class ColumnBlocks {
 public:
  // `like` is on the device.
  ColumnBlocks(const ReluBiasGradient& whole, const torch::Tensor& like) {
    constexpr int kMostColumns = 1024;
    const auto behind = [&](auto* data, int columns) {
      using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>, const char, char>;
      return data == nullptr ? nullptr : static_cast<Byte*>(data) + dtype_bytes(whole.dtype) * columns;
    };
    std::size_t bytes = 0;
    for (int first = 0; first < whole.columns; first += kMostColumns) {
      ReluBiasGradient block = whole;
      block.columns = std::min(kMostColumns, whole.columns - first);
      block.y = behind(whole.y, first);
      block.dy = behind(whole.dy, first);
      block.dx = behind(whole.dx, first);
      block.bias = whole.bias + first;
      blocks_.push_back({block, static_cast<std::int64_t>(bytes)});
      bytes += relu_bias_backward_scratch_bytes(block);
    }
    scratch_ = scratch_bytes(bytes, like);
  }

  void backward() const {
    for (const Block& block : blocks_)
      relu_bias_backward(block.gradient, at_element(scratch_, block.offset), current_stream());
  }
  void add_sums(SideWork& side) const {
    for (const Block& block : blocks_)
      side.add(relu_bias_sum(block.gradient, at_element(scratch_, block.offset)), scratch_);
  }

 private:
  struct Block {
    ReluBiasGradient gradient;
    std::int64_t offset;  // in the scratch memory
  };
  std::vector<Block> blocks_;
  torch::Tensor scratch_;
};

// The side makes the sum over the rows of each of C columns, C a multiple of 8, as float32 [C]. x must live until then.
inline torch::Tensor column_sums(const torch::Tensor& x_MC, SideWork& side) {
  const torch::Tensor sums_C = torch::empty({x_MC.size(1)}, x_MC.options().dtype(torch::kFloat32));
  const ColumnBlocks blocks({.rows = x_MC.size(0),
                             .columns = static_cast<int>(x_MC.size(1)),
                             .dtype = kernel_dtype(x_MC),
                             .y = nullptr,
                             .slope = 0,
                             .y_stride = 0,
                             .dy = x_MC.data_ptr(),
                             .dy_stride = x_MC.stride(0),
                             .dx = nullptr,
                             .dx_stride = 0,
                             .bias = sums_C.data_ptr<float>()},
                            x_MC);
  side.run([&] { blocks.backward(); });
  blocks.add_sums(side);
  return sums_C;
}

}  // namespace engram::cuda
