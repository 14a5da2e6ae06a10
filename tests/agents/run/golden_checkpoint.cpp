// A checkpoint that an earlier version wrote: a later one goes on from it, or says why not. How it was made is in
// tests/golden/README.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "agents/run/training/trainer.h"
#include "base/error.h"
#include "storage/log/metrics.h"
#include "storage/tensors/checkpoint.h"
#include "storage/tensors/safetensors.h"
#include "storage/tensors/weights.h"
#include "tests/agents/run/last_weights.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

const std::string kCheckpoint = ENGRAM_SOURCE_DIR "/tests/golden/checkpoint_1.safetensors";
const std::string kEnd = ENGRAM_SOURCE_DIR "/tests/golden/checkpoint_1_end.safetensors";  // weights of the run's end

// The machine that made the files makes the same bytes again. Other CPUs have other instructions, which round
// differently: the whole run without AVX ended 8e-7 away, as a fraction of the largest weight of a tensor.
constexpr double kWeightTolerance = 1e-5;

}  // namespace

TEST_CASE("a run goes on from a checkpoint of format 1 to the end that it had") {
  Checkpoint checkpoint = load_checkpoint(kCheckpoint);
  CHECK(checkpoint.steps == 44);
  CHECK(checkpoint.updates == 16);
  const Config config = Config::from_settings(checkpoint.config);
  at::set_num_threads(1);
  Trainer trainer(config, torch::kCPU, 1);
  trainer.restore(checkpoint.state);
  REQUIRE(trainer.status().last_evaluation);
  CHECK_FALSE(trainer.status().last_evaluation->sampled);  // that version played greedy episodes alone
  MetricPositions().visit_state(checkpoint.state);
  checkpoint.state.check_all_restored();

  testing::LastWeights last;
  const TrainStatus status = trainer.run({&last});
  CHECK(status.steps == 60);
  CHECK(status.updates == 24);
  CHECK(status.episodes == 12);
  REQUIRE((status.last_evaluation && status.final_evaluation));
  CHECK(status.last_evaluation->environment_steps == 60);
  CHECK(status.final_evaluation->episodes == 4);
  CHECK((status.last_evaluation->sampled && status.final_evaluation->sampled));

  const SafetensorsFile end = load_safetensors(kEnd);
  CHECK(end.metadata.at("updates") == std::to_string(status.updates));
  REQUIRE(last.weights.size() == end.tensors.size());
  double moved = 0;
  const SafetensorsFile begin = load_safetensors(kCheckpoint);
  for (const auto& [name, expected] : end.tensors) {
    CAPTURE(name);
    REQUIRE(last.weights.contains(name));
    const double scale = expected.abs().max().item<double>();
    CHECK((last.weights.at(name) - expected).abs().max().item<double>() <= kWeightTolerance * scale);
    const auto before = begin.tensors.find("learner.network." + name);
    if (before != begin.tensors.end()) moved = std::max(moved, (before->second - expected).abs().max().item<double>());
  }
  CHECK(moved > 1e-4);  // so much did the updates change: more than is tolerated
}

TEST_CASE("a checkpoint of another format is refused with both formats") {
  SafetensorsFile file = load_safetensors(kCheckpoint);
  file.metadata["checkpoint_format"] = "2";
  const TemporaryFolder folder;
  save_safetensors(folder / "checkpoint_000001.safetensors", file.tensors, file.metadata);
  const std::string message = message_of<UserError>([&] { load_checkpoint(folder / "checkpoint_000001.safetensors"); });
  CAPTURE(message);
  CHECK(mentions(message, "checkpoint_000001.safetensors' is of another version"));
  CHECK(mentions(message, "format '2'"));
  CHECK(mentions(message, "this program reads format 1"));
}
