// What a pass does with its weights at once, on a GPU: packing, gradients, streams beside each other.
#include "nn/fused/weights/side_work.h"

#include <ATen/cuda/CUDAGraph.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "nn/device/device_stream.h"
#include "nn/fused/weights/packed_weights.h"
#include "tests/gpu.h"

using namespace engram;
using torch::Tensor;

namespace {

Tensor positions(const PackGroups& groups) {
  std::vector<std::int64_t> all;
  for (int i = 0; i < groups.count; ++i) all.push_back(groups.position(i));
  return torch::tensor(all);
}

struct Segment {
  int first_row;
  PackGroups rows, columns;
};
// Two heads of 10 in 16 rows each, one part and a part with columns in groups, not in their order; four rows of nobody.
const std::vector<Segment> kSegments = {
    {0, {20, 10, 16}, {12, 12, 16}}, {40, {15, 15, 16}, {16, 16, 16}}, {32, {3, 3, 8}, {11, 6, 8}}};
constexpr int kRows = 60, kColumns = 16;

struct Stack {
  cuda::PackedWeights stack{kRows, kColumns};
  std::vector<Tensor> parameters;  // on the CPU

  Stack() {
    for (const auto& [first_row, rows, columns] : kSegments) {
      parameters.push_back(torch::randn({rows.count, columns.count}));
      stack.add(parameters.back().to(torch::kCUDA), first_row, rows, columns);
    }
  }
};

}  // namespace

TEST_CASE("weights of many stacks are packed at once, in two types") {
  if (testing::skip_without_gpu()) return;
  torch::manual_seed(1);
  const std::vector<Stack> stacks(30);
  cuda::WeightPacking packing(torch::kBFloat16);
  std::vector<Tensor> packed;
  for (std::size_t i = 0; i < stacks.size(); ++i)
    packed.push_back(i % 3 == 0 ? packing.add(stacks[i].stack, torch::kFloat32) : packing.add(stacks[i].stack));
  for (Tensor& matrix : packed) matrix.fill_(NAN);
  packing.run();
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    CAPTURE(i);
    Tensor expected = torch::zeros({kRows, kColumns}, i % 3 == 0 ? torch::kFloat32 : torch::kBFloat16);
    for (std::size_t s = 0; s < kSegments.size(); ++s) {
      const auto& [first_row, rows, columns] = kSegments[s];
      expected.index_put_({(positions(rows) + first_row).unsqueeze(1), positions(columns)},
                          stacks[i].parameters[s].to(expected.scalar_type()));
    }
    CHECK((packed[i].scalar_type() == expected.scalar_type()));
    CHECK(torch::equal(packed[i].cpu(), expected));
  }
}

TEST_CASE("gradients of many stacks are those of their matrices, which the side makes in the meantime") {
  if (testing::skip_without_gpu()) return;
  torch::manual_seed(2);
  const std::vector<Stack> stacks(50);
  cuda::SideWork side(cuda::SideStreamOf::kWeights);
  std::vector<std::vector<Tensor>> gradients;
  std::vector<Tensor> matrices;  // on the CPU
  for (const Stack& stack : stacks) {
    matrices.push_back(torch::randn({kRows, kColumns}));
    const Tensor half = (matrices.back() / 2).to(torch::kCUDA);
    Tensor matrix;
    side.run([&] { matrix = half + half; });
    side.keep({half});
    gradients.push_back(stack.stack.gradients(matrix, side));
    side.join_earlier();
  }
  std::vector<Tensor> all;
  for (const auto& own : gradients) all.insert(all.end(), own.begin(), own.end());
  side.finish(all, /*of_leaves=*/true);
  for (std::size_t i = 0; i < stacks.size(); ++i)
    for (std::size_t s = 0; s < kSegments.size(); ++s) {
      CAPTURE(i);
      CAPTURE(s);
      const auto& [first_row, rows, columns] = kSegments[s];
      const Tensor expected =
          matrices[i].index_select(0, positions(rows) + first_row).index_select(1, positions(columns));
      CHECK(gradients[i][s].sizes() == stacks[i].parameters[s].sizes());
      CHECK(torch::equal(gradients[i][s].cpu(), expected));
    }
  CHECK_THROWS_AS(stacks[0].stack.gradients(matrices[0].narrow(0, 0, 3), side), c10::Error);
}

TEST_CASE("work beside each other is done when the current stream goes on, in a graph too") {
  if (testing::skip_without_gpu()) return;
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  for (const std::size_t count : {0, 1, 2, 3, 7}) {
    CAPTURE(count);
    Tensor before = torch::zeros({1'000'000}, torch::kCUDA), sum = torch::empty({}, torch::kCUDA);
    const auto work = [&] {
      std::vector<Tensor> x(count);
      before.add_(1);
      cuda::side_by_side(count, [&](std::size_t i) {
        x[i] = before * static_cast<double>(i + 1);
        for (int pass = 0; pass < 5; ++pass) x[i] = x[i] + before;
      });
      sum.zero_();
      for (const Tensor& own : x) sum.add_(own.min());
    };
    // Every number of item i is (i + 6) `before`; all of them are small whole numbers.
    const auto expected = [&](double times) { return times * static_cast<double>(count * (count + 11)) / 2; };
    work();
    CHECK(sum.item<double>() == expected(1));
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    work();
    graph.capture_end();
    for (int replay = 0; replay < 3; ++replay) graph.replay();
    CHECK(sum.item<double>() == expected(4));
  }
}

// Two runs of a program: work that is launched, on the default stream as well, is none of a recording's.
TEST_CASE("a thread has work beside its stream while another records its own") {
  if (testing::skip_without_gpu()) return;
  const auto doubled_beside = [](const Tensor& x) {
    Tensor y;
    const cuda::SideWork side(cuda::SideStreamOf::kWeights);
    side.run([&] { y = x + x; });
    side.join();
    return y;
  };
  const DeviceStream recorded(kLearnerPriority);
  const c10::cuda::CUDAStreamGuard guard(recorded.stream());
  const Tensor x = torch::ones({1000}, torch::kCUDA);
  Tensor y = doubled_beside(x), launched;
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  y = doubled_beside(x);
  std::thread([&] { launched = doubled_beside(torch::ones({1000}, torch::kCUDA)).cpu(); }).join();
  y = y + doubled_beside(x);
  graph.capture_end();
  x.fill_(3);
  graph.replay();
  CHECK(torch::equal(y.cpu(), torch::full({1000}, 12.0)));
  CHECK(torch::equal(launched, torch::full({1000}, 2.0)));
}
