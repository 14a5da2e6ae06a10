// A probe that is ended in the middle of a cell: the training that was kept goes on to the same bytes.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/probe/kept_training.h"
#include "experiments/probe/probe.h"
#include "tests/experiments/probe/ended_training.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;
using namespace engram::testing;

namespace {

ProbeOptions cell_options() {
  ProbeOptions options(ProbePreset::kSmall);
  options.tasks = "copy:items=2:alphabet=3:delay=3";
  options.backbones = "shm:memory_width=6";  // draws in training
  options.seeds = "0";
  options.training = ended_training(Decayed::kMatrices);
  options.test_sequences = kSequences;
  return options;
}

}  // namespace

TEST_CASE("a training that goes on from what was kept makes the same validations and the same weights") {
  torch::set_num_threads(1);
  for (const char* backbone : {"gru", "shm:memory_width=6", "hqlt"})
    for (const Decayed decayed : {Decayed::kMatrices, Decayed::kAll}) check_goes_on(backbone, decayed, torch::kCPU);
}

TEST_CASE("a cell goes on from its kept training, which then goes; one that is damaged or another's is refused") {
  torch::set_num_threads(1);
  const TemporaryFolder folder;
  const ProbeOptions options = cell_options();
  const ProbeCell cell = plan_probe(options).front();
  const std::filesystem::path file = kept_training_file(cell, folder.path());
  const ProbeResult whole = run_probe_cell(cell, options, torch::kCPU, folder.path());
  CHECK(!std::filesystem::exists(file));

  const auto task = make_probe_task(cell.task);
  ProbeTraining at_rate = options.training;
  at_rate.learning_rate = cell.rate;
  const auto keep_another = [&](const std::string& identity) {
    BackboneConfig config("shm");
    OptionList list = config.options();
    list.set("memory.width", "32");
    list.set("memory.memory_width", "6");
    ProbeLearner learner(*task, config, at_rate, cell.seed, torch::kCPU);
    KeptTraining kept(file, identity);
    end_after(1, learner, kept);
  };
  keep_another(cell.identity);
  const std::string bytes = read_text(file);
  const ProbeResult resumed = run_probe_cell(cell, options, torch::kCPU, folder.path());
  CHECK(resumed.loss == whole.loss);
  CHECK(resumed.accuracy == whole.accuracy);
  CHECK(resumed.test_loss == whole.test_loss);
  CHECK(!std::filesystem::exists(file));

  keep_another("another");
  CHECK_THROWS_WITH_AS(
      run_probe_cell(cell, options, torch::kCPU, folder.path()),
      ("kept training '" + file.string() + "' cannot be gone on from: 'cell': it is another training").c_str(),
      UserError);
  CHECK(std::filesystem::exists(file));
  write_text(file, bytes.substr(0, bytes.size() / 2));
  CHECK_THROWS_AS(run_probe_cell(cell, options, torch::kCPU, folder.path()), UserError);
  std::string changed = bytes;
  changed[changed.size() - 3] ^= 1;
  write_text(file, changed);
  CHECK_THROWS_AS(run_probe_cell(cell, options, torch::kCPU, folder.path()), UserError);
}

TEST_CASE("a kept training whose steps cannot be is refused by name") {
  torch::set_num_threads(1);
  const auto task = make_probe_task("copy:items=2:alphabet=3:delay=3");
  const BackboneConfig config("gru");
  ProbeLearner learner(*task, config, ended_training(Decayed::kMatrices), 3, torch::kCPU);
  StateArchive saved;
  int kept = 0;
  learner.train(kSequences, [&] { ++kept; });
  CHECK(kept == 2);  // the last of three validations ends it
  learner.visit_state(saved);
  const auto refusal = [&](const std::function<void(SafetensorsFile&)>& change) {
    SafetensorsFile file;
    for (const auto& [name, tensor] : saved.saved_tensors()) file.tensors[name] = tensor.clone();
    file.metadata = saved.saved_metadata();
    change(file);
    ProbeLearner other(*task, config, ended_training(Decayed::kMatrices), 3, torch::kCPU);
    StateArchive archive(std::move(file), "this");
    return message_of<UserError>([&] { other.visit_state(archive); });
  };
  CHECK(refusal([](SafetensorsFile&) {}) == "nothing was thrown");
  for (const char* steps : {"26", "-1"})
    CHECK(refusal([&](SafetensorsFile& file) { file.metadata["state.steps_made"] = steps; }) ==
          "this cannot be gone on from: 'steps_made': it is not one of the training's");
  for (const int step : {26, -1})
    CHECK(refusal([&](SafetensorsFile& file) {
            std::memcpy(file.tensors["best_validation"].data_ptr(), &step, sizeof step);
          }) == "this cannot be gone on from: 'best_validation': it is of another step");
  CHECK(refusal([](SafetensorsFile& file) { file.tensors.erase("decayed.0"); }) ==
        "this cannot be gone on from: 'decayed.0': it is missing");
}
