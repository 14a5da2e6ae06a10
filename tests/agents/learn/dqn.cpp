#include "agents/learn/dqn/dqn.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/action_rule.h"
#include "agents/learn/learner.h"
#include "agents/learn/losses.h"
#include "agents/learn/registry.h"
#include "base/error.h"
#include "tests/agents/learn/batches.h"

using namespace engram;

namespace {

const LearnerConfig kDqn("dqn");

std::shared_ptr<AgentNetwork> q_network(const std::string& backbone, const TaskInfo& task) {
  torch::manual_seed(1);
  auto network = std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 6, .dropout = 0},
                                                small_backbone(backbone, 8), task, 0, kDqn);
  network->to(torch::kFloat64);
  scatter_weights(*network, 0.3);
  return network;
}

}  // namespace

TEST_CASE("DQN's loss is the masked mean of squared errors from the target critic's value of the critic's choice") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = q_network("gru", task);
  const EpisodeBatch batch = random_batch(task, 3);
  const double gamma = 0.9;
  const torch::Tensor features = features_of(*network, batch);
  const torch::Tensor q = network->head("q", features), target_q = network->head("target_q", features);
  double sum = 0, q_sum = 0;
  std::int64_t steps = 0;
  for (std::int64_t b = 0; b < batch.action_BT.size(0); ++b)
    for (std::int64_t t = 0; t < batch.steps_B[b].item<std::int64_t>(); ++t) {
      std::int64_t best = 0;
      for (std::int64_t a = 1; a < q.size(2); ++a)
        if (q[b][t + 1][a].item<double>() > q[b][t + 1][best].item<double>()) best = a;
      const double next = batch.terminated_BT[b][t].item<float>() > 0 ? 0 : target_q[b][t + 1][best].item<double>();
      const double own = q[b][t][batch.action_BT[b][t].item<std::int64_t>()].item<double>();
      sum += std::pow(own - (batch.reward_BT[b][t].item<float>() + gamma * next), 2);
      q_sum += own;
      ++steps;
    }
  Dqn algorithm({.gamma = gamma});
  const Loss loss = algorithm.loss(*network, batch);
  CHECK(loss.total.item<double>() == doctest::Approx(sum / static_cast<double>(steps)).epsilon(1e-6));
  CHECK(named(loss.scalars, "critic_loss").item<double>() == loss.total.item<double>());
  CHECK(named(loss.scalars, "mean_q").item<double>() ==
        doctest::Approx(q_sum / static_cast<double>(steps)).epsilon(1e-6));
  // The gradient is the critic's alone: the target is a number.
  loss.backward();
  for (const auto& item : network->named_parameters())
    CHECK(item.value().grad().defined() == !item.key().starts_with("target_q."));

  const StepFigures figures = algorithm.judge(*network, batch, features);
  CHECK(masked_mean(figures.squared_error_BT, batch.mask_BT).item<double>() ==
        doctest::Approx(loss.total.item<double>()).epsilon(1e-6));
}

TEST_CASE("an update of DQN descends the loss, and its target follows softly") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = q_network("lstm", task);
  network->train();
  const auto value = [&](const std::string& name) { return network->named_parameters()[name].detach().clone(); };
  Learner learner(learner_config(DqnOptions{.gamma = 0, .learning_rate = 1e-2, .target_rate = 0.25}), network);
  const EpisodeBatch batch = random_batch(task, 2);
  const torch::Tensor before = value("target_q.hidden1.weight");
  const NamedScalars first = learner.update(batch);
  CHECK(first.size() == 3);
  CHECK(torch::allclose(value("target_q.hidden1.weight"), before + 0.25 * (value("q.hidden1.weight") - before)));
  const double loss = named(first, "critic_loss").item<double>();
  for (int i = 0; i < 100; ++i) learner.update(batch);
  CHECK(named(learner.update(batch), "critic_loss").item<double>() < 0.5 * loss);
  CHECK(learner.faults().count == 0);
}

TEST_CASE("an update of DQN that is not finite changes no weight and is told") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = q_network("lstm", task);
  network->train();
  Learner learner(kDqn, network);
  EpisodeBatch batch = random_batch(task, 1);
  batch.reward_BT[0][0] = std::numeric_limits<float>::quiet_NaN();
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& parameter : network->parameters()) before.push_back(parameter.detach().clone());
  learner.update(batch);
  CHECK(learner.faults().count == 1);
  CHECK(learner.faults().first_tensor == "the loss");
  const std::vector<torch::Tensor> after = network->trainable_parameters();
  std::size_t i = 0;
  for (const torch::Tensor& parameter : network->parameters()) {
    if (parameter.requires_grad()) CHECK(torch::equal(parameter, before[i]));
    ++i;
  }
}

TEST_CASE("actions are epsilon-greedy, and epsilon falls in a line") {
  const TaskInfo task = vector_task(4, 4, 7);
  const auto network = q_network("none", task);
  const auto rule = learner_config(DqnOptions{.epsilon_first = 0.8, .epsilon_last = 0.2, .epsilon_steps = 100})
                        .action_rule(torch::kCPU);
  const torch::Tensor features = torch::randn({5, 8}, torch::kFloat64);
  const torch::Tensor best = rule->values(*network, features).argmax(-1);
  const auto check = [&](double epsilon) {
    const torch::Tensor probabilities = rule->logits(*network, features).softmax(-1);
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t a = 0; a < 4; ++a)
        CHECK(probabilities[i][a].item<double>() ==
              doctest::Approx(epsilon / 4 + (a == best[i].item<std::int64_t>() ? 1 - epsilon : 0)).epsilon(1e-5));
  };
  check(0.2);  // that of a trained agent
  for (const auto& [steps, epsilon] : {std::pair(0, 0.8), {50, 0.5}, {100, 0.2}, {1000, 0.2}}) {
    rule->explore(steps);
    check(epsilon);
  }
  // What is not finite is not finite in what actions are chosen from.
  network->named_parameters()["q.output.bias"].detach()[2] = std::numeric_limits<double>::quiet_NaN();
  CHECK(rule->logits(*network, features).softmax(-1).isnan().all().item<bool>());
}

TEST_CASE("options of DQN that contradict each other are refused") {
  LearnerConfig config("dqn");
  config.options().set("learner.epsilon_first", "0.1");
  config.options().set("learner.epsilon_last", "0.2");
  CHECK_THROWS_WITH_AS(config.check(), "learner.epsilon_last 0.2 is more than learner.epsilon_first 0.1", UserError);
  CHECK_THROWS_AS(config.options().set("learner.epsilon_last", "1.5"), UserError);
  CHECK_THROWS_AS(LearnerConfig("dpn"), UserError);
}

TEST_CASE("what options of DQN say is of DQN") {
  for (const std::string name : {"sac", "dqn"}) {
    for (const OptionValue& option : LearnerConfig(name).values())
      if (option.name == "learner.learning_rate")
        CHECK((option.help.find("temperature") != std::string::npos) == (name == "sac"));
  }
}
