#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "experiments/report/report.h"
#include "experiments/report/table_runs.h"
#include "experiments/results/earlier_runs.h"
#include "tests/experiments/handmade_comparison.h"
#include "tests/experiments/labels.h"
#include "tests/experiments/plan/experiment_text.h"

using namespace engram;

namespace {

const std::string kLearnersIni =
    "[compare]\nseeds = 1-2\ncontrols = none\n[task]\nname = tmaze\n[memory]\nwidth = 8\n[run]\nsteps = 400\n"
    "[evaluation]\nevery_steps = 100\nepisodes = 10\nfinal_episodes = 20\n[tasks.t]\nrun.num_envs = 2\n"
    "[backbones.gru]\n[backbones.lstm]\n[backbones.rnn]\n"
    "[learners.sac]\n[learners.ppo]\nrun.num_envs = 4\n";

std::string plan_refusal(const std::string& text) {
  return message_of<UserError>([&] { plan_runs(experiment_of(text), "folder"); });
}

// Of each backbone's runs by each learner this success.
void write_all(Comparison& comparison, const std::string& learner, double gru, double lstm, double rnn) {
  for (const char* seed : {"1", "2"}) {
    const auto write = [&](const std::string& backbone, double success) {
      comparison.write("t/" + learner + "/" + backbone + "/" + seed, evaluation_row(400, success) + final_row(success));
    };
    write("gru", gru);
    write("lstm", lstm);
    write("rnn", rnn);
    write("none", 0);
  }
}

}  // namespace

TEST_CASE("learners are a third axis: each has its runs, and settings above the task's and below the backbone's") {
  const Experiment experiment = experiment_of(kLearnersIni + "[backbones.wide]\nmemory.name = gru\nrun.num_envs = 3\n");
  CHECK(labels(experiment.learners) == Labels{"sac", "ppo"});
  CHECK(size_text(experiment) == "1 task x 2 learners x 5 backbones x 2 seeds");
  const std::vector<PlannedRun> runs = plan_runs(experiment, "d");
  REQUIRE(runs.size() == 2 * 5 * 2);
  CHECK(runs[0].name() == "t/sac/gru/1");
  CHECK(runs[2].name() == "t/ppo/gru/1");
  CHECK(runs[2].folder == "d/runs/t/ppo/gru/1");
  CHECK(config_file(runs[2]) == "d/configs/t/ppo/gru.ini");
  CHECK(runs[0].config.learner.name() == "sac");
  CHECK(runs[0].config.run.num_envs == 2);
  CHECK(runs[2].config.learner.name() == "ppo");
  CHECK(runs[2].config.run.num_envs == 4);
  CHECK(runs[14].name() == "t/ppo/wide/1");
  CHECK(runs[14].config.run.num_envs == 3);
  CHECK(experiment_of(experiment.to_ini()).to_ini() == experiment.to_ini());

  Experiment selected = experiment;
  selected.select_learners({"ppo"});
  CHECK(plan_runs(selected, "d").size() == 5 * 2);
  CHECK(plan_runs(selected, "d").front().name() == "t/ppo/gru/1");
  const Experiment without = experiment_of("[tasks.tmaze]\n[backbones.gru]\n");
  CHECK_FALSE(without.has_learners());
  CHECK(plan_runs(without, "d").front().name() == "tmaze/gru/0");
}

TEST_CASE("a learner's label means that learner, also where the runs share another; one that says nothing is refused") {
  const std::vector<PlannedRun> runs = plan_runs(
      experiment_of("[compare]\nseeds = 0\ncontrols =\n[learner]\nname = sac\n[tasks.tmaze]\n[backbones.gru]\n"
                    "[learners.dqn]\n[learners.slow]\nlearner.learning_rate = 1e-5\n"),
      "d");
  CHECK(runs[0].config.learner.name() == "dqn");
  CHECK(runs[1].config.learner.name() == "sac");
  CHECK(plan_refusal("[tasks.tmaze]\n[backbones.gru]\n[learners.pppo]\n") ==
        "it, line 3: 'pppo' is no learner, and its section has no setting; did you mean 'ppo'?");
  CHECK(plan_refusal("[tasks.tmaze]\n[backbones.gru]\n[learners.ppo]\nlearner.alpha = 1\n").find("alpha") !=
        std::string::npos);
  CHECK(message_of<UserError>([] {
          experiment_of("[tasks.tmaze]\n[backbones.gru]\n").select_learners({"sac"});
        }).starts_with("the experiment has no learners"));
  Experiment now = experiment_of("[tasks.tmaze]\n[backbones.gru]\n[learners.ppo]\n");
  CHECK(message_of<UserError>([&] { now.add_saved(experiment_of("[tasks.tmaze]\n[backbones.gru]\n"), "'d'"); }) ==
        "'d' was made without sections [learners.LABEL] and cannot go on with");
}

