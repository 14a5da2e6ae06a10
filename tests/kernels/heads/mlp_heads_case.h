// A problem for the heads' kernels, on the host and on the device: for their tests and their timing.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/heads/mlp_heads/mlp_heads.h"
#include "kernels/heads/mlp_heads/reference.h"
#include "tests/kernels/block/block_test.h"

namespace engram::testing {

// One number each outside the contract.
inline const std::vector<MlpHeadsShape> kMlpHeadsRefused = {
    {1, 100, 100, kMlpHeadsHidden, 4, 1, 1},  {1, 113, 112, kMlpHeadsHidden, 4, 1, 1},
    {1, 144, 144, kMlpHeadsHidden, 4, 1, 1},  {1, 100, 112, 128, 4, 1, 1},
    {1, 100, 112, kMlpHeadsHidden, 17, 1, 1}, {1, 100, 112, kMlpHeadsHidden, 4, 9, 1},
    {1, 100, 112, kMlpHeadsHidden, 4, 1, 2}};

inline std::string text(const MlpHeadsShape& s) {
  return std::to_string(s.rows) + " rows of " + std::to_string(s.width) + " in " + std::to_string(s.stride) + ", " +
         std::to_string(s.hidden) + " hidden units, " + std::to_string(s.heads) + " heads (" + std::to_string(s.kept) +
         " kept) of " + std::to_string(s.outputs);
}

// Inputs that bfloat16 holds, so that an error is the computation's.
struct MlpHeadsProblem {
  MlpHeadsShape shape;
  Numbers x_MP;
  std::vector<MlpHeadReferenceWeights> weights;
  std::vector<Numbers> d_output;  // of each kept head [M, output_stride]

  explicit MlpHeadsProblem(const MlpHeadsShape& s) : shape(s) {
    constexpr Dtype kType = Dtype::kBfloat16;
    Rng rng(static_cast<unsigned>(s.rows), Purpose::kTest, 9, static_cast<unsigned>(s.width * 32 + s.outputs));
    x_MP = normal_rows(rng, s.rows, s.width, s.stride, kType);
    for (int head = 0; head < s.heads; ++head) {
      const double scale1 = 1 / std::sqrt(s.width), scale2 = 1 / std::sqrt(s.hidden);
      weights.push_back({normals(rng, s.hidden * s.width, kType, scale1), normals(rng, s.hidden, kType, 0.3),
                         normals(rng, s.hidden * s.hidden, kType, scale2), normals(rng, s.hidden, kType, 0.3),
                         normals(rng, s.outputs * s.hidden, kType, scale2), normals(rng, s.outputs, kType, 0.3)});
    }
    for (int head = 0; head < s.kept; ++head)
      d_output.push_back(normal_rows(rng, s.rows, s.outputs, s.output_stride(), kType));
  }
};

// What the kernels are given, on the device.
class MlpHeadsInputs {
 public:
  explicit MlpHeadsInputs(const MlpHeadsProblem& problem) : shape_(problem.shape) {
    x_ = upload(problem.x_MP, Dtype::kBfloat16);
    for (const MlpHeadReferenceWeights& w : problem.weights)
      for (const Numbers* parameter : {&w.weight1_ID, &w.bias1_I, &w.weight2_II, &w.bias2_I, &w.weight3_AI, &w.bias3_A})
        parameters_.push_back(upload(*parameter, Dtype::kFloat32));
    for (const Numbers& d : problem.d_output) d_output_.push_back(upload(d, Dtype::kFloat32));
  }

  std::vector<MlpHeadWeights> weights() const {
    std::vector<MlpHeadWeights> weights;
    for (std::size_t i = 0; i < parameters_.size(); i += 6) {
      const auto parameter = [&](std::size_t j) { return floats(parameters_[i + j]); };
      weights.push_back({parameter(0), parameter(1), parameter(2), parameter(3), parameter(4), parameter(5)});
    }
    return weights;
  }

