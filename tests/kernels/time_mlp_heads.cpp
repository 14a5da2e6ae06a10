// Times the heads' kernels: medians of CUDA-graph replays, printed only where the result passed its check.
#include <cstdio>

#include "kernels/median_ms.h"
#include "tests/kernels/mlp_heads_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void time_heads(const MlpHeadsShape& shape) {
  const MlpHeadsProblem problem(shape);
  MlpHeadsOnDevice device(problem);
  device.run();
  const MlpHeadsErrors errors = mlp_heads_errors(problem, device, some_rows(shape, 997));
  std::printf("%-55s error %.2g / %.2g, largest %.2f / %.2f of plain", text(shape).c_str(), errors.forward,
              errors.backward, errors.forward_largest, errors.backward_largest);
  if (!errors.where.empty()) {
    std::printf("  check FAILED, not timed%s\n", errors.where.c_str());
    return;
  }
  const auto us = [](auto work) { return 1000 * median_graph_ms(20, work); };
  std::printf("  pack %.1f us  forward %.1f", us([&](cudaStream_t s) { device.pack(s); }),
              us([&](cudaStream_t s) { device.forward(s); }));
  if (shape.kept > 0)
    std::printf("  backward %.1f  biases %.1f", us([&](cudaStream_t s) { device.backward(s); }),
                us([&](cudaStream_t s) { device.bias_sums(s); }));
  std::printf("\n");
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!has_cuda_device() || !mlp_heads_support({64, 100, 112, kMlpHeadsHidden, 8, 1, 1})) {
    std::printf("skipped: the heads' kernels are not for this device\n");
    return 0;
  }
  // An update: the actor, two critics, and two target critics; then those apart.
  for (const auto& [heads, kept] : {std::pair(5, 3), std::pair(3, 3), std::pair(2, 0)})
    time_heads({49984, 100, 112, kMlpHeadsHidden, 4, heads, kept});
}
