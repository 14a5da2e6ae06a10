#include "kernels/block/swiglu/reference.h"

#include <cmath>
#include <cstddef>

namespace engram {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double dot(const double* a, const double* b, int size) {
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<double> transposed(const std::vector<double>& matrix, int rows, int columns) {
  std::vector<double> out(matrix.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) out[c * rows + r] = matrix[r * columns + c];
  return out;
}

struct Units {
  std::vector<double> gate_I, up_I, hidden_I;
};

Units units(const SwiGluReferenceInput& input, const double* x_D, SwiGluRounding rounded) {
  Units out;
  for (int i = 0; i < input.inner; ++i) {
    out.gate_I.push_back(rounded(dot(x_D, &input.gate_ID[i * input.width], input.width)));
    out.up_I.push_back(rounded(dot(x_D, &input.up_ID[i * input.width], input.width)));
    out.hidden_I.push_back(rounded(out.gate_I[i] * sigmoid(out.gate_I[i]) * out.up_I[i]));
  }
  return out;
}

}  // namespace

std::vector<double> swiglu_reference(const SwiGluReferenceInput& input, const std::vector<double>& x_MD,
                                     SwiGluRounding rounded) {
  std::vector<double> y_MD;
  for (std::size_t at = 0; at < x_MD.size(); at += input.width) {
    const Units row = units(input, &x_MD[at], rounded);
    for (int c = 0; c < input.width; ++c)
      y_MD.push_back(rounded(dot(row.hidden_I.data(), &input.down_DI[c * input.inner], input.inner)));
  }
  return y_MD;
}

SwiGluReferenceGradient swiglu_reference_backward(const SwiGluReferenceInput& input, const std::vector<double>& x_MD,
                                                  const std::vector<double>& d_y_MD, SwiGluRounding rounded) {
  const auto down_ID = transposed(input.down_DI, input.width, input.inner);
  const auto gate_DI = transposed(input.gate_ID, input.inner, input.width);
  const auto up_DI = transposed(input.up_ID, input.inner, input.width);
  SwiGluReferenceGradient out;
  for (auto* weight : {&out.gate_ID, &out.up_ID, &out.down_DI}) weight->resize(input.gate_ID.size());
  std::vector<double> d_down_ID(input.gate_ID.size());
  for (std::size_t at = 0; at < x_MD.size(); at += input.width) {
    const Units row = units(input, &x_MD[at], rounded);
    std::vector<double> d_gate_I, d_up_I;
    for (int i = 0; i < input.inner; ++i) {
      const double d_hidden = rounded(dot(&d_y_MD[at], &down_ID[i * input.width], input.width));
      const double g = row.gate_I[i], s = sigmoid(g);
      d_gate_I.push_back(rounded(d_hidden * row.up_I[i] * s * (1 + g * (1 - s))));
      d_up_I.push_back(rounded(d_hidden * g * s));
    }
    for (int i = 0; i < input.inner; ++i)
      for (int c = 0; c < input.width; ++c) {
        out.gate_ID[i * input.width + c] += d_gate_I[i] * x_MD[at + c];
        out.up_ID[i * input.width + c] += d_up_I[i] * x_MD[at + c];
        d_down_ID[i * input.width + c] += row.hidden_I[i] * d_y_MD[at + c];
      }
    for (int c = 0; c < input.width; ++c)
      out.x_MD.push_back(rounded(dot(d_gate_I.data(), &gate_DI[c * input.inner], input.inner) +
                                 dot(d_up_I.data(), &up_DI[c * input.inner], input.inner)));
  }
  out.down_DI = transposed(d_down_ID, input.inner, input.width);
  return out;
}

}  // namespace engram
