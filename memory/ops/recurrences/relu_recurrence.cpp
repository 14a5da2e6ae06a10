#include "memory/ops/recurrences/relu_recurrence.h"

#include <ATen/Parallel.h>

#include <cstdint>
#include <vector>

#include "memory/ops/recurrences/relu_recurrence_cuda.h"
#include "nn/cpu/layers.h"
#include "nn/device/plain_operations.h"

namespace engram {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Whole steps at a time, whose channels are beside each other in memory.
class CpuReluRecurrence : public torch::autograd::Function<CpuReluRecurrence> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& weight_given, const Tensor& b_given,
                        const Tensor& h0_given) {
    const Tensor weight_D = weight_given.contiguous(), b_BTD = b_given.contiguous(), h0_BD = h0_given.contiguous();
    const Tensor h_BTD = torch::empty_like(b_BTD);
    const std::int64_t steps = b_BTD.size(1), width = b_BTD.size(2);
    const float *const u = weight_D.const_data_ptr<float>(), *const b = b_BTD.const_data_ptr<float>(),
                       *const h0 = h0_BD.const_data_ptr<float>();
    float* const h = h_BTD.data_ptr<float>();
    at::parallel_for(0, b_BTD.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const float* before = h0 + row * width;
        for (std::int64_t t = 0; t < steps; ++t) {
          const std::int64_t at = (row * steps + t) * width;
          for (std::int64_t d = 0; d < width; ++d) {
            const float sum = b[at + d] + u[d] * before[d];
            h[at + d] = sum < 0 ? 0 : sum;  // NaN stays
          }
          before = h + at;
        }
      }
    });
    context->save_for_backward({weight_D, h0_BD, h_BTD});
    return h_BTD;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "the relu recurrence on a CPU has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensor &weight_D = saved[0], &h0_BD = saved[1], &h_BTD = saved[2], d_h_BTD = gradient[0].contiguous();
    const Tensor d_b_BTD = torch::empty_like(h_BTD), d_h0_BD = torch::zeros_like(h0_BD),
                 d_weight_BD = torch::zeros_like(h0_BD);
    const std::int64_t steps = h_BTD.size(1), width = h_BTD.size(2);
    const float *const u = weight_D.const_data_ptr<float>(), *const h0 = h0_BD.const_data_ptr<float>(),
                       *const h = h_BTD.const_data_ptr<float>(), *const d_h = d_h_BTD.const_data_ptr<float>();
    float *const d_b = d_b_BTD.data_ptr<float>(), *const d_h0 = d_h0_BD.data_ptr<float>(),
                 *const d_weight = d_weight_BD.data_ptr<float>();
    at::parallel_for(0, h_BTD.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        float *const of_state = d_h0 + row * width, *const of_weight = d_weight + row * width;
        for (std::int64_t t = steps - 1; t >= 0; --t) {
          const std::int64_t at = (row * steps + t) * width;
          const float* const before = t > 0 ? h + at - width : h0 + row * width;
          for (std::int64_t d = 0; d < width; ++d) {
            const float g = h[at + d] <= 0 ? 0 : d_h[at + d] + of_state[d];
            d_b[at + d] = g;
            of_weight[d] += g * before[d];
            of_state[d] = u[d] * g;
          }
        }
      }
    });
    return {d_weight_BD.sum(0), d_b_BTD, d_h0_BD};
  }
};

}  // namespace

Tensor relu_recurrence(const Tensor& weight_D, const Tensor& b_BTD, const Tensor& h0_BD) {
  if (cpu::takes(b_BTD) && cpu::takes(weight_D) && cpu::takes(h0_BD))
    return CpuReluRecurrence::apply(weight_D, b_BTD, h0_BD);
  if (!PlainOperations::on() && cuda::supports_relu_recurrence(weight_D, b_BTD, h0_BD))
    return cuda::relu_recurrence(weight_D, b_BTD, h0_BD);
  return plain_relu_recurrence(weight_D, b_BTD, h0_BD);
}

Tensor plain_relu_recurrence(const Tensor& weight_D, const Tensor& b_BTD, const Tensor& h0_BD) {
  std::vector<Tensor> all;
  Tensor h_BD = h0_BD;
  for (const Tensor& b_BD : b_BTD.unbind(1)) all.push_back(h_BD = torch::relu(torch::addcmul(b_BD, weight_D, h_BD)));
  return all.empty() ? b_BTD : torch::stack(all, 1);
}

}  // namespace engram
