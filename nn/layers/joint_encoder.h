// JointEncoder: all that an agent sees at a step as one vector, encoded as POPGym's baselines do (Morad et al. 2023,
// popgym/baselines/ray_models/base_model.py and ppo.py): the observation, the previous action and the mark of the first
// step weigh alike from the first weights on, whatever the observation's size.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/observation_spec.h"

namespace engram {

class JointEncoder {
 public:
  // Of observations of these parts and `others` numbers beside them. Its layers are registered with `owner` itself, as
  // "observation" (to `hidden`) and "joined" (to `width`), with orthogonal weights drawn from torch's default
  // generator.
  JointEncoder(torch::nn::Module& owner, std::vector<ObservationPart> parts, std::int64_t others, std::int64_t hidden,
               std::int64_t width);

  // observation [M, elements], others [M, others] -> [M, width]. Tokens as one-hot vectors, uint8 of an image or a
  // vector divided by 255, and what is beside them, side by side; linear to `hidden`, a layer norm without gain or bias
  // (in float32), linear to `width`, leaky relu. On a GPU products are in `dtype`, and so is the result.
  torch::Tensor encode(const torch::Tensor& observation_MX, const torch::Tensor& others_MS,
                       torch::ScalarType dtype) const;

 private:
  std::vector<ObservationPart> parts_;
  // Shared with the owner; mutable, because LibTorch's modules compute by functions that are not const.
  mutable torch::nn::Linear observation_{nullptr}, joined_{nullptr};
};

}  // namespace engram
