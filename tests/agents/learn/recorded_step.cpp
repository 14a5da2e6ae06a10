#include "agents/learn/recorded_step.h"

#include <doctest/doctest.h>

using namespace engram;

TEST_CASE("on the CPU every step is the work itself, on the inputs themselves") {
  RecordedStep step(torch::kCPU);
  for (int i = 0; i < 8; ++i) {
    const torch::Tensor x = torch::full({2 + i % 2}, i);
    int calls = 0;
    const auto outputs = step.run({x}, [&](const RecordedStep::Tensors& inputs) {
      ++calls;
      CHECK(inputs.at(0).is_same(x));
      return RecordedStep::Tensors{inputs[0] + 1};
    });
    CHECK(calls == 1);
    CHECK(torch::equal(outputs.at(0), x + 1));
  }
}
