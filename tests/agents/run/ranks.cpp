// One run by several ranks, which are threads here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/dqn/dqn.h"
#include "agents/learn/ppo/ppo.h"
#include "agents/learn/registry.h"
#include "agents/learn/sac/sac.h"
#include "agents/play/evaluator.h"
#include "agents/run/training/run_share.h"
#include "agents/study/episode_log.h"
#include "base/error.h"
#include "storage/tensors/weights.h"
#include "tests/agents/learn/learning_task.h"
#include "tests/agents/run/resumed_run.h"
#include "tests/ranks/in_threads.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Three updates of seven episodes, dealt to so many ranks. `spoilt`: the rewards of this rank's are no numbers.
std::vector<Learnt> learn_together(int size, const LearnerConfig& config, std::optional<int> spoilt = {}) {
  LearningTask task;
  std::vector<Learnt> learnt(static_cast<std::size_t>(size));
  std::vector<std::shared_ptr<AgentNetwork>> networks;
  std::vector<EpisodeBatch> batches;
  for (int rank = 0; rank < size; ++rank) {
    networks.push_back(task.first_network(torch::kCPU, config));
    batches.push_back(task.batch(rank, size, rank == spoilt));
  }
  const auto work = [&](const std::shared_ptr<Ranks>& together) {
    const auto rank = static_cast<std::size_t>(together->rank());
    learnt[rank] = learn(together, config, networks[rank], batches[rank], 3);
  };
  if (size == 1)
    work(std::make_shared<Ranks>());
  else
    in_threads(size, work);
  return learnt;
}

constexpr int kSharedEnvs = 5;
const Settings kSettings = tiny("lstm", {{"run.num_envs", std::to_string(kSharedEnvs)},
                                         {"run.steps", "200"},
                                         {"run.random_episodes", "6"},
                                         {"replay.batch_episodes", "5"},
                                         {"network.dropout", "0.1"},
                                         {"learner.temperature", "learnt"}});

struct EndedRun {
  TrainStatus status;
  TensorMap weights;
  Observer observer;
};

// A run by so many ranks from its beginning, or from a state; of the first rank's states those after `moves` are kept.
std::vector<EndedRun> train(int ranks, const Settings& settings, const SafetensorsFile* state = nullptr,
                            const std::set<int>& moves = {}) {
  const Config config = Config::from_settings(settings);
  std::vector<EndedRun> ended(static_cast<std::size_t>(ranks));
  std::mutex mutex;  // LibTorch's generator, which first weights are drawn from, is the program's
  const auto work = [&](const std::shared_ptr<Ranks>& together) {
    EndedRun& run = ended[static_cast<std::size_t>(together->rank())];
    run.observer.wanted = moves;
    std::unique_ptr<Trainer> trainer;
    {
      const std::scoped_lock lock(mutex);
      trainer = std::make_unique<Trainer>(config, torch::kCPU, 1, StartingWeights{}, together);
    }
    if (state != nullptr) {
      SafetensorsFile own;
      {
        const std::scoped_lock lock(mutex);
        own.metadata = state->metadata;
        for (const auto& [name, tensor] : state->tensors) own.tensors[name] = tensor.clone();
      }
      StateArchive archive(std::move(own), "the state");
      trainer->restore(archive);
      archive.check_all_restored();
    }
    if (!moves.empty()) {
      run.observer.trainer = trainer.get();
      if (together->first()) trainer->save_soon();
    }
    run.status =
        trainer->run(together->first() ? std::vector<TrainObserver*>{&run.observer} : std::vector<TrainObserver*>{});
    run.weights = copied_weights(trainer->network());
  };
  if (ranks == 1)
    work(std::make_shared<Ranks>());
  else
    in_threads(ranks, work);
  return ended;
}

// Of a state, by environment of the whole run: the numbers of its kept episodes.
std::map<std::int64_t, std::set<std::uint32_t>> kept_episodes(const SafetensorsFile& state, int ranks) {
  std::map<std::int64_t, std::set<std::uint32_t>> kept;
  StateArchive archive(state, "the state");
  for (int rank = 0; rank < ranks; ++rank) {
    EpisodeLog log({.names = {"any"}, .numbers = {}});
    const std::string section = (rank == 0 ? "" : "rank" + std::to_string(rank) + ".") + "experience.replay";
    archive.within(section, [&] { log.visit_state(archive); });
    for (std::int64_t i = 0; i < log.episodes(); ++i) {
      const auto episode = static_cast<std::size_t>(i);
      const bool first =
          kept[block_of(kSharedEnvs, rank, ranks).first + log.environment(episode)].insert(log.number(episode)).second;
      CHECK(first);
    }
  }
  return kept;
}

}  // namespace

