#include "experiments/report/published.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/registry.h"
#include "experiments/plan/plan.h"
#include "experiments/report/report.h"
#include "tests/experiments/handmade_comparison.h"

using namespace engram;

namespace {

// A GRU on policy on two of the published sizes and on one that nothing was published of, another memory, and a GRU of
// other rules.
constexpr const char* kOnPolicy =
    "[compare]\nseeds = 1-3\ncontrols =\n[learner]\npreset = popgym\n[run]\nsteps = 2000\n"
    "[evaluation]\nevery_steps = 100\nepisodes = 10\nfinal_episodes = 20\n"
    "[tasks.repeat_first_hard]\n[tasks.repeat_previous_easy]\n[tasks.minesweeper_easy]\n"
    "[tasks.three]\ntask.preset = repeat_first_hard\ntask.num_decks = 3\n"
    "[backbones.gru]\nmemory.layers = 1\n[backbones.lstm]\nmemory.layers = 1\n";

std::string on_policy_run(double mmer) {
  return iteration_row(mmer - 0.5) + iteration_row(mmer) + evaluation_row(100, 0.5) + final_row(0.5, "", "0.25");
}

}  // namespace

TEST_CASE("every published size is a preset of ours, once") {
  std::vector<std::string> tasks;
  for (const PublishedScore& score : published_popgym()) {
    CAPTURE(score.task);
    CHECK_NOTHROW(TaskConfig::from_preset(score.task));
    CHECK(score.best >= score.mean);
    CHECK(score.deviation >= 0);
    tasks.push_back(score.task);
  }
  CHECK(tasks.size() == 24);
  std::ranges::sort(tasks);
  CHECK(std::ranges::adjacent_find(tasks) == tasks.end());
}

TEST_CASE("a file of published figures that is none is refused by name") {
  const auto refusal = [](const std::string& text) {
    return message_of<UserError>([&] { read_published(text, "'x.csv'"); });
  };
  const std::string header = "# why\ntask,gru_mean,gru_deviation,best,best_memory\n";
  CHECK(read_published(header + "a,1,0.5,2,LMU\n# more", "").at(0).best_memory == "LMU");
  CHECK(mentions(refusal("task,mean\n"), "'x.csv' has not the columns task, gru_mean"));
  CHECK(mentions(refusal(header + "a,1\n"), "'x.csv' has a record of 2 fields"));
  CHECK(mentions(refusal(header + "a,1,x,2,\n"), "'x.csv' has 'x' for a number"));
}

TEST_CASE("what differs is more than three published deviations away, none of which is less than what rounds to 0") {
  const auto differs = [](double ours, double theirs, double deviation) {
    return BesidePublished{0, 0, 3, ours, 0, {"", theirs, deviation, 0, ""}}.differs();
  };
  CHECK(!differs(0.965, 0.94, 0.012));
  CHECK(differs(0.98, 0.94, 0.012));
  CHECK(differs(0.90, 0.94, 0.012));
  CHECK(!differs(0.999, 1, 0));
  CHECK(differs(0.998, 1, 0));
}

TEST_CASE("the published figure of a GRU stands beside its runs on policy of the same size") {
  Comparison comparison(kOnPolicy);
  for (int seed = 1; seed <= 3; ++seed) {
    const std::string number = std::to_string(seed);
    comparison.write("repeat_first_hard/gru/" + number, on_policy_run(0.875 + 0.0625 * seed));
    comparison.write("minesweeper_easy/gru/" + number, on_policy_run(0.5));
    comparison.write("three/gru/" + number, on_policy_run(0.5));
    comparison.write("repeat_first_hard/lstm/" + number, on_policy_run(0.5));
  }
  comparison.write("repeat_previous_easy/gru/2", on_policy_run(0.5));
  const Results results = read_results(comparison.path());
  const std::vector<BesidePublished> cells = beside_published(results);
  REQUIRE(cells.size() == 2);
  CHECK(results.tasks[cells[0].task].label == "repeat_first_hard");
  CHECK(cells[0].runs == 3);
  CHECK(cells[0].mean == doctest::Approx(1));
  CHECK(cells[0].deviation == doctest::Approx(0.0625));
  CHECK(cells[0].published.mean == 0.94);
  CHECK(cells[1].deviation == 0);

  const TextTable table = published_table(results, cells);
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[0] == std::vector<std::string>{"repeat_first_hard", "gru", "3", "1.000 ± 0.062", "0.940 ± 0.012",
                                                  "+0.060 *", "0.969 (IndRNN)"});
  CHECK(table.rows[1] ==
        std::vector<std::string>{"repeat_previous_easy", "gru", "1", "0.500", "1.000 ± 0.000", "-0.500 *", "1.000"});
  CHECK(table.rows[2] == std::vector<std::string>{"mean of these 2", "gru", "4", "0.750", "0.970", "-0.220", "0.984"});

  const ReportFiles files = ReportFiles::beside(comparison.path() / "page.html");
  write_report(results, files, {}, {.resamples = 1000});
  CHECK(mentions(read_text(files.markdown), "Ours after 2,000 environment steps"));
  CHECK(mentions(read_text(files.json), "\"published_mmer\": 0.94"));
}

TEST_CASE("runs off policy are held against nothing") {
  std::string ini = kOnPolicy;
  ini.replace(ini.find("preset = popgym"), 15, "name = sac");
  Comparison comparison(ini);
  comparison.write("repeat_first_hard/gru/1", evaluation_row(100, 0.5) + final_row(0.5, "", "0.25"));
  const Results results = read_results(comparison.path());
  CHECK(beside_published(results).empty());
  CHECK(!mentions(report_json(results, analyse(results, {.resamples = 1000}), {.resamples = 1000}), "published"));
}

TEST_CASE("the plan of POPGym as published holds all of its sizes, and nothing refuses a run") {
  const Experiment experiment = Experiment::from_file(ENGRAM_SOURCE_DIR "/configs/compare/popgym.ini");
  CHECK(experiment.seeds == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(experiment.tasks.size() == 36);
  CHECK(experiment.backbones.size() == 8);
  std::vector<std::string> published;
  for (const PublishedScore& score : published_popgym()) published.push_back(score.task);
  const TemporaryFolder folder;
  for (const ExperimentEntry& task : experiment.tasks)
    for (const ExperimentEntry& backbone : experiment.backbones) {
      const Config config = experiment.config(task, backbone, 1);
      CHECK(config.learner.name() == "ppo");
      CHECK(config.run.steps == 15'000'000);
      CHECK(config.learner.iterations()->steps == 65'536);
      std::erase(published, task.label);
    }
  CHECK(published.empty());
  const std::vector<PlannedRun> runs = plan_runs(experiment, folder.path());
  CHECK(runs.size() == 36 * 8 * 3);
  for (const PlannedRun& run : runs) {
    CAPTURE(run.backbone);
    // A head of 16 channels remembers 256 numbers.
    const bool linear = run.backbone == "linear_transformer" || run.backbone == "fast_weight_programmer";
    CHECK((run.backbone == "none" || run.budget.width == (linear ? 16 : 256)));
  }
}
