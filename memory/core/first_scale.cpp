#include "memory/core/first_scale.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <cstdint>

#include "memory/core/registry.h"
#include "nn/layers/seeded_generator.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr std::int64_t kRows = 32;
constexpr std::uint64_t kSeed = 1;

}  // namespace

double added_scale(torch::nn::Module& module, std::int64_t width, std::int64_t steps, const Mix& mix,
                   std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const bool trains = module.is_training();
  module.eval();
  const Tensor parameter = module.parameters().front();
  const Tensor x_BTD = torch::randn({kRows, steps, width}, at::detail::createCPUGenerator(seed), torch::kFloat32)
                           .to(parameter.options());
  const Tensor lengths_B = torch::full({kRows}, steps, parameter.options().dtype(torch::kInt64));
  const double scale = std::sqrt(mix(x_BTD, lengths_B).to(torch::kFloat64).square().mean().item<double>());
  module.train(trains);
  return scale;
}

void bring_to_common_scale(torch::nn::Module& module, const std::vector<Tensor>& output, std::int64_t width,
                           std::int64_t steps, const Mix& mix) {
  if (output.front().is_meta()) return;
  const double scale = added_scale(module, width, steps, mix, kSeed);
  if (scale == 0) return;
  const torch::NoGradGuard no_grad;
  for (Tensor parameter : output) parameter.mul_(kCommonScale / scale);
}

std::optional<double> first_scale(const BackboneConfig& backbone) {
  const SeededGenerator seeded(kSeed);
  const std::vector<double> scales = make_backbone(backbone, kScaleSteps)->added_scales(kSeed);
  return scales.empty() ? std::nullopt : std::optional(scales.front());
}

}  // namespace engram