TEST_CASE("an update of several ranks is that of one on all of their episodes") {
  for (const LearnerConfig& learner :
       {learner_config(SacOptions{.temperature = Temperature::kLearnt, .clip_gradient_norm = 0.5}),
        learner_config(PpoOptions{.kl_weight = 0.1, .clip_gradient_norm = 0.5}),
        learner_config(DqnOptions{.clip_gradient_norm = 0.5})}) {
    CAPTURE(learner.name());
    const std::vector<Learnt> alone = learn_together(1, learner);
    for (const int size : {2, 3}) {
      const std::vector<Learnt> ranks = learn_together(size, learner);
      CHECK((learn_together(size, learner) == ranks));  // bit for bit
      for (const Learnt& rank : ranks) {
        CHECK((rank == ranks[0]));
        for (std::size_t i = 0; i < rank.scalars.size(); ++i)
          CHECK(rank.scalars[i] == doctest::Approx(alone[0].scalars[i]).epsilon(1e-9));
        for (const auto& [name, weight] : alone[0].weights) {
          CAPTURE(name);
          CHECK(torch::allclose(rank.weights.at(name), weight, 1e-7, 1e-9));
        }
      }
    }
  }
}

TEST_CASE("what is not finite in one rank changes the weights of none") {
  const TensorMap before = copied_weights(*LearningTask().first_network());
  const LearnerConfig still = learner_config(SacOptions{.target_rate = 0});
  for (const Learnt& rank : learn_together(2, still, /*spoilt=*/1)) {
    CHECK(equal(rank.weights, before));
    CHECK(rank.faults == 3);
  }
  for (const Learnt& rank : learn_together(2, still)) {
    CHECK_FALSE(equal(rank.weights, before));
    CHECK(rank.faults == 0);
  }
}

TEST_CASE("ranks do one run: one schedule, one agent, the same bits again") {
  const std::vector<EndedRun> alone = train(1, kSettings);
  for (const int size : {2, 3}) {
    const std::vector<EndedRun> ranks = train(size, kSettings), again = train(size, kSettings);
    CHECK(equal(ranks[0].weights, again[0].weights));
    CHECK(ranks[0].observer.rows == again[0].observer.rows);
    CHECK_FALSE(equal(ranks[0].weights, alone[0].weights));  // they draw batches of their own
    for (const EndedRun& rank : ranks) {
      CHECK(equal(rank.weights, ranks[0].weights));
      CHECK(rank.status.steps == alone[0].status.steps);
      CHECK(rank.status.episodes == alone[0].status.episodes);
      CHECK(rank.status.updates == alone[0].status.updates);
      REQUIRE(rank.status.final_evaluation);
      CHECK(rank.status.final_evaluation->greedy.solved == ranks[0].status.final_evaluation->greedy.solved);
    }
    CHECK(ranks[0].observer.rows.size() == alone[0].observer.rows.size());
  }
}

TEST_CASE("ranks play an evaluation's very episodes") {
  // Nothing is learnt, so that the same agent plays; without dropout nothing else differs.
  const Settings settings = tiny("gru", {{"run.num_envs", "4"},
                                         {"run.updates_per_step", "0"},
                                         {"run.random_episodes", "4"},
                                         {"replay.batch_episodes", "4"},
                                         {"evaluation.episodes", "67"},
                                         {"evaluation.final_episodes", "2"}});
  const std::vector<EndedRun> alone = train(1, settings), ranks = train(3, settings);
  REQUIRE(alone[0].status.best_evaluation);
  CHECK(alone[0].status.best_evaluation->sampled == ranks[2].status.best_evaluation->sampled);
  CHECK(alone[0].status.best_evaluation->greedy == ranks[1].status.best_evaluation->greedy);
  CHECK(alone[0].status.final_evaluation->sampled->mean_return ==
        ranks[0].status.final_evaluation->sampled->mean_return);
}

