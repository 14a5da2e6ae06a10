#include "experiments/results/earlier_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/report/report.h"
#include "experiments/report/table_runs.h"
#include "experiments/results/csv.h"
#include "tests/experiments/handmade_comparison.h"

using namespace engram;

namespace {

void write_runs(Comparison& comparison) {
  comparison.write("long/gru/1", iteration_row(0.5) + iteration_row(0.25) +
                                     evaluation_row(100, 0.25, "0.5", ",\"collected_episodes\":7") +
                                     evaluation_row(400, 0.75, "1.5", ",\"collected_episodes\":15") +
                                     final_row(0.5,
                                               ",\"sampled_return\":1,\"sampled_success\":0.75,\"sampled_success_low\":"
                                               "0.5,\"sampled_success_high\":1,\"decided\":0.75,"
                                               "\"right_of_decided\":0.625",
                                               "0.375"));
  comparison.write("long/lstm/2", evaluation_row(200, 0.5) + final_row(0.125));  // ended by the clock
  comparison.write("short/none/1", evaluation_row(400, 0) + final_row(0));
  comparison.write("short/gru/2", evaluation_row(100, 0.25));  // unfinished
}

// The CSV with one field of a run's row replaced.
std::string with_field(const std::string& csv, const std::string& begin, const std::string& column,
                       const std::string& value) {
  std::size_t position = 0;
  const std::vector<std::string> names = read_csv_record(csv, position, "");
  const auto place = static_cast<std::size_t>(std::ranges::find(names, column) - names.begin());
  REQUIRE(place < names.size());
  std::string changed = csv.substr(0, position);
  while (position < csv.size()) {
    const std::size_t start = position;
    std::vector<std::string> fields = read_csv_record(csv, position, "");
    const std::string record = csv.substr(start, position - start);
    if (!record.starts_with(begin)) {
      changed += record;
      continue;
    }
    fields[place] = value;
    for (std::size_t i = 0; i < fields.size(); ++i) changed += (i == 0 ? "" : ",") + csv_field(fields[i]);
    changed += "\n";
  }
  return changed;
}

std::string refusal(const Comparison& comparison, const std::string& csv) {
  write_text(EarlierRuns::file_of(comparison.path()), csv);
  return message_of<UserError>([&] { read_results(comparison.path()); });
}

}  // namespace

TEST_CASE("runs of an earlier report's table stand in a report as those of their folders did") {
  Comparison there, here;
  write_runs(there);
  const std::string csv = report_csv(read_results(there.path()));
  CHECK(mentions(csv, ",100:0.25 400:0.75\n"));
  write_text(EarlierRuns::file_of(here.path()), csv);
  here.write("short/lstm/1", evaluation_row(400, 0.5) + final_row(0.25));

  const Results results = read_results(here.path());
  const RunResult& run = result(results, "long/gru/1");
  CHECK(run.state.stage == RunStage::kFinished);
  CHECK(run.plan.folder == here.run("long/gru/1").folder);
  REQUIRE(run.scores);
  CHECK(run.scores->sampled_success == 0.75);
  CHECK(run.scores->decisions == DecisionRates{0.75, 0.625});
  CHECK(run.scores->best_return == 1.5);
  CHECK(run.scores->mmer == 0.5);
  CHECK(!result(results, "long/lstm/2").scores->mmer);
  CHECK(run.timings.wall_seconds == 5);
  CHECK(run.episodes_until_learnt == 15);
  CHECK(run.curve == std::vector<std::pair<double, double>>{{100, 0.25}, {400, 0.75}});
  CHECK(mentions(result(results, "long/lstm/2").remark, "ended by the clock"));
  CHECK(result(results, "short/gru/2").state.stage == RunStage::kMissing);  // unfinished there
  CHECK(result(results, "short/lstm/1").scores->final_success == 0.25);
  REQUIRE(results.notes.size() == 1);
  CHECK(mentions(results.notes[0], "3 of the runs are rows of earlier.csv, an earlier report's table."));

  // Every row as it was, beside the new run's.
  const std::string again = report_csv(results);
  std::size_t position = 0, rows = 0;
  while (position < csv.size()) {
    const std::size_t start = position;
    read_csv_record(csv, position, "");
    const std::string row = csv.substr(start, position - start);
    if (!mentions(row, ",finished,")) continue;
    CHECK_MESSAGE(mentions(again, row), row);
    ++rows;
  }
  CHECK(rows == 3);
  CHECK(mentions(again, "\nshort,lstm,1,none,finished,"));
}

