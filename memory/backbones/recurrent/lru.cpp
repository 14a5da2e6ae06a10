// Linear recurrent unit (Orvieto et al. 2023, arXiv:2303.06349): complex channels with factors of their own,
//   h_t = lambda h_{t-1} + gamma (B x_t),   y_t = Re(C h_t) + D x_t,
// with lambda = exp(-exp(nu) + i exp(theta)), so that |lambda| < 1 whatever is learnt (their section 3.3, "exponential
// parametrization"), and gamma that starts at sqrt(1 - |lambda|^2) and is learnt by its logarithm (section 3.4).
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "memory/backbones/recurrent/linear_mixer.h"
#include "memory/backbones/recurrent/linear_rnn.h"

namespace engram {
namespace {

class LruMixer : public ComplexMixer<LruMixer> {
 public:
  using Options = LruOptions;

  explicit LruMixer(const Options& options)
      : ComplexMixer(options, 1 / std::sqrt(2.0 * options.width), 1 / std::sqrt(1.0 * options.recurrent_width())) {
    // Evenly over the ring r_min .. r_max (their lemma 3.2).
    const double low = options.r_min * options.r_min, high = options.r_max * options.r_max;
    const torch::Tensor square_N = low + (high - low) * torch::rand({options.recurrent_width()}, torch::kFloat64);
    const torch::Tensor phase_N =
        options.max_phase * (1 - torch::rand({options.recurrent_width()}, torch::kFloat64));  // above 0
    nu_N_ = register_parameter("nu", torch::log(-0.5 * torch::log(square_N.clamp_min(1e-12))).to(torch::kFloat32));
    theta_N_ = register_parameter("theta", phase_N.log().to(torch::kFloat32));
    log_gamma_N_ = register_parameter("log_gamma", (0.5 * torch::log1p(-square_N)).to(torch::kFloat32));
  }

  ComplexRecurrence recurrence() const {
    return {from_polar(torch::exp(-torch::exp(nu_N_)), torch::exp(theta_N_)), log_gamma_N_.exp()};
  }

 private:
  torch::Tensor nu_N_, theta_N_, log_gamma_N_;
};

}  // namespace

void LruOptions::list_options(OptionList& list) {
  LinearRnnOptions::list_options(list);
  list.add("r_min", r_min, {0, 0.999999}, "smallest absolute value of a first factor");
  list.add("r_max", r_max, {1e-6, 0.999999}, "largest absolute value of a first factor, above memory.r_min");
  list.add("max_phase", max_phase, {1e-6, 6.284}, "largest angle of a first factor, in radians");
}

void LruOptions::check() const {
  check_bounds(*this, kMemorySection);
  if (r_min >= r_max)
    throw UserError("memory.r_min " + std::to_string(r_min) + " is not below memory.r_max " + std::to_string(r_max));
}

LayerSpec LruOptions::layer(std::int64_t) const { return layer_spec<LruMixer>(*this); }

std::shared_ptr<SequenceModel> LruOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
