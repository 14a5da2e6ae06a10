// A problem for the heads' kernels, on the host and on the device.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
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
  return joined(s.rows, " rows of ", s.width, " in ", s.stride, ", ", s.hidden, " hidden units, ", s.heads, " heads (",
                s.kept, " kept) of ", s.outputs);
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

// What they make of it, on the host; empty what is of no interest. The weights' gradients are those of all kept heads.
struct MlpHeadsResults {
  Numbers output, first, second, d_x, d_bias;
  Numbers d_first, d_second, d_output_rounded;
  Numbers d_weight1, d_weight2, d_weight3;
};

// Everything that kernels for heads read and write, the latter NaN before a run.
class HeadsOnDevice {
 public:
  using Result = Numbers MlpHeadsResults::*;

  explicit HeadsOnDevice(const MlpHeadsProblem& problem) : shape_(problem.shape) {
    x_ = upload(problem.x_MP, Dtype::kBfloat16);
    for (const MlpHeadReferenceWeights& w : problem.weights)
      for (const Numbers* parameter : {&w.weight1_ID, &w.bias1_I, &w.weight2_II, &w.bias2_I, &w.weight3_AI, &w.bias3_A})
        parameters_.push_back(upload(*parameter, Dtype::kFloat32));
    for (const Numbers& d : problem.d_output) d_output_.push_back(upload(d, Dtype::kFloat32));
    const std::size_t rows = shape_.rows, outputs = shape_.output_stride();
    for (const Result layer : {&MlpHeadsResults::first, &MlpHeadsResults::second}) writes_layer(layer, shape_.hidden);
    writes(&MlpHeadsResults::output, shape_.heads * rows * outputs, Dtype::kFloat32);
    writes(&MlpHeadsResults::d_x, rows * shape_.stride, Dtype::kBfloat16);
    writes(&MlpHeadsResults::d_bias, shape_.kept * (2 * shape_.hidden + outputs), Dtype::kFloat32);
  }
  virtual ~HeadsOnDevice() = default;

  void run() {
    for (Written& own : written_) poison(own.bytes, own.size, own.dtype);
    forward();
    if (shape_.kept > 0) backward();
  }
  std::vector<Bytes> bits() const {
    std::vector<Bytes> all;
    for (const Written& own : written_) all.push_back(own.bytes.to_host());
    return all;
  }
  MlpHeadsResults results() const {
    MlpHeadsResults r;
    for (const Written& own : written_) r.*own.result = download(own.bytes, own.dtype);
    return r;
  }

 protected:
  virtual void forward() = 0;
  virtual void backward() = 0;

  void writes(Result result, std::size_t size, Dtype dtype) { written_.push_back({result, size, dtype, {}}); }
  void writes_layer(Result result, int width) { writes(result, shape_.rows * shape_.kept * width, Dtype::kBfloat16); }
  DeviceBytes& bytes(Result result) { return std::ranges::find(written_, result, &Written::result)->bytes; }
  void* data(Result result) { return bytes(result).data(); }

  std::vector<MlpHeadWeights> weights() const {
    std::vector<MlpHeadWeights> weights;
    for (std::size_t i = 0; i < parameters_.size(); i += 6) {
      const auto parameter = [&](std::size_t j) { return floats(parameters_[i + j]); };
      weights.push_back({parameter(0), parameter(1), parameter(2), parameter(3), parameter(4), parameter(5)});
    }
    return weights;
  }
  // Each head's own, as the kernels are given them.
  void set_outputs(float* (&output_MA)[kMaxMlpHeads]) {
    for (int head = 0; head < shape_.heads; ++head)
      output_MA[head] = floats(bytes(&MlpHeadsResults::output)) + head * shape_.rows * shape_.output_stride();
  }
  void set_output_gradients(const float* (&d_output_MA)[kMaxMlpHeads]) const {
    for (int head = 0; head < shape_.kept; ++head) d_output_MA[head] = floats(d_output_[head]);
  }

  MlpHeadsShape shape_;
  DeviceBytes x_;

 private:
  struct Written {
    Result result;
    std::size_t size;
    Dtype dtype;
    DeviceBytes bytes;
  };
  std::vector<DeviceBytes> parameters_, d_output_;
  std::vector<Written> written_;
};

class MlpHeadsOnDevice : public HeadsOnDevice {
 public:
  explicit MlpHeadsOnDevice(const MlpHeadsProblem& problem) : HeadsOnDevice(problem) {
    for (const Result layer : {&MlpHeadsResults::d_first, &MlpHeadsResults::d_second})
      writes_layer(layer, shape_.hidden);
    writes_layer(&MlpHeadsResults::d_output_rounded, shape_.output_stride());
  }

