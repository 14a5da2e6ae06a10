#include "agents/study/evaluation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agents/run/training/run_recorder.h"
#include "base/error.h"
#include "storage/tensors/weights.h"
#include "tests/agents/act/small_agent.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

Config maze_config(const std::string& length) {
  return Config::from_settings({{"task.name", "tmaze"},
                                {"task.corridor_length", length},
                                {"memory.name", "lstm"},
                                {"memory.width", "8"},
                                {"network.hidden_width", "16"}});
}

TrainedAgent maze_agent(const Config& config) {
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  torch::manual_seed(1);
  scatter_weights(*network, 0.3);
  network->eval();
  return {config, {}, network};
}

// Of the weights of maze_agent(), after 70 steps and 7 updates.
RunDirectory run_of(const TrainedAgent& agent, const std::filesystem::path& folder) {
  const RunDirectory run = RunDirectory::create(folder, {agent.config.to_ini(), torch::kCPU, {}});
  RunRecorder recorder(run, agent.config.to_ini(), agent.config.checkpoint.keep);
  EvaluationSummary summary;
  summary.environment_steps = 70;
  summary.updates = 7;
  recorder.write_best(summary, module_weights(*agent.network));
  return run;
}

bool same_results(const std::vector<EpisodeResult>& a, const std::vector<EpisodeResult>& b) {
  return std::ranges::equal(a, b, [](const EpisodeResult& x, const EpisodeResult& y) {
    return x.total_reward == y.total_reward && x.success == y.success && x.steps == y.steps && x.decided == y.decided;
  });
}

void no_warning(const std::string& text) { FAIL(text); }

}  // namespace

TEST_CASE("an agent's evaluation is what its rollout plays, traced or not, and leaves no trace in the program") {
  const TrainedAgent agent = maze_agent(maze_config("5"));
  const Config& config = agent.config;
  constexpr int kEpisodes = 70;
  const auto rollout = make_rollout(config, agent.network, torch::kCPU, Purpose::kEvaluation, kEvaluationEnvs, 1);
  const auto decisions = make_cpu_vec_env(config.task, config.run.seed, Purpose::kEvaluation, kEvaluationEnvs, 1);
  const auto expected = [&](ActionChoice choice) {
    return evaluate(
        *rollout, kEpisodes, choice, kFirstUnseenEpisode, [] { return false; }, decisions.get());
  };
  const auto generator = at::globalContext().defaultGenerator(torch::kCPU);
  const torch::Tensor state = generator.get_state();
  const AgentEvaluation plain = evaluate_agent(agent, {.episodes = kEpisodes, .decisions = true}),
                        traced = evaluate_agent(agent, {.episodes = kEpisodes, .decisions = true, .trace = true}),
                        unasked = evaluate_agent(agent, {.episodes = kEpisodes});
  CHECK(torch::equal(generator.get_state(), state));
  CHECK_FALSE(agent.network->is_training());

  CHECK(same_results(plain.greedy.episodes, expected(ActionChoice::kGreedy)));
  CHECK(same_results(plain.sampled.episodes, expected(ActionChoice::kSample)));
  CHECK(same_results(traced.greedy.episodes, plain.greedy.episodes));
  CHECK(same_results(traced.sampled.episodes, plain.sampled.episodes));
  CHECK(plain.sampled.decisions == decision_rates(plain.sampled.episodes));
  CHECK(plain.sampled.decisions.has_value());
  CHECK_FALSE(unasked.sampled.decisions.has_value());
  CHECK(unasked.sampled.measured.success.estimate == plain.sampled.measured.success.estimate);
  CHECK(plain.sampled.measured.success.estimate == count_solved(plain.sampled.episodes) / double{kEpisodes});
  CHECK_FALSE(plain.trace.has_value());
  CHECK(traced.trace->at("episode_starts").size(0) == kEpisodes);
}

TEST_CASE("an agent at values of its task: what is kept is not made again, and damage is made anew") {
  const TemporaryFolder folder;
  const RunDirectory run = run_of(maze_agent(maze_config("5")), folder / "run");
  RangeRequest request{.range = parse_range("task.corridor_length: 3,7"), .episodes = 4};
  std::vector<std::string> taken;
  const auto take = [&taken](const EvaluationRange::Value& value, const RangePoint&) { taken.push_back(value.text); };
  const auto points = evaluate_range(run, request, take, no_warning);
  CHECK(taken == std::vector<std::string>{"3", "7"});
  REQUIRE(points.size() == 2);
  CHECK(points[1].value == 7);
  const TrainedAgent longer =
      load_trained_agent(run.path(), WhichWeights::kBest, torch::kCPU, {{"task.corridor_length", "7"}});
  const AgentEvaluation alone = evaluate_agent(longer, {.episodes = 4});
  CHECK(points[1].sampled.total_return.estimate == alone.sampled.measured.total_return.estimate);
  CHECK_FALSE(read_range_evaluations(run.path()).has_value());

  request.keep = true;
  evaluate_range(run, request, take, no_warning);
  auto kept = read_range_evaluations(run.path()).value();
  CHECK(kept.are_of(70, 7, 4));
  REQUIRE(kept.points.size() == 2);
  kept.points[0].greedy.success.estimate = 0.125;  // of no four episodes
  write_range_evaluations(run.path(), kept);
  request.range = parse_range("task.corridor_length: 3,4");
  CHECK(evaluate_range(run, request, take, no_warning)[0].greedy.success.estimate == 0.125);
  CHECK(read_range_evaluations(run.path()).value().points.size() == 3);

  write_text(range_file(run.path()), "{}");
  std::string warning;
  evaluate_range(run, request, take, [&warning](const std::string& text) { warning = text; });
  CHECK(warning.ends_with("; it is made anew"));
  CHECK(read_range_evaluations(run.path()).value().points.size() == 2);
}

TEST_CASE("weights say when they were written") {
  const TemporaryFolder folder;
  const TrainedAgent agent = maze_agent(maze_config("5"));
  const RunDirectory run = run_of(agent, folder / "run");
  CHECK(read_weights_age(run, WhichWeights::kBest).environment_steps == 70);
  CHECK(read_weights_age(run, WhichWeights::kBest).updates == 7);
  save_safetensors(run.weights_file(WhichWeights::kLast), module_weights(*agent.network), {{"updates", "7"}});
  CHECK(mentions(message_of<UserError>([&] { read_weights_age(run, WhichWeights::kLast); }),
                 "does not say after how many steps it was written"));
}
