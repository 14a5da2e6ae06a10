#include "experiments/results/results.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "experiments/plan/plan.h"
#include "experiments/report/answer.h"
#include "experiments/report/report.h"
#include "experiments/statistics/aggregate.h"
#include "tests/experiments/handmade_comparison.h"

using namespace engram;

namespace fs = std::filesystem;

TEST_CASE("scores of finished runs, and what the others are") {
  Comparison comparison;
  comparison.write("long/gru/1",
                   evaluation_row(100, 0.2) + evaluation_row(200, 0.6) + evaluation_row(400, 0.4) + final_row(0.5));
  comparison.write("long/gru/2", evaluation_row(100, 0, "0.5", ",\"collected_episodes\":7") +
                                     evaluation_row(200, 1, "0.5", ",\"collected_episodes\":15") +
                                     final_row(0.9));  // stopped early
  comparison.write("long/lstm/1", evaluation_row(100, 0.2) + evaluation_row(200, 0.6));
  comparison.write("short/gru/1", "nonsense\n" + evaluation_row(300, 0.5) + evaluation_row(200, 0.7) + final_row(0.5));
  comparison.write("short/none/1", final_row(0.5));
  comparison.write("short/lstm/2", evaluation_row(100, 0.1));
  const fs::path failure = failure_file(comparison.run("short/lstm/2"));
  fs::create_directories(failure.parent_path());
  write_text(failure, "out of memory\n");

  const Results results = read_results(comparison.path());
  CHECK(results.runs.size() == 12);
  const RunResult& full = result(results, "long/gru/1");
  REQUIRE(full.scores);
  CHECK(full.scores->final_success == 0.5);
  CHECK(full.scores->best_evaluation == 0.6);
  CHECK(full.scores->last_evaluation == 0.4);
  CHECK(full.scores->area == doctest::Approx((0.2 * 100 + 0.4 * 100 + 0.5 * 200) / 400));
  CHECK(full.remark == "");
  CHECK(full.timings.wall_seconds == 5);
  CHECK(full.timings.updates_per_second == 20);
  CHECK(full.provenance.engram == "1.2.3");
  CHECK(!mentions(full.provenance.device, "\x1b"));
  CHECK(full.provenance.cpu_cores == "4");
  const RunResult& early = result(results, "long/gru/2");
  REQUIRE(early.scores);
  CHECK(early.scores->area == doctest::Approx((0.5 * 100 + 200) / 400));
  CHECK(early.remark == "");
  CHECK(early.episodes_until_learnt == 15);
  CHECK(!full.episodes_until_learnt);                            // 0.6 at best
  CHECK(!result(results, "short/gru/1").episodes_until_learnt);  // learnt, by a row that does not say when

  CHECK(!result(results, "long/lstm/1").scores);
  CHECK(result(results, "long/lstm/1").state.stage == RunStage::kUnfinished);
  CHECK(result(results, "long/lstm/2").state.stage == RunStage::kMissing);
  CHECK(result(results, "short/lstm/2").state.stage == RunStage::kFailed);
  CHECK(result(results, "short/lstm/2").state.failure.reason == "out of memory");
  const RunResult& odd = result(results, "short/gru/1");
  REQUIRE(odd.scores);
  CHECK(odd.curve.size() == 1);  // steps that go back are left out
  CHECK(mentions(odd.remark, "ended by the clock after 75% of its steps"));
  CHECK(mentions(odd.remark, "1 line of metrics.jsonl"));
  CHECK(!result(results, "short/none/1").scores);
  CHECK(mentions(result(results, "short/none/1").remark, "no evaluation"));

  REQUIRE(results.sweep);
  CHECK(results.sweep->key == "task.corridor_length");
  CHECK(results.sweep->values == std::vector<double>{20, 5});
  CHECK(results.tasks[0].random.episodes == 1000);

  const ScoreTable table = results.table(kScoreKinds[0]);
  CHECK(table.metric == "final success");
  CHECK(table.methods == std::vector<std::string>{"gru", "lstm", "none"});
  CHECK(table.at(0, 0, 0) == 0.5);
  CHECK(table.at(0, 0, 1) == 0.9);
  CHECK(!table.at(0, 1, 0));

  // One task has one backbone alone: the figures over tasks have none to be over.
  const AggregateScores scores = aggregate(table, {.resamples = 100});
  CHECK(scores.cells[0][0]->interval);
  CHECK(!scores.cells[1][0]->interval);

  const auto filmed = [&] {
    const std::vector<const RunResult*> runs = runs_to_film(results);
    REQUIRE(runs.size() == 1);
    return runs[0]->plan.name();
  };
  CHECK(filmed() == "long/gru/1");
  write_text(comparison.run("long/gru/2").folder / "weights" / "best.safetensors", "");
  CHECK(filmed() == "long/gru/2");
  write_text(comparison.run("long/gru/1").folder / "weights" / "best.safetensors", "");
  CHECK(filmed() == "long/gru/1");
}

