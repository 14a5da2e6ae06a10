#include "memory/ops/recurrences/slstm_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/recurrences/slstm/slstm.h"
#include "memory/core/refusal.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Slstm problem_of(const Tensor& h_BTHK, const Tensor& recurrent_HKX, const Tensor& length_B) {
  return {static_cast<int>(h_BTHK.size(0)), static_cast<int>(h_BTHK.size(1)),      static_cast<int>(h_BTHK.size(2)),
          static_cast<int>(h_BTHK.size(3)), recurrent_HKX.const_data_ptr<float>(), length_B.const_data_ptr<int>()};
}

SlstmSaved saved_of(const Tensor& gates_BTHX, const Tensor& cells_BTHY) {
  return {gates_BTHX.data_ptr<float>(), cells_BTHY.data_ptr<float>()};
}

class SlstmFunction : public torch::autograd::Function<SlstmFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& gates_given, const Tensor& recurrent_given,
                        const Tensor& length_B) {
    const c10::cuda::CUDAGuard guard(gates_given.device());
    const Tensor gates_BTHX = gates_given.contiguous(), recurrent_HKX = recurrent_given.contiguous();
    std::vector<std::int64_t> shape = gates_BTHX.sizes().vec();
    shape.back() /= 4;
    const Tensor h_BTHK = torch::empty(shape, gates_BTHX.options());
    shape.back() *= 3;
    const Tensor sums_BTHX = torch::empty_like(gates_BTHX), cells_BTHY = torch::empty(shape, gates_BTHX.options());
    slstm_forward(problem_of(h_BTHK, recurrent_HKX, length_B), gates_BTHX.const_data_ptr<float>(),
                  h_BTHK.data_ptr<float>(), saved_of(sums_BTHX, cells_BTHY), current_stream());
    context->save_for_backward({recurrent_HKX, length_B, sums_BTHX, cells_BTHY, h_BTHK});
    return h_BTHK;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "sLSTM on a GPU has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensor &recurrent_HKX = saved[0], &length_B = saved[1], &h_BTHK = saved[4];
    const c10::cuda::CUDAGuard guard(h_BTHK.device());
    const Tensor d_h_BTHK = gradient[0].contiguous(), d_gates_BTHX = torch::empty_like(saved[2]);
    slstm_backward(problem_of(h_BTHK, recurrent_HKX, length_B), saved_of(saved[2], saved[3]),
                   d_h_BTHK.const_data_ptr<float>(), d_gates_BTHX.data_ptr<float>(), current_stream());
    // What h_{t-1} added to a_t; both are zero behind a row's length.
    const std::int64_t later = h_BTHK.size(1) - 1;
    const Tensor d_recurrent_HKX =
        torch::einsum("bthk,bthx->hkx", {h_BTHK.narrow(1, 0, later), d_gates_BTHX.narrow(1, 1, later)});
    return {d_gates_BTHX, d_recurrent_HKX, Tensor()};
  }
};

}  // namespace

Support supports_slstm(const Tensor& gates_BTHX, const Tensor& recurrent_HKX) {
  if (!gates_BTHX.is_cuda() || recurrent_HKX.device() != gates_BTHX.device())
    return refusal("the tensors are not on one GPU");
  if (gates_BTHX.scalar_type() != torch::kFloat32 || recurrent_HKX.scalar_type() != torch::kFloat32)
    return refusal("gates are ", gates_BTHX.scalar_type(), " and recurrent weights ", recurrent_HKX.scalar_type(),
                   ", not float32");
  if (gates_BTHX.dim() != 4 || recurrent_HKX.dim() != 3 || gates_BTHX.size(2) != recurrent_HKX.size(0) ||
      gates_BTHX.size(3) != recurrent_HKX.size(2) || recurrent_HKX.size(2) != 4 * recurrent_HKX.size(1))
    return refusal("gates ", gates_BTHX.sizes(), " and recurrent weights ", recurrent_HKX.sizes(),
                   " are not [B, T, H, 4K] and [H, K, 4K]");
  if (gates_BTHX.numel() == 0) return refusal("gates ", gates_BTHX.sizes(), " are empty");
  if (recurrent_HKX.size(1) > kMaxSlstmWidth)
    return refusal("a head has ", recurrent_HKX.size(1), " channels, more than ", kMaxSlstmWidth);
  for (const std::int64_t size : gates_BTHX.sizes())
    if (size > std::numeric_limits<int>::max()) return refusal("gates ", gates_BTHX.sizes(), " are too long");
  return {};
}

Tensor slstm(const Tensor& gates_BTHX, const Tensor& recurrent_HKX, const Tensor& lengths_B) {
  const Support support = supports_slstm(gates_BTHX, recurrent_HKX);
  TORCH_CHECK(support, "sLSTM: ", support.reason());
  return SlstmFunction::apply(gates_BTHX, recurrent_HKX, lengths_B.to(torch::kInt32));
}

}  // namespace engram::cuda