TEST_CASE("a report has a row for each memory by each learner, and says whether the order holds") {
  Comparison comparison(kLearnersIni);
  write_all(comparison, "sac", 0.9, 0.5, 0.2);
  write_all(comparison, "ppo", 0.5, 0.6, 0.1);
  const Results results = read_results(comparison.path());
  CHECK(labels(results.experiment.backbones) == Labels{"gru by sac", "gru by ppo", "lstm by sac", "lstm by ppo",
                                                       "rnn by sac", "rnn by ppo", "none by sac", "none by ppo"});
  CHECK(results.run(0, 3, 1).plan.name() == "t/ppo/lstm/2");
  const Analysis analysis = analyse(results, {.resamples = 1000});
  REQUIRE(analysis.orders.size() == 1);
  const LearnerOrder& order = analysis.orders.front();
  CHECK(order.x == "sac");
  CHECK(order.y == "ppo");
  CHECK(order.memories == Labels{"gru", "lstm", "rnn"});  // no control
  CHECK(order.fewest_runs == 2);
  REQUIRE(order.tau);
  CHECK(order.tau->value == doctest::Approx(1.0 / 3));
  CHECK(order.tau->interval->first == doctest::Approx(1.0 / 3));  // equal runs

  const std::string csv = report_csv(results);
  CHECK(csv.starts_with("task,backbone,learner,seed,control,"));
  CHECK(csv.find("\nt,lstm,ppo,2,none,finished,") != std::string::npos);
  const EarlierRuns earlier = EarlierRuns::parse(csv, "report.csv");
  CHECK(earlier.size() == 16);
  CHECK(earlier.find(comparison.run("t/ppo/gru/1"))->scores->final_success == 0.5);
  CHECK(earlier.find(comparison.run("t/sac/gru/1"))->scores->final_success == 0.9);

  // The table alone says the same of the order.
  const std::filesystem::path table = comparison.path() / "runs.csv";
  write_text(table, csv);
  const std::vector<LearnerOrder> again = orders_by_learner(read_runs_table(table), {.resamples = 1000});
  REQUIRE(again.size() == 1);
  CHECK(again.front().memories == order.memories);
  CHECK(again.front().tau->value == order.tau->value);
}

TEST_CASE("a report's table has the tries of tuning as what they are, and no score of the report has one") {
  Comparison comparison(
      "[compare]\nseeds = 1-2\ncontrols =\n[task]\nname = tmaze\n[memory]\nwidth = 8\n[run]\n"
      "steps = 400\n[tasks.t]\n[backbones.gru]\n[tune]\nseeds = 8\n"
      "learner.learning_rate = 1e-4, 2e-3\n");
  TuneRecord record;
  record.rungs.push_back({100,
                          {{2, {{"learner.learning_rate", "2e-3"}}, "", {{8, 0.75, 0.5, 0.25}}},
                           {1, {{"learner.learning_rate", "1e-4"}}, "it is not finite", {}}},
                          1});
  record.chosen = record.rungs.front().tries.front().settings;
  write_tune_record(record_file(tuning_folder(comparison.path()), "t/gru"), record);
  comparison.plan = plan_runs(Experiment::read(comparison.path()), comparison.path());
  comparison.write("t/gru/1", evaluation_row(400, 0.5) + final_row(0.5));
  const Results results = read_results(comparison.path());
  REQUIRE(results.tuning.size() == 1);
  CHECK(results.runs.size() == 2);
  const std::string csv = report_csv(results);
  CHECK(csv.find("\nt,gru,1,none,finished,,,,,learner.learning_rate = 2e-3,0.5,") != std::string::npos);
  CHECK(csv.find("\nt,gru,8,none,tuning,,,chosen after rung 1,2,learner.learning_rate = 2e-3,0.75,") !=
        std::string::npos);
  CHECK(csv.find(
            "\nt,gru,,none,tuning,diverged,it is not finite,dropped after rung 1,1,learner.learning_rate = 1e-4,,") !=
        std::string::npos);
  const EarlierRuns earlier = EarlierRuns::parse(csv, "report.csv");
  CHECK(earlier.size() == 1);
  PlannedRun run = comparison.run("t/gru/1");
  CHECK(earlier.find(run));
  run.tuned = Settings{{"learner.learning_rate", "1e-4"}};
  CHECK(message_of<UserError>([&] {
          earlier.find(run);
        }).find("tuned settings learner.learning_rate = 2e-3, planned is learner.learning_rate = 1e-4") !=
        std::string::npos);
  CHECK(analyse(results, {.resamples = 1000}).scores[0].cells[0][0]->value == 0.5);

  // From the table alone the same is chosen, with all that it says of the tries.
  const std::vector<TunedPlace> places = plan_tries(results.planned, "elsewhere");
  const TuneRecords known = earlier.tuning(places);
  REQUIRE(known.size() == 1);
  CHECK(known.at("t/gru") == record);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = csv;
    text.replace(text.find(from), from.size(), to);
    return message_of<UserError>([&] { EarlierRuns::parse(text, "report.csv").tuning(places); });
  };
  CHECK(
      refused("rung 1,2,learner.learning_rate = 2e-3", "rung 1,2,learner.learning_rate = 3e-3") ==
      "'report.csv' has try 2 of t/gru with learner.learning_rate = 3e-3, planned is learner.learning_rate = 2e-3: it "
      "is of another comparison");
  CHECK(refused("rung 1,2,learner.learning_rate = 2e-3", "rung 1,3,learner.learning_rate = 2e-3").find("no such try") !=
        std::string::npos);
  CHECK(refused("t,gru,8,none,tuning", "t,gru,9,none,tuning").find("seed 9, which [tune] has not") !=
        std::string::npos);
  CHECK(refused("chosen after rung 1", "chosen after rung x").find("'chosen after rung x' for remark") !=
        std::string::npos);
  CHECK(refused("dropped after rung 1", "dropped after rung 2").find("dropped later") != std::string::npos);
  CHECK(refused("dropped after rung 1", "chosen after rung 1").find("two that were chosen") != std::string::npos);
  CHECK(refused("after rung 1,1,learner.learning_rate = 1e-4", "after rung 1,2,learner.learning_rate = 1e-4") ==
        "'report.csv' has try 2 of t/gru again");
  // A place that has not chosen is tuned again.
  std::string none = csv;
  none.replace(none.find("chosen after"), 12, "goes on after");
  CHECK(EarlierRuns::parse(none, "report.csv").tuning(places).empty());
}

