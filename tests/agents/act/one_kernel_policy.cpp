#include "agents/act/one_kernel_policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sample_action.h"
#include "tests/agents/act/small_agent.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

struct Agent {
  NetworkOptions options{.hidden_width = 48, .dropout = 0};
  BackboneConfig backbone;
  TaskInfo task;

  Agent(const std::string& name, std::vector<std::pair<std::string, std::string>> values, TaskInfo of_task)
      : backbone(name), task(std::move(of_task)) {
    values.emplace_back("dropout", "0");
    OptionList list = backbone.options();
    for (const auto& [key, value] : values)
      for (const Option& option : list.options())
        if (option.name == "memory." + key) option.set(value);
  }

  // The same weights on both sides, scattered so that observations and memory matter.
  std::shared_ptr<AgentNetwork> network(torch::Device device, torch::ScalarType type) const {
    torch::manual_seed(1);
    auto network = std::make_shared<AgentNetwork>(options, backbone, task);
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : network->parameters())
      if (parameter.dim() > 1) parameter.normal_(0, 1.5 / std::sqrt(parameter[0].numel()));
    network->to(device, type);
    network->eval();
    return network;
  }
};

// Rows whose environments are not there: what is seen is given.
ActingRows rows_with(const torch::Tensor& observation_N) {
  const auto options = torch::TensorOptions(torch::kCUDA);
  const std::int64_t rows = observation_N.size(0);
  return {observation_N, torch::zeros({rows}, options), torch::ones({rows}, options.dtype(torch::kUInt8)),
          torch::zeros({rows}, options.dtype(torch::kInt32))};
}

std::unique_ptr<Policy> one_kernel_policy(const Agent& agent, std::shared_ptr<AgentNetwork> network, Dtype operands,
                                          int rows, MemorySpan span = MemorySpan::kEpisode) {
  return std::make_unique<OneKernelPolicy>(std::move(network), agent.options, agent.backbone, agent.task, operands,
                                           rows, 7, span);
}

std::unique_ptr<Policy> network_policy(std::shared_ptr<AgentNetwork> network, int rows) {
  return std::make_unique<NetworkPolicy>(std::move(network), torch::kFloat32, rows, 7, MemorySpan::kEpisode,
                                         torch::kCUDA);
}

