#include "agents/run/trained/trained_agent.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "agents/run/training/run_recorder.h"
#include "agents/run/training/trainer.h"
#include "base/error.h"
#include "storage/tensors/weights.h"
#include "tests/agents/run/last_weights.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

Config tiny_config() {
  return Config::from_settings({{"task.name", "tmaze"},
                                {"task.corridor_length", "5"},
                                {"memory.name", "lstm"},
                                {"memory.width", "8"},
                                {"network.hidden_width", "16"},
                                {"run.steps", "60"},
                                {"run.random_episodes", "2"},
                                {"replay.batch_episodes", "2"},
                                {"evaluation.episodes", "2"},
                                {"run.report_seconds", "0.01"}});
}

}  // namespace

TEST_CASE("a recorded run comes back as it was") {
  const TemporaryFolder folder;
  Config config = tiny_config();
  const RunDirectory run = RunDirectory::create(folder / "run", {config.to_ini(), torch::kCPU, {}});
  RunRecorder recorder(run, config.to_ini(), config.checkpoint.keep);
  testing::LastWeights last;
  Trainer trainer(config, torch::kCPU, 1);
  trainer.run({&recorder, &last});

  TrainedAgent agent = load_trained_agent(folder / "run", WhichWeights::kLast, torch::kCPU);
  CHECK(agent.config.to_ini() == config.to_ini());
  CHECK_FALSE(agent.network->is_training());
  for (const auto& [name, tensor] : module_weights(*agent.network)) CHECK(torch::equal(tensor, last.weights.at(name)));
  const SafetensorsFile file = load_safetensors(run.weights_file(WhichWeights::kLast));
  CHECK(file.metadata.at("config") == config.to_ini());
  CHECK(file.metadata.at("environment_steps") == "60");
  CHECK_NOTHROW(load_trained_agent(folder / "run", WhichWeights::kBest, torch::kCPU));
  CHECK(mentions(read_text(run.metrics_file()), "\"kind\":\"evaluation\""));
  CHECK(mentions(read_text(run.metrics_file()), "\"critic_loss\""));

  std::filesystem::remove(run.weights_file(WhichWeights::kBest));
  const auto load = [&](WhichWeights which) {
    return message_of<UserError>([&] { load_trained_agent(folder / "run", which, torch::kCPU); });
  };
  CHECK(mentions(load(WhichWeights::kBest), "best.safetensors' does not exist"));
  save_safetensors(run.weights_file(WhichWeights::kLast), {{"x", torch::ones({1})}}, {});
  CHECK(mentions(load(WhichWeights::kLast), "is missing"));
}

TEST_CASE("weights that say that they are of another agent or task are refused, others are taken") {
  const TemporaryFolder folder;
  const Config config = tiny_config();
  const auto with = [](const Settings& more) {
    Settings settings = {{"task.name", "tmaze"}, {"task.corridor_length", "5"}, {"memory.name", "lstm"},
                         {"memory.width", "8"},  {"run.steps", "60"},           {"network.hidden_width", "16"}};
    settings.insert(settings.end(), more.begin(), more.end());
    return Config::from_settings(settings);
  };
  const RunDirectory run = RunDirectory::create(folder / "run", {config.to_ini(), torch::kCPU, {}});
  const std::string file = run.weights_file(WhichWeights::kBest).string();
  const TensorMap weights = module_weights(*make_network(config, config.task.info(), torch::kCPU));
  const auto load = [&](const std::map<std::string, std::string>& metadata) {
    save_safetensors(file, weights, metadata);
    const std::string message =
        message_of<UserError>([&] { load_trained_agent(folder / "run", WhichWeights::kBest, torch::kCPU); });
    CHECK(message == message_of<UserError>([&] { load_agent_to_adapt(folder / "run", {}); }));
    return message;
  };
  const auto load_of = [&](const Config& other) { return load({{"config", other.to_ini()}}); };
  const std::string taken = "nothing was thrown";
  CHECK(load_of(config) == taken);
  // What a run may change and what its agent does not depend on.
  CHECK(load_of(with({{"run.steps", "900"}, {"run.seed", "4"}, {"learner.gamma", "0.5"}})) == taken);
  CHECK(load({}) == taken);  // of another program
  CHECK(load_of(with({{"task.corridor_length", "50"}})) ==
        "weights file '" + file + "' is of a run with task.corridor_length = 50, but '" + run.config_file().string() +
            "' has 5: put the run's own weights there");
  CHECK(mentions(load_of(with({{"task.penalty", "-0.5"}})), "with task.penalty = -0.5, but"));
  CHECK(mentions(load_of(with({{"network.dropout", "0.2"}})), "with network.dropout = 0.2, but"));
  CHECK(mentions(load_of(Config::from_settings({{"task.name", "repeat_first"}, {"memory.name", "lstm"}})),
                 "with task.name = repeat_first, but"));
  CHECK(mentions(load_of(Config::from_settings({{"task.name", "tmaze"}, {"memory.name", "gru"}})),
                 "with memory.name = gru, but"));
  CHECK(mentions(load({{"config", "[task]\nname = nothing\n"}}), "unknown task 'nothing'"));
}

TEST_CASE("a fresh network depends on the seed alone") {
  const Config config = tiny_config();
  const TensorMap first = module_weights(*make_network(config, config.task.info(), torch::kCPU));
  torch::rand({3});
  for (const auto& [name, tensor] : module_weights(*make_network(config, config.task.info(), torch::kCPU)))
    CHECK(torch::equal(tensor, first.at(name)));
}

TEST_CASE("drawing a network leaves the program's own draws as they were") {
  const Config config = tiny_config();
  torch::manual_seed(3);
  torch::randn({1});  // of which the generator keeps a second number
  torch::Generator generator = at::globalContext().defaultGenerator(torch::kCPU);
  const torch::Tensor state = generator.get_state(), next = torch::randn({5});
  generator.set_state(state);
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  CHECK(torch::equal(torch::randn({5}), next));

  torch::manual_seed(config.run.seed);
  const auto drawn = draw_network(config, config.task.info(), torch::kCPU);
  for (const auto& [name, tensor] : module_weights(*drawn))
    CHECK(torch::equal(tensor, module_weights(*network).at(name)));
  CHECK_FALSE(torch::equal(torch::randn({5}), next));
}

TEST_CASE("devices") {
  CHECK(parse_device("cpu") == torch::Device(torch::kCPU));
  CHECK_NOTHROW(parse_device("auto"));
  const auto error = [](const std::string& text) { return message_of<UserError>([&] { parse_device(text); }); };
  for (const char* text : {"gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cpu:0"})
    CHECK(mentions(error(text), "device '" + std::string(text) + "' is unknown"));
  CHECK(mentions(error("cuda:99"), "device 'cuda:99' is not there"));
  if (!torch::cuda::is_available()) CHECK(mentions(error("cuda"), "no usable GPU was found"));
}
