#include "experiments/run/tune.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "experiments/run/tune_progress.h"
#include "experiments/run/tuned_runs.h"
#include "storage/run/run_failure.h"
#include "tests/experiments/handmade_comparison.h"

using namespace engram;

namespace {

using Names = std::vector<std::string>;

// Tuning in a folder, whose runs take no time and reach what the test says.
struct Handmade {
  TemporaryFolder folder;
  Experiment experiment;
  std::vector<TunedPlace> places;
  std::function<double(const PlannedRun&)> success = [](const PlannedRun&) { return 0.5; };
  std::map<std::string, RunFailure> failing;  // place of a try -> why
  std::vector<Names> ran;                     // rung by rung, as no run takes longer than others
  std::size_t stops_at = 100;                 // the rung of this call, from 0
  bool at_work = false;                       // whether it was stopped
  Names chosen;
  std::int64_t overshoot = 0;  // environment steps that a run does beyond what it is asked for

  explicit Handmade(const std::string& tune) {
    std::istringstream text("[compare]\nseeds = 0\ncontrols =\n[task]\nname = tmaze\n[memory]\nwidth = 8\n" +
                            std::string("[run]\nsteps = 400\n[tasks.t]\n[backbones.gru]\n[backbones.lstm]\n") +
                            "[tune]\nseeds = 8-9\nlearner.learning_rate = 1e-4, 2e-4, 3e-4, 4e-4\n" + tune);
    experiment = Experiment::from_settings(read_settings(text, "it"));
    places = plan_tries(experiment, folder.path());
  }

  void finish(const PlannedRun& run) const {
    std::filesystem::create_directories(run.folder / "weights");
    std::filesystem::create_directories(run.folder / "checkpoints");
    write_text(run.folder / "config.ini", run.config.to_ini());
    write_text(run.folder / "metrics.jsonl",
               "{\"kind\":\"train\",\"environment_steps\":" + std::to_string(run.config.run.steps + overshoot) +
                   ",\"updates\":1,\"episodes\":1,\"skipped_updates\":0}\n" +
                   evaluation_row(static_cast<int>(run.config.run.steps), success(run)) + final_row(success(run)));
  }

  TuneOutcome go() {
    ran.clear();
    places = plan_tries(experiment, folder.path());  // as a program that begins anew
    Tuning source(folder.path(), *experiment.tune, places);
    std::vector<EndedRun> failed;
    auto runs = source.next();
    for (; !runs.empty() && ran.size() < stops_at; runs = source.next()) {
      Names& names = ran.emplace_back();
      for (const PlannedRun* run : runs) names.push_back(run->name() + " to " + std::to_string(run->config.run.steps));
      for (const PlannedRun* run : runs) {
        if (const auto found = failing.find(run->place()); found != failing.end()) {
          write_failure(failure_file(*run), found->second);
          failed.push_back({run, RunEnd::kFailed, found->second, 1});
        } else {
          finish(*run);
        }
        source.over(*run);
      }
    }
    at_work = !runs.empty();
    chosen = source.take_chosen();
    return source.outcome(failed);
  }

  TuneRecord record(const std::string& place) const { return read_tune_record(record_file(folder.path(), place)); }
  bool all_are_tuned() const {
    return std::ranges::all_of(places, [&](const TunedPlace& place) { return record(place.place).chosen.has_value(); });
  }
};

std::vector<int> numbers(const TuneRung& rung) {
  std::vector<int> tries;
  for (const TriedSettings& tried : rung.tries) tries.push_back(tried.number);
  return tries;
}

}  // namespace

TEST_CASE("the best half of each rung goes on from where it is, place by place, until one is left") {
  Handmade tuning("rungs = 0.1, 0.5, 1\n");
  tuning.success = [](const PlannedRun& run) {  // of gru the second try is the best, of lstm the fourth
    return 0.1 * run.try_number * (run.backbone == "gru" && run.try_number > 2 ? 0.1 : 1);
  };
  tuning.go();
  CHECK_FALSE(tuning.at_work);
  CHECK(tuning.chosen == Names{"t/gru", "t/lstm"});
  REQUIRE(tuning.ran.size() == 2);
  CHECK(tuning.ran[0].size() == 2 * 4 * 2);
  CHECK(tuning.ran[0].front() == "t/gru/try1/8 to 40");
  CHECK(tuning.ran[1] == Names{"t/gru/try1/8 to 200", "t/gru/try2/8 to 200", "t/lstm/try3/8 to 200",
                               "t/lstm/try4/8 to 200", "t/gru/try1/9 to 200", "t/gru/try2/9 to 200",
                               "t/lstm/try3/9 to 200", "t/lstm/try4/9 to 200"});
  const TuneRecord gru = tuning.record("t/gru");
  REQUIRE(gru.rungs.size() == 2);
  CHECK(numbers(gru.rungs[0]) == std::vector<int>{2, 1, 4, 3});
  CHECK(gru.rungs[0].kept == 2);
  CHECK(gru.rungs[1].steps == 200);
  CHECK(*gru.chosen == Settings{{"learner.learning_rate", "2e-4"}});
  CHECK(*tuning.record("t/lstm").chosen == Settings{{"learner.learning_rate", "4e-4"}});
  CHECK(tuning.all_are_tuned());
  CHECK(steps_of_tuning(*tuning.experiment.tune, plan_tries(tuning.experiment, "x").front()) == 2 * (4 * 40 + 2 * 160));
  tuning.go();
  CHECK(tuning.ran.empty());  // what is chosen is chosen
}

