#include "kernels/fast_weights/hadamard_memory/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace engram {
namespace {

using Matrix = std::vector<double>;  // row by row

// Where the vectors of a step and the matrix of a row begin.
std::size_t vectors_of(const HadamardMemoryReferenceInput& in, int row, int t) {
  return (static_cast<std::size_t>(row) * in.time + t) * in.width;
}
std::size_t matrix_of(const HadamardMemoryReferenceInput& in, int row) {
  return static_cast<std::size_t>(row) * in.width * in.width;
}

// Of a row.
struct Memories {
  std::vector<Matrix> m;          // M before each step and behind the last
  std::vector<Matrix> unbounded;  // M of each step before it was bounded
};
Memories memories(const HadamardMemoryReferenceInput& in, int row) {
  const auto first = in.first_BHH.begin() + static_cast<std::ptrdiff_t>(matrix_of(in, row));
  Memories all{{{first, first + in.width * in.width}}, {}};
  for (int t = 0; t < in.length_B[row]; ++t) {
    const std::size_t at = vectors_of(in, row, t);
    Matrix next = all.m.back();
    for (int i = 0; i < in.width; ++i)
      for (int j = 0; j < in.width; ++j) {
        double& element = next[i * in.width + j];
        element = element * (1 + std::tanh(in.theta_BTH[at + i] * in.c_BTH[at + j])) +
                  in.value_BTH[at + i] * in.key_BTH[at + j];
      }
    all.unbounded.push_back(next);
    for (double& element : next) element = std::clamp(element, -in.limit, in.limit);
    all.m.push_back(next);
  }
  return all;
}

}  // namespace

HadamardMemoryReferenceOutput hadamard_memory_reference(const HadamardMemoryReferenceInput& input) {
  HadamardMemoryReferenceOutput output{std::vector<double>(input.query_BTH.size()), {}};
  for (int row = 0; row < input.batch; ++row) {
    const auto [m, unbounded] = memories(input, row);
    for (const Matrix& matrix : unbounded)
      for (const double element : matrix)
        output.distance_to_limit = std::min(output.distance_to_limit, std::abs(std::abs(element) - input.limit));
    for (int t = 0; t < input.length_B[row]; ++t) {
      const std::size_t at = vectors_of(input, row, t);
      for (int i = 0; i < input.width; ++i)
        for (int j = 0; j < input.width; ++j)
          output.h_BTH[at + i] += m[t + 1][i * input.width + j] * input.query_BTH[at + j];
    }
    output.last_BHH.insert(output.last_BHH.end(), m.back().begin(), m.back().end());
  }
  return output;
}

HadamardMemoryReferenceGradient hadamard_memory_reference_backward(
    const HadamardMemoryReferenceInput& input, const HadamardMemoryReferenceOutput& output_gradient) {
  const std::vector<double> zero(input.query_BTH.size());
  HadamardMemoryReferenceGradient gradient{zero, zero, zero, zero, zero, output_gradient.last_BHH};
  for (int row = 0; row < input.batch; ++row) {
    const auto [m, unbounded] = memories(input, row);
    double* const d_m = &gradient.first_BHH[matrix_of(input, row)];  // of M behind the step, then of M before it
    for (int t = input.length_B[row] - 1; t >= 0; --t) {
      const std::size_t at = vectors_of(input, row, t);
      for (int i = 0; i < input.width; ++i)
        for (int j = 0; j < input.width; ++j) {
          const int ij = i * input.width + j;
          const double theta = input.theta_BTH[at + i], c = input.c_BTH[at + j], tanh = std::tanh(theta * c);
          const double d_h = output_gradient.h_BTH[at + i];
          d_m[ij] += d_h * input.query_BTH[at + j];
          gradient.query_BTH[at + j] += d_h * m[t + 1][ij];
          if (std::abs(unbounded[t][ij]) > input.limit) d_m[ij] = 0;
          gradient.value_BTH[at + i] += d_m[ij] * input.key_BTH[at + j];
          gradient.key_BTH[at + j] += d_m[ij] * input.value_BTH[at + i];
          const double d_product = d_m[ij] * m[t][ij] * (1 - tanh * tanh);
          gradient.theta_BTH[at + i] += d_product * c;
          gradient.c_BTH[at + j] += d_product * theta;
          d_m[ij] *= 1 + tanh;
        }
    }
  }
  return gradient;
}

}  // namespace engram
