// Sums of ranks that are programs with a GPU each.
#include "ranks/device_sum.h"

#include <c10/cuda/CUDAFunctions.h>
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "agents/play/device_graph.h"
#include "tests/gpu.h"
#include "tests/ranks/in_processes.h"

using namespace engram;
using engram::testing::skip_without_gpus;

namespace {

constexpr std::int64_t kValues = 400'001;  // about what a network has

torch::Device own_gpu(const Ranks& ranks) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(ranks.rank()));
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(ranks.rank())};
}

// The same in every program.
torch::Tensor values_of(int rank, torch::ScalarType type) {
  torch::manual_seed(static_cast<std::uint64_t>(rank) + 1);
  return torch::randn({kValues}, torch::kFloat64).to(type);
}

std::string bytes_of(const torch::Tensor& tensor) {
  const torch::Tensor plain = tensor.cpu().contiguous();
  return {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()};
}

torch::Tensor tensor_of(const std::string& bytes, torch::ScalarType type) {
  return torch::from_blob(const_cast<char*>(bytes.data()), {kValues}, type).clone();
}

// Launched, and then recorded and replayed, with other values before.
std::string sums(const std::shared_ptr<Ranks>& ranks, torch::ScalarType type) {
  const torch::Device device = own_gpu(*ranks);
  const torch::Tensor own = values_of(ranks->rank(), type).to(device);
  DeviceSum sum(ranks, device);
  torch::Tensor buffer = own.clone();
  sum.add_up(buffer);
  std::string all = bytes_of(buffer);
  {
    const SideStream stream(kLearnerPriority);
    DeviceGraph graph;
    stream.run([&] { graph.capture([&] { sum.add_up(buffer); }); });
    for (const double factor : {3.0, 1.0}) {
      stream.run([&] {
        buffer.copy_(own * factor);
        graph.replay();
      });
      all += bytes_of(buffer);
    }
  }
  sum.check();
  return all;
}

}  // namespace

TEST_CASE("GPUs of ranks add up - launched and replayed - to the same bits in all ranks and every time") {
  if (skip_without_gpus(2)) return;
  // Each type in both calls, because a case does the same work in all of them.
  const auto run = [] {
    return in_processes(2, "GPUs of ranks add up*", [](const std::shared_ptr<Ranks>& ranks) {
      return sums(ranks, torch::kFloat32) + sums(ranks, torch::kFloat64);
    });
  };
  const auto first = run(), second = run();
  REQUIRE((first[0] && first[1] && second[0]));
  CHECK(*first[0] == *first[1]);
  CHECK(*first[0] == *second[0]);
  std::size_t at = 0;
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const torch::Tensor expected = values_of(0, torch::kFloat64) + values_of(1, torch::kFloat64);
    const std::size_t bytes = kValues * c10::elementSize(type);
    torch::Tensor launched;
    for (const double factor : {1.0, 3.0, 1.0}) {
      const torch::Tensor sum = tensor_of(first[0]->substr(at, bytes), type);
      at += bytes;
      CHECK(torch::allclose(sum.to(torch::kFloat64), factor * expected, 1e-6, 1e-6));
      if (!launched.defined()) launched = sum;
      if (factor == 1.0) CHECK(torch::equal(sum, launched));
    }
  }
  CHECK(at == first[0]->size());
}

TEST_CASE("who waits for the sum of a lost rank is released and told which one it is") {
  if (skip_without_gpus(2)) return;
  const auto told = in_processes(2, "who waits for the sum of a lost rank*", [](const std::shared_ptr<Ranks>& ranks) {
    const torch::Device device = own_gpu(*ranks);
    DeviceSum sum(ranks, device);
    torch::Tensor buffer = torch::ones({kValues}, device);
    sum.add_up(buffer);
    const SideStream stream(kLearnerPriority);
    DeviceGraph graph;
    stream.run([&] { graph.capture([&] { sum.add_up(buffer); }); });
    stream.run([&] { graph.replay(); });
    const bool right = (buffer == 4).all().item<bool>();
    if (ranks->rank() == 1) ::raise(SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    std::string text = right ? "" : "a wrong sum; ";
    try {
      stream.run([&] {
        for (int i = 0; i < 3; ++i) graph.replay();
      });
      sum.explaining([&] { buffer.cpu(); });
      sum.check();
    } catch (const RankLost& lost) {
      text += std::string(lost.what()).substr(0, 20);
    }
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(20)) text += " late";
    return text;
  });
  CHECK_FALSE(told[1].has_value());
  CHECK(told[0].value_or("nothing") == "rank 1 of 2 is lost:");
}
