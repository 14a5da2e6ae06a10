// The linear recurrence in double precision on the CPU, step by step: what the kernels are tested against. Formula and
// dimensions as in linear_recurrence.h; real numbers are complex ones without an imaginary part.
#pragma once

#include <complex>
#include <vector>

namespace engram {

using ComplexNumbers = std::vector<std::complex<double>>;

struct LinearRecurrenceReferenceInput {
  int batch, time, width;
  bool constant;  // a is [D], else [B, T, D]
  ComplexNumbers a, b_BTD, h0_BD;
  std::vector<int> length_B;
};

struct LinearRecurrenceReferenceOutput {
  ComplexNumbers h_BTD;  // zero from length_B on
  ComplexNumbers last_BD;
};

struct LinearRecurrenceReferenceGradient {
  ComplexNumbers a, b_BTD, h0_BD;
  // Of each element of `a` the sum of the moduli of its gradient's terms, of which a constant a has one a row and step:
  // what the error of a sum is compared with, whose terms may cancel.
  std::vector<double> a_moduli;
};

LinearRecurrenceReferenceOutput linear_recurrence_reference(const LinearRecurrenceReferenceInput& input);

// The gradient of the real part of sum(conj(output_gradient.h) h) + sum(conj(output_gradient.last) last): of z = x + iy
// dL/dx + i dL/dy. Those of h beyond a row's length are not used.
LinearRecurrenceReferenceGradient linear_recurrence_reference_backward(
    const LinearRecurrenceReferenceInput& input, const LinearRecurrenceReferenceOutput& output_gradient);

}  // namespace engram
