#include "nn/layers/dropout.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "nn/cpu/layers.h"
#include "nn/fused/dropout.h"

namespace engram {
namespace {

using torch::Tensor;

// The factors that the elements of a tensor like x [..., C] on the CPU are multiplied with.
Tensor draw_factors(const Tensor& x, const DropoutKey& key) {
  const std::int64_t channels = x.size(-1), rows = x.numel() / channels;
  const std::int64_t groups = dropout_row(channels) / kDropoutGroup;
  const Tensor factors = torch::empty({rows, channels}, torch::kFloat32);
  float* const out = factors.data_ptr<float>();
  at::parallel_for(0, rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t group = 0; group < groups; ++group) {
        float factor[kDropoutGroup];
        key.draw(row * groups + group, factor);
        for (std::int64_t c = group * kDropoutGroup; c < std::min(channels, (group + 1) * kDropoutGroup); ++c)
          out[row * channels + c] = factor[c % kDropoutGroup];
      }
  });
  return factors.view(x.sizes()).to(x.scalar_type());
}

}  // namespace

DropoutClock::DropoutClock(std::uint64_t seed)
    : seed_tick_(torch::tensor({static_cast<std::int64_t>(seed), std::int64_t{0}}, torch::kInt64)) {}

void DropoutClock::tick() {
  const torch::NoGradGuard no_grad;
  seed_tick_.select(0, 1).add_(1);
}

void DropoutClock::draw_seed(torch::Device device) {
  seed_tick_ =
      torch::randint(std::numeric_limits<std::int64_t>::max(), {2}, torch::dtype(torch::kInt64).device(device));
}

const Tensor& DropoutClock::seed_tick(torch::Device device) {
  if (seed_tick_.device() != device) seed_tick_ = seed_tick_.to(device);
  return seed_tick_;
}

const Tensor& Drawing::seed_tick(torch::Device device) const {
  if (!clock_) throw std::logic_error("dropout or other draws in training without a seed");
  return clock_->seed_tick(device);
}

DropoutKey Dropout::key(torch::Device device) const {
  if (!is_training() || probability_ == 0) return {};
  return {seed_tick(device).data_ptr<std::int64_t>(), site(), probability_};
}

Tensor Dropout::forward(const Tensor& x) const {
  const DropoutKey drawn = key(x.device());
  if (!drawn.drops() || x.numel() == 0) return x;
  if (x.is_cuda()) return cuda::dropout(x, seed_tick(x.device()), drawn);
  return cpu::takes(x) ? cpu::dropout(x, /*residual=*/{}, drawn) : x * draw_factors(x, drawn);
}

Tensor Dropout::add(const Tensor& to, const Tensor& x) const {
  const DropoutKey drawn = key(x.device());
  return drawn.drops() && cpu::takes(x) && cpu::takes(to) ? cpu::dropout(x, to, drawn) : to + forward(x);
}

std::shared_ptr<DropoutClock> seed_dropout(torch::nn::Module& root, std::uint64_t seed) {
  const auto clock = std::make_shared<DropoutClock>(seed);
  std::uint32_t site = 0;
  for (const auto& module : root.modules(/*include_self=*/false))  // a root under construction cannot be shared yet
    if (auto* const drawing = dynamic_cast<Drawing*>(module.get())) {
      drawing->clock_ = clock;
      drawing->site_ = site++;
    }
  return clock;
}

}  // namespace engram
