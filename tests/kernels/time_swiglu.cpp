// Times the fused SwiGLU: medians of CUDA-graph replays, printed only where the result passed its check.
#include <cstdio>

#include "kernels/median_ms.h"
#include "tests/kernels/swiglu_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void time_case(const SwiGluCase& c) {
  SwiGluProblem problem(c), fewer({500, c.width, c.stride, c.inner});
  problem.forward();
  problem.backward();
  fewer.weight_gradient();
  const SwiGluErrors errors = row_errors(problem, rows_to_check(c.rows));
  double weight_error = 0;
  for (const SwiGluError& error : weight_errors(fewer)) weight_error = std::fmax(weight_error, error.relative);
  std::printf("%-44s error y %.2g x %.2g weights %.2g", c.name().c_str(), errors.y.relative, errors.d_x.relative,
              weight_error);
  if (!(errors.y.relative <= 0.005) || !(errors.d_x.relative <= 0.008) || !(weight_error <= 0.008)) {
    std::printf("  check FAILED, not timed\n");
    return;
  }
  const double weights = median_graph_ms(20, [&](cudaStream_t s) { problem.weight_gradient(s); });
  const double forward = median_graph_ms(20, [&](cudaStream_t s) { problem.forward(s); });
  const double backward = median_graph_ms(20, [&](cudaStream_t s) { problem.backward(s); });
  std::printf("  forward %.1f us, x's gradient %.1f, the weights' %.1f\n", 1e3 * forward, 1e3 * backward,
              1e3 * weights);
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!has_cuda_device() || !fused_swiglu_support(112, 512)) {
    std::printf("no CUDA device of compute capability 9.0, or a build without sm_90a\n");
    return 1;
  }
  for (const SwiGluCase& c : {SwiGluCase{49984, 100, 112, 512}, {49984, 64, 64, 256}, {49984, 128, 128, 512}})
    time_case(c);
}
