// A problem for the narrow heads' kernels on the device: for their tests and their timing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/heads/narrow_heads/narrow_heads.h"
#include "tests/kernels/heads/mlp_heads_case.h"

namespace engram::testing {

// One number each outside the contract.
inline std::vector<MlpHeadsShape> narrow_heads_refused() {
  std::vector<MlpHeadsShape> shapes = kMlpHeadsRefused;
  for (MlpHeadsShape& shape : shapes) shape.hidden = shape.hidden == kMlpHeadsHidden ? 64 : kMlpHeadsHidden;
  return shapes;
}

// Everything that the kernels read and write, the latter poisoned with NaN before a run.
class NarrowHeadsOnDevice : public MlpHeadsInputs {
 public:
  explicit NarrowHeadsOnDevice(const MlpHeadsProblem& problem) : MlpHeadsInputs(problem) { poison_all(); }

  void poison_all() {
    const std::size_t rows = shape_.rows, kept = shape_.kept, hidden = shape_.hidden, outputs = shape_.output_stride();
    poison(scratch, narrow_heads_backward_scratch_bytes(shape_));
    for (DeviceBytes* layer : {&first, &second}) poison(*layer, rows * kept * hidden, Dtype::kBfloat16);
    poison(output, shape_.heads * rows * outputs, Dtype::kFloat32);
    poison(d_x, rows * shape_.stride, Dtype::kBfloat16);
    poison(d_weight1, kept * hidden * shape_.width, Dtype::kFloat32);
    poison(d_weight2, kept * hidden * hidden, Dtype::kFloat32);
    poison(d_weight3, kept * shape_.outputs * hidden, Dtype::kFloat32);
    poison(d_bias, kept * (2 * hidden + outputs), Dtype::kFloat32);
  }
  void forward(cudaStream_t stream = nullptr) {
    NarrowHeadsForward arguments{shape_, x_.data(), {}, first.data(), second.data(), {}};
    std::ranges::copy(weights(), arguments.weights);
    for (int head = 0; head < shape_.heads; ++head)
      arguments.output_MA[head] = floats(output) + head * shape_.rows * shape_.output_stride();
    narrow_heads_forward(arguments, stream);
  }
  void backward(cudaStream_t stream = nullptr) {
    NarrowHeadsBackward arguments{shape_, x_.data(), {}, first.data(), second.data(), {}, d_x.data()};
    std::copy_n(weights().begin(), shape_.kept, arguments.weights);
    for (int head = 0; head < shape_.kept; ++head) arguments.d_output_MA[head] = floats(d_output_[head]);
    narrow_heads_backward(arguments, scratch.data(), stream);
  }
  void sums(cudaStream_t stream = nullptr) {
    add_up(narrow_heads_sums(shape_, scratch.data(),
                             {floats(d_weight1), floats(d_weight2), floats(d_weight3), floats(d_bias)}),
           stream);
  }
  void run() {
    poison_all();
    forward();
    if (shape_.kept == 0) return;
    backward();
    sums();
  }
  std::vector<std::vector<unsigned char>> bits() const {
    std::vector<std::vector<unsigned char>> all;
    for (const DeviceBytes* written : {&first, &second, &output, &d_x, &d_weight1, &d_weight2, &d_weight3, &d_bias})
      all.push_back(written->to_host());
    return all;
  }
  MlpHeadsResults results() const {
    const auto of_floats = [](const DeviceBytes& buffer) { return download(buffer, Dtype::kFloat32); };
    MlpHeadsResults r;
    r.first = download(first, Dtype::kBfloat16), r.second = download(second, Dtype::kBfloat16);
    r.output = of_floats(output), r.d_x = download(d_x, Dtype::kBfloat16), r.d_bias = of_floats(d_bias);
    r.d_weight1 = of_floats(d_weight1), r.d_weight2 = of_floats(d_weight2), r.d_weight3 = of_floats(d_weight3);
    return r;
  }

  DeviceBytes scratch, first, second, output, d_x, d_weight1, d_weight2, d_weight3, d_bias;
};

}  // namespace engram::testing