TEST_CASE("of several rungs a table has each try once, and what was chosen after the last") {
  Comparison comparison(
      "[compare]\nseeds = 1-2\ncontrols =\n[task]\nname = tmaze\n[memory]\nwidth = 8\n[run]\nsteps = 400\n[tasks.t]\n"
      "[backbones.gru]\n[tune]\nseeds = 8-9\nrungs = 0.25,1\nlearner.learning_rate = 1e-4, 2e-3, 3e-3\n");
  const auto rate = [](const char* text) { return Settings{{"learner.learning_rate", text}}; };
  TuneRecord record;
  record.rungs.push_back({100,
                          {{3, rate("3e-3"), "", {{8, 0.5, 0.5, 0.25}, {9, 0.5, 0.5, 0.25}}},
                           {1, rate("1e-4"), "", {{8, 0.25, 0.5, 0.25}, {9, 0.5, 0.5, 0.25}}},
                           {2, rate("2e-3"), "", {{8, 0.25, 0.5, 0.25}, {9, 0.25, 0.5, 0.25}}}},
                          2});
  record.rungs.push_back({400,
                          {{1, rate("1e-4"), "", {{8, 1, 1, 0.5}, {9, 1, 1, 0.5}}},
                           {3, rate("3e-3"), "", {{8, 0.5, 1, 0.5}, {9, 1, 1, 0.5}}}},
                          1});
  record.chosen = rate("1e-4");
  write_tune_record(record_file(tuning_folder(comparison.path()), "t/gru"), record);
  comparison.plan = plan_runs(Experiment::read(comparison.path()), comparison.path());
  comparison.write("t/gru/1", evaluation_row(400, 0.5) + final_row(0.5));
  const Results results = read_results(comparison.path());
  const TuneRecord known = EarlierRuns::parse(report_csv(results), "report.csv")
                               .tuning(plan_tries(results.planned, "elsewhere"))
                               .at("t/gru");
  CHECK(known.chosen == record.chosen);
  CHECK(known.rungs[1] == record.rungs[1]);
  CHECK(known.rungs[0].kept == 2);
  CHECK(known.rungs[0].steps == 100);
  CHECK(known.rungs[0].tries[0].runs.empty());  // it went on: the table has what came of it
  CHECK(known.rungs[0].tries[2] == record.rungs[0].tries[2]);
  const std::vector<PlannedRun> planned = plan_runs(results.planned, "elsewhere", {{"t/gru", known}});
  CHECK(planned.front().tuned == record.chosen);
}
