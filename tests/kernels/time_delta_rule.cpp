// Times the delta-rule kernels: medians of CUDA-graph replays, printed only where the result passed its check.
#include "tests/kernels/delta_rule_case.h"
#include "kernels/median_ms.h"

using namespace engram;
using namespace engram::testing;

namespace {

void time_sequence(const DeltaRuleShape& shape, Dtype dtype, int gap = 0) {
  Case c{shape, dtype};
  c.ragged = c.states = false;
  c.gap = gap;
  const Problem problem = make_problem(c);
  DeviceProblem device(c, problem);
  device.poison();
  device.forward_saving();
  device.backward();
  const KernelResult r = device.result();
  const auto output = delta_rule_reference(problem.input);
  const auto gradient = delta_rule_reference_backward(problem.input, problem.output_gradient);
  const double forward_error = relative_error(r.output, output.output_BTHD);
  double backward_error = 0;
  for (const auto& [actual, expected] : {std::pair(&r.q, &gradient.q_BTHD), std::pair(&r.k, &gradient.k_BTHD),
                                         std::pair(&r.v, &gradient.v_BTHD), std::pair(&r.beta, &gradient.beta_BTH)})
    backward_error = std::max(backward_error, relative_error(*actual, *expected));
  const bool exact = dtype == Dtype::kFloat32;
  std::printf("%-48s error %.2g / %.2g", c.name().c_str(), forward_error, backward_error);
  if (!(forward_error <= (exact ? 1e-5 : 0.005)) || !(backward_error <= (exact ? 1e-5 : 0.008))) {
    std::printf("  check FAILED, not timed\n");
    return;
  }
  const double infer = median_graph_ms(50, [&](cudaStream_t s) { device.forward(s); });
  const double forward = median_graph_ms(50, [&](cudaStream_t s) { device.forward_saving(s); });
  const double both = median_graph_ms(50, [&](cudaStream_t s) {
    device.forward_saving(s);
    device.backward(s);
  });
  std::printf("  forward %.4f ms  saving %.4f  with backward %.4f\n", infer, forward, both);
}

template <typename T>
void time_step(int rows, int heads, int width, Dtype dtype) {
  const std::size_t vectors = static_cast<std::size_t>(rows) * heads * width;
  const std::vector<T> host(vectors, T(0.05f));
  const DeviceBuffer<T> q(host), k(host), v(host), beta(host);
  DeviceBuffer<T> output(vectors);
  DeviceBuffer<float> state(std::vector<float>(vectors * width, 0.5f));
  const double ms = median_graph_ms(500, [&](cudaStream_t s) {
    delta_rule_step(
        {rows, heads, width, dtype, 0.1f, q.data(), k.data(), v.data(), beta.data(), state.data(), output.data()}, s);
  });
  std::printf("step N %d H %d D %d: %.2f us\n", rows, heads, width, 1000 * ms);
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const int rows : {1, 64, 1024, 4096}) time_step<__nv_bfloat16>(rows, 2, 50, Dtype::kBfloat16);
  for (const Dtype dtype : {Dtype::kBfloat16, Dtype::kFloat32}) {
    time_sequence({64, 781, 2, 56}, dtype, 2 * 2 * 56);  // q, k and v side by side
    time_sequence({64, 781, 2, 50}, dtype);
    time_sequence({64, 781, 2, 64}, dtype);
    time_sequence({8, 1024, 16, 128}, dtype);
    time_sequence({1, 8192, 8, 128}, dtype);
  }
}