TEST_CASE("the parts of an evaluation are the whole") {
  for (const int episodes : {1, 2, 20, 63, 64, 65, 100, 200})
    for (const int size : {1, 2, 3, 5}) {
      int all = 0;
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const EvaluationShare share = evaluation_share(episodes, rank, size);
        CHECK(share.environments.first == next);
        CHECK((share.episodes == 0) == (share.environments.count == 0));
        next += share.environments.count;
        all += share.episodes;
      }
      CHECK(all == episodes);
      CHECK(next == evaluation_envs(episodes));
    }
}

TEST_CASE("ranks resume, as many as before, byte for byte") {
  const std::vector<EndedRun> whole = train(3, kSettings, nullptr, {1, 20, 47, 61, 83});
  REQUIRE(whole[0].observer.states.size() == 5);
  std::set<std::string> phases;
  for (std::size_t i = 0; i < 5; ++i) {
    const SafetensorsFile& state = whole[0].observer.states[i];
    phases.insert(state.metadata.at("state.phase"));
    CHECK(state.metadata.at("state.ranks") == "3");
    const std::vector<EndedRun> rest = train(3, kSettings, &state);
    CHECK(differences(whole[0].observer.last, rest[0].observer.last) == std::vector<std::string>{});
    CHECK(equal(rest[2].weights, whole[0].weights));
  }
  CHECK(phases.size() >= 3);
}

TEST_CASE("another number of ranks gets everything dealt anew") {
  std::map<int, SafetensorsFile> states;
  for (const int size : {1, 2, 3}) states[size] = train(size, kSettings, nullptr, {60})[0].observer.states.at(0);
  Settings longer = kSettings;
  longer.emplace_back("run.steps", "260");
  for (const auto& [from, state] : states)
    for (const int to : {1, 2, 4}) {
      if (from == to) continue;
      CAPTURE(from);
      CAPTURE(to);
      const std::vector<EndedRun> dealt = train(to, longer, &state, {1});
      CHECK(kept_episodes(dealt[0].observer.states.at(0), to) == kept_episodes(state, from));
      CHECK(dealt[0].status.steps >= 260);
      for (const EndedRun& rank : dealt) CHECK(equal(rank.weights, dealt[0].weights));
      const std::vector<EndedRun> again = train(to, longer, &state, {1});
      CHECK(differences(dealt[0].observer.last, again[0].observer.last) == std::vector<std::string>{});
      // No episode is played twice.
      kept_episodes(dealt[0].observer.last, to);
    }
}

TEST_CASE("more ranks than there is to deal are refused") {
  const auto message = [](const Settings& more) -> std::string {
    Settings settings = kSettings;
    settings.insert(settings.end(), more.begin(), more.end());
    try {
      train(3, settings);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message({{"run.num_envs", "2"}}) ==
        "run.num_envs 2 is of the whole run and cannot be dealt to 3 ranks; it takes 3 or more");
  CHECK(message({{"replay.batch_episodes", "1"}}) ==
        "replay.batch_episodes 1 is of the whole run and cannot be dealt to 3 ranks; it takes 3 or more");
}

TEST_CASE("a rank that stops stops all, and they go on as if they had not") {
  const std::vector<EndedRun> whole = train(2, kSettings);
  struct Stopping : Observer {
    void measured(const TrainStatus& status) override {
      Observer::measured(status);
      if (status.steps >= 100) stopped->stop();
    }
    Trainer* stopped = nullptr;
  } first;
  const Config config = Config::from_settings(kSettings);
  std::vector<StopReason> reasons(2);
  std::mutex mutex;
  in_threads(2, [&](const std::shared_ptr<Ranks>& together) {
    std::unique_ptr<Trainer> trainer;
    {
      const std::scoped_lock lock(mutex);
      trainer = std::make_unique<Trainer>(config, torch::kCPU, 1, StartingWeights{}, together);
    }
    if (together->first()) first.stopped = trainer.get();
    reasons[static_cast<std::size_t>(together->rank())] =
        trainer->run(together->first() ? std::vector<TrainObserver*>{&first} : std::vector<TrainObserver*>{}).stopped;
  });
  CHECK((reasons == std::vector<StopReason>(2, StopReason::kRequest)));
  const std::vector<EndedRun> rest = train(2, kSettings, &first.last);
  CHECK(differences(whole[0].observer.last, rest[0].observer.last) == std::vector<std::string>{});
}
