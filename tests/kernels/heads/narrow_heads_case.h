// A problem for the narrow heads' kernels on the device.
#pragma once

#include <algorithm>
#include <cstddef>
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

class NarrowHeadsOnDevice : public HeadsOnDevice {
 public:
  explicit NarrowHeadsOnDevice(const MlpHeadsProblem& problem) : HeadsOnDevice(problem) {
    const std::size_t kept = shape_.kept, hidden = shape_.hidden;
    writes(&MlpHeadsResults::d_weight1, kept * hidden * shape_.width, Dtype::kFloat32);
    writes(&MlpHeadsResults::d_weight2, kept * hidden * hidden, Dtype::kFloat32);
    writes(&MlpHeadsResults::d_weight3, kept * shape_.outputs * hidden, Dtype::kFloat32);
  }

 private:
  void forward() override {
    NarrowHeadsForward arguments{shape_, x_.data(), {}, data(&MlpHeadsResults::first), data(&MlpHeadsResults::second),
                                 {}};
    std::ranges::copy(weights(), arguments.weights);
    set_outputs(arguments.output_MA);
    narrow_heads_forward(arguments, nullptr);
  }
  void backward() override {
    poison(scratch_, narrow_heads_backward_scratch_bytes(shape_));
    NarrowHeadsBackward arguments{shape_,
                                  x_.data(),
                                  {},
                                  data(&MlpHeadsResults::first),
                                  data(&MlpHeadsResults::second),
                                  {},
                                  data(&MlpHeadsResults::d_x)};
    std::copy_n(weights().begin(), shape_.kept, arguments.weights);
    set_output_gradients(arguments.d_output_MA);
    narrow_heads_backward(arguments, scratch_.data(), nullptr);
    const auto gradient = [&](Result result) { return floats(bytes(result)); };
    add_up(narrow_heads_sums(shape_, scratch_.data(),
                             {gradient(&MlpHeadsResults::d_weight1), gradient(&MlpHeadsResults::d_weight2),
                              gradient(&MlpHeadsResults::d_weight3), gradient(&MlpHeadsResults::d_bias)}),
           nullptr);
  }

  DeviceBytes scratch_;
};

}  // namespace engram::testing
