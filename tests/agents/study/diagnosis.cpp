#include "agents/study/diagnosis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/dqn/dqn.h"
#include "agents/learn/sac/sac.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/run/training/run_recorder.h"
#include "agents/run/training/trainer.h"
#include "agents/study/episode_log.h"
#include "agents/study/run_diagnosis.h"
#include "agents/study/statistics.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/act/state_values.h"
#include "tests/agents/play/probe_env.h"
#include "tests/agents/play/probe_rollout.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

constexpr double kAlpha = 0.3, kGamma = 0.9;

Config config_of(const std::string& backbone, Settings more) {
  more.insert(more.end(), {{"memory.name", backbone}, {"memory.width", "8"}, {"network.hidden_width", "16"}});
  return Config::from_settings(more);
}

Settings tmaze(int length) { return {{"task.name", "tmaze"}, {"task.corridor_length", std::to_string(length)}}; }

struct Agent {
  Config config;
  std::shared_ptr<AgentNetwork> network;

  explicit Agent(const Config& its) : config(its), network(make_network(its, its.task.info(), torch::kCPU)) {
    torch::manual_seed(1);
    scatter_weights(*network, 0.2);
    network->eval();
  }
  KeptEpisodes play(int episodes, ActionChoice choice = ActionChoice::kSample) {
    return play_and_keep(config, network, torch::kCPU, 1, episodes, choice, kFirstUnseenEpisode);
  }
};

std::vector<std::int64_t> all(const KeptEpisodes& episodes) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(episodes.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Of the rules `counting`, with a decision and phases that (environment, episode) alone name.
class NamedProbe : public ProbeEnv {
 public:
  explicit NamedProbe(int size) : ProbeEnv(counting(7), size), number_N_(static_cast<std::size_t>(size), 0) {}
  void reset_row(int row, std::uint32_t episode) override {
    number_N_.at(static_cast<std::size_t>(row)) = episode;
    ProbeEnv::reset_row(row, episode);
  }
  static bool decides(int row, std::uint32_t number) { return (2 * static_cast<std::uint32_t>(row) + number) % 3 == 0; }
  static std::string phase_of(int row, std::uint32_t number) {
    return std::to_string((static_cast<std::uint32_t>(row) + number) % 4);
  }
  std::optional<bool> decided(int row) const override {
    return decides(row, number_N_.at(static_cast<std::size_t>(row)));
  }
  std::string phase(int row) const override { return phase_of(row, number_N_.at(static_cast<std::size_t>(row))); }

 private:
  std::vector<std::uint32_t> number_N_;
};

// With the heads that DQN's algorithm judges by.
struct CriticOfStates : StateValueOptions {
  std::vector<HeadSpec> heads(std::int64_t num_actions) const {
    std::vector<HeadSpec> all = DqnOptions().heads(num_actions);
    std::ranges::copy(StateValueOptions::heads(num_actions), std::back_inserter(all));
    return all;
  }
};

Sac algorithm_of(const AgentNetwork& network) { return {SacOptions{.gamma = kGamma, .alpha = kAlpha}, network}; }
Diagnosis diagnosed(const KeptEpisodes& episodes, AgentNetwork& network) {
  Sac algorithm = algorithm_of(network);
  return diagnose(episodes, network, algorithm);
}
std::vector<PhaseFigures> phases_of(EpisodeStore& store, const std::vector<std::int64_t>& indices, VecEnv& environments,
                                    AgentNetwork& network) {
  Sac algorithm = algorithm_of(network);
  return figures_by_phase(store, indices, environments, network, algorithm);
}

// The figures of the phases together are those that an update measures of the same episodes.
void check_phases(const Diagnosis& diagnosis, const KeptEpisodes& episodes, AgentNetwork& network) {
  const torch::NoGradGuard no_grad;
  const SacLoss loss = sac_loss(network, episodes.store->gather(all(episodes)), torch::tensor(kAlpha), kGamma);
  double steps = 0, error = 0, share = 0, entropy = 0;
  for (const PhaseFigures& phase : diagnosis.phases) {
    const auto count = static_cast<double>(phase.steps);
    steps += count;
    error += phase.squared_error * count;
    share += phase.error_share;
    entropy += phase.entropy * count;
  }
  CHECK(steps == static_cast<double>(episodes.store->steps()));
  CHECK(share == doctest::Approx(1).epsilon(1e-12));
  for (const PhaseFigures& phase : diagnosis.phases)
    CHECK(phase.error_share ==
          doctest::Approx(phase.squared_error * static_cast<double>(phase.steps) / error).epsilon(1e-12));
  // float32 in another order, and batches of other sizes.
  CHECK(error / steps == doctest::Approx(0.5 * (loss.critic1 + loss.critic2).item<double>()).epsilon(1e-4));
  CHECK(entropy / steps == doctest::Approx(loss.entropy.item<double>()).epsilon(1e-4));
}

const CueReadout* at_lag(const Diagnosis& diagnosis, std::optional<std::int64_t> lag) {
  const auto found = std::ranges::find(diagnosis.cue, lag, &CueReadout::lag);
  return found == diagnosis.cue.end() ? nullptr : &*found;
}

double accuracy(const CueReadout* read) {
  REQUIRE(read != nullptr);
  return static_cast<double>(read->readout.correct) / static_cast<double>(read->readout.count);
}

}  // namespace

