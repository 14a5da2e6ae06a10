// What the fused passes share: norms, dropout and sums over rows [M, P] of D channels, zero behind (fused_block.h), by
// kernels/block.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/dropout.h"
#include "kernels/block/elementwise.h"
#include "kernels/block/row_norm.h"
#include "memory/blocks.h"
#include "memory/cuda_support.h"
#include "memory/side_work.h"

namespace engram::fused {

inline int round_up(std::int64_t value, int multiple) {
  return static_cast<int>((value + multiple - 1) / multiple * multiple);
}

inline float* float_data(const torch::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

// Where element `offset` of the tensor stands.
inline void* at_element(const torch::Tensor& tensor, std::int64_t offset) {
  return static_cast<char*>(tensor.data_ptr()) + offset * static_cast<std::int64_t>(tensor.element_size());
}

// The first D channels of [M, P] as `shape`, [..., D].
inline torch::Tensor unpadded_view(const torch::Tensor& x_MP, torch::IntArrayRef shape) {
  return x_MP.narrow(1, 0, shape.back()).view(shape);
}

// RMS norm where it has a weight alone, layer norm where it has a bias too.
struct Norm {
  Norm(torch::Tensor rms_weight_D) : weight_D(std::move(rms_weight_D)) {}
  Norm(torch::Tensor layer_weight_D, torch::Tensor layer_bias_D)
      : weight_D(std::move(layer_weight_D)), bias_D(std::move(layer_bias_D)) {}

  RowNorm over(const torch::Tensor& x_MP) const {
    return {.kind = bias_D.defined() ? NormKind::kLayer : NormKind::kRms,
            .rows = x_MP.size(0),
            .width = static_cast<int>(weight_D.size(0)),
            .stride = static_cast<int>(x_MP.size(1)),
            .epsilon = static_cast<float>(bias_D.defined() ? kLayerNormEpsilon : kRmsNormEpsilon),
            .dtype = kernel_dtype(x_MP),
            .x = x_MP.data_ptr(),
            .weight = weight_D.data_ptr<float>(),
            .bias = float_data(bias_D)};
  }

  torch::Tensor weight_D, bias_D;
};

inline torch::Tensor normalized(const torch::Tensor& x_MP, const Norm& norm) {
  const torch::Tensor y_MP = torch::empty_like(x_MP);
  row_norm_forward(norm.over(x_MP), y_MP.data_ptr(), current_stream());
  return y_MP;
}

struct NormGradients {
  torch::Tensor x_MP, weight_D;
  torch::Tensor bias_D;   // of a layer norm
  torch::Tensor scratch;  // read until the side has ended
};
// residual_MP: added to x's gradient; may be undefined. The gradients of weight and bias are the side's.
inline NormGradients normalized_backward(const torch::Tensor& x_MP, const Norm& norm, const torch::Tensor& gradient_MP,
                                         const torch::Tensor& residual_MP, const SideWork& side) {
  const RowNorm rows = norm.over(x_MP);
  NormGradients out{torch::empty_like(x_MP),
                    torch::empty_like(norm.weight_D, torch::requires_grad(false)),
                    {},
                    scratch_bytes(row_norm_backward_scratch_bytes(rows), x_MP)};
  if (norm.bias_D.defined()) out.bias_D = torch::empty_like(out.weight_D);
  const RowNormGradient gradient{.y = gradient_MP.data_ptr(),
                                 .residual = residual_MP.defined() ? residual_MP.data_ptr() : nullptr,
                                 .x = out.x_MP.data_ptr(),
                                 .weight = out.weight_D.data_ptr<float>(),
                                 .bias = float_data(out.bias_D)};
  row_norm_backward(rows, gradient, out.scratch.data_ptr(), current_stream());
  side.run([&] { row_norm_add_sums(rows, gradient, out.scratch.data_ptr(), current_stream()); });
  return out;
}

// dropout(x) [+ residual] over rows of D of P channels.
inline torch::Tensor dropped(const torch::Tensor& x_MP, std::int64_t width, const DropoutPlace& dropout,
                             const torch::Tensor& residual_MP) {
  if (!dropout.drops() && !residual_MP.defined()) return x_MP;
  const torch::Tensor y_MP = torch::empty_like(x_MP);
  dropout_add({.rows = x_MP.size(0),
               .width = static_cast<int>(width),
               .x_stride = x_MP.size(1),
               .stride = static_cast<int>(x_MP.size(1)),
               .dtype = kernel_dtype(x_MP),
               .dropout = dropout,
               .x = x_MP.data_ptr(),
               .residual = residual_MP.defined() ? residual_MP.data_ptr() : nullptr},
              y_MP.data_ptr(), current_stream());
  return y_MP;
}

// The sum over the rows of each of C columns, C a multiple of 8, as float32 [C].
inline torch::Tensor column_sums(const torch::Tensor& x_MC) {
  constexpr std::int64_t kMostColumns = 1024;  // of one call
  const torch::Tensor sums_C = torch::empty({x_MC.size(1)}, x_MC.options().dtype(torch::kFloat32));
  for (std::int64_t first = 0; first < x_MC.size(1); first += kMostColumns) {
    const ReluBiasGradient gradient{.rows = x_MC.size(0),
                                    .columns = static_cast<int>(std::min(kMostColumns, x_MC.size(1) - first)),
                                    .dtype = kernel_dtype(x_MC),
                                    .y = nullptr,
                                    .y_stride = 0,
                                    .dy = at_element(x_MC, first),
                                    .dy_stride = x_MC.stride(0),
                                    .dx = nullptr,
                                    .dx_stride = 0,
                                    .bias = sums_C.data_ptr<float>() + first};
    const torch::Tensor scratch = scratch_bytes(relu_bias_backward_scratch_bytes(gradient), x_MC);
    relu_bias_backward(gradient, scratch.data_ptr(), current_stream());
    relu_bias_add_sums(gradient, scratch.data_ptr(), current_stream());
  }
  return sums_C;
}

}  // namespace engram::fused
