#include "agents/learn/ppo/ppo.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "agents/act/action_rule.h"
#include "agents/learn/learner.h"
#include "agents/learn/losses.h"
#include "agents/learn/registry.h"
#include "agents/run/config/config.h"
#include "base/error.h"
#include "tests/agents/learn/batches.h"
#include "tests/agents/learn/ppo/own_ratios.h"

using namespace engram;

namespace {

std::shared_ptr<AgentNetwork> network_of(const std::string& backbone, const TaskInfo& task) {
  torch::manual_seed(1);
  auto network = std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 6, .dropout = 0},
                                                small_backbone(backbone, 8), task, 0, LearnerConfig("ppo"));
  scatter_weights(*network, 0.3);
  network->train();
  return network;
}

// A batch whose advantages a learner on policy has estimated, with probabilities near those of `network`.
EpisodeBatch estimated_batch(AgentNetwork& network, const TaskInfo& task, double noise) {
  EpisodeBatch batch = random_batch(task, 3);
  const torch::NoGradGuard no_grad;
  const PpoHeads heads = PpoHeads::of(network.heads(features_of(network, batch)));
  const std::int64_t steps = batch.action_BT.size(1);
  const torch::Tensor log_BTA = columns(heads.logits, task.num_actions()).narrow(1, 0, steps).log_softmax(-1);
  batch.log_prob_BT = (taken(log_BTA, batch.action_BT) + noise * torch::randn(batch.action_BT.sizes())) * batch.mask_BT;
  const torch::Tensor value_BT1 = heads.value.select(-1, 0).contiguous();
  batch.value_BT = value_BT1.narrow(1, 0, steps) * batch.mask_BT;
  batch.advantage_BT = advantages_of(batch, value_BT1, 0.99, 0.95);
  return batch;
}

const SumOverRanks kAlone = [](torch::Tensor&) {};

}  // namespace

TEST_CASE("advantages are brought to mean 0 and deviation 1, over a minibatch or an iteration") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = network_of("gru", task);
  const EpisodeBatch batch = estimated_batch(*network, task, 0.1);
  const auto actor_loss = [&](const PpoOptions& options, double scale, double shift, bool iteration = false) {
    EpisodeBatch scaled = batch;
    scaled.advantage_BT = (batch.advantage_BT * scale + shift) * batch.mask_BT;
    Ppo algorithm(options, *network);
    if (iteration) {
      algorithm.begin_iteration();
      algorithm.estimate_advantages(*network, batch);
      algorithm.all_estimated(kAlone);
    }
    if (algorithm.sees_minibatches()) {
      algorithm.begin_minibatch();
      algorithm.see_part(scaled);
      algorithm.all_seen(kAlone);
    }
    return named(algorithm.loss(*network, scaled).scalars, "actor_loss").item<double>();
  };
  const PpoOptions minibatch{.advantage_scale = AdvantageScale::kMinibatch},
      off{.advantage_scale = AdvantageScale::kOff}, iteration{.advantage_scale = AdvantageScale::kIteration};
  const double normal = actor_loss(minibatch, 1, 0);
  CHECK(actor_loss(minibatch, 7, 3) == doctest::Approx(normal).epsilon(1e-5));
  CHECK(actor_loss(off, 7, 0) == doctest::Approx(7 * actor_loss(off, 1, 0)).epsilon(1e-5));
  // The iteration's advantages are this batch's.
  CHECK(actor_loss(iteration, 1, 0, true) == doctest::Approx(normal).epsilon(1e-5));
  CHECK(actor_loss(iteration, 7, 0, true) != doctest::Approx(normal).epsilon(1e-3));
}