TEST_CASE("the same episodes as in an evaluation, with the figures of an update by phase") {
  constexpr int kPlayed = 1200;  // of which one in 32 decides at random
  Agent agent(config_of("deltanet", tmaze(2)));
  const KeptEpisodes episodes = agent.play(kPlayed);
  const Diagnosis diagnosis = diagnosed(episodes, *agent.network);

  const auto rollout = make_rollout(agent.config, agent.network, torch::kCPU, Purpose::kEvaluation, 64, 1);
  CHECK(diagnosis.episodes == kPlayed);
  CHECK(diagnosis.solved == count_solved(evaluate(*rollout, kPlayed, ActionChoice::kSample, kFirstUnseenEpisode)));
  check_phases(diagnosis, episodes, *agent.network);
  std::set<std::string> phases;
  for (const PhaseFigures& phase : diagnosis.phases) phases.insert(phase.phase);
  CHECK(phases == std::set<std::string>{"oracle", "corridor", "junction"});
  CHECK(diagnosis.phases.front().phase == "oracle");

  // A T-maze of length 2 takes three steps; the last observation tells on which side the agent stands.
  const torch::NoGradGuard no_grad;
  const EpisodeBatch batch = episodes.store->gather(all(episodes));
  const torch::Tensor features = agent.network->features(
      agent.network->encode(batch.observation, batch.previous_action_BT1, batch.previous_reward_BT1),
      batch.steps_B + 1);
  const auto q1 = agent.network->head("critic1", features), q2 = agent.network->head("critic2", features);
  const torch::Tensor q = torch::minimum(q1, q2);
  double ordered = 0, absolute_q = 0;
  std::vector<double> right, wrong;
  for (std::int64_t i = 0; i < episodes.size(); ++i) {
    absolute_q += std::abs(q[i][0][batch.action_BT[i][0]].item<double>());
    if (batch.observation[i][3][1].item<float>() == 0 || batch.observation[i][3][0].item<float>() == 0) continue;
    (batch.reward_BT[i][2].item<float>() > 0 ? right : wrong).push_back(q[i][2][batch.action_BT[i][2]].item<double>());
  }
  for (const double r : right)
    for (const double w : wrong) ordered += r > w ? 1 : r == w ? 0.5 : 0;
  REQUIRE(diagnosis.decisions);
  CHECK(diagnosis.decisions->right == static_cast<std::int64_t>(right.size()));
  CHECK(diagnosis.decisions->wrong == static_cast<std::int64_t>(wrong.size()));
  REQUIRE((right.size() > 8 && wrong.size() > 8));
  CHECK(*diagnosis.decisions->value_auc ==
        doctest::Approx(ordered / static_cast<double>(right.size() * wrong.size())).epsilon(1e-9));
  CHECK(diagnosis.decisions->phase == "junction");
  CHECK(diagnosis.phases.front().steps == kPlayed);  // the first of each episode
  CHECK(diagnosis.phases.front().absolute_value == doctest::Approx(absolute_q / kPlayed).epsilon(1e-4));
}