TEST_CASE("the CSV has a row a run, the JSON everything") {
  Comparison comparison;
  for (const char* task : {"long", "short"})
    for (const char* backbone : {"gru", "lstm", "none"})
      for (int seed = 1; seed <= 2; ++seed)
        comparison.write(std::string(task) + "/" + backbone + "/" + std::to_string(seed),
                         evaluation_row(100, 0.25 * seed) + evaluation_row(400, 0.5) +
                             final_row(backbone == std::string("gru") ? 0.8 + 0.1 * seed : 0.5));
  const Results results = read_results(comparison.path());
  const std::string csv = report_csv(results);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 13);
  CHECK(csv.starts_with("task,backbone,seed,control,state,failure,reason,remark,final_success,"));
  CHECK(mentions(csv, "\nshort,none,2,memoryless,finished,,,,0.5,0.5,0.5,"));
  const BootstrapOptions bootstrap{.resamples = 1000};
  const std::string json = report_json(results, analyse(results, bootstrap), bootstrap);
  CHECK(!mentions(json, "\"sampled_success\": {"));  // runs of a version that played greedy episodes alone
  for (const char* part :
       {"\"final_success\"", "\"interquartile_mean\"", "\"comparisons\"", "\"curves\"", "\"chance_success\"",
        "\"mean_return\": null", "\"first_scale\": null", "\"memory\": \"gru\"", "\"task.corridor_length\": 20"})
    CHECK_MESSAGE(mentions(json, part), part);
}

TEST_CASE("the success of sampled actions is a score where runs have it") {
  Comparison comparison;
  const std::string sampled =
      ",\"sampled_return\":1,\"sampled_success\":0.75,\"sampled_success_low\":0.5,\"sampled_success_high\":1";
  for (int seed = 1; seed <= 2; ++seed)
    comparison.write("long/gru/" + std::to_string(seed), evaluation_row(400, 0.5) + final_row(0.5, sampled));
  comparison.write("long/lstm/1", evaluation_row(400, 0.5) + final_row(0.5));
  const Results results = read_results(comparison.path());
  CHECK(result(results, "long/gru/1").scores->sampled_success == 0.75);
  CHECK(!result(results, "long/lstm/1").scores->sampled_success);
  const BootstrapOptions bootstrap{.resamples = 1000};
  const Analysis analysis = analyse(results, bootstrap);
  REQUIRE(std::string(kScoreKinds.back().key) == "sampled_success");
  const auto& cells = analysis.scores.back().cells;
  REQUIRE(cells[0][0]);
  CHECK(cells[0][0]->value == 0.75);
  CHECK(!cells[0][1]);
  CHECK(mentions(report_csv(results), ",sampled_success,"));
  CHECK(mentions(report_json(results, analysis, bootstrap), "\"sampled_success\": {"));
}

