#include "memory/core/backbone_options.h"
#include "memory/core/block_stack.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

TEST_CASE("RmsNorm and SwiGlu equal their formulas") {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  RmsNorm norm(7);
  norm.to(torch::kFloat64);
  Tensor weight = norm.parameters()[0];
  weight.normal_();
  // The second row is small enough for epsilon to matter.
  const Tensor x = torch::randn({2, 7}, torch::kFloat64) * torch::tensor({{1.0}, {1e-3}}, torch::kFloat64);
  CHECK(relative_error(norm.forward(x), plain_rms_norm(x, weight)) < 1e-12);

  SwiGlu mlp(7, 13, {.deviation = 0.1, .kaiming_outputs = false, .layers = 1});
  mlp.to(torch::kFloat64);
  Parameters parameters;
  for (const auto& item : mlp.named_parameters()) parameters[item.key()] = item.value();
  CHECK(relative_error(mlp.forward(x), swiglu(x, parameters, "")) < 1e-12);
}

TEST_CASE("the published inner width of SwiGlu is 8/3 of the width, rounded down, then up to a multiple of 256") {
  CHECK(swiglu_width(96) == 256);
  CHECK(swiglu_width(97) == 512);
  CHECK(swiglu_width(100) == 512);
  CHECK(swiglu_width(128) == 512);
  CHECK(swiglu_width(1024) == 2816);
}

TEST_CASE("splitting into heads and joining them are each other's inverse") {
  const Tensor x = torch::arange(24).view({2, 12});
  CHECK(split_heads(x, 3).sizes() == torch::IntArrayRef({2, 3, 4}));
  CHECK(torch::equal(join_heads(split_heads(x, 3)), x));
}