TEST_CASE("a diagnosis says whether its values are of actions") {
  Agent of_actions(config_of("gru", tmaze(2)));
  CHECK(diagnosed(of_actions.play(2), *of_actions.network).values_are_of_actions);
  Config config = config_of("gru", tmaze(2));
  config.learner = learner_config(CriticOfStates());
  Agent of_states(config);
  Dqn algorithm({});
  CHECK_FALSE(diagnose(of_states.play(2), *of_states.network, algorithm).values_are_of_actions);
}

TEST_CASE("an evaluation tells which episodes were decided, and how many of these rightly") {
  constexpr int kPlayed = 1201;  // environments have unequal quotas
  Agent agent(config_of("deltanet", tmaze(2)));
  const auto rollout = make_rollout(agent.config, agent.network, torch::kCPU, Purpose::kEvaluation, 64, 1);
  const auto decisions = make_cpu_vec_env(agent.config.task, agent.config.run.seed, Purpose::kEvaluation, 64, 1);
  const auto never = [] { return false; };
  const auto results = evaluate(*rollout, kPlayed, ActionChoice::kSample, kFirstUnseenEpisode, never, decisions.get());
  // As many of the same episodes whose last observation is one of the goals; the reward there tells right from wrong.
  const KeptEpisodes episodes = agent.play(kPlayed);
  const EpisodeBatch batch = episodes.store->gather(all(episodes));
  int decided = 0, right = 0;
  for (std::int64_t i = 0; i < episodes.size(); ++i) {
    if (batch.observation[i][3][1].item<float>() == 0 || batch.observation[i][3][0].item<float>() == 0) continue;
    ++decided;
    right += batch.reward_BT[i][2].item<float>() > 0;
  }
  REQUIRE((right > 8 && decided - right > 8 && decided < kPlayed));
  const std::optional<DecisionRates> rates = decision_rates(results);
  REQUIRE(rates);
  CHECK(rates->decided == decided / static_cast<double>(kPlayed));
  REQUIRE(rates->right);
  CHECK(*rates->right == right / static_cast<double>(decided));
  CHECK(right == count_solved(results));
  // Nobody asks, and too few environments to tell.
  CHECK_FALSE(decision_rates(evaluate(*rollout, 5, ActionChoice::kSample)));
  const auto few = make_cpu_vec_env(agent.config.task, agent.config.run.seed, Purpose::kEvaluation, 63, 1);
  CHECK_THROWS_AS(evaluate(*rollout, 5, ActionChoice::kSample, 0, never, few.get()), std::invalid_argument);
}

TEST_CASE("each episode of an evaluation, and of a store, is played again as the one that it was") {
  NamedProbe environments(3);
  const TaskInfo& task = environments.info();
  const auto network =
      std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 4}, small_backbone("none", 4), task);
  torch::manual_seed(1);
  scatter_weights(*network, 0.2);
  network->eval();
  Rollout rollout = probe_rollout(counting(7), network, 3);
  const auto never = [] { return false; };
  const auto results = evaluate(rollout, 11, ActionChoice::kSample, 5, never, &environments);
  REQUIRE(results.size() == 11);
  std::size_t at = 0;
  for (int row = 0; row < 3; ++row)
    for (std::uint32_t number = 5; number < (row < 2 ? 9u : 8u); ++number, ++at) {
      REQUIRE(results[at].decided);
      CHECK(*results[at].decided == NamedProbe::decides(row, number));
    }

  EpisodeStore store(ReplayOptions{.minimum_episodes = 11}, task, 1'000, torch::kCPU);
  std::vector<std::int64_t> indices;
  std::map<std::string, std::int64_t> expected;  // steps by phase
  play_episodes(rollout, 20, ActionChoice::kSample, 5, never, [&](const std::vector<RecordedEpisode>& taken) {
    for (const RecordedEpisode& episode : taken) {
      const std::int64_t index = store.episodes();
      store.add(rollout.recording(), {episode});
      CHECK(store.name(index).environment == episode.environment);
      CHECK(store.name(index).number == episode.number);
      if (index % 5 == 4) continue;
      indices.push_back(index);
      expected[NamedProbe::phase_of(episode.environment, episode.number)] += episode.steps;
    }
  });
  std::map<std::string, std::int64_t> steps;
  for (const PhaseFigures& phase : phases_of(store, indices, environments, *network)) steps[phase.phase] = phase.steps;
  CHECK(expected.size() == 4);
  CHECK(steps == expected);
}

