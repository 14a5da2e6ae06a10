// S5 (Smith et al. 2023, arXiv:2208.04933): a state space x' = Lambda x + B u, y = Re(C x) + D u with diagonal Lambda
// and many inputs and outputs, held at step sizes Delta that are learnt per channel (their equation 6, zero-order
// hold):
//   h_t = exp(Lambda Delta) h_{t-1} + (exp(Lambda Delta) - 1) / Lambda (B x_t),   y_t = 2 Re(C h_t) + D x_t.
// Channels stand for conjugate pairs, of which one is computed. Re(Lambda) = -exp(log_rate) stays negative whatever is
// learnt.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "memory/backbones/recurrent/linear_mixer.h"
#include "memory/backbones/recurrent/linear_rnn.h"

namespace engram {
namespace {

// HiPPO-N, the normal part of HiPPO-LegS (their section 2.3 and appendix B.1.1), diagonalised: the eigenvalues
// -1/2 + i w with w > 0 and their eigenvectors.
struct HippoN {
  explicit HippoN(std::int64_t pairs) {
    const torch::Tensor root = (torch::arange(2 * pairs, torch::kFloat64) + 0.5).sqrt();
    const torch::Tensor lower = torch::outer(root, root).tril(-1);
    const torch::Tensor skew = lower.t() - lower;  // HiPPO-N + I / 2
    const auto [values, vectors] = torch::linalg_eigh(torch::complex(torch::zeros_like(skew), -skew));
    frequency_N = values.narrow(0, pairs, pairs);  // ascending, in pairs +-w
    vectors_PN = vectors.narrow(1, pairs, pairs);
  }
  torch::Tensor frequency_N, vectors_PN;
};

class S5Mixer : public ComplexMixer<S5Mixer> {
 public:
  using Options = S5Options;

  explicit S5Mixer(const Options& options) : ComplexMixer(options, 1, 1) {
    const std::int64_t pairs = options.recurrent_width(), width = options.width;
    const HippoN hippo(pairs);
    // As for the dense state space, in the eigenvectors' basis: B = V^H B', C = C' V, of which 2 Re(C h) is the map
    // 2 [Re C, -Im C] of real and imaginary part.
    const auto normal = [](std::int64_t rows, std::int64_t columns) {
      const torch::Tensor matrix =
          torch::randn({rows, columns}, torch::kFloat64) / std::sqrt(static_cast<double>(columns));
      return torch::complex(matrix, torch::zeros_like(matrix));
    };
    const torch::Tensor input_ND = hippo.vectors_PN.conj().t().matmul(normal(2 * pairs, width));
    const torch::Tensor output_DN = normal(width, 2 * pairs).matmul(hippo.vectors_PN);
    const torch::NoGradGuard no_grad;
    input_->weight.copy_(torch::view_as_real(input_ND).transpose(1, 2).flatten(0, 1));
    output_->weight.copy_(2 * torch::view_as_real(output_DN.conj().resolve_conj()).flatten(1));

    log_rate_N_ = register_parameter("log_rate", torch::full({pairs}, std::log(0.5)));
    frequency_N_ = register_parameter("frequency", hippo.frequency_N.to(torch::kFloat32));
    const double low = std::log(options.step_min), high = std::log(options.step_max);
    log_step_N_ = register_parameter("log_step", low + (high - low) * torch::rand({pairs}));
  }

  ComplexRecurrence recurrence() const {
    const torch::Tensor rate_N = -log_rate_N_.exp(), step_N = log_step_N_.exp();
    const torch::Tensor radius_N = torch::exp(rate_N * step_N), angle_N = frequency_N_ * step_N;
    const torch::Tensor real_N = radius_N * angle_N.cos(), imaginary_N = radius_N * angle_N.sin();
    // (factor - 1) / Lambda in real numbers: the gradient of a complex quotient LibTorch (2.11) compiles while it runs
    // on a GPU, and processes that did so ended with a corrupt heap.
    const torch::Tensor less_one_N = real_N - 1, square_N = rate_N * rate_N + frequency_N_ * frequency_N_;
    return {torch::complex(real_N, imaginary_N),
            torch::complex((less_one_N * rate_N + imaginary_N * frequency_N_) / square_N,
                           (imaginary_N * rate_N - less_one_N * frequency_N_) / square_N)};
  }

 private:
  torch::Tensor log_rate_N_, frequency_N_, log_step_N_;
};

}  // namespace

void S5Options::list_options(OptionList& list) {
  LinearRnnOptions::list_options(list);
  list.add("step_min", step_min, {1e-6, 10}, "smallest first step size");
  list.add("step_max", step_max, {1e-6, 10}, "largest first step size");
}

void S5Options::check() const {
  check_bounds(*this, kMemorySection);
  if (step_min > step_max)
    throw UserError("memory.step_min " + std::to_string(step_min) + " is above memory.step_max " +
                    std::to_string(step_max));
}

LayerSpec S5Options::layer(std::int64_t) const { return layer_spec<S5Mixer>(*this); }

std::shared_ptr<SequenceModel> S5Options::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
