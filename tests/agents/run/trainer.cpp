#include "agents/run/training/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agents/run/trained/trained_agent.h"
#include "storage/tensors/weights.h"
#include "tests/agents/learn/learning_task.h"
#include "tests/agents/run/resumed_run.h"

using namespace engram;
using engram::testing::equal;

namespace {

// A T-maze of 6 steps (length 5) and a small network: a run of a second.
Settings tiny(Settings more = {}) {
  Settings settings = {{"task.name", "tmaze"},       {"task.corridor_length", "5"},  {"memory.name", "lstm"},
                       {"memory.width", "8"},        {"network.hidden_width", "16"}, {"run.steps", "120"},
                       {"run.random_episodes", "4"}, {"replay.batch_episodes", "4"}, {"evaluation.every_steps", "30"},
                       {"evaluation.episodes", "3"}, {"run.report_seconds", "0.01"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

struct Recording : TrainObserver {
  std::vector<EvaluationSummary> evaluations;
  std::vector<TrainStatus> rows;
  std::vector<bool> best;
  int ends = 0;
  TensorMap weights;
  std::function<void()> on_evaluation = [] {};

  void report(const TrainStatus&) override {}
  void measured(const TrainStatus& status) override { rows.push_back(status); }
  void evaluated(const TrainStatus& status, const AgentNetwork&, bool is_best) override {
    evaluations.push_back(*status.last_evaluation);
    best.push_back(is_best);
    on_evaluation();
  }
  void finished(const TrainStatus&, const AgentNetwork& network) override {
    ++ends;
    for (const auto& [name, tensor] : module_weights(network)) weights[name] = tensor.clone();
  }
};

TrainStatus train(const Settings& settings, Recording& recording) {
  Trainer trainer(Config::from_settings(settings), torch::kCPU, 1);
  return trainer.run({&recording});
}

}  // namespace

TEST_CASE("a run follows the schedule: steps, updates, evaluations") {
  Recording recording;
  const TrainStatus status = train(tiny(), recording);
  CHECK(status.steps == 120);
  CHECK(status.episodes == 20);
  CHECK(status.updates == 20 * 2);  // ceil(0.25 x 6) an episode
  CHECK(status.stopped == StopReason::kSteps);
  CHECK(status.done == 1);
  std::vector<std::string> losses;
  for (const auto& [name, value] : status.losses) losses.push_back(name);
  CHECK(losses == std::vector<std::string>{"critic_loss", "actor_loss", "entropy", "alpha", "mean_q", "gradient_norm"});
  for (const double part : {status.seconds_acting, status.seconds_learning, status.seconds_evaluating}) CHECK(part > 0);
  CHECK(status.seconds_acting + status.seconds_learning + status.seconds_evaluating <= status.seconds);
  REQUIRE(recording.evaluations.size() == 4);  // 30, 60, 90 and, once, 120
  CHECK(recording.evaluations[0].environment_steps == 30);
  CHECK(recording.evaluations[3].environment_steps == 120);
  CHECK(recording.evaluations[3].episodes == 3);
  CHECK(recording.ends == 1);
}

TEST_CASE("updates keep their ratio to steps for any number of environments") {
  Recording recording;
  const TrainStatus status = train(tiny({{"run.num_envs", "4"}, {"run.updates_per_step", "0.5"}}), recording);
  CHECK(status.steps == 120);
  CHECK(status.updates == 60);
}

TEST_CASE("what is done never goes back, and an estimate of the time left stays from the first update on") {
  struct Reports : TrainObserver {
    std::vector<TrainStatus> rows;
    void report(const TrainStatus& status) override { rows.push_back(status); }
    void measured(const TrainStatus&) override {}
    void evaluated(const TrainStatus&, const AgentNetwork&, bool) override {}
    void finished(const TrainStatus&, const AgentNetwork&) override {}
  } reports;
  Trainer trainer(Config::from_settings(tiny({{"run.steps", "400"}, {"run.updates_per_step", "0.5"}})), torch::kCPU, 1);
  trainer.run({&reports});
  REQUIRE(reports.rows.size() >= 10);
  double done = 0;
  for (const TrainStatus& row : reports.rows) {
    CHECK(row.done >= done);
    done = row.done;
    CHECK(row.seconds_left.has_value() == (row.updates > 0));
  }
}

TEST_CASE("the last evaluation is made even if none was due") {
  Recording recording;
  train(tiny({{"evaluation.every_steps", "1000"}}), recording);
  REQUIRE(recording.evaluations.size() == 1);
  CHECK(recording.evaluations[0].environment_steps == 120);
}

TEST_CASE("the same seed gives the same weights, another seed others") {
  Recording first, again, other;
  train(tiny(), first);
  train(tiny(), again);
  train(tiny({{"run.seed", "2"}}), other);
  CHECK(equal(first.weights, again.weights));
  CHECK_FALSE(equal(first.weights, other.weights));
}

TEST_CASE("evaluating more often changes nothing of the training") {
  Recording often, rarely;
  train(tiny({{"evaluation.every_steps", "6"}, {"evaluation.episodes", "7"}}), often);
  train(tiny({{"evaluation.every_steps", "1000"}}), rarely);
  CHECK(often.evaluations.size() > rarely.evaluations.size());
  CHECK(equal(often.weights, rarely.weights));
}

TEST_CASE("the best evaluation has the highest success, then return; the later wins a tie") {
  Recording recording;
  train(tiny({{"evaluation.every_steps", "6"}}), recording);
  REQUIRE(recording.best.size() > 5);
  EvaluationSummary best = recording.evaluations[0];
  CHECK(recording.best[0]);
  for (std::size_t i = 1; i < recording.best.size(); ++i) {
    const EvaluationSummary& next = recording.evaluations[i];
    const bool expected =
        next.greedy.success > best.greedy.success ||
        (next.greedy.success == best.greedy.success && next.greedy.mean_return >= best.greedy.mean_return);
    CHECK(recording.best[i] == expected);
    if (expected) best = next;
  }
}

TEST_CASE("a run stops when it is solved, when its time is up, and when it is told to") {
  Recording solved;
  // One step ahead, then one to the side: half of all episodes are soon right by chance.
  const TrainStatus status = train(tiny({{"task.corridor_length", "1"},
                                         {"learner.learning_rate", "0.003"},
                                         {"run.random_episodes", "20"},
                                         {"run.updates_per_step", "1"},
                                         {"replay.batch_episodes", "16"},
                                         {"network.dropout", "0"},
                                         {"evaluation.episodes", "10"},
                                         {"evaluation.stop_at_success", "0.3"},
                                         {"run.steps", "5000"}}),
                                   solved);
  CHECK(status.stopped == StopReason::kSolved);
  CHECK(status.last_evaluation->greedy.success >= 0.3);

  Recording timed;
  const TrainStatus short_run = train(tiny({{"run.max_seconds", "0.2"}, {"run.steps", "1000000000"}}), timed);
  CHECK(short_run.stopped == StopReason::kTime);
  CHECK(timed.evaluations.back().environment_steps == short_run.steps);

  Recording told;
  Trainer trainer(Config::from_settings(tiny({{"run.steps", "1000000000"}})), torch::kCPU, 1);
  told.on_evaluation = [&trainer] { trainer.stop(); };
  CHECK(trainer.run({&told}).stopped == StopReason::kRequest);
  CHECK(told.evaluations.size() == 1);
  CHECK(told.ends == 1);
}

TEST_CASE("every evaluation plays greedy and sampled episodes, which are those that its first episode names") {
  Recording recording;
  const Config config = Config::from_settings(tiny({{"run.updates_per_step", "0"},
                                                    {"task.penalty", "-0.1"},
                                                    {"evaluation.episodes", "70"},
                                                    {"evaluation.final_episodes", "90"}}));
  const TrainStatus status = Trainer(config, torch::kCPU, 1).run({&recording});
  // The weights are the run's first to the end: what was played can be played again.
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  const auto rollout = make_rollout(config, network, torch::kCPU, Purpose::kEvaluation, 64, 1);
  const auto again = [&](ActionChoice choice, int episodes, std::uint32_t first) {
    return summarize(evaluate(*rollout, episodes, choice, first));
  };
  REQUIRE(recording.evaluations.size() == 4);
  for (std::uint32_t i = 0; i < 4; ++i) {  // 70 episodes: up to two of each environment
    CHECK(recording.evaluations[i].greedy == again(ActionChoice::kGreedy, 70, 2 * i));
    REQUIRE(recording.evaluations[i].sampled);
    CHECK(*recording.evaluations[i].sampled == again(ActionChoice::kSample, 70, 2 * i));
  }
  // Other actions each time, and others than the greedy ones.
  CHECK(recording.evaluations[0].sampled->mean_return != recording.evaluations[1].sampled->mean_return);
  CHECK(recording.evaluations[0].sampled->mean_return != recording.evaluations[0].greedy.mean_return);
  REQUIRE((status.final_evaluation && status.final_evaluation->sampled));
  const FinalEvaluation::Played& last = *status.final_evaluation->sampled;
  const PlayedEpisodes expected = again(ActionChoice::kSample, 90, kFirstUnseenEpisode);
  CHECK(last.mean_return == expected.mean_return);
  CHECK(last.success.estimate == expected.success);
  CHECK(last.success.high == wilson_interval(last.solved, 90).high);
}

TEST_CASE("an evaluation tells decisions of both kinds of episodes, and the critic loss by phase of the replay") {
  Recording recording;
  const Config config = Config::from_settings(
      tiny({{"task.corridor_length", "1"}, {"run.updates_per_step", "0"}, {"evaluation.episodes", "70"}}));
  Trainer trainer(config, torch::kCPU, 1);
  const TrainStatus status = trainer.run({&recording});
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  const auto rollout = make_rollout(config, network, torch::kCPU, Purpose::kEvaluation, 64, 1);
  const auto decisions = make_cpu_vec_env(config.task, config.run.seed, Purpose::kEvaluation, 64, 1);
  const auto again = [&](ActionChoice choice, std::uint32_t first, int episodes) {
    const auto never = [] { return false; };
    return decision_rates(evaluate(*rollout, episodes, choice, first, never, decisions.get()));
  };
  REQUIRE(!recording.evaluations.empty());
  for (std::uint32_t i = 0; i < recording.evaluations.size(); ++i) {
    const EvaluationSummary& evaluation = recording.evaluations[i];
    CHECK(evaluation.greedy_decisions == again(ActionChoice::kGreedy, 2 * i, 70));
    CHECK(evaluation.sampled_decisions == again(ActionChoice::kSample, 2 * i, 70));
    CHECK(evaluation.sampled_decisions->decided > 0);
    std::set<std::string> names;
    for (const auto& [name, loss] : evaluation.critic_loss_by_phase) {
      names.insert(name);
      CHECK(loss >= 0);
    }
    CHECK(names == std::set<std::string>{"critic_loss_oracle", "critic_loss_corridor", "critic_loss_junction"});
  }
  REQUIRE(status.final_evaluation);
  CHECK(status.final_evaluation->greedy.decisions == again(ActionChoice::kGreedy, kFirstUnseenEpisode, 100));
  CHECK(status.final_evaluation->sampled->decisions == again(ActionChoice::kSample, kFirstUnseenEpisode, 100));
  CHECK(trainer.network().is_training());
}

TEST_CASE("success is counted and divided once, and returns are summed before they are divided") {
  Recording recording;
  train(tiny({{"task.corridor_length", "1"},
              {"task.penalty", "0"},
              {"task.goal_reward", "0.1"},
              {"run.metrics_every_steps", "2"},
              {"run.updates_per_step", "0.01"},
              {"run.steps", "200"},
              {"run.random_episodes", "60"}}),
        recording);
  REQUIRE(recording.rows.size() > 10);
  bool solved_some = false;
  for (const TrainStatus& status : recording.rows) {
    const double episodes = static_cast<double>(std::min<std::int64_t>(status.episodes, 50));
    const double solved = std::round(status.recent_success * episodes);
    CHECK(status.recent_success == solved / episodes);
    CHECK(status.recent_return == solved * double{0.1f} / episodes);
    solved_some = solved_some || (solved > 2 && solved < episodes);
  }
  CHECK(solved_some);
}

TEST_CASE("no number of steps is measured twice, also where the end is a moment to measure and where a run goes on") {
  for (const auto& [every, rows_at_end] : {std::pair("1", 0u), std::pair("1000", 1u)}) {
    CAPTURE(every);
    struct Kept : Recording {
      void save(const TrainStatus&, StateArchive& archive) override { last = testing::contents(archive); }
      SafetensorsFile last;
    };
    Kept whole, rest;
    const Config config = Config::from_settings(tiny({{"run.metrics_every_steps", every}}));
    const TrainStatus status = Trainer(config, torch::kCPU, 1).run({&whole});
    // The last state is of before the end: its rows are made again, and no others.
    Trainer trainer(config, torch::kCPU, 1);
    StateArchive archive(whole.last, "the state");
    trainer.restore(archive);
    trainer.run({&rest});
    CHECK(rest.rows.size() == rows_at_end);
    REQUIRE(!whole.rows.empty());
    CHECK(whole.rows.back().steps == status.steps);
    for (std::size_t i = 1; i < whole.rows.size(); ++i) CHECK(whole.rows[i].steps > whole.rows[i - 1].steps);
  }
}

TEST_CASE("without updates nothing is learnt") {
  Recording recording;
  const Config config = Config::from_settings(tiny({{"run.updates_per_step", "0"}}));
  Trainer(config, torch::kCPU, 1).run({&recording});
  const auto fresh = make_network(config, config.task.info(), torch::kCPU);
  CHECK(equal(recording.weights, module_weights(*fresh)));
}