TEST_CASE("a folder's own finished run counts before an earlier one, an earlier one before one that is not finished") {
  Comparison there, here;
  write_runs(there);
  write_text(EarlierRuns::file_of(here.path()), report_csv(read_results(there.path())));
  here.write("long/gru/1", evaluation_row(400, 1) + final_row(1));
  here.write("long/lstm/2", evaluation_row(100, 0.5));
  const Results results = read_results(here.path());
  CHECK(result(results, "long/gru/1").scores->final_success == 1);
  CHECK(result(results, "long/lstm/2").scores->final_success == 0.125);
  const EarlierRuns earlier = EarlierRuns::of(here.path());
  CHECK(read_run_state(here.run("long/lstm/2"), earlier).stage == RunStage::kFinished);
  CHECK(read_run_state(here.run("long/gru/2"), earlier).stage == RunStage::kMissing);
  CHECK(EarlierRuns::of(there.path()).size() == 0);
}

TEST_CASE("an earlier run that diverged stays so: it is not made again, and its row comes out as it came in") {
  Comparison there, here;
  write_runs(there);
  there.fail("long/gru/2", evaluation_row(100, 0.25) + evaluation_row(200, 0.5));
  there.fail("short/lstm/1", evaluation_row(100, 0.25), {FailureKind::kOutOfMemory, "no room"});
  const std::string csv = report_csv(read_results(there.path()));
  write_text(EarlierRuns::file_of(here.path()), csv);
  here.write("long/gru/2", evaluation_row(300, 1));  // what was begun anew does not count before it
  here.write("short/gru/1", evaluation_row(400, 1) + final_row(1));
  const EarlierRuns earlier = EarlierRuns::of(here.path());
  CHECK(earlier.size() == 4);
  const RunState state = read_run_state(here.run("long/gru/2"), earlier);
  CHECK((state.ended() && state.diverged()));
  CHECK(state.failure == kDivergence);
  CHECK_FALSE(read_run_state(here.run("short/lstm/1"), earlier).ended());
  const Results results = read_results(here.path());
  CHECK(results.table(kScoreKinds[0]).at(0, 0, 0) == 0.5);
  CHECK(results.table(kScoreKinds[0]).at(0, 0, 1) == 0);
  const std::size_t begin = csv.find("long,gru,2,");
  const std::string row = csv.substr(begin, csv.find('\n', begin) + 1 - begin), again = report_csv(results);
  CHECK(mentions(row, ",failed,diverged,"));
  CHECK(mentions(row, ",100:0.25 200:0.5\n"));
  CHECK_MESSAGE(mentions(again, row), (row + " in " + again));
  CHECK(mentions(again, "\nshort,lstm,1,none,missing,"));

  // Of the table alone the figures are the same.
  write_text(here.path() / "runs.csv", again);
  const Results alone = read_runs_table(here.path() / "runs.csv");
  CHECK(alone.diverged_runs() == 1);
  CHECK(alone.table(kScoreKinds[0]).at(0, 0, 1) == 0);
  CHECK(analyse(alone, {.resamples = 1000}).scores[0].cells[0][0]->value == 0.25);

  // What has ended here counts before it, and one that diverged lacks no evaluations over a range.
  here.write("long/gru/2", evaluation_row(400, 1) + final_row(1));
  CHECK(read_run_state(here.run("long/gru/2"), earlier).stage == RunStage::kFinished);
  here.fail("long/gru/1", evaluation_row(100, 0));
  CHECK(read_run_state(here.run("long/gru/1"), earlier).diverged());
  CHECK(read_results(here.path()).table(kScoreKinds[0]).at(0, 0, 0) == 0);
  PlannedRun ranged = here.run("long/gru/2");
  ranged.range = parse_range("task.corridor_length: 5,10");
  CHECK(earlier.find(ranged)->state.diverged());
}