TEST_CASE("rates of decisions: none is decided, none of those right, a task that says nothing") {
  const EpisodeResult silent{1, true, 3}, undecided{0, false, 3, false}, wrong{0, false, 3, true},
      right{1, true, 3, true};
  CHECK_FALSE(decision_rates({}));
  CHECK_FALSE(decision_rates({right, silent}));
  CHECK(*decision_rates({undecided, undecided}) == DecisionRates{0, {}});
  CHECK(*decision_rates({undecided, wrong}) == DecisionRates{0.5, 0.0});
  CHECK(*decision_rates({right, wrong, undecided, right, right}) == DecisionRates{0.8, 0.75});
  // What succeeds without the decision is not right of it.
  CHECK(*decision_rates({EpisodeResult{1, true, 3, false}, wrong}) == DecisionRates{0.5, 0.0});
}

TEST_CASE("the figures by phase of some episodes of a store are those of a diagnosis of these") {
  Agent agent(config_of("deltanet", tmaze(3)));
  const KeptEpisodes episodes = agent.play(40);
  const auto same = [](const std::vector<PhaseFigures>& a, const std::vector<PhaseFigures>& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].phase == b[i].phase);
      CHECK(a[i].steps == b[i].steps);
      CHECK(a[i].squared_error == doctest::Approx(b[i].squared_error).epsilon(1e-6));
      CHECK(a[i].error_share == doctest::Approx(b[i].error_share).epsilon(1e-6));
    }
  };
  same(phases_of(*episodes.store, all(episodes), *episodes.environments, *agent.network),
       diagnosed(episodes, *agent.network).phases);
  // Of 17 of them, more than are computed at once.
  std::vector<std::int64_t> some;
  KeptEpisodes those = agent.play(40);
  those.store =
      std::make_unique<EpisodeStore>(ReplayOptions{.batch_episodes = 1}, agent.config.task.info(), 1'000, torch::kCPU);
  those.names.clear();
  EpisodeLog log(agent.config.task.info().action);
  for (std::int64_t i = 2; i < 40 && some.size() < 17; i += 2) {
    some.push_back(i);
    const EpisodeBatch batch = episodes.store->gather({i});
    const auto steps = batch.steps_B[0].item<std::int64_t>();
    const torch::Tensor action = batch.action_BT[0].narrow(0, 0, steps).to(torch::kInt32).contiguous();
    log.add(episodes.store->name(i).environment, episodes.store->name(i).number,
            {action.const_data_ptr<std::int32_t>(), static_cast<std::size_t>(steps)});
  }
  log.play(*those.environments, StateArchive(), [&those](const Episode& episode) {
    those.store->add(episode);
    those.names.push_back({episode.environment, episode.number});
  });
  same(phases_of(*episodes.store, some, *episodes.environments, *agent.network),
       diagnosed(those, *agent.network).phases);
}

