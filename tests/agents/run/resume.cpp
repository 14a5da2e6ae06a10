// A run restored from any point of another equals it, byte for byte.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/agents/run/resumed_run.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("a run resumed at 20 random points equals the uninterrupted one") {
  check_resumed_equals_uninterrupted(tiny("lstm"), 20);
}

TEST_CASE("so does one with any backbone") {
  for (const std::string& backbone : backbone_names()) {
    CAPTURE(backbone);
    check_resumed_equals_uninterrupted(tiny(backbone, {{"run.steps", "44"}}), 3);
  }
}

TEST_CASE("so does one with any learner") {
  for (const std::string& learner : learner_names()) {
    CAPTURE(learner);
    if (LearnerConfig(learner).iterations()) {
      check_resumed_equals_uninterrupted(on_policy("gru", learner), 20);
      continue;
    }
    check_resumed_equals_uninterrupted(tiny("gru", {{"learner.name", learner}, {"network.dropout", "0.1"}}), 10);
  }
}

TEST_CASE("so does one on policy that adapts and stops, with episodes of different lengths") {
  Settings settings = on_policy("hqlt", "ppo");
  settings.insert(settings.end(), {{"task.name", "repeat_previous"},
                                   {"run.steps", "1000"},
                                   {"run.num_envs", "3"},
                                   {"evaluation.every_steps", "400"},
                                   {"learner.iteration_steps", "200"},
                                   {"learner.epochs", "25"},
                                   {"learner.advantage_scale", "iteration"},
                                   {"learner.anneal", "true"},
                                   {"learner.kl_weight", "0.2"},
                                   {"learner.kl_goal", "0.001"},
                                   {"learner.target_kl", "0.002"}});
  std::erase_if(settings, [](const auto& item) { return item.first == "task.corridor_length"; });
  check_resumed_equals_uninterrupted(settings, 15);
}

TEST_CASE("so does one with a continuous action, which it sees again") {
  Settings settings = on_policy("gru", "ppo");
  settings.insert(settings.end(), {{"task.name", "pendulum"},
                                   {"task.noise", "0.1"},
                                   {"task.max_steps", "23"},
                                   {"run.steps", "1000"},
                                   {"run.num_envs", "3"},
                                   {"network.previous_action_width", "3"},
                                   {"network.first_step_mark", "true"},
                                   {"evaluation.every_steps", "400"},
                                   {"learner.iteration_steps", "200"}});
  std::erase_if(settings, [](const auto& item) { return item.first == "task.corridor_length"; });
  check_resumed_equals_uninterrupted(settings, 15);
}

TEST_CASE(
    "so does one of images, with episodes of different lengths, dropout, a learnt temperature and a full replay") {
  const Settings more = {{"task.name", "key_to_door"},
                         {"run.num_envs", "3"},
                         {"run.steps", "100"},
                         {"network.dropout", "0.1"},
                         {"replay.capacity_steps", "60"},
                         {"replay.minimum_episodes", "2"},
                         {"learner.temperature", "learnt"},
                         {"evaluation.every_steps", "40"},
                         {"network.previous_action_width", "3"}};
  Settings settings = tiny("hqlt", more);
  std::erase_if(settings, [](const auto& item) { return item.first == "task.corridor_length"; });
  for (const char* phase : {"task.explore_steps", "task.distractor_steps", "task.reward_steps"})
    if (const auto keys = all_config_keys(); std::ranges::find(keys, phase) != keys.end())
      settings.emplace_back(phase, "5");
  check_resumed_equals_uninterrupted(settings, 20);
}

TEST_CASE("so does one on several threads") {
  at::set_num_threads(2);
  check_resumed_equals_uninterrupted(tiny("deltanet", {{"run.num_envs", "520"},
                                                       {"run.steps", "4000"},
                                                       {"run.random_episodes", "520"},
                                                       {"run.updates_per_step", "0.002"}}),
                                     2, 2);
  at::set_num_threads(1);
}

