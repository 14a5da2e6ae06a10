// What a learner on policy is given to learn from, and in which order.
#include "agents/learn/experience/iterations.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/action_rule.h"
#include "agents/learn/registry.h"
#include "agents/play/evaluator.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/play/probe_rollout.h"

using namespace engram;

namespace {

// Episodes of one to five steps, by their numbers, or of one step, every fifth of nine; an observation is the
// environment, the episode and the step.
ProbeRules named_episodes(bool ragged = false) {
  return {2,
          3,
          ragged ? 9 : 5,
          [](ProbeRow&) {},
          [ragged](ProbeRow& row, int) -> Outcome {
            const int kind = static_cast<int>((3 * row.episode + static_cast<std::uint32_t>(row.environment)) % 5);
            const int steps = !ragged ? 1 + kind : kind == 0 ? 9 : 1;
            return {1, row.step == steps ? End::kTerminated : End::kNone};
          },
          [](const ProbeRow& row, float* observation) {
            observation[0] = static_cast<float>(row.environment);
            observation[1] = static_cast<float>(row.episode);
            observation[2] = static_cast<float>(row.step);
          }};
}

using Name = std::pair<int, int>;  // environment and episode

// What happened, in order.
struct Events {
  std::vector<std::string> moments;
  std::vector<std::vector<Name>> estimated, seen, learnt;  // the episodes of each batch
};

// A learner that writes down what it is given. An episode's steps are worth its environment, the advantage is its
// number.
class Watching final : public Algorithm, public OnPolicy {
 public:
  explicit Watching(Events& events) : events_(events) {}

  Loss loss(AgentNetwork& network, const EpisodeBatch& batch) override {
    events_.learnt.push_back(names_of(batch));
    const torch::Tensor mask_BT = batch.mask_BT, first = batch.observation.narrow(1, 0, mask_BT.size(1));
    REQUIRE(events_.learnt.size() <= events_.seen.size());
    CHECK(events_.learnt.back() == events_.seen[events_.learnt.size() - 1]);
    CHECK(torch::equal(batch.value_BT, mask_BT * first.select(2, 0)));
    CHECK(torch::equal(batch.advantage_BT, mask_BT * first.select(2, 1)));
    CHECK(((batch.log_prob_BT < 0) == (mask_BT > 0)).all().item<bool>());
    torch::Tensor total = torch::zeros({});
    for (const torch::Tensor& parameter : network.trainable_parameters()) total = total + 0 * parameter.sum();
    return {.total = total, .scalars = {}, .means = {}};
  }
  std::vector<std::string> scalar_names() const override { return {}; }
  void after_step(AgentNetwork&, const NamedScalars&, const torch::Tensor&) override {}
  StepFigures judge(AgentNetwork&, const EpisodeBatch&, const torch::Tensor&) override { return {}; }
  std::vector<JudgedBy> judges_by() const override { return {}; }
  Road loss_road(const AgentNetwork&, torch::Device) const override { return {}; }
  OnPolicy* on_policy() override { return this; }
  void visit_state(StateArchive&) override {}

  double learning_rate(double progress) const override {
    events_.moments.push_back("rate at " + std::to_string(progress).substr(0, 3));
    return 0.1;
  }
  void begin_iteration() override { events_.moments.emplace_back("iteration"); }
  AdvantageEstimate estimate_advantages(AgentNetwork&, const EpisodeBatch& batch) override {
    events_.estimated.push_back(names_of(batch));
    const torch::Tensor first = batch.observation.narrow(1, 0, batch.mask_BT.size(1));
    return {first.select(2, 0).clone(), first.select(2, 1).clone()};
  }
  void all_estimated(const SumOverRanks&) override { events_.moments.emplace_back("estimated"); }
  void begin_pass() override { events_.moments.emplace_back("pass"); }
  bool sees_minibatches() const override { return true; }
  void begin_minibatch() override { CHECK(events_.seen.size() == events_.learnt.size()); }
  void see_part(const EpisodeBatch& part) override { events_.seen.push_back(names_of(part)); }

 private:
  static std::vector<Name> names_of(const EpisodeBatch& batch) {
    std::vector<Name> names;
    for (std::int64_t b = 0; b < batch.steps_B.size(0); ++b) {
      const torch::Tensor first = batch.observation[b][0];
      names.emplace_back(first[0].item<float>(), first[1].item<float>());
    }
    return names;
  }

  Events& events_;
};

struct WatchingOptions {
  static constexpr const char* kName = "watching";
  static constexpr const char* kSummary = "writes down what it is given";
  static constexpr const char* kSource = "";
  Events* events = nullptr;

