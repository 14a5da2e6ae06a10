#include "agents/run/trained/task_change.h"

#include <doctest/doctest.h>

#include <string>

#include "agents/play/evaluator.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/study/trace.h"
#include "base/error.h"
#include "storage/tensors/weights.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

Config maze(const std::string& backbone = "lstm") {
  Settings settings = {
      {"task.name", "tmaze"}, {"task.corridor_length", "5"}, {"memory.name", backbone}, {"network.hidden_width", "16"}};
  if (backbone != "none") settings.emplace_back("memory.width", "8");
  return Config::from_settings(settings);
}

std::string refusal(const Config& trained, const Settings& settings) {
  return message_of<UserError>([&] { with_task_settings(trained, settings); });
}

}  // namespace

TEST_CASE("options of the task change, and nothing else") {
  const Config trained = maze();
  const Config played = with_task_settings(trained, {{"task.corridor_length", "50"}, {"task.penalty", "-0.5"}});
  CHECK(played.task.info().max_episode_steps == 51);
  const auto changed = differences(trained.values(), played.values());
  REQUIRE(changed.size() == 2);
  CHECK(changed[0].name == "task.corridor_length");
  CHECK(changed[0].before == "5");
  CHECK(changed[0].now == "50");
  CHECK(changed[1].name == "task.penalty");
  const Config back = with_task_settings(played, {{"task.corridor_length", "5"}, {"task.penalty", "-1"}});
  CHECK(back.to_ini() == trained.to_ini());
  CHECK(with_task_settings(trained, {{"task.name", "tmaze"}}).to_ini() == trained.to_ini());
}

TEST_CASE("a preset gives its values, and single options win over it") {
  const Config trained = maze();
  const auto length = [&](const Settings& settings) {
    const auto changed = differences(trained.values(), with_task_settings(trained, settings).values());
    REQUIRE(!changed.empty());
    return changed[0].now + " of " + changed[0].name;
  };
  CHECK(length({{"task.preset", "tmaze_passive_100"}}) == "100 of task.corridor_length");
  CHECK(length({{"task.corridor_length", "7"}, {"task.preset", "tmaze_passive_100"}}) == "7 of task.corridor_length");
}

TEST_CASE("what the agent cannot play is refused in a line that says why") {
  const Config trained = maze();
  CHECK(mentions(refusal(trained, {{"task.name", "key_to_door"}}), "task.name = 'key_to_door' is of task key_to_door"));
  CHECK(mentions(refusal(trained, {{"task.name", "key_to_door"}}), "the agent was trained on tmaze"));
  CHECK(mentions(refusal(trained, {{"task.name", "tmase"}}), "did you mean 'tmaze'"));
  CHECK(mentions(refusal(trained, {{"task.preset", "visual_match_60"}}), "the agent was trained on tmaze"));
  CHECK(mentions(refusal(trained, {{"task.preset", "tmaze_passive_9"}}), "tmaze_passive_"));
  CHECK(mentions(refusal(trained, {{"task.distractor_steps", "9"}}),
                 "unknown key 'task.distractor_steps' for task tmaze"));
  CHECK(mentions(refusal(trained, {{"task.corridor_length", "0"}}), "'0' is not allowed"));
  CHECK(
      refusal(trained, {{"task.full_state", "true"}}) ==
      "with task.full_state = true observations are float32 vector 5, but the agent was trained with float32 vector 2");
  CHECK_NOTHROW(
      with_task_settings(Config::from_settings({{"task.name", "visual_match"}}), {{"task.full_state", "true"}}));
}

TEST_CASE("every backbone plays episodes longer and shorter than those that it was trained on") {
  const TemporaryFolder folder;
  for (const std::string& backbone : backbone_names()) {
    CAPTURE(backbone);
    Config config = maze(backbone);
    const RunDirectory run = RunDirectory::create(folder / backbone, {config.to_ini(), torch::kCPU, {}});
    const auto network = make_network(config, config.task.info(), torch::kCPU);
    save_safetensors(run.weights_file(WhichWeights::kLast), module_weights(*network), {});
    const auto trace = [&](const char* length) {
      const TrainedAgent agent =
          load_trained_agent(run.path(), WhichWeights::kLast, torch::kCPU, {{"task.corridor_length", length}});
      const auto rollout = make_rollout(agent.config, agent.network, torch::kCPU, Purpose::kEvaluation, 2, 1);
      const auto environments = make_cpu_vec_env(agent.config.task, 1, Purpose::kEvaluation, 2, 1);
      ShownPolicy policy(*environments, agent.network, torch::kFloat32, 1, 0);
      Trace trace = record_trace(*rollout, *environments, policy, 2, ActionChoice::kSample, 0);
      CHECK(trace.results[0].steps == 1 + std::stoll(length));
      CHECK(trace.results[1].steps == 1 + std::stoll(length));
      return trace.tensors;
    };
    // As long as it sees the same, it does the same: the first steps of an episode tell nothing of its length.
    const TensorMap trained = trace("5"), longer = trace("90"), shorter = trace("4");
    const auto same_beginning = [&](const TensorMap& other) {
      for (const char* name : {"features", "action_probabilities"})
        CHECK(torch::allclose(trained.at(name).narrow(0, 0, 4), other.at(name).narrow(0, 0, 4), 1e-5, 1e-6));
    };
    same_beginning(longer);
    same_beginning(shorter);
    CHECK(longer.at("features").isfinite().all().item<bool>());
  }
}
