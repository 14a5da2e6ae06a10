// Steps that are recorded and replayed on a GPU, beside the same work launched.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "agents/learn/recorded_step.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

using Tensors = RecordedStep::Tensors;

torch::TensorOptions on_gpu() { return torch::TensorOptions(torch::kCUDA); }

// Learns y from x: a product with weights that each step changes, and a sum that needs scratch memory in between.
struct Work {
  torch::Tensor weight = torch::ones({8, 8}, on_gpu());
  int calls = 0;

  Tensors operator()(const Tensors& inputs) {
    ++calls;
    const torch::Tensor y = torch::tanh(inputs.at(0).matmul(weight)) - inputs.at(1);
    weight.add_(inputs[0].t().matmul(y), -0.01);
    return {y.square().sum(), weight.norm()};
  }
};

Tensors batch_of(std::int64_t rows, int number) {
  const torch::Tensor x = torch::linspace(-1, 1, rows * 8, on_gpu()).reshape({rows, 8});
  return {(x * (number + 1)).sin(), (x + number).cos()};
}

void check_equal(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(torch::equal(a[i], b[i]));
}

}  // namespace

TEST_CASE("recorded steps of alternating shapes are the launched ones, bit for bit") {
  if (skip_without_gpu()) return;
  RecordedStep recorded(torch::kCUDA), launched(torch::kCUDA);
  launched.launch_every_step();
  Work replayed, plain;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const Tensors batch = batch_of(16 + 8 * (i * i % 3), i);
    check_equal(recorded.run(batch, std::ref(replayed)), launched.run(batch, std::ref(plain)));
  }
  CHECK(torch::equal(replayed.weight, plain.weight));
  CHECK(plain.calls == 60);
  // Two shapes: three launches and one recording of each.
  CHECK(replayed.calls == 8);
}

TEST_CASE("inputs that stay are read where they are, and those that move are copied, also when they move late") {
  if (skip_without_gpu()) return;
  RecordedStep step(torch::kCUDA);
  Tensors fixed = batch_of(16, 0);
  Work work, plain;
  const auto check_step = [&](const Tensors& inputs) {
    const Tensors outputs = step.run(inputs, std::ref(work));
    check_equal(outputs, plain(inputs));
  };
  for (int i = 0; i < 8; ++i) {
    const Tensors next = batch_of(16, i);
    for (std::size_t j = 0; j < fixed.size(); ++j) fixed[j].copy_(next[j]);
    check_step(fixed);
  }
  CHECK(work.calls == 4);
  for (int i = 0; i < 4; ++i) check_step({fixed[0], batch_of(16, i)[1]});
  CHECK(work.calls == 5);  // recorded again, once
  for (int i = 0; i < 4; ++i) check_step(batch_of(16, i));
  CHECK(work.calls == 6);
  for (int i = 0; i < 4; ++i) check_step(fixed);
  CHECK(work.calls == 6);
}

TEST_CASE("of many shapes the recordings of the last eight are kept") {
  if (skip_without_gpu()) return;
  RecordedStep step(torch::kCUDA);
  Work work, plain;
  const auto take_steps = [&](std::int64_t rows, int count) {
    for (int i = 0; i < count; ++i) {
      const Tensors batch = batch_of(rows, i);
      check_equal(step.run(batch, std::ref(work)), plain(batch));
    }
  };
  for (const std::int64_t rows : {8, 16, 24, 32, 40, 48, 56, 64, 8, 72}) take_steps(rows, 6);
  CHECK(work.calls == 9 * 4);
  for (const std::int64_t rows : {8, 24, 32, 40, 48, 56, 64, 72}) take_steps(rows, 6);
  CHECK(work.calls == 9 * 4);
  take_steps(16, 6);  // was not used for longest when 72 came
  CHECK(work.calls == 10 * 4);
}