TEST_CASE("rows of versions that wrote fewer columns count, without a curve") {
  Comparison there, here;
  write_runs(there);
  const std::string csv = report_csv(read_results(there.path()));
  std::string older;
  for (std::size_t position = 0; position < csv.size();) {
    std::vector<std::string> fields = read_csv_record(csv, position, "");
    fields.pop_back();
    for (std::size_t i = 0; i < fields.size(); ++i) older += (i == 0 ? "" : ",") + csv_field(fields[i]);
    older += "\n";
  }
  write_text(EarlierRuns::file_of(here.path()), older);
  here.write("long/gru/2", evaluation_row(400, 1) + final_row(1));
  const Results results = read_results(here.path());
  CHECK(result(results, "long/gru/1").curve.empty());
  CHECK(mentions(results.notes.at(0), "3 of them have no evaluations there, and no curve."));
  const Analysis analysis = analyse(results, {.resamples = 1000});
  CHECK(analysis.curves[0][0].back().second.value == 1);                      // of seed 2 alone
  CHECK(analysis.curves[0][1].empty());                                       // of earlier runs alone
  CHECK(analysis.scores[0].cells[0][0]->value == doctest::Approx(0.75));      // of both
  CHECK(runs_to_film(results).front()->plan.name().starts_with("long/gru"));  // no folder is no error
}

TEST_CASE("a table of before there was MMER is read, without it") {
  Comparison there, here;
  write_runs(there);
  std::string older;
  const std::string csv = report_csv(read_results(there.path()));
  std::size_t place = 0;
  for (std::size_t position = 0; position < csv.size();) {
    std::vector<std::string> fields = read_csv_record(csv, position, "");
    if (older.empty()) place = static_cast<std::size_t>(std::ranges::find(fields, "mmer") - fields.begin());
    REQUIRE(place < fields.size());
    fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(place));
    for (std::size_t i = 0; i < fields.size(); ++i) older += (i == 0 ? "" : ",") + csv_field(fields[i]);
    older += "\n";
  }
  write_text(EarlierRuns::file_of(here.path()), older);
  const Results results = read_results(here.path());
  CHECK(result(results, "long/gru/1").scores->best_return == 1.5);
  CHECK(!result(results, "long/gru/1").scores->mmer);
  CHECK(mentions(report_csv(results), ",mmer,"));
}

TEST_CASE("a table that an editor has put a byte order mark before is read as before") {
  const TemporaryFolder folder;
  write_text(folder / "runs.csv", "\xef\xbb\xbftask,backbone\n");
  CHECK(read_table_file(folder / "runs.csv") == "task,backbone\n");
  write_text(folder / "runs.csv", "\xfe\xff");
  CHECK(message_of<UserError>([&] { read_table_file(folder / "runs.csv"); }) ==
        "'" + (folder / "runs.csv").string() + "' is UTF-16 or UTF-32; save it as UTF-8");
}

TEST_CASE("a curve of fewer than half of the runs is none") {
  std::string ini = kExperiment;
  ini.replace(ini.find("1-2"), 3, "1-3");
  Comparison there(ini), here(ini);
  for (const char* name : {"long/gru/1", "long/gru/2", "long/lstm/1"})
    there.write(name, evaluation_row(400, 0.5) + final_row(0.5));
  std::string csv = report_csv(read_results(there.path()));
  for (const char* begin : {"long,gru,1", "long,gru,2", "long,lstm,1"}) csv = with_field(csv, begin, "evaluations", "");
  write_text(EarlierRuns::file_of(here.path()), csv);
  here.write("long/gru/3", evaluation_row(400, 1) + final_row(1));
  here.write("long/lstm/2", evaluation_row(400, 1) + final_row(1));
  const Analysis analysis = analyse(read_results(here.path()), {.resamples = 1000});
  CHECK(analysis.curves[0][0].empty());                   // of one of three
  CHECK(analysis.curves[0][1].back().second.value == 1);  // of one of two
}