TEST_CASE("episodes of unequal lengths, truncated ones among them, of a task without decision and cue") {
  const auto rules = counting(7);
  KeptEpisodes episodes;
  episodes.environments = std::make_unique<ProbeEnv>(rules, 3);
  const TaskInfo& task = episodes.environments->info();
  episodes.store = std::make_unique<EpisodeStore>(ReplayOptions{.minimum_episodes = 30}, task, 210, torch::kCPU);
  ProbeEnv& environments = dynamic_cast<ProbeEnv&>(*episodes.environments);
  Rng random(1, Purpose::kTest, 0, 0);
  std::int64_t solved = 0;
  for (std::uint32_t number = 0; number < 10; ++number)
    for (int row = 0; row < 3; ++row) {
      Episode episode;
      episode.environment = row;
      episode.number = number;
      const auto see = [&] {
        const auto observation = environments.observation_N().subspan(static_cast<std::size_t>(row) * 12, 12);
        episode.observations.insert(episode.observations.end(), observation.begin(), observation.end());
      };
      environments.reset_row(row, number);
      see();
      while (environments.end_N()[row] == End::kNone) {
        episode.actions.push_back(static_cast<std::int32_t>(random.below(3)));
        environments.step_row(row, episode.actions.back());
        episode.rewards.push_back(environments.reward_N()[row]);
        see();
      }
      episode.end = environments.end_N()[row];
      solved += environments.success_N()[row];
      episodes.store->add(episode);
      episodes.names.push_back({row, number});
    }
  AgentNetwork network({.previous_action_width = 2, .previous_reward_width = 2, .hidden_width = 8},
                       small_backbone("gru", 6), task);
  torch::manual_seed(1);
  scatter_weights(network, 0.2);
  CHECK_THROWS_AS(diagnosed(episodes, network), std::logic_error);  // in training mode
  network.eval();
  const Diagnosis diagnosis = diagnosed(episodes, network);
  CHECK(diagnosis.episodes == 30);
  CHECK(diagnosis.solved == solved);
  CHECK_FALSE(diagnosis.decisions);
  CHECK(diagnosis.cue.empty());
  REQUIRE(diagnosis.phases.size() == 1);
  CHECK(diagnosis.phases[0].phase == "probe");
  check_phases(diagnosis, episodes, network);

  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : network.parameters()) parameter.fill_(NAN);
  CHECK_THROWS_AS(diagnosed(episodes, network), std::runtime_error);
}

TEST_CASE("the cue is read as long as the memory holds it, and by chance from no memory") {
  Agent remembers(config_of("transformer", tmaze(20))), forgets(config_of("none", tmaze(20)));
  const Diagnosis kept = diagnosed(remembers.play(200), *remembers.network);
  const Diagnosis lost = diagnosed(forgets.play(200), *forgets.network);
  CHECK(accuracy(at_lag(kept, 0)) == 1);
  CHECK(accuracy(at_lag(lost, 0)) == 1);
  for (const std::int64_t lag : {1, 4, 16}) {
    CAPTURE(lag);
    REQUIRE(at_lag(kept, lag));
    CHECK(at_lag(kept, lag)->readout.count == 200);
    CHECK(accuracy(at_lag(kept, lag)) > 0.95);
    CHECK(std::abs(accuracy(at_lag(lost, lag)) - 0.5) < 0.15);  // four standard deviations of 200 guesses
  }
  CHECK(at_lag(kept, 64) == nullptr);  // longer than the episodes
  for (const CueReadout& read : kept.cue) CHECK(2 * read.readout.most_common >= read.readout.count);

  // Too few to read, and nothing to remember.
  CHECK(diagnosed(remembers.play(9), *remembers.network).cue.empty());
  Settings seen = tmaze(3);
  seen.emplace_back("task.full_state", "true");
  Agent sees(config_of("none", seen));
  CHECK(diagnosed(sees.play(20), *sees.network).cue.empty());
}

TEST_CASE("visual match: colours are told apart, squares are decisions, and where phase 3 begins the cue is read") {
  Agent agent(config_of("transformer", {{"task.name", "visual_match"},
                                        {"task.explore_steps", "2"},
                                        {"task.distractor_steps", "3"},
                                        {"task.reward_steps", "40"}}));
  const Diagnosis diagnosis = diagnosed(agent.play(120), *agent.network);
  REQUIRE(diagnosis.decisions);
  const Diagnosis::Decisions& decisions = *diagnosis.decisions;
  CHECK(decisions.right == diagnosis.solved);
  CHECK(decisions.right > 0);
  CHECK(decisions.wrong > decisions.right);
  CHECK(decisions.right + decisions.wrong < 120);
  CHECK(decisions.phase == "reward");
  REQUIRE(diagnosis.phases.size() == 3);
  CHECK(diagnosis.phases[0].steps == 2 * 120);
  CHECK(diagnosis.phases[1].steps == 3 * 120);
  CHECK(diagnosis.phases[2].steps == 40 * 120);
  const CueReadout* const begins = at_lag(diagnosis, std::nullopt);
  REQUIRE(begins);
  CHECK(begins->readout.count == 120);
  CHECK(begins->readout.most_common < 60);  // three colours
  // The phase begins four steps after the colour was last seen, so that both are the same read-out.
  CHECK(begins->readout.correct == at_lag(diagnosis, 4)->readout.correct);
}

