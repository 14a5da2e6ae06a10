// SwiGLU in double precision on the CPU, straight from the formula in swiglu.h: what the kernels are tested against.
// Every matrix is contiguous.
#pragma once

#include <vector>

namespace engram {

struct SwiGluReferenceInput {
  int width, inner;
  std::vector<double> gate_ID, up_ID, down_DI;
};

// y. What becomes of gate, up, hidden and y where they are stored: themselves for the exact result.
using SwiGluRounding = double (*)(double);
inline double exactly(double x) { return x; }

std::vector<double> swiglu_reference(const SwiGluReferenceInput& input, const std::vector<double>& x_MD,
                                     SwiGluRounding rounded = exactly);

struct SwiGluReferenceGradient {
  std::vector<double> x_MD;
  std::vector<double> gate_ID, up_ID, down_DI;
};

// The gradient of sum(y * d_y). `rounded` sees gate, up, hidden, their gradients and x's.
SwiGluReferenceGradient swiglu_reference_backward(const SwiGluReferenceInput& input, const std::vector<double>& x_MD,
                                                  const std::vector<double>& d_y_MD, SwiGluRounding rounded = exactly);

}  // namespace engram