  void list_options(OptionList&) {}
  void check() const {}
  OptimizerOptions optimizer() const { return {0.1, 0, 0}; }
  IterationOptions iterations() const { return {40, 3, 4}; }
  std::vector<HeadSpec> heads(std::int64_t num_actions) const { return {{"actor", num_actions, 1e-3}}; }
  std::shared_ptr<ActionRule> action_rule(const c10::Device& device) const {
    return LearnerConfig("sac").action_rule(device);
  }
  std::unique_ptr<Algorithm> make(const AgentNetwork&) const { return std::make_unique<Watching>(*events); }
};

// One rank's environments, learner and experience.
struct Run {
  explicit Run(Events& events, bool ragged = false) : learner_options(learner_config(WatchingOptions{&events})) {
    torch::manual_seed(1);
    const ProbeRules rules = named_episodes(ragged);
    const TaskInfo task = ProbeEnv(rules, 1).info();
    network = std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 4, .dropout = 0}, small_backbone("gru", 4),
                                             task, 0, learner_options);
    network->train();
    rollout = std::make_unique<Rollout>(probe_rollout(rules, network, kEnvs));
    experience =
        std::make_unique<Iterations>(WatchingOptions{}.iterations(), task, kEnvs, /*seed=*/1, /*rank=*/0, torch::kCPU);
    learner = std::make_unique<Learner>(learner_options, network);
  }

  // Until an update is owed; the episodes that ended.
  std::set<Name> collect() {
    std::set<Name> ended;
    while (!experience->owes_update()) {
      const Rollout::Played played = rollout->play(ActionChoice::kSample);
      if (played.episodes.empty()) continue;
      experience->add(rollout->recording(), played.episodes);
      for (const RecordedEpisode& episode : played.episodes) {
        ended.emplace(episode.environment, static_cast<int>(episode.number));
        returns.push_back(result_of(episode).total_reward);
        experience->count(episode.steps, returns.back());
      }
    }
    return ended;
  }

  static constexpr int kEnvs = 3;
  std::vector<double> returns;  // of all episodes, in the order in which they ended
  LearnerConfig learner_options;
  std::shared_ptr<AgentNetwork> network;
  std::unique_ptr<Rollout> rollout;
  std::unique_ptr<Iterations> experience;
  std::unique_ptr<Learner> learner;
};

std::set<Name> all_of(const std::vector<std::vector<Name>>& batches, std::size_t first, std::size_t count) {
  std::set<Name> all;
  for (std::size_t i = first; i < first + count; ++i)
    for (const Name& name : batches.at(i)) CHECK(all.insert(name).second);
  return all;
}

}  // namespace

TEST_CASE("every pass of an iteration learns from each of its episodes once, in an order of its own") {
  Events events;
  Run run(events);
  std::set<Name> before;
  for (int iteration = 0; iteration < 3; ++iteration) {
    events = {};
    const std::set<Name> ended = run.collect();
    for (const Name& name : before) CHECK_FALSE(ended.contains(name));
    before = ended;
    CHECK(run.experience->ready());
    int updates = 0;
    for (; run.experience->owes_update(); ++updates) {
      CHECK(run.experience->unlearnt_steps() > 0);
      run.experience->update(*run.learner, {}, 0.25);
    }
    CHECK(updates == 12);
    CHECK(run.experience->unlearnt_steps() == 0);
    CHECK_FALSE(run.experience->ready());
    CHECK(events.moments == std::vector<std::string>{"rate at 0.2", "iteration", "estimated", "pass", "pass", "pass"});
    CHECK((all_of(events.estimated, 0, 4) == ended));
    for (std::size_t pass = 0; pass < 3; ++pass) CHECK((all_of(events.learnt, 4 * pass, 4) == ended));
    CHECK(events.learnt[0] != events.learnt[4]);
    for (const std::vector<Name>& batch : events.learnt) CHECK(batch.size() >= ended.size() / 4);
  }
}

TEST_CASE("minibatches of ragged episodes come in parts of about one length") {
  Events events;
  Run run(events, /*ragged=*/true);
  for (int iteration = 0; iteration < 3; ++iteration) {
    events = {};
    const std::set<Name> ended = run.collect();
    std::vector<std::size_t> parts;  // learnt from until then
    while (run.experience->owes_update()) {
      run.experience->update(*run.learner, {}, 0.25);
      parts.push_back(events.learnt.size());
    }
    CHECK(parts.size() == 12);
    CHECK(events.seen == events.learnt);
    CHECK(events.estimated.size() == 2);
    CHECK((all_of(events.estimated, 0, 2) == ended));
    for (std::size_t pass = 0; pass < 3; ++pass) {
      const std::size_t first = pass == 0 ? 0 : parts[4 * pass - 1], end = parts[4 * pass + 3];
      CHECK(end > first + 4);
      CHECK((all_of(events.learnt, first, end - first) == ended));
    }
    for (const std::vector<Name>& part : events.learnt) {
      const auto nine =
          std::ranges::count_if(part, [](const Name& name) { return (3 * name.second + name.first) % 5 == 0; });
      CHECK((nine == 0 || nine == static_cast<std::ptrdiff_t>(part.size())));
    }
  }
  // As all ranks know: one of them has a longer episode.
  Events even;
  Run other(even);
  other.collect();
  other.experience->update(*other.learner, {.batch_steps = 100}, 0);
  CHECK(even.learnt.size() > 1);
}

