#include "memory/backbones/controls/frame_stack.h"

#include <cstdint>
#include <string>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

TEST_CASE("frame stacking is a linear map of the last inputs, zeros before the first") {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  for (const std::int64_t frames : {2, 4}) {
    CAPTURE(frames);
    auto model = make_model({"frame_stack", {{"width", "5"}, {"frames", std::to_string(frames)}}}, 9, torch::kFloat64);
    const Parameters p = parameters_by_name(*model);
    const Tensor x_TD = torch::randn({9, 5}, torch::kFloat64);
    const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
    for (std::int64_t t = 0; t < 9; ++t) {
      Tensor expected = p.at("map.bias").clone();
      for (std::int64_t age = 0; age < frames && age <= t; ++age)  // the oldest frame stands first
        expected += p.at("map.weight").narrow(1, 5 * (frames - 1 - age), 5).mv(x_TD[t - age]);
      CHECK(relative_error(output_TD[t], expected.clamp_min(0)) < 1e-12);
    }
  }
}

TEST_CASE("frame stacking keeps the frames before the current one, and refuses the current one alone") {
  const ModelCost cost = make_model({"frame_stack", {}}, 10, torch::kFloat32)->cost();
  CHECK(cost.parameters == 4 * 100 * 100 + 100);
  CHECK(cost.state_bytes == 3 * 100 * 4);
  CHECK(cost.multiply_adds_per_step == 4 * 100 * 100);
  CHECK_THROWS_AS((FrameStackOptions{.frames = 1}.check()), UserError);
  CHECK_THROWS_AS((FrameStackOptions{.width = 0}.check()), UserError);
}