TEST_CASE("the best return of a run is that of its best evaluation by return, and a mean over runs in the report") {
  Comparison comparison;
  comparison.write("long/gru/1", evaluation_row(100, 0.5, "-0.25") + evaluation_row(200, 0.2, "0.75") +
                                     evaluation_row(300, 0.9, "null") + evaluation_row(400, 0.6, "0.5") +
                                     final_row(0.5, "", "0.625"));
  comparison.write("long/gru/2", evaluation_row(400, 0.5, "-1") + final_row(0.5, "", "-2"));
  comparison.write("long/lstm/1", evaluation_row(400, 0.5, "1") + final_row(0.5));  // its final return is not finite
  const Results results = read_results(comparison.path());
  CHECK(result(results, "long/gru/1").scores->best_return == 0.75);
  CHECK(result(results, "long/gru/2").scores->best_return == -1);
  const BootstrapOptions bootstrap{.resamples = 1000};
  const Analysis analysis = analyse(results, bootstrap);
  const auto& cells = analysis.returns[0];
  REQUIRE(cells[0]);
  CHECK(cells[0]->final.value == (0.625 - 2) / 2);
  CHECK(cells[0]->best.value == (0.75 - 1) / 2);
  CHECK(!cells[1]);
  CHECK(mentions(report_csv(results), ",mean_return,best_return,mmer,"));
  CHECK(!cells[0]->mmer);
  CHECK(mentions(report_json(results, analysis, bootstrap), "\"returns\": {"));
}

TEST_CASE("MMER stands beside the returns of evaluations where runs have it") {
  Comparison comparison;
  comparison.write("long/gru/1", iteration_row(0.125) + evaluation_row(100, 0.5, "2") + iteration_row(0.75) +
                                     iteration_row(0.5) + evaluation_row(400, 0.6, "0.5") +
                                     final_row(0.5, "", "0.625"));
  comparison.write("long/gru/2", iteration_row(0.25) + evaluation_row(400, 0.5, "1") + final_row(0.5, "", "-2"));
  comparison.write("long/lstm/1", evaluation_row(400, 0.5, "1") + final_row(0.5, "", "1"));  // off policy
  const Results results = read_results(comparison.path());
  CHECK(result(results, "long/gru/1").scores->mmer == 0.75);
  CHECK(!result(results, "long/lstm/1").scores->mmer);
  const BootstrapOptions bootstrap{.resamples = 1000};
  const Analysis analysis = analyse(results, bootstrap);
  REQUIRE((analysis.returns[0][0] && analysis.returns[0][1]));
  REQUIRE(analysis.returns[0][0]->mmer);
  CHECK(analysis.returns[0][0]->mmer->value == 0.5);
  CHECK(!analysis.returns[0][1]->mmer);
  const ReportFiles files = ReportFiles::beside(comparison.path() / "page.html");
  write_report(results, files, {}, bootstrap);
  CHECK(mentions(read_text(files.markdown), "MMER 0.5"));
  CHECK(mentions(read_text(files.csv), ",0.625,2,0.75,"));
  CHECK(mentions(read_text(files.json), "\"mmer\": {"));
}

TEST_CASE("decisions are scores where runs have them") {
  Comparison comparison;
  for (int seed = 1; seed <= 2; ++seed)
    comparison.write("long/gru/" + std::to_string(seed),
                     evaluation_row(400, 0.5) + final_row(0.5, ",\"decided\":0.75,\"right_of_decided\":0.625"));
  comparison.write("long/lstm/1", evaluation_row(400, 0.5) + final_row(0, ",\"decided\":0"));
  comparison.write("long/none/1", evaluation_row(400, 0.5) + final_row(0.5));
  const Results results = read_results(comparison.path());
  const BootstrapOptions bootstrap{.resamples = 1000};
  const Analysis analysis = analyse(results, bootstrap);
  const auto cells_of = [&](const std::string& key) {
    const auto found = std::ranges::find(kScoreKinds, key, &ScoreKind::key);
    REQUIRE(found != kScoreKinds.end());
    return analysis.scores[static_cast<std::size_t>(found - kScoreKinds.begin())].cells[0];
  };
  const auto decided = cells_of("decided"), right = cells_of("right_of_decided");
  REQUIRE((decided[0] && decided[1] && right[0]));
  CHECK(decided[0]->value == 0.75);
  CHECK(right[0]->value == 0.625);
  CHECK(decided[1]->value == 0);  // none decides: nothing is right of these
  CHECK(!right[1]);
  CHECK(!decided[2]);
  CHECK(mentions(report_csv(results), ",decided,right_of_decided,"));
  CHECK(mentions(report_json(results, analysis, bootstrap), "\"right_of_decided\": {"));
}

