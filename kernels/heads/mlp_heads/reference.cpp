#include "kernels/heads/mlp_heads/reference.h"

#include <algorithm>
#include <cstddef>

namespace engram {
namespace {

using Matrix = std::vector<double>;

// y [M, N] = x [M, K] weight^T, weight [N, K]
Matrix times_transposed(const Matrix& x, const Matrix& weight, int inputs, int outputs) {
  const std::size_t rows = x.size() / inputs;
  Matrix y(rows * outputs);
  for (std::size_t m = 0; m < rows; ++m)
    for (int n = 0; n < outputs; ++n) {
      double sum = 0;
      for (int k = 0; k < inputs; ++k) sum += x[m * inputs + k] * weight[static_cast<std::size_t>(n) * inputs + k];
      y[m * outputs + n] = sum;
    }
  return y;
}

// x [M, K] = y [M, N] weight, weight [N, K]
Matrix times(const Matrix& y, const Matrix& weight, int outputs, int inputs) {
  const std::size_t rows = y.size() / outputs;
  Matrix x(rows * inputs);
  for (std::size_t m = 0; m < rows; ++m)
    for (int n = 0; n < outputs; ++n)
      for (int k = 0; k < inputs; ++k)
        x[m * inputs + k] += y[m * outputs + n] * weight[static_cast<std::size_t>(n) * inputs + k];
  return x;
}

// weight [N, K] = y^T x, y [M, N], x [M, K]
Matrix transposed_times(const Matrix& y, const Matrix& x, int outputs, int inputs) {
  Matrix weight(static_cast<std::size_t>(outputs) * inputs);
  for (std::size_t m = 0; m < y.size() / outputs; ++m)
    for (int n = 0; n < outputs; ++n)
      for (int k = 0; k < inputs; ++k)
        weight[static_cast<std::size_t>(n) * inputs + k] += y[m * outputs + n] * x[m * inputs + k];
  return weight;
}

Matrix column_sums(const Matrix& x, int columns) {
  Matrix sums(columns);
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % columns] += x[i];
  return sums;
}

void add_bias(Matrix& x, const Matrix& bias) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
}

}  // namespace

MlpHeadsReferenceOutput mlp_heads_reference(const MlpHeadsShape& s, const MlpHeadReferenceWeights& w,
                                            const Matrix& x_MD, const MlpHeadsRounding& round) {
  const auto layer = [&](const Matrix& x, const Matrix& weight, const Matrix& bias, int inputs) {
    Matrix y = times_transposed(x, weight, inputs, s.hidden);
    add_bias(y, bias);
    for (double& element : y) element = element <= 0 ? 0 : round(element);
    return y;
  };
  MlpHeadsReferenceOutput out;
  out.first_MI = layer(x_MD, w.weight1_ID, w.bias1_I, s.width);
  out.second_MI = layer(out.first_MI, w.weight2_II, w.bias2_I, s.hidden);
  out.output_MA = times_transposed(out.second_MI, w.weight3_AI, s.hidden, s.outputs);
  add_bias(out.output_MA, w.bias3_A);
  return out;
}

MlpHeadsReferenceGradient mlp_heads_reference_backward(const MlpHeadsShape& s, const MlpHeadReferenceWeights& w,
                                                       const MlpHeadsReferenceOutput& hidden, const Matrix& d_output_MA,
                                                       const MlpHeadsRounding& round) {
  const auto through_relu = [&](Matrix d, const Matrix& y) {
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = y[i] != 0 ? d[i] : 0;
    return d;
  };
  const auto rounded = [&](Matrix x) {
    std::transform(x.begin(), x.end(), x.begin(), round);
    return x;
  };
  MlpHeadsReferenceGradient d;
  const Matrix second = through_relu(times(rounded(d_output_MA), w.weight3_AI, s.outputs, s.hidden), hidden.second_MI);
  d.second_MI = rounded(second);
  const Matrix first = through_relu(times(d.second_MI, w.weight2_II, s.hidden, s.hidden), hidden.first_MI);
  d.first_MI = rounded(first);
  d.x_MD = times(d.first_MI, w.weight1_ID, s.hidden, s.width);
  d.bias1_I = column_sums(first, s.hidden);
  d.bias2_I = column_sums(second, s.hidden);
  d.bias3_A = column_sums(d_output_MA, s.outputs);
  return d;
}

MlpHeadsReferenceWeightGradient mlp_heads_reference_weight_gradient(const MlpHeadsShape& s, const Matrix& x_MD,
                                                                    const MlpHeadsReferenceOutput& hidden,
                                                                    const Matrix& d_output_MA,
                                                                    const MlpHeadsReferenceGradient& gradient) {
  return {transposed_times(gradient.first_MI, x_MD, s.hidden, s.width),
          transposed_times(gradient.second_MI, hidden.first_MI, s.hidden, s.hidden),
          transposed_times(d_output_MA, hidden.second_MI, s.outputs, s.hidden)};
}

}  // namespace engram
