#include "memory/ops/recurrences/linear_recurrence.h"

#include <cstdint>

#include "memory/ops/recurrences/linear_recurrence_cuda.h"

namespace engram {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor every_second(const Tensor& x_BTD, std::int64_t first, std::int64_t count) {
  return x_BTD.slice(1, first, first + 2 * count - 1, 2);
}

// b + a x. LibTorch would compile addcmul() of complex numbers on a GPU at run time.
Tensor multiply_add(const Tensor& b, const Tensor& a, const Tensor& x) {
  return b.is_complex() ? b + a * x : torch::addcmul(b, a, x);
}

// From h0 = 0. The rows may share their factors: a_BTD has one row then.
Tensor scan(const Tensor& a_BTD, const Tensor& b_BTD) {
  const std::int64_t steps = b_BTD.size(1), pairs = steps / 2, later = steps - pairs - 1;  // even steps after the first
  if (steps == 1) return b_BTD;
  const Tensor second_a = every_second(a_BTD, 1, pairs);
  const Tensor odd = scan(second_a * every_second(a_BTD, 0, pairs),
                          multiply_add(every_second(b_BTD, 1, pairs), second_a, every_second(b_BTD, 0, pairs)));
  Tensor h_BTD = torch::empty_like(b_BTD, at::MemoryFormat::Contiguous);
  h_BTD.select(1, 0).copy_(b_BTD.select(1, 0));
  every_second(h_BTD, 1, pairs).copy_(odd);
  if (later > 0)
    every_second(h_BTD, 2, later)
        .copy_(multiply_add(every_second(b_BTD, 2, later), every_second(a_BTD, 2, later), odd.narrow(1, 0, later)));
  return h_BTD;
}

Tensor first_row_if_shared(const Tensor& a_BTD) { return a_BTD.stride(0) == 0 ? a_BTD.narrow(0, 0, 1) : a_BTD; }

// With g_t the gradient of the loss by h_t, later steps included: g_t = (gradient that comes in) + conj(a_{t+1})
// g_{t+1}, which is the same recurrence against time.
class LinearRecurrence : public torch::autograd::Function<LinearRecurrence> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& a_BTD, const Tensor& b_BTD, const Tensor& h0_BD) {
    Tensor from_zero_BTD = b_BTD.clone(at::MemoryFormat::Contiguous);
    from_zero_BTD.select(1, 0).add_(a_BTD.select(1, 0) * h0_BD);
    const Tensor h_BTD = scan(first_row_if_shared(a_BTD), from_zero_BTD);
    context->save_for_backward({a_BTD, h0_BD, h_BTD});
    return h_BTD;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &a_BTD = saved[0], &h0_BD = saved[1], &h_BTD = saved[2];
    // The first factor, which roll() takes from the other end, meets a state of zero.
    const Tensor next_a = first_row_if_shared(a_BTD).conj().flip(1).roll(1, 1);
    const Tensor g_BTD = scan(next_a, gradients[0].flip(1)).flip(1);
    const Tensor before_BTD = torch::cat({h0_BD.unsqueeze(1), h_BTD.narrow(1, 0, h_BTD.size(1) - 1)}, 1);
    return {g_BTD * before_BTD.conj(), g_BTD, g_BTD.select(1, 0) * a_BTD.select(1, 0).conj()};
  }
};

}  // namespace

Tensor linear_recurrence(const Tensor& a, const Tensor& b_BTD, const Tensor& h0_BD) {
  if (b_BTD.is_cuda() && b_BTD.numel() > 0) {
    const Tensor packed_a = a.contiguous(), packed_b = b_BTD.contiguous(), packed_h0 = h0_BD.contiguous();
    if (cuda::supports_linear_recurrence(packed_a, packed_b, packed_h0))
      return cuda::linear_recurrence(packed_a, packed_b, packed_h0);
  }
  return plain_linear_recurrence(a, b_BTD, h0_BD);
}

Tensor plain_linear_recurrence(const Tensor& a, const Tensor& b_BTD, const Tensor& h0_BD) {
  const Tensor a_BTD = a.dim() == 1 ? a.expand_as(b_BTD) : a;
  TORCH_CHECK(b_BTD.dim() == 3 && a_BTD.sizes() == b_BTD.sizes() && h0_BD.dim() == 2 &&
                  h0_BD.size(0) == b_BTD.size(0) && h0_BD.size(1) == b_BTD.size(2),
              "a linear recurrence takes a and b of one shape [B, T, D] and h0 [B, D], not ", a_BTD.sizes(), ", ",
              b_BTD.sizes(), " and ", h0_BD.sizes());
  TORCH_CHECK(a_BTD.scalar_type() == b_BTD.scalar_type() && h0_BD.scalar_type() == b_BTD.scalar_type(),
              "a linear recurrence takes a, b and h0 of one type, not ", a_BTD.scalar_type(), ", ", b_BTD.scalar_type(),
              " and ", h0_BD.scalar_type());
  if (b_BTD.size(1) == 0) return b_BTD;
  return LinearRecurrence::apply(a_BTD, b_BTD, h0_BD);
}

Tensor state_after(const Tensor& h_BTD, const Tensor& h0_BD, const Tensor& lengths_B) {
  const Tensor length_B1 = lengths_B.unsqueeze(1);
  const Tensor last_B1D = (length_B1 - 1).clamp_min(0).unsqueeze(2).expand({-1, 1, h_BTD.size(2)});
  return torch::where(length_B1 == 0, h0_BD, h_BTD.gather(1, last_B1D).squeeze(1));
}

}  // namespace engram