TEST_CASE("a finished run that is given more steps equals a long one") {
  for (const char* steps : {"50", "53"}) {  // after an episode, and in the middle of one
    Observer first, extended, whole;
    Trainer(Config::from_settings(tiny("lstm", {{"run.steps", steps}})), torch::kCPU, 1).run({&first});
    const Config longer = Config::from_settings(tiny("lstm", {{"run.steps", "120"}}));
    Trainer(longer, torch::kCPU, 1).run({&whole});
    Trainer trainer(longer, torch::kCPU, 1);
    StateArchive archive(first.last, "the state");
    trainer.restore(archive);
    trainer.run({&extended});
    CHECK(differences(whole.last, extended.last) == std::vector<std::string>{});
  }
}

TEST_CASE("an evaluation that is interrupted is made again, and leaves no trace") {
  const Config config = Config::from_settings(tiny("gru"));
  Observer whole;
  Trainer(config, torch::kCPU, 1).run({&whole});

  struct Stopping : Observer {
    void measured(const TrainStatus& status) override {
      Observer::measured(status);
      if (status.steps >= 20) stopped->stop();  // an evaluation is due next
    }
    Trainer* stopped = nullptr;
  } first;
  Trainer trainer(config, torch::kCPU, 1);
  first.stopped = &trainer;
  CHECK(trainer.run({&first}).stopped == StopReason::kRequest);
  CHECK_FALSE(trainer.status().last_evaluation.has_value());

  Trainer again(config, torch::kCPU, 1);
  StateArchive archive(first.last, "the state");
  again.restore(archive);
  Observer rest;
  rest.rows = first.rows;
  again.run({&rest});
  CHECK(rest.rows == whole.rows);
  CHECK(differences(whole.last, rest.last) == std::vector<std::string>{});
}

TEST_CASE("a state that does not fit is refused, with the entry that does not") {
  const Config config = Config::from_settings(tiny("transformer"));
  Observer observer({30});
  {
    Trainer trainer(config, torch::kCPU, 1);
    observer.trainer = &trainer;
    trainer.save_soon();
    trainer.run({&observer});
  }
  REQUIRE(observer.states.size() == 1);
  const auto message = [&](const std::function<void(SafetensorsFile&)>& damage, const Config& with) -> std::string {
    SafetensorsFile file;
    file.metadata = observer.states[0].metadata;
    for (const auto& [name, tensor] : observer.states[0].tensors) file.tensors[name] = tensor.clone();
    damage(file);
    try {
      Trainer trainer(with, torch::kCPU, 1);
      StateArchive archive(file, "checkpoint 'x'");
      trainer.restore(archive);
      archive.check_all_restored();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto refused = [&](const std::string& name, const std::function<void(SafetensorsFile&)>& damage) {
    const std::string text = message(damage, config);
    CAPTURE(text);
    CHECK(text.find(name) != std::string::npos);
    CHECK(text.find("checkpoint 'x'") != std::string::npos);
  };
  CHECK(message([](SafetensorsFile&) {}, config) == "accepted");
  for (const auto& [key, text] : observer.states[0].metadata) {
    const std::string name = key.substr(std::string(StateArchive::kValuePrefix).size());
    if (name != "measured_steps")  // states of earlier versions have none
      refused(name, [&](SafetensorsFile& file) { file.metadata.erase(key); });
    refused(name, [&](SafetensorsFile& file) { file.metadata[key] = "12x"; });
    if (text.find('.') != std::string::npos || name.ends_with("success") || name.ends_with("return")) continue;  // real
    refused(name, [&](SafetensorsFile& file) { file.metadata[key] = "999999999999999999999999"; });
  }
  for (const auto& [name, tensor] : observer.states[0].tensors) {
    refused(name, [&](SafetensorsFile& file) { file.tensors.erase(name); });
    refused(name, [&](SafetensorsFile& file) { file.tensors[name] = torch::zeros({3, 1, 7}, tensor.scalar_type()); });
    refused(name, [&](SafetensorsFile& file) {
      file.tensors[name] =
          tensor.scalar_type() == torch::kUInt8 ? tensor.to(torch::kFloat32) : tensor.to(torch::kUInt8);
    });
  }
  refused("'left'", [](SafetensorsFile& file) { file.metadata["state.left"] = "1"; });
  refused("'left'", [](SafetensorsFile& file) { file.tensors["left"] = torch::zeros({1}); });
  // Numbers that index something.
  refused("phase", [](SafetensorsFile& file) { file.metadata["state.phase"] = "9"; });
  refused("negative", [](SafetensorsFile& file) { file.metadata["state.steps"] = "-1"; });
  for (const char* log : {"experience.replay.", "experience.collector.running."}) {
    const std::string prefix = log;
    for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 30})
      refused("environment", [&](SafetensorsFile& file) { file.tensors[prefix + "environment"].fill_(bad); });
    for (const int bad : {-1, 4, 1 << 30})
      refused("action", [&](SafetensorsFile& file) {
        file.tensors[prefix + "action"].fill_(bad);
        if (file.tensors[prefix + "action"].numel() == 0) file.tensors.erase(prefix + "action");
      });
    refused("number", [&](SafetensorsFile& file) { file.tensors[prefix + "number"].fill_(-1); });
    refused("steps", [&](SafetensorsFile& file) { file.tensors[prefix + "steps"].add_(1); });
    refused("steps", [&](SafetensorsFile& file) { file.tensors[prefix + "steps"].fill_(-1); });
  }
  refused("action", [](SafetensorsFile& file) { file.tensors["experience.collector.policy.action"].fill_(7); });
  refused("memory", [](SafetensorsFile& file) {
    for (auto& [name, tensor] : file.tensors)
      if (name.starts_with("experience.collector.policy.memory") && tensor.scalar_type() == torch::kInt64)
        tensor.fill_(1 << 20);
  });
  // Of before evaluations had sampled episodes: both values are missing. One alone is no such state.
  const SafetensorsFile first = std::exchange(observer.states[0], observer.last);
  const auto without = [&](const std::string& names, std::size_t count) {
    return message(
        [&](SafetensorsFile& file) {
          REQUIRE(std::erase_if(file.metadata, [&](const auto& entry) {
                    return entry.first.find("_evaluation." + names) != std::string::npos;
                  }) == count);
        },
        config);
  };
  CHECK(without("sampled_", 4) == "accepted");
  for (const std::string& name : {std::string("sampled_success"), std::string("sampled_mean_return")})
    CHECK(without(name, 2).find("last_evaluation." + name + "': it is missing") != std::string::npos);
  observer.states[0] = first;
  // Another config.
  CHECK(message([](SafetensorsFile&) {}, Config::from_settings(tiny("lstm"))) != "accepted");
  CHECK(message([](SafetensorsFile&) {}, Config::from_settings(tiny("transformer", {{"run.num_envs", "3"}}))) !=
        "accepted");
}

