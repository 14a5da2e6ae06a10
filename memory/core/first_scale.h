// What a mixer adds to the residual stream before anything is learnt: its scale as published, and one scale for all
// (FirstValues::kCommon), so that memories can be compared that begin alike in this.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "memory/core/backbone_config.h"

namespace engram {

// The mixer behind its norm over fresh rows: x_BTD and the rows' lengths_B (int64, all T) -> what it adds, [B, T, D].
using Mix = std::function<torch::Tensor(const torch::Tensor& x_BTD, const torch::Tensor& lengths_B)>;

// At most so many steps are measured.
inline constexpr std::int64_t kScaleSteps = 64;

// The root mean square of what `mix`, a part of `module`, adds to a stream x ~ N(0, 1) of 32 rows and `steps` steps,
// which the seed draws: the default generator stays as it is. Dropout is off. Records no gradients.
double added_scale(torch::nn::Module& module, std::int64_t width, std::int64_t steps, const Mix& mix,
                   std::uint64_t seed);

// What DeltaNet and HQLT, as published, add to a stream of root mean square 1 with three layers of width 100.
inline constexpr double kCommonScale = 0.08;

// Multiplies `output`, parameters in which what `mix` adds is linear, so that added_scale() of one fixed seed is
// kCommonScale. What adds nothing at all, or has no numbers (nn/device/without_storage.h), stays as it is.
void bring_to_common_scale(torch::nn::Module& module, const std::vector<torch::Tensor>& output, std::int64_t width,
                           std::int64_t steps, const Mix& mix);

// What the first layer adds (SequenceModel::added_scales()) with weights and a stream of one fixed seed, of a backbone
// for sequences of kScaleSteps; nothing where it adds to no stream. The default generator stays as it is.
std::optional<double> first_scale(const BackboneConfig& backbone);

}  // namespace engram