TEST_CASE("an iteration whose divergence passes the target learns no more, and the next one does") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = network_of("gru", task);
  const EpisodeBatch near = estimated_batch(*network, task, 0), far = estimated_batch(*network, task, 1);
  Learner learner(learner_config(PpoOptions{.target_kl = 0.05, .learning_rate = 1e-4}), network);
  const auto changes = [&](const EpisodeBatch& batch) {
    const torch::Tensor before = network->named_parameters()["actor.output.weight"].detach().clone();
    learner.update(batch);
    return !torch::equal(before, network->named_parameters()["actor.output.weight"]);
  };
  learner.begin_iteration();
  CHECK(changes(near));
  CHECK_FALSE(changes(far));
  CHECK_FALSE(changes(near));
  CHECK(learner.faults().count == 0);
  learner.begin_iteration();
  CHECK(changes(near));
}

TEST_CASE("the weight of the divergence follows that of an iteration's last pass") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = network_of("gru", task);
  const EpisodeBatch near = estimated_batch(*network, task, 0), far = estimated_batch(*network, task, 1);
  Learner learner(learner_config(PpoOptions{.kl_weight = 0.2, .kl_goal = 0.01, .learning_rate = 0}), network);
  const auto weight_after = [&](const std::vector<EpisodeBatch>& passes) {
    for (const EpisodeBatch& batch : passes) {
      learner.begin_pass();
      learner.update(batch);
    }
    learner.begin_iteration();
    learner.begin_pass();
    return named(learner.update(near), "kl_weight").item<double>();
  };
  learner.begin_iteration();  // nothing is known yet
  CHECK(weight_after({near, far}) == doctest::Approx(0.3));
  CHECK(weight_after({far, near}) == doctest::Approx(0.15));
}

TEST_CASE("the learning rate falls to 0 in the course of the run where it is annealed") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = network_of("gru", task);
  Ppo still({.learning_rate = 0.5}, *network), falling({.learning_rate = 0.5, .anneal = true}, *network);
  CHECK(still.learning_rate(0.75) == 0.5);
  CHECK(falling.learning_rate(0) == 0.5);
  CHECK(falling.learning_rate(0.75) == doctest::Approx(0.125));
  CHECK(falling.learning_rate(1.1) == 0);
}

// float32; a rollout's step and the road of learning add up in different orders.
TEST_CASE("to the weights that played an episode, every ratio of it is 1, with every memory") {
  for (const std::string& backbone : backbone_names()) {
    CAPTURE(backbone);
    const engram::testing::OwnRatios ratios = engram::testing::own_ratios(backbone, torch::kCPU, "float32");
    CHECK(ratios.largest < 1e-5);
    CHECK(ratios.spread > 1e-3);  // the policy is not the same everywhere
  }
}

TEST_CASE("so it is with a continuous action, also where what was drawn is beyond its bounds") {
  for (const char* const backbone : {"gru", "hqlt", "lru"}) {
    CAPTURE(backbone);
    const engram::testing::OwnRatios ratios = engram::testing::own_ratios(backbone, torch::kCPU, "float32", "pendulum");
    CHECK(ratios.largest < 1e-5);
    CHECK(ratios.spread > 1e-3);
  }
}

