#include "memory/ops/hadamard_memory.h"

#include <cstddef>
#include <vector>

#include "memory/ops/recurrences/linear_recurrence.h"

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
                                           const Tensor& lengths_B, double limit) {
  const Tensor step_T = torch::arange(vectors.query_BTH.size(1), lengths_B.options());
  // Calibrations reach 2: behind a row's end they would make a matrix grow that nobody reads.
  const Tensor behind_BT11 = (step_T >= lengths_B.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
  const std::vector<Tensor> calibration_T = calibration_of(vectors).masked_fill(behind_BT11, 0).unbind(1);
  const std::vector<Tensor> written_T = written_of(vectors).masked_fill(behind_BT11, 0).unbind(1);
  std::vector<Tensor> m_T;
  for (std::size_t t = 0; t < written_T.size(); ++t) {
    const Tensor& before_BHH = t == 0 ? first_BHH : m_T.back();
    m_T.push_back((before_BHH * calibration_T[t] + written_T[t]).clamp(-limit, limit));
  }
  const Tensor m_BTHH = torch::stack(m_T, 1);
  return {answer_of(m_BTHH, vectors),
          state_after(m_BTHH.flatten(2), first_BHH.flatten(1), lengths_B).view_as(first_BHH)};
}

Tensor hadamard_memory_step(const HadamardMemoryVectors& vectors, Tensor m_BHH, double limit) {
  m_BHH.mul_(calibration_of(vectors)).add_(written_of(vectors)).clamp_(-limit, limit);
  return answer_of(m_BHH, vectors);
}

}  // namespace engram