 private:
  void forward() override {
    poison(packed_, mlp_heads_packed_bytes(shape_));
    poison(masks_, mlp_heads_mask_bytes(shape_));
    mlp_heads_pack(shape_, weights(), packed_.data(), nullptr);
    MlpHeadsForward arguments{
        shape_,        x_.data(), packed_.data(), data(&MlpHeadsResults::first), data(&MlpHeadsResults::second),
        masks_.data(), {}};
    set_outputs(arguments.output_MA);
    mlp_heads_forward(arguments, nullptr);
  }
  void backward() override {
    poison(scratch_, mlp_heads_backward_scratch_bytes(shape_));
    MlpHeadsBackward arguments{shape_,
                               packed_.data(),
                               masks_.data(),
                               {},
                               data(&MlpHeadsResults::d_first),
                               data(&MlpHeadsResults::d_second),
                               data(&MlpHeadsResults::d_output_rounded),
                               data(&MlpHeadsResults::d_x)};
    set_output_gradients(arguments.d_output_MA);
    mlp_heads_backward(arguments, scratch_.data(), nullptr);
    add_up({mlp_heads_bias_sum(shape_, scratch_.data(), floats(bytes(&MlpHeadsResults::d_bias)))}, nullptr);
  }

  DeviceBytes packed_, masks_, scratch_;
};

// Checks results against the reference on some of the rows, and beside plain bfloat16 products: the reference with
// hidden layers, their gradients and what is written in bfloat16 rounded. The bounds' reasons stand in mlp_heads.cpp.
inline void check_mlp_heads_results(const MlpHeadsProblem& problem, const MlpHeadsResults& result,
                                    const std::vector<std::int64_t>& rows) {
  const MlpHeadsShape& s = problem.shape;
  int head = 0;
  const auto check = [&](const char* name, const Numbers& actual, const Numbers& expected, const Numbers& plain) {
    check_beside_plain(joined(name, " of head ", head, ": ", text(s)), actual, expected, plain, 0.005);
  };
  const auto check_gradient = [&](const char* name, const Numbers& actual, const Numbers& expected,
                                  const Numbers& plain) {
    check_beside_plain(joined(name, " of head ", head, ": ", text(s)), actual, expected, plain, 0.008);
  };
  const auto check_sums = [&](const char* name, const Numbers& actual, const Numbers& expected) {
    Numbers plain = expected;
    std::transform(plain.begin(), plain.end(), plain.begin(), to_bf16);
    check_gradient(name, actual, expected, plain);
  };
  const auto of_rows = [&](const Numbers& x, std::int64_t stride, std::int64_t first, std::int64_t width) {
    return rows_of(x, rows, stride, first, width);
  };
  const auto exact = [](double x) { return x; };
  const bool all_rows = static_cast<std::int64_t>(rows.size()) == s.rows;
  const std::int64_t hidden = s.hidden, row_width = s.kept * hidden, outputs = s.output_stride();
  const Numbers x = of_rows(problem.x_MP, s.stride, 0, s.width);
  Numbers d_x_expected(rows.size() * s.width), d_x_plain = d_x_expected;
  for (; head < s.heads; ++head) {
    const auto& weights = problem.weights[head];
    const auto expected = mlp_heads_reference(s, weights, x, exact),
               plain = mlp_heads_reference(s, weights, x, to_bf16);
    const Numbers own_output = part(result.output, head * s.rows * outputs, s.rows * outputs);
    check("output", of_rows(own_output, outputs, 0, s.outputs), expected.output_MA, plain.output_MA);
    const Numbers zeros(rows.size() * (outputs - s.outputs));
    check("output's padding", of_rows(own_output, outputs, s.outputs, outputs - s.outputs), zeros, zeros);
    if (head >= s.kept) continue;
    const auto layer = [&](const Numbers& layers) { return of_rows(layers, row_width, head * hidden, hidden); };
    const MlpHeadsReferenceOutput kept{layer(result.first), layer(result.second), {}};
    check("first", kept.first_MI, expected.first_MI, plain.first_MI);
    check("second", kept.second_MI, expected.second_MI, plain.second_MI);
    const Numbers d_output = of_rows(problem.d_output[head], outputs, 0, s.outputs);
    // What is near zero is so by rounding: the gradient is that of the hidden layers as they were kept.
    const auto gradient = mlp_heads_reference_backward(s, weights, kept, d_output, exact),
               plain_gradient = mlp_heads_reference_backward(s, weights, kept, d_output, to_bf16);
    if (!result.d_first.empty()) {
      check_gradient("d_output", of_rows(result.d_output_rounded, s.kept * outputs, head * outputs, s.outputs),
                     d_output, d_output);
      check_gradient("d_second", layer(result.d_second), gradient.second_MI, plain_gradient.second_MI);
      check_gradient("d_first", layer(result.d_first), gradient.first_MI, plain_gradient.first_MI);
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
      check_gradient("weight1", own(result.d_weight1, d.weight1_ID), d.weight1_ID, plain_d.weight1_ID);
      check_gradient("weight2", own(result.d_weight2, d.weight2_II), d.weight2_II, plain_d.weight2_II);
      check_sums("weight3", own(result.d_weight3, d.weight3_AI), d.weight3_AI);
    }
    for (std::size_t i = 0; i < d_x_expected.size(); ++i)
      d_x_expected[i] += gradient.x_MD[i], d_x_plain[i] += plain_gradient.x_MD[i];
    // Of some rows alone the biases' gradients are compared with the sums of what was written.
    const auto sums = [&](const Numbers& d, std::int64_t width, std::int64_t size) {
      Numbers total(size);
      for (std::int64_t row = 0; row < s.rows; ++row)
        for (std::int64_t i = 0; i < size; ++i) total[i] += d[(row * s.kept + head) * width + i];
      return total;
    };
    const auto bias = [&](std::int64_t begin, std::int64_t size) { return part(result.d_bias, begin, size); };
    check_sums("bias1", bias(head * hidden, hidden),
               all_rows ? gradient.bias1_I : sums(result.d_first, hidden, hidden));
    check_sums("bias2", bias(row_width + head * hidden, hidden),
               all_rows ? gradient.bias2_I : sums(result.d_second, hidden, hidden));
    check_sums("bias3", bias(2 * row_width + head * outputs, s.outputs),
               all_rows ? gradient.bias3_A : sums(result.d_output_rounded, outputs, s.outputs));
  }
  if (s.kept == 0) return;
  std::transform(d_x_plain.begin(), d_x_plain.end(), d_x_plain.begin(), to_bf16);
  check_gradient("d_x", of_rows(result.d_x, s.stride, 0, s.width), d_x_expected, d_x_plain);
  const Numbers zeros(rows.size() * (s.stride - s.width));
  check_gradient("d_x's padding", of_rows(result.d_x, s.stride, s.width, s.stride - s.width), zeros, zeros);
}

