#include <string>
#include <vector>

#include "tests/agents/run/resumed_run.h"
#include "tests/agents/run/small_visual_match.h"
#include "tests/gpu.h"

using namespace engram;
using namespace engram::testing;

namespace {

// What a trainer saves right after it was restored.
SafetensorsFile saved_again(const Config& config, torch::Device device, const SafetensorsFile& state) {
  Trainer trainer(config, device, 1);
  StateArchive archive(state, "the state");
  trainer.restore(archive);
  archive.check_all_restored();
  trainer.stop();
  Observer observer;
  trainer.run({&observer});
  return observer.last;
}

// The states of a run after `count` of its moves, and the last one; from `begin` on where it is given.
std::vector<SafetensorsFile> states_of(const Config& config, torch::Device device, int count,
                                       const SafetensorsFile* begin = nullptr) {
  Trainer trainer(config, device, 1);
  if (begin != nullptr) {
    StateArchive archive(*begin, "the state");
    trainer.restore(archive);
  }
  Observer observer(random_moves(count, 60, 3));
  observer.trainer = &trainer;
  trainer.save_soon();
  const TrainStatus end = trainer.run({&observer});
  CHECK(end.stopped == StopReason::kSteps);
  CHECK(end.steps >= config.run.steps);
  CHECK(end.updates > 10);
  REQUIRE(static_cast<int>(observer.states.size()) == count);
  observer.states.push_back(observer.last);
  return observer.states;
}

}  // namespace

TEST_CASE("a state goes from the CPU to a GPU and back, as it is, and the run goes on") {
  if (skip_without_gpu()) return;
  for (const char* task : {"tmaze", "key_to_door"})
    for (const char* backbone : {"hqlt", "deltanet", "transformer", "lstm", "none"}) {
      // Images are in the episodes' store alone, which is the same for every backbone.
      if (task == std::string("key_to_door") && backbone != std::string("hqlt")) continue;
      CAPTURE(task);
      CAPTURE(backbone);
      Settings settings = tiny(backbone, {{"task.name", task},
                                          {"run.num_envs", "3"},
                                          {"run.steps", "600"},
                                          {"run.random_episodes", "6"},
                                          {"evaluation.every_steps", "200"}});
      if (task == std::string("key_to_door")) {
        std::erase_if(settings, [](const auto& item) { return item.first == "task.corridor_length"; });
        for (const char* phase : {"task.explore_steps", "task.distractor_steps", "task.reward_steps"})
          settings.emplace_back(phase, "9");
      }
      const Config config = Config::from_settings(settings);
      const std::vector<SafetensorsFile> on_cpu = states_of(config, torch::kCPU, 6);
      for (const SafetensorsFile& state : on_cpu) {
        CAPTURE(state.metadata.at("state.steps"));
        CAPTURE(state.metadata.at("state.phase"));
        CHECK(differences(state, saved_again(config, torch::kCUDA, state)) == std::vector<std::string>{});
      }
      const std::vector<SafetensorsFile> on_gpu = states_of(config, torch::kCUDA, 6, &on_cpu[0]);
      for (const SafetensorsFile& state : on_gpu) {
        CAPTURE(state.metadata.at("state.steps"));
        CAPTURE(state.metadata.at("state.phase"));
        CHECK(differences(state, saved_again(config, torch::kCPU, state)) == std::vector<std::string>{});
      }
      states_of(config, torch::kCPU, 0, &on_gpu[0]);
    }
}

TEST_CASE("a run on a GPU that is resumed at random points equals the uninterrupted one") {
  if (skip_without_gpu()) return;
  Settings settings = kSmallVisualMatch;
  settings.insert(settings.end(), {{"memory.layers", "2"},
                                   {"memory.heads", "2"},
                                   {"memory.dropout", "0.1"},
                                   {"network.dropout", "0.1"},
                                   {"run.metrics_every_steps", "100"}});
  for (const char* backbone : {"hqlt", "deltanet", "transformer", "lstm"})
    for (const char* precision : {"bfloat16", "float32"}) {
      if (precision == std::string("float32") && backbone != std::string("hqlt")) continue;  // the same state
      CAPTURE(backbone);
      CAPTURE(precision);
      Settings own = settings;
      own.insert(own.end(), {{"memory.name", backbone}, {"run.precision", precision}});
      if (backbone == std::string("lstm"))
        std::erase_if(own,
                      [](const auto& item) { return item.first == "memory.heads" || item.first == "memory.dropout"; });
      check_resumed_equals_uninterrupted(own, 3, 1, torch::kCUDA);
    }
  Settings own = settings;
  own.insert(own.end(), {{"memory.name", "hqlt"}, {"learner.name", "dqn"}, {"learner.epsilon_steps", "400"}});
  check_resumed_equals_uninterrupted(own, 3, 1, torch::kCUDA);

  Settings on_policy = settings;
  std::erase_if(on_policy, [](const auto& item) {
    return item.first.starts_with("replay.") || item.first.ends_with(".dropout") ||
           item.first == "run.random_episodes" || item.first == "run.updates_per_step";
  });
  on_policy.insert(on_policy.end(), {{"memory.name", "hqlt"},
                                     {"learner.name", "ppo"},
                                     {"learner.iteration_steps", "150"},
                                     {"learner.epochs", "3"},
                                     {"learner.minibatches", "2"},
                                     {"learner.target_kl", "0.01"}});
  check_resumed_equals_uninterrupted(on_policy, 5, 1, torch::kCUDA);
}