TEST_CASE("a loss that is not finite stops the run by name, or is skipped and counted") {
  const Settings settings = tiny("lstm");
  Observer observer({30});
  {
    Trainer trainer(Config::from_settings(settings), torch::kCPU, 1);
    observer.trainer = &trainer;
    trainer.save_soon();
    trainer.run({&observer});
  }
  REQUIRE(observer.states.size() == 1);
  const auto run = [&](const Config& config, Observer& rest) {
    SafetensorsFile file;
    file.metadata = observer.states[0].metadata;
    for (const auto& [name, tensor] : observer.states[0].tensors) file.tensors[name] = tensor.clone();
    file.tensors.at("learner.network.critic1.output.bias")[0] = std::numeric_limits<float>::quiet_NaN();
    Trainer trainer(config, torch::kCPU, 1);
    StateArchive archive(file, "the state");
    trainer.restore(archive);
    return trainer.run({&rest});
  };
  Observer stopped;
  std::string message;
  try {
    run(Config::from_settings(settings), stopped);
  } catch (const DivergedError& error) {
    message = error.what();
  }
  const std::int64_t next = 1 + std::stoll(observer.states[0].metadata.at("state.updates"));
  CHECK(message == "update " + std::to_string(next) + ": the loss is not finite; it changed no weights");
  CHECK(stopped.moves == 0);  // nothing is saved after it

  Settings skipping = settings;
  skipping.emplace_back("run.on_nan", "skip");
  Observer skipped;
  const TrainStatus end = run(Config::from_settings(skipping), skipped);
  CHECK(end.stopped == StopReason::kSteps);
  CHECK(end.skipped_updates == end.updates - (next - 1));
  for (const auto& [name, tensor] : observer.states[0].tensors)
    if (name.starts_with("learner.network.actor.")) CHECK(torch::equal(tensor, skipped.last.tensors.at(name)));
}