TEST_CASE("an iteration of more steps than asked for has more minibatches, as many as every rank has episodes for") {
  struct {
    std::int64_t other_steps, fewest_episodes, minibatches;
  } cases[] = {{0, 1000, 4}, {30, 1000, 7}, {60, 1000, 10}, {60, 6, 6}, {60, 2, 4}, {1'000'000, 1000, -1}};
  for (const auto& [other_steps, fewest_episodes, minibatches] : cases) {
    CAPTURE(other_steps);
    CAPTURE(fewest_episodes);
    Events events;
    Run run(events);
    const std::set<Name> ended = run.collect();
    run.experience->count(other_steps, 0);  // of other ranks
    const std::size_t expected = minibatches < 0 ? ended.size() : static_cast<std::size_t>(minibatches);
    std::size_t updates = 0;
    for (; run.experience->owes_update(); ++updates)
      run.experience->update(*run.learner, {.fewest_episodes = fewest_episodes}, 0);
    CHECK(updates == 3 * expected);
    for (std::size_t pass = 0; pass < 3; ++pass) CHECK((all_of(events.learnt, expected * pass, expected) == ended));
  }
}

TEST_CASE("an iteration goes on from its state between any two minibatches") {
  for (int done = 0; done <= 21; ++done) {
    CAPTURE(done);
    Events events, rest;
    Run run(events), again(rest);
    run.collect();
    run.experience->count(30, 0);
    for (int i = 0; i < done; ++i) run.experience->update(*run.learner, {}, 0.25);
    StateArchive saved;
    const auto visit = [](Run& of, StateArchive& archive) {
      of.experience->visit_common_state(archive);
      of.experience->visit_own_state(archive, [] { return std::make_unique<ProbeEnv>(named_episodes(), Run::kEnvs); });
    };
    visit(run, saved);
    SafetensorsFile file;
    for (const auto& [name, tensor] : saved.saved_tensors()) file.tensors[name] = tensor.clone();
    file.metadata = saved.saved_metadata();
    StateArchive restored(file, "the state");
    visit(again, restored);
    restored.check_all_restored();

    events.seen.clear();
    events.learnt.clear();
    for (int i = done; i < 21; ++i) {
      run.experience->update(*run.learner, {}, 0.9);
      again.experience->update(*again.learner, {}, 0.9);
    }
    CHECK((rest.learnt == events.learnt));
    // Where it was under way, the rate is that of its beginning.
    if (done > 0 && done < 21) CHECK(rest.moments.at(0) == "rate at 0.2");
    CHECK_FALSE(again.experience->owes_update());
  }
}

TEST_CASE("an iteration tells the mean return of its episodes, or of the last hundred where they are fewer") {
  Events events;
  Run run(events);
  std::size_t before = 0;
  bool smoothed = false;
  for (int iteration = 0; iteration < 12; ++iteration) {
    CHECK_FALSE(run.experience->next_iteration());
    run.collect();
    const std::optional<IterationEpisodes> found = run.experience->next_iteration();
    REQUIRE(found);
    CHECK(found->episodes == static_cast<std::int64_t>(run.returns.size() - before));
    before = run.returns.size();
    const std::size_t counted = std::min<std::size_t>(before, 100);
    smoothed = smoothed || counted < before;
    const double sum =
        std::accumulate(run.returns.end() - static_cast<std::ptrdiff_t>(counted), run.returns.end(), 0.0);
    CHECK(found->mean_return == doctest::Approx(sum / static_cast<double>(counted)));
    for (int update = 0; update < 12; ++update) {
      run.experience->update(*run.learner, {}, 0);
      CHECK_FALSE(run.experience->next_iteration());
    }
  }
  CHECK(smoothed);  // otherwise the run is too short to say
  // More than a hundred are averaged as they are.
  for (int episode = 0; episode < 150; ++episode) run.experience->count(1, episode);
  CHECK(run.experience->next_iteration()->episodes == 150);
  CHECK(run.experience->next_iteration()->mean_return == 74.5);
}

TEST_CASE("what another number of ranks had begun is not gone on with") {
  Events events;
  Run run(events);
  run.collect();
  run.experience->update(*run.learner, {}, 0);
  ProbeEnv environments(named_episodes(), Run::kEnvs);
  run.experience->take_over(EpisodeLog(environments.info().action), environments, StateArchive(), 5);
  CHECK_FALSE(run.experience->owes_update());
  CHECK(run.experience->store().episodes() == 0);
  CHECK(run.experience->unlearnt_steps() == 0);
  const std::size_t before = run.returns.size();
  run.collect();
  CHECK(run.experience->ready());
  REQUIRE(run.experience->next_iteration());
  CHECK(run.experience->next_iteration()->episodes == static_cast<std::int64_t>(run.returns.size() - before));
}