// 150 steps of both, with episodes that end at different times.
void check_agent(const Agent& agent, int rows, bool one_kernel) {
  const auto name = agent.backbone.name() + " rows " + std::to_string(rows);
  INFO(name);
  const auto expected_network = agent.network(torch::kCPU, torch::kFloat64);
  const auto network = agent.network(torch::kCUDA, torch::kFloat32);
  const std::unique_ptr<Policy> made =
      one_kernel ? one_kernel_policy(agent, network, Dtype::kFloat32, rows) : network_policy(network, rows);
  Policy& policy = *made;
  policy.draw_from(3);
  torch::set_num_threads(1);  // more would wait for each other more than compute at these sizes
  MemoryState memory = expected_network->backbone().initial_state(rows);
  std::vector<Rng> streams;
  for (int row = 0; row < rows; ++row) streams.emplace_back(7, Purpose::kAction, static_cast<std::uint32_t>(row), 3);

  std::vector<std::int64_t> shape{rows};
  const std::vector<std::int64_t> observed = agent.task.observation.shape();
  shape.insert(shape.end(), observed.begin(), observed.end());
  const bool bytes = agent.task.observation.type == ElementType::kUint8;
  ActingRows acting = rows_with(torch::zeros(shape).to(torch::kCUDA));
  const torch::NoGradGuard no_grad;
  double worst = 0, spread = 0;
  int different = 0;
  torch::Tensor before;
  for (int step = 0; step < 150; ++step) {
    const auto fresh = step == 0 || step == 70 ? torch::ones({rows}, torch::kBool) : torch::rand({rows}) < 0.02;
    memory.reset_rows(fresh);
    acting.fresh_N.copy_(fresh);
    const auto observation = bytes ? torch::randint(256, shape, torch::kUInt8) : torch::randn(shape);
    acting.observation_N = observation.to(torch::kCUDA);
    const auto choice = step % 3 == 2 ? ActionChoice::kGreedy : ActionChoice::kSample;
    policy.act(acting, choice);
    CHECK((acting.fresh_N == 0).all().item<bool>());

    const auto encoded =
        expected_network->encode(observation, torch::zeros({rows}, torch::kInt64), torch::zeros({rows}));
    const auto expected =
        expected_network->head("actor", expected_network->backbone().step(encoded, memory)).softmax(-1);
    const auto actual = policy.probabilities_NA().to(torch::kCPU);
    worst = std::max(worst, (actual.to(torch::kFloat64) - expected).abs().max().item<double>());
    if (before.defined()) spread = std::max(spread, (expected - before).abs().max().item<double>());
    before = expected;
    const auto actions = acting.action_N.to(torch::kCPU);
    for (int row = 0; row < rows; ++row) {
      const float* own = actual.const_data_ptr<float>() + row * agent.task.num_actions();
      const auto wanted = choice == ActionChoice::kGreedy
                              ? greedy_action(own, agent.task.num_actions())
                              : sample_action(own, agent.task.num_actions(), streams[static_cast<std::size_t>(row)]);
      different += actions.const_data_ptr<std::int32_t>()[row] != wanted;
    }
  }
  // Float arithmetic against double: 1e-7 an operation, grown by twelve products a layer.
  CHECK(worst <= 5e-5);
  CHECK(spread > 0.05);
  CHECK(different == 0);
  CHECK(!policy.diverged());
  REQUIRE(memory.tensors.size() == policy.memory().tensors.size());
  for (std::size_t i = 0; i < memory.tensors.size(); ++i) {
    CAPTURE(i);
    const auto expected = memory.tensors[i].to(torch::kFloat64);
    const auto actual = policy.memory().tensors[i].to(torch::kCPU, torch::kFloat64);
    CHECK((actual - expected).norm().item<double>() <= 2e-5 * expected.norm().item<double>());
  }
}

}  // namespace

TEST_CASE("one kernel a step computes what the network computes") {
  if (skip_without_gpu()) return;
  const TaskInfo image = image_task(4, 200), vector = vector_task(6, 3, 200);
  check_agent({"hqlt", {{"width", "100"}, {"layers", "3"}}, image}, 3, true);
  check_agent(
      {"hqlt",
       {{"width", "32"}, {"layers", "2"}, {"heads", "4"}, {"mlp_width", "37"}, {"window", "9"}, {"mixing", "scalar"}},
       vector},
      10, true);
  check_agent({"hqlt",
               {{"width", "64"},
                {"layers", "1"},
                {"heads", "1"},
                {"mixing", "sum"},
                {"positions", "none"},
                {"beta_factor", "1"}},
               vector},
              1, true);
  check_agent({"deltanet", {{"width", "48"}, {"layers", "2"}, {"heads", "3"}}, image}, 9, true);
  check_agent({"hqlt", {{"width", "100"}, {"layers", "3"}, {"branch_norm", "true"}}, image}, 3, true);
  check_agent({"hqlt",
               {{"width", "128"}, {"layers", "2"}, {"branch_norm", "true"}, {"window", "9"}, {"mixing", "scalar"}},
               vector},
              3, true);
}

TEST_CASE("the network's own step on a GPU computes what it computes on the CPU, for every backbone") {
  if (skip_without_gpu()) return;
  for (const std::string& backbone : kMemoryBackbones) {
    check_agent({backbone, {{"width", "32"}, {"layers", "2"}}, image_task(4, 200)}, 3, false);
    check_agent({backbone, {{"width", "32"}, {"layers", "1"}}, vector_task(6, 3, 200)}, 10, false);
  }
}