TEST_CASE("a run that diverged counts with a success of 0, and has no score of its own") {
  std::string ini = kExperiment;
  ini.replace(ini.find("1-2"), 3, "1-3");
  Comparison comparison(ini);
  const std::string more =
      ",\"decided\":0.75,\"right_of_decided\":0.5,\"sampled_return\":1,\"sampled_success\":1,"
      "\"sampled_success_low\":0.5,\"sampled_success_high\":1";
  for (const char* name : {"long/gru/1", "long/gru/2", "short/gru/1", "short/lstm/1", "short/lstm/2"})
    comparison.write(name, evaluation_row(400, 1, "1.5") + final_row(1, more, "0.5"));
  comparison.fail("long/gru/3", evaluation_row(100, 0.5, "7"));
  comparison.fail("long/lstm/1", "");
  comparison.fail("short/gru/2", evaluation_row(100, 1), {FailureKind::kKilled, "signal 9"});
  const Results results = read_results(comparison.path());
  CHECK(!result(results, "long/gru/3").scores);
  CHECK(results.table(kScoreKinds[0]).at(0, 0, 2) == 0);
  CHECK(!results.table(kScoreKinds[0]).at(1, 0, 1));  // killed
  const BootstrapOptions bootstrap{.resamples = 1000};
  const Analysis analysis = analyse(results, bootstrap);
  for (std::size_t kind = 0; kind < kScoreKinds.size(); ++kind) {
    CAPTURE(kScoreKinds[kind].name);
    REQUIRE(analysis.scores[kind].cells[0][0]);
    const std::string key = kScoreKinds[kind].key;
    const double of_finished = key == "decided" ? 0.75 : key == "right_of_decided" ? 0.5 : 1;
    const bool success = of_finished == 1;
    CHECK(analysis.scores[kind].cells[0][0]->value == doctest::Approx(success ? 2.0 / 3 : of_finished));
    CHECK(analysis.scores[kind].cells[0][1].has_value() == success);  // of one that diverged alone
  }
  CHECK(analysis.scores[0].cells[0][1]->value == 0);
  CHECK(analysis.scores[0].cells[1][0]->value == 1);
  // All else is of the finished runs.
  CHECK(analysis.returns[0][0]->final.value == 0.5);
  CHECK(analysis.returns[0][0]->best.value == 1.5);
  CHECK(analysis.curves[0][0].back().second.value == 1);

  const ReportFiles files = ReportFiles::beside(comparison.path() / "page.html");
  write_report(results, files, {}, bootstrap, {.latex = true});
  const std::string markdown = read_text(files.markdown);
  for (const char* part :
       {"2 diverged, 1 failed, 5 finished", "those that diverged: one counts with a success of 0",
        "| gru | 66.7 runs 100.0, 100.0, diverged | 100.0 n=1 |", "| lstm | 0.0 n=1 | 100.0 runs 100.0, 100.0 n=2 |",
        "long/gru: failed: diverged: update 3: the loss", "Here some figures rest on 1 run of a backbone"})
    CHECK_MESSAGE(mentions(markdown, part), part);
  CHECK(!mentions(markdown, "sampled 100"));  // of the same runs as the mean
  const std::string csv = read_text(files.csv);
  CHECK_MESSAGE(mentions(csv, "\nlong,gru,3,none,failed,diverged,\"update 3: the loss, \"\"x\"\", is not finite\"" +
                                  std::string(12, ',') + "0,0,,5,80,20,"),
                csv);
  CHECK(mentions(read_text(files.json), "\"of_diverged\": 0.0"));
  CHECK(mentions(read_text(files.latex), "2 runs diverged and count with a success of 0. "));
}