TEST_CASE("key-to-door has no wrong decision") {
  Agent agent(config_of("none", {{"task.name", "key_to_door"}, {"task.distractor_steps", "2"}}));
  const Diagnosis diagnosis = diagnosed(agent.play(60), *agent.network);
  REQUIRE(diagnosis.decisions);
  CHECK(diagnosis.decisions->right == diagnosis.solved);
  CHECK(diagnosis.decisions->wrong == 0);
  CHECK_FALSE(diagnosis.decisions->value_auc);
}

TEST_CASE("episodes that a run has learnt from, as they stood in its newest checkpoint") {
  Settings settings = tmaze(5);
  settings.insert(settings.end(), {{"run.steps", "240"},
                                   {"run.num_envs", "2"},
                                   {"run.random_episodes", "2"},
                                   {"replay.batch_episodes", "2"},
                                   {"evaluation.episodes", "2"}});
  Config config = config_of("lstm", settings);
  const TemporaryFolder folder;
  const RunDirectory run = RunDirectory::create(folder / "run", {config.to_ini(), torch::kCPU, {}});
  const auto kept = [&](std::int64_t weights_steps, int most) {
    return keep_replayed(run, config, weights_steps, most, torch::kCPU, [](const std::string&) { FAIL("damaged"); });
  };
  CHECK(kept(240, 100).size() == 0);  // nothing is saved yet
  RunRecorder recorder(run, config.to_ini(), config.checkpoint.keep);
  Trainer trainer(config, torch::kCPU, 1);
  const TrainStatus status = trainer.run({&recorder});

  const KeptEpisodes whole = kept(status.steps, 100);
  CHECK(whole.size() == status.episodes);
  std::set<std::pair<std::int32_t, std::uint32_t>> names;
  for (const auto& [environment, number] : whole.names) names.emplace(environment, number);
  CHECK(static_cast<std::int64_t>(names.size()) == whole.size());
  CHECK(whole.names.front().number == 0);
  CHECK(kept(0, 100).size() == 0);
  const KeptEpisodes early = kept(status.steps / 2, 100);
  CHECK(early.store->steps() <= status.steps / 2);
  CHECK(early.store->steps() > status.steps / 2 - 3 * 6);
  const KeptEpisodes some = kept(status.steps, 4);
  REQUIRE(some.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(some.names[i].number == whole.names[i * static_cast<std::size_t>(whole.size()) / 4].number);

  const TrainedAgent agent = load_trained_agent(folder / "run", WhichWeights::kLast, torch::kCPU);
  const Diagnosis diagnosis = diagnosed(whole, *agent.network);
  CHECK(diagnosis.episodes == whole.size());
  check_phases(diagnosis, whole, *agent.network);

  const auto of_run = [&](const TrainedAgent& played) {
    return diagnose_run(run, played, {.episodes = 4}, [](const std::string&) { FAIL("damaged"); });
  };
  const RunDiagnosis found = of_run(agent);
  CHECK(found.weights_steps == status.steps);
  CHECK(found.judged_by.size() == 2);
  CHECK(found.greedy.episodes == 4);
  CHECK(found.sampled.decisions->right + found.sampled.decisions->wrong <= 4);
  REQUIRE(found.replayed.has_value());
  CHECK(found.replayed->solved == diagnosed(some, *agent.network).solved);
  CHECK(found.why_none_replayed.empty());
  const RunDiagnosis elsewhere =
      of_run(load_trained_agent(folder / "run", WhichWeights::kLast, torch::kCPU, {{"task.corridor_length", "7"}}));
  CHECK_FALSE(elsewhere.replayed.has_value());
  CHECK(elsewhere.why_none_replayed == "they are of the task as it was in training");
}