TEST_CASE("changed weights are seen after a refresh, not before") {
  if (skip_without_gpu()) return;
  const Agent agent("deltanet", {{"width", "32"}, {"layers", "1"}}, vector_task(6, 3, 200));
  const auto network = agent.network(torch::kCUDA, torch::kFloat32);
  const auto policy = one_kernel_policy(agent, network, Dtype::kBfloat16, 2);
  const ActingRows rows = rows_with(torch::randn({2, 6}).to(torch::kCUDA));
  const auto probabilities = [&] {
    rows.fresh_N.fill_(1);
    policy->act(rows, ActionChoice::kGreedy);
    return policy->probabilities_NA().to(torch::kCPU);
  };
  const auto before = probabilities();
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : network->parameters()) parameter.mul_(1.5);
  }
  torch::cuda::synchronize();
  CHECK(torch::equal(probabilities(), before));
  policy->refresh_weights();
  CHECK_FALSE(torch::equal(probabilities(), before));
}

TEST_CASE("dropout acts in training mode alone and draws afresh every step") {
  if (skip_without_gpu()) return;
  Agent agent("hqlt", {{"width", "32"}, {"layers", "2"}}, vector_task(6, 3, 200));
  agent.options.dropout = 0.3;
  for (const bool one_kernel : {true, false}) {
    CAPTURE(one_kernel);
    const auto network = agent.network(torch::kCUDA, torch::kFloat32);
    const std::unique_ptr<Policy> policy =
        one_kernel ? one_kernel_policy(agent, network, Dtype::kBfloat16, 4) : network_policy(network, 4);
    const ActingRows rows = rows_with(torch::randn({4, 6}).to(torch::kCUDA));
    const auto probabilities = [&](bool training) {
      network->train(training);
      rows.fresh_N.fill_(1);
      policy->act(rows, ActionChoice::kGreedy);
      return policy->probabilities_NA().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
    };
    const auto plain = probabilities(false), first = probabilities(true), second = probabilities(true);
    CHECK_FALSE(torch::equal(plain, first));
    CHECK_FALSE(torch::equal(first, second));
    CHECK(torch::equal(plain, probabilities(false)));
  }
}

TEST_CASE("a policy that remembers nothing acts at every step as at the first of an episode") {
  if (skip_without_gpu()) return;
  for (const char* backbone : {"hqlt", "deltanet", "transformer"}) {
    CAPTURE(backbone);
    const Agent agent(backbone, {{"width", "32"}, {"layers", "2"}}, vector_task(6, 3, 200));
    const auto network = agent.network(torch::kCUDA, torch::kFloat32);
    const auto first = torch::randn({2, 6}).to(torch::kCUDA), second = torch::randn({2, 6}).to(torch::kCUDA);
    const auto make = [&](MemorySpan span) -> std::unique_ptr<Policy> {
      if (backbone == std::string("transformer"))
        return std::make_unique<NetworkPolicy>(network, torch::kFloat32, 2, 7, span, torch::kCUDA);
      return one_kernel_policy(agent, network, Dtype::kBfloat16, 2, span);
    };
    // Of one policy, whose rows begin an episode once.
    struct Acting {
      std::unique_ptr<Policy> policy;
      ActingRows rows;
      torch::Tensor operator()(const torch::Tensor& observation) {
        rows.observation_N = observation;
        policy->act(rows, ActionChoice::kGreedy);
        return policy->probabilities_NA().to(torch::kCPU);
      }
    };
    Acting forgetful{make(MemorySpan::kStep), rows_with(first)},
        remembers{make(MemorySpan::kEpisode), rows_with(first)};
    const auto alone = forgetful(second);
    forgetful(first);
    CHECK(torch::equal(forgetful(second), alone));
    CHECK(torch::equal(remembers(second), alone));
    remembers(first);
    CHECK_FALSE(torch::equal(remembers(second), alone));
  }
}

TEST_CASE("what one kernel cannot compute is refused with its reason") {
  if (skip_without_gpu()) return;
  const Agent agent("hqlt", {}, image_task(4, 200));
  const auto supports = [&](const NetworkOptions& options, const BackboneConfig& backbone) {
    return OneKernelPolicy::supports(options, backbone, agent.task, Dtype::kBfloat16);
  };
  CHECK(supports(agent.options, agent.backbone));
  NetworkOptions seeing = agent.options;
  seeing.previous_action_width = 3;
  CHECK(supports(seeing, agent.backbone).reason().find("previous actions") != std::string::npos);
  CHECK(supports(agent.options, BackboneConfig("lstm")).reason().find("lstm") != std::string::npos);
}
