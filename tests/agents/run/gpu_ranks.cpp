// Ranks that are programs with a GPU each learn as one.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agents/learn/ppo/ppo.h"
#include "agents/learn/registry.h"
#include "agents/run/machine/hardware.h"
#include "tests/agents/learn/learning_task.h"
#include "tests/gpu.h"
#include "tests/ranks/in_processes.h"

using namespace engram;
using namespace engram::testing;

namespace {

// The first three are launched, the others recorded and replayed.
constexpr int kUpdates = 8;
// Own kernels of delta rule and attention; cuDNN's.
const std::vector<std::string> kBackbones = {"hqlt", "gru"};

Learnt learn_on(torch::Device device, const std::shared_ptr<Ranks>& ranks, const std::string& backbone,
                bool spoilt = false) {
  SacOptions options;
  options.temperature = Temperature::kLearnt;
  options.clip_gradient_norm = 0.5;
  if (spoilt) options.target_rate = 0;
  LearningTask task(backbone, torch::kFloat32);
  const EpisodeBatch own = task.batch(ranks->rank(), ranks->size(), spoilt && ranks->rank() == 1);
  return learn(ranks, learner_config(options), task.first_network(device), to_device(own, device), kUpdates);
}

// Of minibatches that come in parts, two of the first rank and one of the second, or all three of a rank alone.
Learnt learn_in_parts_on(torch::Device device, const std::shared_ptr<Ranks>& ranks) {
  const LearnerConfig config = learner_config(PpoOptions{.kl_weight = 0.1, .clip_gradient_norm = 0.5});
  LearningTask task("gru", torch::kFloat32);
  const auto network = task.first_network(device, config);
  Learner learner(config, network, {}, ranks);
  const std::int64_t first[] = {0, 1, 3}, count[] = {1, 2, 4};
  const std::size_t begin = ranks->first() ? 0 : 2, parts = ranks->alone() ? 3 : ranks->first() ? 2 : 1;
  return learn(learner, *network, kUpdates, [&] {
    return learner.update_in_parts(parts, [&](std::size_t part) {
      return to_device(task.part(first[begin + part], count[begin + part]), device);
    });
  });
}

// faults, scalars, weights: float64 [..]
torch::Tensor values_of(const Learnt& learnt) {
  std::vector<torch::Tensor> values = {torch::tensor({static_cast<double>(learnt.faults)}, torch::kFloat64),
                                       torch::tensor(learnt.scalars, torch::kFloat64)};
  for (const auto& [name, weight] : learnt.weights) values.push_back(weight.to(torch::kFloat64).flatten());
  return torch::cat(values);
}

std::string bytes_of(const torch::Tensor& values) {
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

}  // namespace

TEST_CASE("an update of ranks on GPUs is that of one GPU on all of their episodes") {
  if (skip_without_gpus(2)) return;
  const auto run = [] {
    return in_processes(2, "an update of ranks on GPUs*", [](const std::shared_ptr<Ranks>& ranks) {
      const torch::Device device = use_device("cuda", *ranks);
      std::string all;
      for (const std::string& backbone : kBackbones) all += bytes_of(values_of(learn_on(device, ranks, backbone)));
      return all;
    });
  };
  const auto first = run(), again = run();
  REQUIRE((first[0] && first[1] && again[0]));
  CHECK(*first[1] == *first[0]);
  CHECK(*again[0] == *first[0]);
  const torch::Device device = use_device("cuda:0");
  std::size_t at = 0;
  for (const std::string& backbone : kBackbones) {
    CAPTURE(backbone);
    const Learnt alone = learn_on(device, std::make_shared<Ranks>(), backbone);
    const torch::Tensor expected = values_of(alone);
    const std::string bytes = first[0]->substr(at, expected.nbytes());
    REQUIRE(bytes.size() == expected.nbytes());
    at += bytes.size();
    const torch::Tensor found =
        torch::from_blob(const_cast<char*>(bytes.data()), expected.sizes(), torch::kFloat64).clone();
    // Rounding of float32 alone: the ranks add up in another order. Adam moves a weight whose gradient is nearly 0 by
    // its rate, 3e-4, in the direction that rounding gives.
    const auto measured = static_cast<std::int64_t>(1 + alone.scalars.size());
    CHECK(torch::allclose(found.narrow(0, 0, measured), expected.narrow(0, 0, measured), 1e-3, 1e-4));
    const torch::Tensor apart = (found - expected).narrow(0, measured, expected.numel() - measured).abs();
    CHECK(apart.mean().item<double>() < 3e-5);
    CHECK(apart.max().item<double>() < 2 * 3e-4 * kUpdates);
  }
  CHECK(at == first[0]->size());
}

TEST_CASE("ranks on GPUs whose minibatches come in parts learn as one") {
  if (skip_without_gpus(2)) return;
  const auto found =
      in_processes(2, "ranks on GPUs whose minibatches come in parts*", [](const std::shared_ptr<Ranks>& ranks) {
        return bytes_of(values_of(learn_in_parts_on(use_device("cuda", *ranks), ranks)));
      });
  REQUIRE((found[0] && found[1]));
  CHECK(*found[1] == *found[0]);
  const Learnt alone = learn_in_parts_on(use_device("cuda:0"), std::make_shared<Ranks>());
  const torch::Tensor expected = values_of(alone);
  REQUIRE(found[0]->size() == expected.nbytes());
  const torch::Tensor together =
      torch::from_blob(const_cast<char*>(found[0]->data()), expected.sizes(), torch::kFloat64).clone();
  const auto measured = static_cast<std::int64_t>(1 + alone.scalars.size());
  CHECK(torch::allclose(together.narrow(0, 0, measured), expected.narrow(0, 0, measured), 1e-3, 1e-4));
  CHECK((together - expected).abs().mean().item<double>() < 3e-5);
}

TEST_CASE("what is not finite on the GPU of one rank changes the weights of none") {
  if (skip_without_gpus(2)) return;
  const auto told = in_processes(
      2, "what is not finite on the GPU of one rank*", [](const std::shared_ptr<Ranks>& ranks) -> std::string {
        const torch::Device device = use_device("cuda", *ranks);
        const TensorMap before = copied_weights(*LearningTask("gru", torch::kFloat32).first_network());
        const Learnt learnt = learn_on(device, ranks, "gru", /*spoilt=*/true);
        return (equal(learnt.weights, before) ? "the same, " : "others, ") + std::to_string(learnt.faults);
      });
  for (const auto& rank : told) CHECK(rank.value_or("nothing") == "the same, " + std::to_string(kUpdates));
}
