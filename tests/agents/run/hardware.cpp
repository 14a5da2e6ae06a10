#include "agents/run/machine/hardware.h"

#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agents/run/config/config.h"
#include "agents/run/trained/trained_agent.h"
#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

Config config_of(const Settings& settings) { return Config::from_settings(settings); }

Config from_file(const std::string& name) {
  return read_config(std::filesystem::path(ENGRAM_SOURCE_DIR) / "configs" / name);
}

const Config kPublished;

}  // namespace

TEST_CASE("threads by the size of the work: one for what is small, the limit for what is large") {
  for (const int limit : {2, 16}) {
    CAPTURE(limit);
    for (const char* file : {"tmaze_50.ini", "visual_match_short.ini"}) {
      CAPTURE(file);
      const Threads threads = training_threads(from_file(file), torch::kCPU, limit);
      CHECK(threads.count == 1);
      CHECK(threads.text() == "1 CPU thread (small network)");
    }
    for (const auto& entry : std::filesystem::directory_iterator(ENGRAM_SOURCE_DIR "/configs/small")) {
      CAPTURE(entry.path().string());
      CHECK(training_threads(read_config(entry.path()), torch::kCPU, limit).count == 1);
    }
    const Threads large = training_threads(kPublished, torch::kCPU, limit);  // the published sizes
    CHECK(large.count == limit);
    CHECK(large.text() == std::to_string(limit) + " CPU threads (large network)");
  }
  CHECK(training_threads(kPublished, torch::kCPU, 1).text() == "1 CPU thread (one processor)");
}

TEST_CASE("a number that is asked for is taken") {
  Config config = from_file("small/visual_match.ini");
  config.run.threads = 3;
  CHECK(training_threads(config, torch::kCPU, 2).text() == "3 CPU threads");
  CHECK(training_threads(config, torch::kCUDA, 2).count == 3);
  CHECK(choose_threads(1, 1e15, 8).text() == "1 CPU thread");
  CHECK(acting_threads(5, config, 64, torch::kCPU).count == 5);
}

TEST_CASE("on a GPU the size says nothing about the CPU") {
  CHECK(training_threads(from_file("small/visual_match.ini"), torch::kCUDA, 6).text() == "6 CPU threads");
  CHECK(acting_threads(0, kPublished, 64, torch::kCUDA).count == 1);
}

TEST_CASE("the work is counted in multiply-adds: rows times the weights that they meet") {
  const Settings settings = {{"task.name", "tmaze"}, {"task.corridor_length", "9"},  {"memory.name", "none"},
                             {"memory.width", "8"},  {"network.hidden_width", "16"}, {"replay.batch_episodes", "5"},
                             {"memory.layers", "1"}};
  Config config = config_of(settings);
  const double step = acting_work(config, 1), heads = 5 * (8 * 16 + 16 * 16 + 16 * 4);
  CHECK(step > heads);
  CHECK(step < 10 * heads);
  CHECK(acting_work(config, 1000) == doctest::Approx(1000 * step));
  CHECK(update_work(config) == doctest::Approx(5 * (config.task.info().max_episode_steps + 1) * step));
  config.network.hidden_width = 160;
  CHECK(acting_work(config, 1) > 50 * step);
}

TEST_CASE("LSTM and GRU take one step of a sequence at a time") {
  for (const char* name : {"lstm", "gru", "deltanet"}) {
    CAPTURE(name);
    const BackboneConfig backbone(name);
    const bool one_by_one = name != std::string("deltanet");
    CHECK(learning_work(backbone, 7, 100) == doctest::Approx((one_by_one ? 1 : 100) * learning_work(backbone, 7, 1)));
  }
}

TEST_CASE("ranks have a GPU each, or none has one") {
  const auto message = [](const std::vector<std::string>& found) -> std::string {
    try {
      check_devices(found);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message({"cpu", "cpu", "cpu"}) == "");
  CHECK(message({"cuda H 01", "cuda H 02", "cuda H 03"}) == "");
  CHECK(message({"cuda H 01", "cuda H 02", "cuda H 01"}) ==
        "rank 0 and rank 2 would share a GPU, which takes one rank of a run: H 01");
  CHECK(message({"cuda H 01", "cpu"}) ==
        "ranks compute all on GPUs or all on CPUs, and rank 0 has found cuda, rank 1 cpu; --run.device cpu");
  CHECK(message({"cuda H 01", "no device 'cuda:1' is not there: GPUs found: 1"}) ==
        "rank 1 has no device: device 'cuda:1' is not there: GPUs found: 1");
}
