#include "nn/dropout.h"

#include <ATen/Parallel.h>

#include <stdexcept>
#include <utility>
#include <vector>

#ifdef ENGRAM_WITH_CUDA
#include "kernels/block/elementwise.h"
#include "nn/cuda_support.h"
#endif

namespace engram {
namespace {

using torch::Tensor;

// The factors that the elements of a tensor like x [..., C] on the CPU are multiplied with.
Tensor draw_factors(const Tensor& x, const DropoutPlace& place) {
  const std::int64_t channels = x.size(-1), rows = x.numel() / channels;
  const std::int64_t groups = dropout_row(channels) / kDropoutGroup;
  const Tensor factors = torch::empty({rows, channels}, torch::kFloat32);
  float* const out = factors.data_ptr<float>();
  at::parallel_for(0, rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t group = 0; group < groups; ++group) {
        float factor[kDropoutGroup];
        place.draw(row * groups + group, factor);
        for (std::int64_t c = group * kDropoutGroup; c < std::min(channels, (group + 1) * kDropoutGroup); ++c)
          out[row * channels + c] = factor[c % kDropoutGroup];
      }
  });
  return factors.view(x.sizes()).to(x.scalar_type());
}

#ifdef ENGRAM_WITH_CUDA
// The result's rows begin at multiples of 16 channels, as those of the fused layers do.
Tensor dropout_on_gpu(const Tensor& x, const DropoutPlace& place) {
  const std::int64_t channels = x.size(-1), stride = (channels + 15) / 16 * 16;
  Tensor x_MC = x.reshape({-1, channels});
  if (x_MC.stride(1) != 1 || x_MC.stride(0) < channels) x_MC = x_MC.contiguous();
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = stride;
  const Tensor y = torch::empty(shape, x.options().requires_grad(false));
  dropout_add({.rows = x_MC.size(0),
               .width = static_cast<int>(channels),
               .x_stride = x_MC.stride(0),
               .stride = static_cast<int>(stride),
               .dtype = kernel_dtype(x),
               .dropout = place,
               .x = x_MC.data_ptr(),
               .residual = nullptr},
              y.data_ptr(), current_stream());
  return y.narrow(-1, 0, channels);
}

class GpuDropout : public torch::autograd::Function<GpuDropout> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& seed_tick,
                        std::int64_t place_index, std::int64_t threshold) {
    context->saved_data["seed_tick"] = seed_tick;
    context->saved_data["place"] = place_index;
    context->saved_data["threshold"] = threshold;
    return dropout_on_gpu(x, place_of(seed_tick, place_index, threshold));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradient) {
    const DropoutPlace place = place_of(context->saved_data["seed_tick"].toTensor(),
                                        context->saved_data["place"].toInt(), context->saved_data["threshold"].toInt());
    return {dropout_on_gpu(gradient[0], place), {}, {}, {}};
  }

 private:
  static DropoutPlace place_of(const Tensor& seed_tick, std::int64_t place, std::int64_t threshold) {
    return {seed_tick.data_ptr<std::int64_t>(), static_cast<std::uint32_t>(place),
            static_cast<double>(threshold) / 65536};
  }
};
#endif

}  // namespace

DropoutClock::DropoutClock(std::uint64_t seed)
    : seed_tick_(torch::tensor({static_cast<std::int64_t>(seed), std::int64_t{0}}, torch::kInt64)) {}

void DropoutClock::tick() {
  const torch::NoGradGuard no_grad;
  seed_tick_.select(0, 1).add_(1);
}

const Tensor& DropoutClock::seed_tick(torch::Device device) {
  if (seed_tick_.device() != device) seed_tick_ = seed_tick_.to(device);
  return seed_tick_;
}

DropoutPlace Dropout::place(torch::Device device) const {
  if (!is_training() || probability_ == 0) return {};
  if (!clock_) throw std::logic_error("dropout in training without a seed");
  return {clock_->seed_tick(device).data_ptr<std::int64_t>(), place_, probability_};
}

Tensor Dropout::forward(const Tensor& x) const {
  const DropoutPlace drawn = place(x.device());
  if (!drawn.drops() || x.numel() == 0) return x;
#ifdef ENGRAM_WITH_CUDA
  if (x.is_cuda())
    return GpuDropout::apply(x, clock_->seed_tick(x.device()), static_cast<std::int64_t>(drawn.place),
                             static_cast<std::int64_t>(drawn.threshold));
#endif
  return x * draw_factors(x, drawn);
}

std::shared_ptr<DropoutClock> seed_dropout(torch::nn::Module& root, std::uint64_t seed) {
  const auto clock = std::make_shared<DropoutClock>(seed);
  std::uint32_t place = 0;
  for (const auto& module : root.modules(/*include_self=*/false))  // a root under construction cannot be shared yet
    if (auto* const dropout = dynamic_cast<Dropout*>(module.get())) {
      dropout->clock_ = clock;
      dropout->place_ = place++;
    }
  return clock;
}

}  // namespace engram
