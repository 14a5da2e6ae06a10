// What a network draws in training, from a counter (base/dropout.h) in place of a generator's state: dropout
// (Srivastava et al. 2014), and whatever else is drawn afresh in every forward pass.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "base/dropout.h"

namespace engram {

// Seed and tick of all that a network draws, in memory of the network's device.
class DropoutClock {
 public:
  explicit DropoutClock(std::uint64_t seed);

  // The next forward pass draws afresh. On a GPU that is an operation on the device, which a graph may capture.
  void tick();
  // What draws from here on does so by a seed and a tick that torch's default generator of `device` gives, in memory of
  // their own: a backward pass of what has been drawn before still reads the old ones.
  void draw_seed(torch::Device device);
  // int64 [2]. Moves there first if need be, which waits for a GPU.
  const torch::Tensor& seed_tick(torch::Device device);

 private:
  torch::Tensor seed_tick_;
};

// A module that draws in training.
class Drawing : public torch::nn::Module {
 protected:
  // Seed and tick. Throws std::logic_error unless seed_dropout() has seen the module.
  const torch::Tensor& seed_tick(torch::Device device) const;
  std::uint32_t site() const { return site_; }

 private:
  friend std::shared_ptr<DropoutClock> seed_dropout(torch::nn::Module& root, std::uint64_t seed);

  std::uint32_t site_ = 0;
  std::shared_ptr<DropoutClock> clock_;
};

class Dropout : public Drawing {
 public:
  // 0 <= probability < 1
  explicit Dropout(double probability) : probability_(probability) {}

  // dropout(x [..., C]); outside training nothing is dropped.
  torch::Tensor forward(const torch::Tensor& x) const;
  // to + dropout(x), both of one shape.
  torch::Tensor add(const torch::Tensor& to, const torch::Tensor& x) const;

  // For kernels that drop by themselves. Throws std::logic_error if it would drop and seed_dropout() has not seen it.
  DropoutKey key(torch::Device device) const;

 private:
  double probability_;
};

// Gives every Drawing under `root` a site, in the order of registration, and all of them one clock, which the caller
// ticks before each forward pass.
std::shared_ptr<DropoutClock> seed_dropout(torch::nn::Module& root, std::uint64_t seed);

}  // namespace engram
