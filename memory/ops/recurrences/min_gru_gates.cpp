#include "memory/ops/recurrences/min_gru_gates.h"

#include "memory/ops/recurrences/min_gru_gates_cuda.h"
#include "nn/device/plain_operations.h"

namespace engram {

using torch::Tensor;

RecurrenceUpdate min_gru_gates(const Tensor& gate, const Tensor& candidate, const Tensor& bias_D) {
  if (!PlainOperations::on() && cuda::supports_min_gru_gates(gate, candidate, bias_D))
    return cuda::min_gru_gates(gate, candidate, bias_D);
  return plain_min_gru_gates(gate, candidate, bias_D);
}

RecurrenceUpdate plain_min_gru_gates(const Tensor& gate, const Tensor& candidate, const Tensor& bias_D) {
  const Tensor biased = gate.to(bias_D.scalar_type()) + bias_D;
  return {(-biased).sigmoid(), biased.sigmoid() * candidate.to(bias_D.scalar_type())};
}

}  // namespace engram
