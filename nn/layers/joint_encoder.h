// JointEncoder: all that an agent sees at a step as one vector, encoded as POPGym's baselines do (Morad et al. 2023,
// popgym/baselines/ray_models/base_model.py and ppo.py): the observation, the previous action and the mark of the first
// step weigh alike from the first weights on, whatever the observation's size.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/observation_spec.h"
#include "base/support.h"

namespace engram {

class JointEncoder {
 public:
  // Of observations of these parts, and parts of what is beside them. Its layers are registered with `owner` itself, as
  // "observation" (to `hidden`) and "joined" (to `width`), with orthogonal weights drawn from torch's default
  // generator.
  JointEncoder(torch::nn::Module& owner, std::vector<ObservationPart> parts, std::vector<ObservationPart> beside,
               std::int64_t hidden, std::int64_t width);

  // observation [M, elements], beside [M, elements] -> [M, width]. Tokens as one-hot vectors (zeros for a number that
  // is none of them) and quantities (of the observation in uint8 divided by 255) side by side; linear to `hidden`, a
  // layer norm without gain or bias (in float32), linear to `width`, leaky relu. On a GPU products are in `dtype`, and
  // so is the result.
  torch::Tensor encode(const torch::Tensor& observation_MX, const torch::Tensor& beside_MX,
                       torch::ScalarType dtype) const;

  // Whether encode() may take the fused layers (nn/fused/encoder.h).
  Support supports_kernels(torch::ScalarType dtype, torch::Device device) const;

 private:
  torch::Tensor encode_by_definition(const torch::Tensor& observation_MX, const torch::Tensor& beside_MX) const;

  std::vector<ObservationPart> parts_, beside_;
  // Shared with the owner; mutable, because LibTorch's modules compute by functions that are not const.
  mutable torch::nn::Linear observation_{nullptr}, joined_{nullptr};
};

}  // namespace engram