TEST_CASE("a stopped tuning goes on with the rung that it was in, and chooses what it would have chosen") {
  Handmade whole("keep = 0.6\n"), stopped("keep = 0.6\n");
  whole.success = stopped.success = [](const PlannedRun& run) { return 0.2 * (run.try_number % 4); };
  whole.go();
  stopped.stops_at = 1;
  stopped.go();
  CHECK(stopped.at_work);
  CHECK(stopped.record("t/gru").rungs.size() == 1);
  CHECK_FALSE(stopped.all_are_tuned());
  stopped.stops_at = 100;
  const std::size_t rungs = whole.ran.size();
  stopped.go();
  CHECK_FALSE(stopped.at_work);
  CHECK(stopped.ran.size() == rungs - 1);
  CHECK(stopped.record("t/gru") == whole.record("t/gru"));
}

TEST_CASE("a try that diverges is out, and any other failure leaves the rung to be tried again") {
  Handmade tuning("rungs = 0.5, 1\n");
  tuning.failing["t/gru/try1"] = {FailureKind::kDiverged, "the critic's loss is gone"};
  tuning.success = [](const PlannedRun& run) { return run.try_number == 1 ? 1.0 : 0.1 * run.try_number; };
  CHECK(tuning.go().failed.empty());
  const TuneRecord record = tuning.record("t/gru");
  CHECK(numbers(record.rungs[0]) == std::vector<int>{4, 3, 2, 1});
  CHECK(record.rungs[0].tries[3].failure == "the critic's loss is gone");
  CHECK(*record.chosen == Settings{{"learner.learning_rate", "4e-4"}});

  Handmade broken("rungs = 0.5, 1\n");
  // The kind alone says it, not the words.
  broken.failing["t/gru/try1"] = {FailureKind::kError, "the disk is full; the loss is not finite"};
  REQUIRE(broken.go().failed.size() == 2);
  CHECK(broken.record("t/gru").rungs.empty());
  CHECK(broken.record("t/lstm").chosen);  // another place goes on
  broken.failing.clear();
  for (const char* seed : {"8", "9"})  // as run_all() does before it tries again
    std::filesystem::remove(broken.folder / "failures/t/gru/try1" / (std::string(seed) + ".txt"));
  CHECK(broken.go().failed.empty());
  CHECK(broken.all_are_tuned());

  Handmade lost("");
  for (const char* number : {"1", "2", "3", "4"})
    lost.failing[std::string("t/gru/try") + number] = {FailureKind::kDiverged, "not finite"};
  const TuneOutcome outcome = lost.go();
  REQUIRE(outcome.diverged.size() == 1);
  CHECK(outcome.diverged.front().starts_with("t/gru: all 4 tries of [tune] have diverged"));
  CHECK_FALSE(lost.record("t/gru").chosen);
  CHECK(lost.record("t/lstm").chosen);
}

TEST_CASE("the progress of tuning is which rung it is in, how many tries it has left, and the steps ahead") {
  Handmade tuning("rungs = 0.1, 0.5, 1\n");  // of 400 steps; 4 tries of 2 seeds, then 2
  const auto progress = [&] {
    return tune_progress(tuning.folder.path(), *tuning.experiment.tune,
                         plan_tries(tuning.experiment, tuning.folder.path()));
  };
  REQUIRE(progress().size() == 2);
  PlaceProgress gru = progress().front();
  CHECK(gru.place == "t/gru");
  CHECK(gru.rung == 1);
  CHECK(gru.rungs == 2);
  CHECK(gru.tries == 4);
  CHECK(gru.runs == 8);
  CHECK(gru.finished == 0);
  CHECK(gru.steps_ahead == 8 * 40 + 4 * 160);

  for (PlannedRun& run : tuning.places.front().runs) run.config.run.steps = 40;
  tuning.finish(tuning.places.front().runs[0]);
  const auto fails = [&](std::size_t run, FailureKind kind) {
    write_failure(failure_file(tuning.places.front().runs[run]), {kind, "it is not finite"});
  };
  fails(1, FailureKind::kDiverged);
  fails(2, FailureKind::kOutOfMemory);
  gru = progress().front();
  CHECK(gru.finished == 1);
  CHECK(gru.diverged == 1);
  CHECK(gru.failed == 1);
  CHECK(gru.steps_ahead == 6 * 40 + 4 * 160);  // that without memory is tried again
  CHECK(progress().back().steps_ahead == 8 * 40 + 4 * 160);

  std::filesystem::remove_all(tuning.folder / "failures");  // as run_all() does before it tries again
  tuning.stops_at = 1;
  tuning.go();
  CHECK(tuning.at_work);
  gru = progress().front();
  CHECK_FALSE(gru.chosen);
  CHECK(gru.rung == 2);
  CHECK(gru.tries == 2);
  CHECK(gru.runs == 4);
  CHECK(gru.steps_ahead == 4 * 160);
  tuning.stops_at = 100;
  tuning.go();
  gru = progress().front();
  CHECK(gru.chosen == tuning.record("t/gru").chosen);
  CHECK(gru.steps_ahead == 0);
}

