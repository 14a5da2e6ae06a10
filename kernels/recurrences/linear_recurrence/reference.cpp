#include "kernels/recurrences/linear_recurrence/reference.h"

#include <cstddef>

namespace engram {
namespace {

std::size_t state_at(const LinearRecurrenceReferenceInput& input, int row, int d) {
  return static_cast<std::size_t>(row) * input.width + d;
}
std::size_t step_at(const LinearRecurrenceReferenceInput& input, int row, int t, int d) {
  return (static_cast<std::size_t>(row) * input.time + t) * input.width + d;
}
std::size_t factor_at(const LinearRecurrenceReferenceInput& input, int row, int t, int d) {
  return input.constant ? static_cast<std::size_t>(d) : step_at(input, row, t, d);
}

}  // namespace

LinearRecurrenceReferenceOutput linear_recurrence_reference(const LinearRecurrenceReferenceInput& input) {
  LinearRecurrenceReferenceOutput output{ComplexNumbers(input.b_BTD.size()), input.h0_BD};
  for (int row = 0; row < input.batch; ++row)
    for (int t = 0; t < input.length_B[row]; ++t)
      for (int d = 0; d < input.width; ++d) {
        std::complex<double>& h = output.last_BD[state_at(input, row, d)];
        const std::size_t at = step_at(input, row, t, d);
        h = input.a[factor_at(input, row, t, d)] * h + input.b_BTD[at];
        output.h_BTD[at] = h;
      }
  return output;
}

LinearRecurrenceReferenceGradient linear_recurrence_reference_backward(
    const LinearRecurrenceReferenceInput& input, const LinearRecurrenceReferenceOutput& output_gradient) {
  const ComplexNumbers h_BTD = linear_recurrence_reference(input).h_BTD;
  LinearRecurrenceReferenceGradient gradient{ComplexNumbers(input.a.size()), ComplexNumbers(input.b_BTD.size()),
                                             output_gradient.last_BD, std::vector<double>(input.a.size())};
  for (int row = 0; row < input.batch; ++row)
    for (int t = input.length_B[row] - 1; t >= 0; --t)
      for (int d = 0; d < input.width; ++d) {
        std::complex<double>& of_h = gradient.h0_BD[state_at(input, row, d)];  // so far of h_t, then of h_{t-1}
        const std::size_t at = step_at(input, row, t, d), factor = factor_at(input, row, t, d);
        const std::complex<double> before =
            t > 0 ? h_BTD[step_at(input, row, t - 1, d)] : input.h0_BD[state_at(input, row, d)];
        of_h += output_gradient.h_BTD[at];
        gradient.b_BTD[at] = of_h;
        const std::complex<double> term = of_h * std::conj(before);
        gradient.a[factor] += term;
        gradient.a_moduli[factor] += std::abs(term);
        of_h *= std::conj(input.a[factor]);
      }
  return gradient;
}

}  // namespace engram
