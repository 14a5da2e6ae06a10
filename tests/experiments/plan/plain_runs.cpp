#include "experiments/plan/plain_runs.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "experiments/plan/experiment.h"
#include "experiments/report/report.h"
#include "tests/experiments/labels.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

namespace fs = std::filesystem;

// Run directories written by hand.
struct Runs {
  TemporaryFolder folder;
  std::vector<fs::path> folders;

  // A finished run, or one without its final evaluation.
  void add(const std::string& name, int seed, const Settings& more, double success = 0.5, bool finished = true) {
    Settings settings = {{"task.name", "tmaze"}, {"memory.name", "gru"}, {"memory.width", "8"}, {"run.steps", "400"}};
    settings.insert(settings.end(), more.begin(), more.end());
    settings.emplace_back("run.seed", std::to_string(seed));
    const fs::path path = folder / name;
    fs::create_directories(path / "weights");
    fs::create_directories(path / "checkpoints");
    write_text(path / "config.ini", Config::from_settings(settings).to_ini());
    const std::string rate = std::to_string(success);
    write_text(path / "metrics.jsonl",
               "{\"kind\":\"evaluation\",\"environment_steps\":400,\"updates\":1,\"episodes\":10,\"return\":0.5,"
               "\"success\":" +
                   rate + "}\n" +
                   (finished ? "{\"kind\":\"final\",\"environment_steps\":400,\"updates\":1,\"episodes\":20,"
                               "\"return\":0.5,\"success\":" +
                                   rate + ",\"success_low\":0,\"success_high\":1}\n"
                             : std::string()));
    folders.push_back(path);
  }
  Results read() const { return read_plain_runs(folders); }
  std::string refusal() const {
    return message_of<UserError>([&] { read(); });
  }
};

}  // namespace

TEST_CASE("plain runs are grouped by task, backbone and seed, and labels name what differs") {
  Runs runs;
  runs.add("a", 1, {{"task.corridor_length", "20"}}, 0.25);
  runs.add("b", 2, {{"task.corridor_length", "20"}, {"run.threads", "3"}, {"checkpoint.keep", "5"}}, 0.75);
  runs.add("c", 1, {{"task.corridor_length", "5"}, {"memory.width", "16"}}, 1);
  runs.add("d", 1, {{"task.corridor_length", "5"}, {"memory.name", "none"}, {"task.full_state", "true"}}, 1);
  runs.add("e", 3, {{"task.corridor_length", "5"}, {"memory.name", "lstm"}, {"run.steps", "900"}}, 0, false);
  const Results results = runs.read();
  CHECK(!results.of_comparison());
  CHECK(labels(results.experiment.tasks) == Labels{"tmaze corridor_length 20", "tmaze corridor_length 5"});
  CHECK(labels(results.experiment.backbones) == Labels{"gru width 8", "gru width 16", "none full_state", "lstm"});
  CHECK(results.experiment.seeds == std::vector<std::uint64_t>{1, 2, 3});
  REQUIRE(results.runs.size() == 2 * 4 * 3);
  CHECK(results.run(0, 0, 0).scores->final_success == 0.25);
  CHECK(results.run(0, 0, 1).scores->final_success == 0.75);
  CHECK(results.run(0, 0, 1).plan.folder == runs.folder / "b");
  CHECK(results.run(1, 1, 0).scores->final_success == 1);
  CHECK(results.run(1, 2, 0).plan.control == Control::kFullState);
  CHECK(results.run(0, 2, 0).plan.control == Control::kFullState);  // where there is no run, too
  CHECK(results.run(0, 2, 0).state.stage == RunStage::kMissing);
  CHECK(results.run(1, 3, 2).state.stage == RunStage::kUnfinished);
  CHECK(results.run(1, 1, 0).plan.budget.width == 16);
  REQUIRE(results.sweep);
  CHECK(results.sweep->key == "task.corridor_length");
  CHECK(results.notes ==
        Labels{"Settings besides task and memory that are not the same in all groups: run.steps (400, 900)."});
  // What a program reads of it says nothing of a comparison.
  const BootstrapOptions bootstrap{.resamples = 1000};
  CHECK(mentions(report_json(results, analyse(results, bootstrap), bootstrap), "\"experiment\": null"));
}

TEST_CASE("one run is enough, and its labels are the plain names") {
  Runs runs;
  runs.add("a", 7, {});
  const Results results = runs.read();
  CHECK(labels(results.experiment.tasks) == Labels{"tmaze"});
  CHECK(labels(results.experiment.backbones) == Labels{"gru"});
  CHECK(results.runs.size() == 1);
  CHECK(results.notes.empty());
}

TEST_CASE("a folder that is not there is named before a comparison beside it") {
  Runs runs;
  runs.folders = {runs.folder / "comparison", runs.folder / "true"};
  fs::create_directories(runs.folders[0]);
  write_text(experiment_file(runs.folders[0]), "");
  CHECK(runs.refusal() == "run directory '" + runs.folders[1].string() + "' does not exist");
  runs.folders.pop_back();
  CHECK(runs.refusal() == "'" + runs.folders[0].string() +
                              "' is the folder of a comparison, which has a report of its own: give it alone");
}

TEST_CASE("runs that cannot stand in one group are refused in a line that names both and the setting") {
  Runs differing;
  differing.add("a", 1, {});
  differing.add("b", 2, {{"learner.gamma", "0.5"}});
  CHECK(differing.refusal() == "runs '" + (differing.folder / "a").string() + "' and '" +
                                   (differing.folder / "b").string() +
                                   "' are both of tmaze/gru but differ in learner.gamma: 0.99 and 0.5");
  Runs shorter;
  shorter.add("a", 1, {});
  shorter.add("b", 2, {{"run.steps", "300"}});
  CHECK(mentions(shorter.refusal(), "differ in run.steps: 400 and 300"));
  Runs twice;
  twice.add("a", 1, {});
  twice.add("b", 1, {});
  CHECK(mentions(twice.refusal(), "are both of tmaze/gru with seed 1"));
  Runs unfinished;
  unfinished.add("a", 1, {}, 0, false);
  CHECK(mentions(unfinished.refusal(), "none of the runs is finished yet (of 1)"));
  Runs missing;
  missing.add("a", 1, {});
  missing.folders.push_back(missing.folder / "nowhere");
  CHECK(mentions(missing.refusal(), "nowhere"));
  fs::create_directories(missing.folders.back());
  write_text(missing.folders.back() / "experiment.ini", "");
  CHECK(mentions(missing.refusal(), "is the folder of a comparison"));
}