TEST_CASE(
    "a place goes on while others are in a rung before, and the comparison's runs of it begin when it has chosen") {
  Handmade made("rungs = 0.5, 1\n");
  Tuning tuning(made.folder.path(), *made.experiment.tune, made.places);
  const std::vector<PlannedRun> own = plan_runs(made.experiment, made.folder.path());
  std::vector<Names> asked_for;
  TunedRuns source(tuning, {&own.back()}, [&](const Names& places) {
    asked_for.push_back(places);
    return std::vector<const PlannedRun*>{&own.front()};
  });
  const auto finish = [&](const std::vector<const PlannedRun*>& runs, const std::string& backbone) {
    for (const PlannedRun* run : runs) {
      if (run->backbone != backbone) continue;
      made.finish(*run);
      source.over(*run);
    }
  };
  const auto backbones = [](const std::vector<const PlannedRun*>& runs) {
    std::multiset<std::string> all;
    for (const PlannedRun* run : runs) all.insert(run->backbone);
    return all;
  };
  const std::vector<const PlannedRun*> first = source.next();
  CHECK(first.size() == 2 * 4 * 2);
  finish(first, "gru");  // whose second rung is two tries; lstm is in its first
  const std::vector<const PlannedRun*> second = source.next();
  CHECK(backbones(second) == std::multiset<std::string>{"gru", "gru", "gru", "gru"});
  CHECK(source.next() == std::vector{&own.back()});  // of a place that had chosen before
  CHECK(source.next().empty());
  finish(second, "gru");
  CHECK(source.next() == std::vector{&own.front()});
  CHECK(asked_for == std::vector<Names>{{"t/gru"}});
  CHECK(source.next().empty());
  CHECK_FALSE(made.record("t/lstm").chosen);
  source.over(own.front());  // nothing of the tuning
  finish(first, "lstm");
  finish(source.next(), "lstm");
  CHECK(made.all_are_tuned());
  CHECK(source.next() == std::vector{&own.front()});
  CHECK(asked_for.back() == Names{"t/lstm"});
}

TEST_CASE("a run that is past its next rung already stays as it is") {
  Handmade tuning("rungs = 0.1, 0.2, 1\nkeep = 0.75\n");
  tuning.overshoot = 50;
  tuning.go();
  CHECK_FALSE(tuning.at_work);
  REQUIRE(tuning.ran.size() == 3);
  CHECK(tuning.ran[0].front() == "t/gru/try1/8 to 40");
  CHECK(tuning.ran[1].front() == "t/gru/try1/8 to 40");  // which run_all() finds finished
  CHECK(tuning.ran[2].front() == "t/gru/try1/8 to 400");
  const TuneRecord record = tuning.record("t/gru");
  CHECK(record.rungs[1].steps == 80);
  CHECK(record.rungs[1].tries.size() == 3);
}

TEST_CASE("equal successes are told apart by the return, then by the area, then by the order of the tries") {
  const auto tried = [](int number, double success, std::optional<double> mean_return, double area) {
    return TriedSettings{number, {}, "", {{1, success, mean_return, area}}};
  };
  std::vector<TriedSettings> tries = {tried(1, 0.5, 1, 0.1),
                                      tried(2, 0.5, {}, 0.9),
                                      tried(3, 0.5, 2, 0.1),
                                      tried(4, 0.6, 0, 0),
                                      tried(5, 0.5, 1, 0.2),
                                      tried(6, 0.5, 1, 0.1),
                                      {7, {}, "not finite", {{1, 1, 1, 1}}}};
  sort_tries(tries);
  CHECK(numbers({1, tries, 1}) == std::vector<int>{4, 3, 5, 1, 6, 2, 7});
}

TEST_CASE("the shares that are kept are rounded up, and one always is") {
  TuneOptions tune;
  tune.keep = 1.0 / 3;
  CHECK(tune.kept_of(9) == 3);
  CHECK(tune.kept_of(4) == 2);
  CHECK(tune.kept_of(1) == 1);
  tune.rungs = {0.1, 0.3, 1};
  CHECK(tries_in_rungs(tune, 9) == std::vector<std::size_t>{9, 3});
  CHECK(tries_in_rungs(tune, 30) == std::vector<std::size_t>{30, 10, 4});
  CHECK(tries_in_rungs(tune, 1).empty());
}
