#include "memory/ops/recurrences/rg_lru_gates.h"

#include "memory/ops/recurrences/rg_lru_gates_cuda.h"
#include "nn/device/plain_operations.h"

namespace engram {

using torch::Tensor;

RecurrenceUpdate rg_lru_gates(const RgLruInput& input) {
  return !PlainOperations::on() && cuda::supports_rg_lru_gates(input) ? cuda::rg_lru_gates(input)
                                                                      : plain_rg_lru_gates(input);
}

RecurrenceUpdate plain_rg_lru_gates(const RgLruInput& input) {
  const auto gate = [&](const Tensor& logit) { return logit.to(input.u.scalar_type()).sigmoid(); };
  const Tensor log_keep = kRgLruExponent * torch::log_sigmoid(input.decay_D) * gate(input.recurrence_logit);
  // Where a rounds to 1, the root's slope would be infinite.
  Tensor root = (-torch::expm1(2 * log_keep)).clamp_min(1e-12).sqrt();
  if (input.is_first.defined()) root = root.masked_fill(input.is_first, 1);
  return {log_keep.exp(), root * gate(input.input_logit) * input.u};
}

}  // namespace engram
