// A minibatch that comes in parts is learnt from as one batch of all of them.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "agents/learn/ppo/ppo.h"
#include "agents/learn/registry.h"
#include "tests/agents/learn/learning_task.h"
#include "tests/ranks/in_threads.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr int kUpdates = 3;

struct Span {
  std::int64_t first, count;
};

Learnt learn_in_parts(LearningTask& task, Learner& learner, AgentNetwork& network, const std::vector<Span>& parts) {
  return learn(learner, network, kUpdates, [&] {
    return learner.update_in_parts(
        parts.size(), [&](std::size_t part) { return task.part(parts.at(part).first, parts.at(part).count); });
  });
}

void check_near(const Learnt& found, const Learnt& expected) {
  REQUIRE(found.scalars.size() == expected.scalars.size());
  for (std::size_t i = 0; i < expected.scalars.size(); ++i) {
    CAPTURE(i);
    CHECK(found.scalars[i] == doctest::Approx(expected.scalars[i]).epsilon(1e-9));
  }
  for (const auto& [name, weight] : expected.weights) {
    CAPTURE(name);
    CHECK(torch::allclose(found.weights.at(name), weight, 1e-9, 1e-12));
  }
  CHECK(found.faults == expected.faults);
}

}  // namespace

TEST_CASE("a step from a minibatch in parts is that from one batch of all of it") {
  for (const AdvantageScale scale : {AdvantageScale::kMinibatch, AdvantageScale::kOff}) {
    CAPTURE(static_cast<int>(scale));
    const LearnerConfig config = learner_config(
        PpoOptions{.advantage_scale = scale, .kl_weight = 0.1, .learning_rate = 1e-2, .clip_gradient_norm = 0.5});
    for (const std::string backbone : {"gru", "hqlt"}) {
      CAPTURE(backbone);
      LearningTask task(backbone);
      const Learnt expected =
          learn(std::make_shared<Ranks>(), config, task.first_network(torch::kCPU, config), task.batch(0, 1), kUpdates);
      for (const std::vector<Span>& parts : {std::vector<Span>{{0, 7}}, std::vector<Span>{{0, 2}, {2, 1}, {3, 4}}}) {
        const auto network = task.first_network(torch::kCPU, config);
        Learner learner(config, network);
        check_near(learn_in_parts(task, learner, *network, parts), expected);
      }
    }
  }
}

TEST_CASE("so it is where low-rank adapters are trained") {
  const LearnerConfig config = learner_config(PpoOptions{.learning_rate = 1e-2});
  LearningTask task("transformer");
  Learnt learnt[2];
  for (const std::size_t in_parts : {0, 1}) {
    const auto network = task.first_network(torch::kCPU, config);
    torch::manual_seed(2);
    Learner learner(config, network, LowRankAdapters({.rank = 2, .alpha = 6}, *network));
    const std::vector<Span> parts = in_parts == 1 ? std::vector<Span>{{0, 3}, {3, 4}} : std::vector<Span>{{0, 7}};
    learnt[in_parts] = learn_in_parts(task, learner, *network, parts);
  }
  check_near(learnt[1], learnt[0]);
}

TEST_CASE("ranks whose minibatches come in other numbers of parts learn as one") {
  const LearnerConfig config = learner_config(PpoOptions{.kl_weight = 0.1, .clip_gradient_norm = 0.5});
  LearningTask task;
  const Learnt alone =
      learn(std::make_shared<Ranks>(), config, task.first_network(torch::kCPU, config), task.batch(0, 1), kUpdates);
  const std::vector<std::vector<Span>> parts = {{{0, 1}, {1, 2}}, {{3, 4}}};
  std::vector<LearningTask> tasks(2);
  const std::vector<std::shared_ptr<AgentNetwork>> networks = {task.first_network(torch::kCPU, config),
                                                               task.first_network(torch::kCPU, config)};
  std::vector<Learnt> learnt(2);
  in_threads(2, [&](const std::shared_ptr<Ranks>& together) {
    const auto rank = static_cast<std::size_t>(together->rank());
    Learner learner(config, networks[rank], {}, together);
    learnt[rank] = learn_in_parts(tasks[rank], learner, *networks[rank], parts[rank]);
  });
  CHECK((learnt[1] == learnt[0]));
  check_near(learnt[0], alone);
}

TEST_CASE("one part that is not finite changes no weight") {
  const LearnerConfig config = learner_config(PpoOptions{.learning_rate = 1e-2});
  LearningTask task;
  const auto network = task.first_network(torch::kCPU, config);
  const TensorMap before = copied_weights(*network);
  Learner learner(config, network);
  learner.update_in_parts(2, [&](std::size_t part) {
    EpisodeBatch batch = task.part(part == 0 ? 0 : 3, 3);
    if (part == 0) batch.value_BT.fill_(std::numeric_limits<float>::quiet_NaN());
    return batch;
  });
  CHECK(equal(copied_weights(*network), before));
  CHECK(learner.faults().count == 1);
  learner.update_in_parts(1, [&](std::size_t) { return task.part(0, 7); });
  CHECK_FALSE(equal(copied_weights(*network), before));
  CHECK(learner.faults().count == 1);
}