 protected:
  MlpHeadsShape shape_;
  DeviceBytes x_;
  std::vector<DeviceBytes> parameters_, d_output_;
};

// What they make of it, on the host; empty what is of no interest. The weights' gradients are those of all kept heads.
struct MlpHeadsResults {
  Numbers output, first, second, d_x, d_bias;
  Numbers d_first, d_second, d_output_rounded;
  Numbers d_weight1, d_weight2, d_weight3;
};

// Everything that the kernels read and write, the latter poisoned with NaN before a run.
class MlpHeadsOnDevice : public MlpHeadsInputs {
 public:
  explicit MlpHeadsOnDevice(const MlpHeadsProblem& problem) : MlpHeadsInputs(problem) { poison_all(); }

  void poison_all() {
    const std::size_t rows = shape_.rows, kept = shape_.kept, outputs = shape_.output_stride();
    poison(packed, mlp_heads_packed_bytes(shape_));
    poison(masks, mlp_heads_mask_bytes(shape_));
    poison(scratch, mlp_heads_backward_scratch_bytes(shape_));
    for (DeviceBytes* hidden : {&first, &second, &d_first, &d_second})
      poison(*hidden, rows * kept * shape_.hidden, Dtype::kBfloat16);
    poison(d_output_rounded, rows * kept * outputs, Dtype::kBfloat16);
    poison(output, shape_.heads * rows * outputs, Dtype::kFloat32);
    poison(d_x, rows * shape_.stride, Dtype::kBfloat16);
    poison(d_bias, kept * (2 * shape_.hidden + outputs), Dtype::kFloat32);
  }
  void pack(cudaStream_t stream = nullptr) { mlp_heads_pack(shape_, weights(), packed.data(), stream); }
  void forward(cudaStream_t stream = nullptr) {
    MlpHeadsForward arguments{shape_, x_.data(), packed.data(), first.data(), second.data(), masks.data(), {}};
    for (int head = 0; head < shape_.heads; ++head)
      arguments.output_MA[head] = floats(output) + head * shape_.rows * shape_.output_stride();
    mlp_heads_forward(arguments, stream);
  }
  void backward(cudaStream_t stream = nullptr) {
    MlpHeadsBackward arguments{shape_,          packed.data(),           masks.data(), {}, d_first.data(),
                               d_second.data(), d_output_rounded.data(), d_x.data()};
    for (int head = 0; head < shape_.kept; ++head) arguments.d_output_MA[head] = floats(d_output_[head]);
    mlp_heads_backward(arguments, scratch.data(), stream);
  }
  void bias_sums(cudaStream_t stream = nullptr) {
    add_up({mlp_heads_bias_sum(shape_, scratch.data(), floats(d_bias))}, stream);
  }
  void run() {
    poison_all();
    pack();
    forward();
    if (shape_.kept == 0) return;
    backward();
    bias_sums();
  }
  std::vector<std::vector<unsigned char>> bits() const {
    return {first.to_host(),    second.to_host(), output.to_host(), d_first.to_host(),
            d_second.to_host(), d_x.to_host(),    d_bias.to_host(), d_output_rounded.to_host()};
  }
  MlpHeadsResults results() const {
    constexpr Dtype kBf16 = Dtype::kBfloat16, kFloat = Dtype::kFloat32;
    MlpHeadsResults r;
    r.output = download(output, kFloat), r.d_bias = download(d_bias, kFloat), r.d_x = download(d_x, kBf16);
    r.first = download(first, kBf16), r.second = download(second, kBf16);
    r.d_first = download(d_first, kBf16), r.d_second = download(d_second, kBf16);
    r.d_output_rounded = download(d_output_rounded, kBf16);
    return r;
  }