inline std::vector<std::int64_t> all_rows(const MlpHeadsShape& shape) {
  std::vector<std::int64_t> rows(shape.rows);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}
// `distance` apart, and the last ones.
inline std::vector<std::int64_t> some_rows(const MlpHeadsShape& shape, std::int64_t distance) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < shape.rows; ++row)
    if (row % distance == 0 || row + 4 >= shape.rows) rows.push_back(row);
  return rows;
}

template <class OnDevice>
void check_heads(const MlpHeadsShape& shape, const std::vector<std::int64_t>& rows) {
  const MlpHeadsProblem problem(shape);
  OnDevice device(problem);
  device.run();
  check_mlp_heads_results(problem, device.results(), rows);
}

// NaN in a row of x and of all gradients reaches that row alone.
template <class OnDevice>
void check_nan_in_a_row(const MlpHeadsShape& shape) {
  constexpr int kRow = 70;
  MlpHeadsProblem problem(shape);
  const auto results = [&] {
    OnDevice device(problem);
    device.run();
    return device.results();
  };
  const MlpHeadsResults clean = results();
  std::fill_n(problem.x_MP.begin() + kRow * shape.stride, shape.width, kNaN);
  for (Numbers& d : problem.d_output) std::fill_n(d.begin() + kRow * shape.output_stride(), shape.outputs, kNaN);
  const MlpHeadsResults dirty = results();
  const auto check = [&](const Numbers& before, const Numbers& after) {
    const std::size_t columns = before.size() / shape.rows;
    CHECK(equal_but_for(before, after, columns, kRow, kRow + 1));
    CHECK(std::isnan(after[columns * kRow]));
  };
  for (const auto layer : {&MlpHeadsResults::first, &MlpHeadsResults::second, &MlpHeadsResults::d_first,
                           &MlpHeadsResults::d_second, &MlpHeadsResults::d_x})
    if (!(clean.*layer).empty()) check(clean.*layer, dirty.*layer);
  const std::int64_t own = shape.rows * shape.output_stride();
  for (int head = 0; head < shape.heads; ++head)
    check(part(clean.output, head * own, own), part(dirty.output, head * own, own));
}

template <class OnDevice>
void check_same_bits(const MlpHeadsShape& shape) {
  OnDevice device{MlpHeadsProblem(shape)};
  CHECK(different_runs([&] {
          device.run();
          return device.bits();
        }) == 0);
}

}  // namespace engram::testing