TEST_CASE("a continuous action is learnt: its mean by the head, its deviation by numbers of its own") {
  const TaskInfo task = continuous_task(4, 7);
  const auto network = network_of("gru", task);
  CHECK(network->num_actions() == 2);
  const EpisodeBatch batch = [&] {
    EpisodeBatch made = random_batch(task, 3);
    const torch::NoGradGuard no_grad;
    const PpoHeads heads = PpoHeads::of(network->heads(features_of(*network, made)));
    const std::int64_t steps = made.action_BT.size(1);
    made.log_prob_BT =
        engram::testing::log_densities(*network, heads.logits.narrow(1, 0, steps), made.action_BT).sum(-1) *
        made.mask_BT;
    const torch::Tensor value_BT1 = heads.value.select(-1, 0).contiguous();
    made.value_BT = value_BT1.narrow(1, 0, steps) * made.mask_BT;
    made.advantage_BT = advantages_of(made, value_BT1, 0.99, 0.95);
    return made;
  }();
  Learner learner(learner_config(PpoOptions{.entropy_weight = 0.1, .learning_rate = 1e-2}), network);
  const auto weights = [&](const char* name) { return network->named_parameters()[name].detach().clone(); };
  const torch::Tensor head = weights("actor.output.weight"), deviation = weights("log_deviation");
  learner.begin_iteration();
  const NamedScalars scalars = learner.update(batch);
  CHECK(std::abs(named(scalars, "kl").item<double>()) < 1e-6);
  CHECK(named(scalars, "clipped").item<double>() == 0);
  // Of half ranges 1 and 2.5, and what the weights were scattered by.
  const double entropy = deviation.sum().item<double>() + std::log(2.5) + std::log(2 * std::numbers::pi) + 1;
  CHECK(named(scalars, "entropy").item<double>() == doctest::Approx(entropy).epsilon(1e-6));
  CHECK_FALSE(torch::equal(weights("actor.output.weight"), head));
  CHECK((weights("log_deviation") - deviation).abs().min().item<double>() > 1e-3);
  network->eval();
  const torch::NoGradGuard no_grad;
  const StepFigures figures = learner.algorithm().judge(*network, batch, features_of(*network, batch));
  CHECK(figures.entropy_BT.sizes() == batch.mask_BT.sizes());
  CHECK(figures.entropy_BT[0][0].item<double>() ==
        doctest::Approx(entropy + (weights("log_deviation") - deviation).sum().item<double>()).epsilon(1e-6));
}

TEST_CASE("what is no learner of continuous actions says so") {
  for (const char* const name : {"sac", "dqn"}) {
    const Config config =
        Config::from_settings({{"learner.name", name}, {"task.preset", "position_only_pendulum_easy"}});
    const std::string why = "learner.name " + std::string(name) +
                            " learns discrete actions, but those of task.name pendulum are continuous; it takes "
                            "learner.name ppo";
    CHECK_THROWS_WITH_AS(check_learner_of_actions(config), why.c_str(), UserError);
    CHECK_THROWS_WITH_AS(draw_network(config, config.task.info(), torch::kCPU), why.c_str(), UserError);
  }
  CHECK_NOTHROW(check_learner_of_actions(Config::from_settings({{"learner.name", "ppo"}, {"task.name", "pendulum"}})));
  CHECK_NOTHROW(check_learner_of_actions(Config::from_settings({{"learner.name", "sac"}, {"task.name", "tmaze"}})));
}

TEST_CASE("options of PPO that contradict each other or the rest of a config are refused") {
  const auto refusal = [](Settings settings) -> std::string {
    settings.emplace_back("learner.name", "ppo");
    try {
      Config::from_settings(settings);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(refusal({}) == "accepted");
  CHECK(refusal({{"learner.kl_goal", "0.01"}}) ==
        "learner.kl_goal 0.01 needs a learner.kl_weight to begin with; 0 stays 0 whatever it is multiplied with");
  CHECK(refusal({{"network.dropout", "0.1"}}).starts_with("network.dropout 0.1 "));
  CHECK(refusal({{"network.encoder", "joint"}, {"network.previous_action_width", "1"}}) == "accepted");
  CHECK(refusal({{"network.encoder", "joint"}, {"network.previous_action_width", "16"}}) ==
        "network.previous_action_width 16 is of an embedding, which network.encoder joint does not have; it takes 1 "
        "(seen) or 0");
  CHECK(refusal({{"memory.name", "hqlt"}, {"memory.dropout", "0.1"}}).starts_with("memory.dropout 0.1 "));
  CHECK(refusal({{"memory.name", "shm"}}) == "accepted");
  CHECK(refusal({{"memory.name", "shm"}, {"memory.rows", "drawn"}}).starts_with("memory.rows drawn "));
  CHECK(refusal({{"run.random_episodes", "10"}}).starts_with("run.random_episodes 10 "));
  CHECK(refusal({{"run.updates_per_step", "1"}}).starts_with("run.updates_per_step 1 "));
  CHECK(refusal({{"replay.capacity_steps", "1000"}}).starts_with("replay.capacity_steps 1000 "));
  CHECK(refusal({{"run.memoryless_collection", "true"}}).starts_with("run.memoryless_collection "));
}