  DeviceBytes packed, masks, scratch, first, second, output, d_first, d_second, d_output_rounded, d_x, d_bias;
};

// Results against the reference on some of the rows. `worst` in the order forward, backward: RMS(error) over
// RMS(reference), and the largest error over that of plain bfloat16 products (the reference with hidden layers, their
// gradients and what is written in bfloat16 rounded).
struct MlpHeadsErrors {
  double forward = 0, backward = 0, forward_largest = 0, backward_largest = 0;
  std::string where;  // every result whose error is not within what is asked for
};

constexpr double kMlpHeadsForwardError = 0.005, kMlpHeadsBackwardError = 0.008, kMlpHeadsLargest = 2;

inline MlpHeadsErrors mlp_heads_errors(const MlpHeadsProblem& problem, const MlpHeadsResults& result,
                                       const std::vector<std::int64_t>& rows) {
  const MlpHeadsShape& s = problem.shape;
  MlpHeadsErrors errors;
  const auto compare = [&](const char* name, int head, const Numbers& actual, const Numbers& expected,
                           const Numbers& plain, bool backward) {
    double largest = 0, plain_largest = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error = std::abs(actual[i] - expected[i]);
      if (!(error <= largest)) largest = error, at = i;
      plain_largest = std::max(plain_largest, std::abs(plain[i] - expected[i]));
    }
    const double error = relative_error(actual, expected), ratio = largest == 0 ? 0 : largest / plain_largest;
    const auto keep_worst = [](double& worst, double value) {
      if (!(value <= worst)) worst = value;
    };
    keep_worst(backward ? errors.backward : errors.forward, error);
    keep_worst(backward ? errors.backward_largest : errors.forward_largest, ratio);
    if (!(error <= (backward ? kMlpHeadsBackwardError : kMlpHeadsForwardError)) || !(ratio <= kMlpHeadsLargest)) {
      const std::size_t columns = std::max<std::size_t>(1, expected.size() / rows.size());
      errors.where += std::string("\n") + name + " of head " + std::to_string(head) + ": " + std::to_string(error) +
                      ", largest " + std::to_string(ratio) + " times plain, at " + std::to_string(at / columns) + ", " +
                      std::to_string(at % columns) + " " + std::to_string(actual[at]) + " instead of " +
                      std::to_string(expected[at]);
    }
  };
  const auto of_rows = [&](const Numbers& x, std::int64_t stride, std::int64_t first, std::int64_t width) {
    Numbers y;
    for (const std::int64_t row : rows)
      y.insert(y.end(), x.begin() + row * stride + first, x.begin() + row * stride + first + width);
    return y;
  };
  const auto exact = [](double x) { return x; };
  const auto to_bf16 = [](double x) { return rounded(x, Dtype::kBfloat16); };
  const auto all_rounded = [&](Numbers x) {
    std::transform(x.begin(), x.end(), x.begin(), to_bf16);
    return x;
  };
  const bool all_rows = static_cast<std::int64_t>(rows.size()) == s.rows;
  const std::int64_t hidden = s.hidden, row_width = s.kept * hidden, outputs = s.output_stride();
  const Numbers x = of_rows(problem.x_MP, s.stride, 0, s.width);
  Numbers d_x_expected(rows.size() * s.width), d_x_plain = d_x_expected;
  for (int head = 0; head < s.heads; ++head) {
    const auto& weights = problem.weights[head];
    const auto expected = mlp_heads_reference(s, weights, x, exact),
               plain = mlp_heads_reference(s, weights, x, to_bf16);
    const Numbers own_output = part(result.output, head * s.rows * outputs, s.rows * outputs);
    compare("output", head, of_rows(own_output, outputs, 0, s.outputs), expected.output_MA, plain.output_MA, false);
    const Numbers zeros(rows.size() * (outputs - s.outputs));
    compare("output's padding", head, of_rows(own_output, outputs, s.outputs, outputs - s.outputs), zeros, zeros,
            false);
    if (head >= s.kept) continue;
    const MlpHeadsReferenceOutput kept{of_rows(result.first, row_width, head * hidden, hidden),
                                       of_rows(result.second, row_width, head * hidden, hidden),
                                       {}};
    compare("first", head, kept.first_MI, expected.first_MI, plain.first_MI, false);
    compare("second", head, kept.second_MI, expected.second_MI, plain.second_MI, false);
    const Numbers d_output = of_rows(problem.d_output[head], outputs, 0, s.outputs);
    // What is near zero is so by rounding: the gradient is that of the hidden layers as they were kept.
    const auto gradient = mlp_heads_reference_backward(s, weights, kept, d_output, exact),
               plain_gradient = mlp_heads_reference_backward(s, weights, kept, d_output, to_bf16);
    if (!result.d_first.empty()) {
      compare("d_output", head, of_rows(result.d_output_rounded, s.kept * outputs, head * outputs, s.outputs), d_output,
              d_output, true);
      compare("d_second", head, of_rows(result.d_second, row_width, head * hidden, hidden), gradient.second_MI,
              plain_gradient.second_MI, true);
      compare("d_first", head, of_rows(result.d_first, row_width, head * hidden, hidden), gradient.first_MI,
              plain_gradient.first_MI, true);
    }
    if (!result.d_weight1.empty()) {  // of all rows
      const auto weights_of = [&](const MlpHeadsReferenceGradient& of_layers) {
        return mlp_heads_reference_weight_gradient(s, x, kept, d_output, of_layers);
      };
      const auto own = [&](const Numbers& d_weight, const Numbers& like) {
        const auto size = static_cast<std::int64_t>(like.size());
        return part(d_weight, head * size, size);
      };
      const auto d = weights_of(gradient), plain_d = weights_of(plain_gradient);
      compare("weight1", head, own(result.d_weight1, d.weight1_ID), d.weight1_ID, plain_d.weight1_ID, true);
      compare("weight2", head, own(result.d_weight2, d.weight2_II), d.weight2_II, plain_d.weight2_II, true);
      compare("weight3", head, own(result.d_weight3, d.weight3_AI), d.weight3_AI, all_rounded(d.weight3_AI), true);
    }
    for (std::size_t i = 0; i < d_x_expected.size(); ++i)
      d_x_expected[i] += gradient.x_MD[i], d_x_plain[i] += plain_gradient.x_MD[i];
    const auto bias = [&](std::int64_t begin, std::int64_t width) {
      return part(result.d_bias, begin + head * width, width);
    };
    const Numbers bias1 = bias(0, hidden), bias2 = bias(row_width, hidden);
    const Numbers bias3 = part(result.d_bias, 2 * row_width + head * outputs, s.outputs);
    if (all_rows) {
      compare("bias1", head, bias1, gradient.bias1_I, all_rounded(gradient.bias1_I), true);
      compare("bias2", head, bias2, gradient.bias2_I, all_rounded(gradient.bias2_I), true);
      compare("bias3", head, bias3, gradient.bias3_A, all_rounded(gradient.bias3_A), true);
    } else {  // against the sums of what was written
      const auto sums = [&](const Numbers& d, std::int64_t stride, std::int64_t width) {
        Numbers total(width);
        for (std::int64_t row = 0; row < s.rows; ++row)
          for (std::int64_t i = 0; i < width; ++i) total[i] += d[row * stride + head * width + i];
        return total;
      };
      const Numbers sum1 = sums(result.d_first, row_width, hidden), sum2 = sums(result.d_second, row_width, hidden);
      compare("bias1", head, bias1, sum1, all_rounded(sum1), true);
      compare("bias2", head, bias2, sum2, all_rounded(sum2), true);
      const Numbers sum3 = part(sums(result.d_output_rounded, s.kept * outputs, outputs), 0, s.outputs);
      compare("bias3", head, bias3, sum3, all_rounded(sum3), true);
    }
  }
  if (s.kept > 0) {
    compare("d_x", 0, of_rows(result.d_x, s.stride, 0, s.width), d_x_expected, all_rounded(d_x_plain), true);
    const Numbers zeros(rows.size() * (s.stride - s.width));
    compare("d_x's padding", 0, of_rows(result.d_x, s.stride, s.width, s.stride - s.width), zeros, zeros, true);
  }
  return errors;
}

inline void check_mlp_heads_errors(const MlpHeadsErrors& errors) {
  INFO(errors.where);
  CHECK(errors.forward <= kMlpHeadsForwardError);
  CHECK(errors.backward <= kMlpHeadsBackwardError);
  CHECK(errors.forward_largest <= kMlpHeadsLargest);
  CHECK(errors.backward_largest <= kMlpHeadsLargest);
}

inline std::vector<std::int64_t> all_rows(const MlpHeadsShape& shape) {
  std::vector<std::int64_t> rows(shape.rows);
  for (std::int64_t row = 0; row < shape.rows; ++row) rows[row] = row;
  return rows;
}
// 61 apart, and the last ones.
inline std::vector<std::int64_t> some_rows(const MlpHeadsShape& shape, std::int64_t distance) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < shape.rows; ++row)
    if (row % distance == 0 || row + 4 >= shape.rows) rows.push_back(row);
  return rows;
}

}  // namespace engram::testing
