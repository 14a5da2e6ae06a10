// What a film shows of a policy's step.
#pragma once

#include <vector>

#include "agents/act/shown_policy.h"
#include "video/frame_painter.h"

namespace engram {

// Of row 0.
inline Decision filmed_decision(const ShownPolicy::Step& step) {
  const auto row = [](const torch::Tensor& values_NA) {
    const torch::Tensor values_A = values_NA[0].contiguous();
    return std::vector<float>(values_A.data_ptr<float>(), values_A.data_ptr<float>() + values_A.numel());
  };
  return {step.action_N[0], row(step.probabilities_NA), row(step.q_NA)};
}

}  // namespace engram