TEST_CASE("four runs of five that diverged are not a memory that learns, and their intervals are those of five runs") {
  std::string ini = kExperiment;
  ini.replace(ini.find("1-2"), 3, "1-5");
  Comparison comparison(ini);
  comparison.write("long/gru/1", evaluation_row(400, 1) + final_row(1));
  for (const char* name : {"long/gru/2", "long/gru/3", "long/gru/4", "long/gru/5"}) comparison.fail(name, "");
  for (int seed = 1; seed <= 5; ++seed)
    comparison.write("long/lstm/" + std::to_string(seed), evaluation_row(400, 1) + final_row(seed == 5 ? 0.9 : 1));
  const Results results = read_results(comparison.path());
  const Analysis analysis = analyse(results, {.resamples = 1000});
  CHECK(!learns(results, analysis, 0, 0));
  CHECK(learns(results, analysis, 0, 1));
  CHECK(analysis.scores[0].cells[0][0]->value == doctest::Approx(0.2));
  CHECK(analysis.separations[0].memories_differ == true);
  const ReportFiles files = ReportFiles::beside(comparison.path() / "page.html");
  write_report(results, files, {}, {.resamples = 1000});
  CHECK(mentions(read_text(files.markdown), "| gru | 20.0 (0.0 to 60.0) | n=0 |"));
}

TEST_CASE("a comparison all of whose runs diverged has a report") {
  Comparison comparison;
  for (const PlannedRun& planned : comparison.plan) comparison.fail(planned.name(), "");
  const Results results = read_results(comparison.path());
  const ReportFiles files = ReportFiles::beside(comparison.path() / "page.html");
  write_report(results, files, {}, {.resamples = 1000});
  CHECK(mentions(read_text(files.markdown), "12 runs, of them 12 diverged."));
  CHECK(mentions(read_text(files.markdown), "| gru | 0.0 runs diverged, diverged |"));
}

TEST_CASE("tasks that differ in more than one number, or in a name, are no sweep") {
  const auto sweep_of = [](const std::string& tasks) {
    const std::string ini = kExperiment;
    Comparison comparison(ini.substr(0, ini.find("[tasks.long]")) + tasks + ini.substr(ini.find("[backbones.gru]")));
    comparison.write(comparison.plan.front().name(), evaluation_row(400, 0.5) + final_row(0.5));
    return read_results(comparison.path()).sweep;
  };
  CHECK(!sweep_of("[tasks.a]\ntask.corridor_length = 20\n"));
  CHECK(!sweep_of("[tasks.a]\ntask.corridor_length = 20\n[tasks.b]\ntask.active = true\n"));
  CHECK(!sweep_of("[tasks.a]\ntask.active = false\n[tasks.b]\ntask.active = true\n"));
  CHECK(!sweep_of("[tasks.a]\ntask.name = tmaze\n[tasks.b]\ntask.name = key_to_door\n"));
  CHECK(sweep_of("[tasks.a]\ntask.corridor_length = 20\n[tasks.b]\ntask.corridor_length = 9\n"));
}

TEST_CASE("what is no comparison, or not its runs, or not finished anywhere, is refused in a line") {
  const auto error_of = [](const Comparison& comparison) {
    return message_of<UserError>([&] { read_results(comparison.path()); });
  };
  const TemporaryFolder empty;
  CHECK(mentions(message_of<UserError>([&] { read_results(empty.path()); }), "not the folder of a comparison"));
  Comparison comparison;
  CHECK(mentions(error_of(comparison), "is finished yet (of 12)"));
  comparison.run("long/lstm/1").config.learner.options().set("learner.gamma", "0.5");  // a run of another experiment
  comparison.write("long/lstm/1", evaluation_row(400, 0.5) + final_row(0.5));
  CHECK(mentions(error_of(comparison), "long/lstm/1"));
  CHECK(mentions(error_of(comparison), "learner.gamma"));
}

TEST_CASE("a report stands beside its page") {
  const ReportFiles files = ReportFiles::beside("a/b.c.html");
  CHECK(files.markdown == "a/b.c.md");
  CHECK(files.json == "a/b.c.json");
  CHECK(files.csv == "a/b.c.csv");
  CHECK(files.folder == "a/b.c_figures");
  CHECK(mentions(message_of<UserError>([] { ReportFiles::beside("a/b.pdf"); }), "'a/b.pdf'"));
}