TEST_CASE("what a row does not say is nothing, and stays so") {
  Comparison there, here;
  write_runs(there);
  std::string csv = report_csv(read_results(there.path()));
  for (const char* column :
       {"best_evaluation", "last_evaluation", "area_under_curve", "updates", "mean_return", "best_return",
        "sampled_success", "wall_seconds", "decided", "right_of_decided", "evaluations"})
    csv = with_field(csv, "long,gru,1", column, "");
  write_text(EarlierRuns::file_of(here.path()), csv);
  const Results results = read_results(here.path());
  const RunScores& scores = result(results, "long/gru/1").scores.value();
  CHECK(scores.final_success == 0.5);
  CHECK(!scores.best_evaluation);
  CHECK(!scores.area);
  CHECK(!scores.best_return);
  CHECK(!scores.decisions);
  const std::size_t begin = csv.find("long,gru,1");
  const std::string row = csv.substr(begin, csv.find('\n', begin) - begin), again = report_csv(results);
  CHECK_MESSAGE(mentions(again, row), (row + " in " + again));
  const Analysis analysis = analyse(results, {.resamples = 1000});
  CHECK(analysis.scores[0].cells[0][0]->value == 0.5);
  CHECK(!analysis.scores[1].cells[0][0]);  // best evaluation
  CHECK(!analysis.returns[0][0]);
}

TEST_CASE("a table that cannot be of this comparison is refused in a line that says why") {
  Comparison there, here;
  write_runs(there);
  const std::string csv = report_csv(read_results(there.path()));
  CHECK(mentions(refusal(here, "metric,units\n"), "is no report's table of runs: it has no column task"));
  CHECK(mentions(refusal(here, csv + "x,y\n"), "record 14 has 2 fields instead of"));
  CHECK(
      mentions(refusal(here, csv + csv.substr(csv.find("long,gru,1"), csv.find("long,gru,2") - csv.find("long,gru,1"))),
               "record 14 is run long/gru/1 again"));
  CHECK(mentions(refusal(here, "task," + csv), "record 1 has 'task' twice"));
  CHECK(mentions(refusal(here, csv + "\"x"), "ends inside a quoted field"));
  for (const auto& [column, value] :
       std::vector<std::pair<std::string, std::string>>{{"final_success", "1.5"},
                                                        {"sampled_success", "nan"},
                                                        {"final_success", "0x1"},
                                                        {"mean_return", "inf"},
                                                        {"mmer", "x"},
                                                        {"environment_steps", "-1"},
                                                        {"updates", "1e3"},
                                                        {"seed", "x"},
                                                        {"control", "all"},
                                                        {"parameters", "9" + std::string(30, '9')},
                                                        {"evaluations", "100:0.5 100:0.6"},
                                                        {"evaluations", "100:1.5"},
                                                        {"evaluations", "100"},
                                                        {"evaluations", "5 100:0.5"}})
    CHECK_MESSAGE(mentions(refusal(here, with_field(csv, "long,gru,1", column, value)),
                           "record 2 has '" + value + "' for " + column),
                  (column + " " + value));
  CHECK(mentions(refusal(here, with_field(csv, "long,gru,1", "parameters", "7")),
                 "has run long/gru/1 with parameters 7, planned is "));
  CHECK(mentions(refusal(here, with_field(csv, "short,none,1", "control", "full_state")),
                 "with control full_state, planned is memoryless"));
  const std::string ini = kExperiment;
  Comparison ranged("[compare]\nevaluate = task.corridor_length: 5,10\n" + ini.substr(ini.find('\n') + 1));
  CHECK(mentions(refusal(ranged, csv), "without its evaluations at task.corridor_length: 5,10"));
}
