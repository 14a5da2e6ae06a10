// Another project's use of a backbone: a whole sequence at once equals one step after the other.
#include <cstdio>

#include "memory/core/registry.h"

int main() {
  torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  const auto model = engram::make_backbone(engram::BackboneConfig("deltanet"), 16);
  model->eval();
  const torch::Tensor input_BTD = torch::randn({2, 9, model->width()});
  const torch::Tensor output_BTD = model->forward(input_BTD);
  engram::MemoryState state = model->initial_state(2);
  for (int t = 0; t < 9; ++t) {
    const torch::Tensor output_BD = model->step(input_BTD.select(1, t), state);
    // float32 rounding through three layers
    if (!torch::allclose(output_BD, output_BTD.select(1, t), 1e-4, 1e-5)) {
      std::fprintf(stderr, "step %d differs from forward\n", t);
      return 1;
    }
  }
  std::puts("forward equals step");
}
