#include "memory/hadamard_memory.h"

#include "memory/linear_recurrence.h"

namespace engram {
namespace {

using torch::Tensor;

// C and v k^T, [..., H, H], and h of M.
Tensor calibration_of(const HadamardMemoryVectors& x) {
  return 1 + torch::tanh(x.theta_BTH.unsqueeze(-1) * x.c_BTH.unsqueeze(-2));
}
Tensor written_of(const HadamardMemoryVectors& x) { return x.value_BTH.unsqueeze(-1) * x.key_BTH.unsqueeze(-2); }
Tensor answer_of(const Tensor& m, const HadamardMemoryVectors& x) {
  return torch::matmul(m, x.query_BTH.unsqueeze(-1)).squeeze(-1);
}

}  // namespace

HadamardMemoryResult plain_hadamard_memory(const HadamardMemoryVectors& vectors, const Tensor& first_BHH,
                                           const Tensor& lengths_B) {
  const Tensor step_T = torch::arange(vectors.query_BTH.size(1), lengths_B.options());
  // Calibrations reach 2: behind a row's end they would make a matrix grow that nobody reads.
  const Tensor behind_BT1 = (step_T >= lengths_B.unsqueeze(1)).unsqueeze(2);
  const Tensor first_BX = first_BHH.flatten(1);
  const Tensor m_BTX = linear_recurrence(calibration_of(vectors).flatten(-2).masked_fill(behind_BT1, 0),
                                         written_of(vectors).flatten(-2).masked_fill(behind_BT1, 0), first_BX);
  return {answer_of(m_BTX.unflatten(-1, {first_BHH.size(1), -1}), vectors),
          state_after(m_BTX, first_BX, lengths_B).view_as(first_BHH)};
}

Tensor hadamard_memory_step(const HadamardMemoryVectors& vectors, Tensor m_BHH) {
  m_BHH.mul_(calibration_of(vectors)).add_(written_of(vectors));
  return answer_of(m_BHH, vectors);
}

}  // namespace engram
