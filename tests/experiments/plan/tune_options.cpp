#include "experiments/plan/tune_options.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agents/run/config/config.h"
#include "base/error.h"
#include "experiments/plan/experiment.h"
#include "experiments/plan/plan.h"
#include "experiments/plan/tune_record.h"
#include "storage/settings.h"
#include "tests/experiments/plan/experiment_text.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

TuneOptions parse(const Settings& section) { return TuneOptions::from_settings(section, all_config_keys()); }

Experiment experiment(const std::string& tune, const std::string& more = "") {
  return experiment_of(
      "[compare]\nseeds = 0-1\ncontrols = none\n[task]\nname = tmaze\n[memory]\nwidth = 16\nlayers = 1\n"
      "[run]\nsteps = 1000\n[tasks.t]\n[backbones.gru]\n[backbones.transformer]\n" +
      more + "[tune]\n" + tune);
}

std::string refusal(const std::string& tune, const std::string& more = "") {
  return message_of<UserError>([&] { plan_tries(experiment(tune, more), "folder"); });
}

const std::vector<TunedSetting> kGrid = {{"learner.learning_rate", {"1e-4", "1e-3", "1e-2"}},
                                         {"memory.layers", {"1", "2"}}};

}  // namespace

TEST_CASE("the section of tuning is read, and written as it is read") {
  const TuneOptions tune = parse({{"seeds", "7,100-101"},
                                  {"tries", "3"},
                                  {"rungs", "0.5, 1"},
                                  {"keep", "0.25"},
                                  {"learner.learning_rate", "1e-4, 1e-3,1e-2"},
                                  {"memory.stack", "[deltanet,window], deltanet"}});
  CHECK(tune.seeds == std::vector<std::uint64_t>{7, 100, 101});
  CHECK(tune.tries == 3);
  CHECK(tune.rungs == std::vector<double>{0.5, 1});
  CHECK(tune.keep == 0.25);
  REQUIRE(tune.settings.size() == 2);
  CHECK(tune.settings[0] == TunedSetting{"learner.learning_rate", {"1e-4", "1e-3", "1e-2"}});
  CHECK(tune.settings[1] == TunedSetting{"memory.stack", {"deltanet,window", "deltanet"}});
  const Experiment whole = experiment("seeds = 9\nlearner.learning_rate = 1e-4, 1e-3\n");
  std::istringstream again(whole.to_ini());
  CHECK(Experiment::from_settings(read_settings(again, "it")).tune == whole.tune);
}

TEST_CASE("what cannot be tuned is refused in a line that names it") {
  const std::string seeds = "seeds = 9\n", rate = seeds + "learner.learning_rate = 1e-4, 1e-3\n";
  for (const auto& [tune, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "line 14: [tune] gives no seeds"},
           {seeds, "line 14: [tune] gives no setting to try"},
           {seeds + "learner.lerning_rate = 1\n", "unknown key 'tune.learner.lerning_rate'"},
           {seeds + "learner.learning_rate =\n", "tune.learner.learning_rate '' is no list of values"},
           {seeds + "learner.learning_rate = 1,,2\n", "'1,,2' is no list of values"},
           {seeds + "learner.learning_rate = 1, 1\n", "has 1 twice"},
           {seeds + "learner.learning_rate = 1, x\n", "learner.learning_rate = 'x' is not allowed"},
           {seeds + "task.corridor_length = 5, 6\n", "tune.task.corridor_length cannot be tuned"},
           {seeds + "run.steps = 5, 6\n", "tune.run.steps cannot be tuned"},
           {seeds + "run.seed = 5, 6\n", "tune.run.seed cannot be tuned"},
           {seeds + "memory.name = gru, lstm\n", "tune.memory.name cannot be tuned"},
           {rate + "memory.state_width = 1, 2\n", "tune.memory.state_width: no backbone or learner"},
           {rate + "rungs = 0.5\n", "tune.rungs '0.5' has to end with 1"},
           {rate + "rungs = 0.5,0.5,1\n", "tune.rungs '0.5,0.5,1' is not allowed"},
           {rate + "keep = 1\n", "tune.keep = '1' is not allowed"},
           {rate + "tries = -1\n", "tune.tries = '-1' is not allowed"},
           {"seeds = 1-3\nlearner.learning_rate = 1, 2\n", "seed 1 is in tune.seeds 1-3 and in compare.seeds 0-1"},
           {rate + "memory.heads = 1, 2\n", "2 tries for t/gru and 4 for t/transformer"}}) {
    CAPTURE(tune);
    const std::string said = refusal(tune);
    CHECK_MESSAGE(said.find(part) != std::string::npos, said);
    CHECK(said.find('\n') == std::string::npos);
  }
  std::istringstream matched(
      "[compare]\nseeds = 0\nmatch = parameters\ncontrols =\n[task]\nname = tmaze\n[tasks.t]\n[backbones.gru]\n"
      "[tune]\nseeds = 9\nmemory.width = 8, 16\n");
  CHECK(message_of<UserError>([&] {
          Experiment::from_settings(read_settings(matched, "it"));
        }).find("tune.memory.width and compare.match parameters") != std::string::npos);
}

TEST_CASE("tries are the whole grid, the last setting fastest, or some of it that the seed alone draws") {
  const std::vector<Settings> all = tries_of(kGrid, 0, 0);
  REQUIRE(all.size() == 6);
  CHECK(settings_text(all[0]) == "learner.learning_rate = 1e-4, memory.layers = 1");
  CHECK(settings_text(all[1]) == "learner.learning_rate = 1e-4, memory.layers = 2");
  CHECK(settings_text(all[5]) == "learner.learning_rate = 1e-2, memory.layers = 2");
  CHECK(tries_of(kGrid, 6, 3) == all);
  CHECK(tries_of({}, 0, 0) == std::vector<Settings>{Settings{}});

  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Settings> some = tries_of(kGrid, 3, seed);
    REQUIRE(some.size() == 3);
    CHECK(some == tries_of(kGrid, 3, seed));
    std::size_t at = 0;  // in the order of the grid, each once
    for (const Settings& settings : some) {
      const auto found = std::find(all.begin() + static_cast<std::ptrdiff_t>(at), all.end(), settings);
      REQUIRE(found != all.end());
      at = static_cast<std::size_t>(found - all.begin()) + 1;
      seen.insert(settings_text(settings));
    }
  }
  CHECK(seen.size() == 6);
}

TEST_CASE("every memory has as many tries on the tuning's seeds, and a control fewer where it lacks a setting") {
  const Experiment tuned =
      experiment("seeds = 8-9\ntries = 2\nlearner.learning_rate = 1e-4, 1e-3\nmemory.layers = 1, 2\n",
                 "[backbones.none]\nmemory.name = none\n");
  const std::vector<TunedPlace> places = plan_tries(tuned, "folder/tune");
  REQUIRE(places.size() == 3);
  CHECK(places[1].place == "t/transformer");
  for (const TunedPlace& place : places) CHECK(place.tries.size() == 2);
  REQUIRE(places[0].runs.size() == 4);
  const PlannedRun& run = places[0].runs[3];
  CHECK(run.name() == "t/gru/try2/9");
  CHECK(run.folder == "folder/tune/runs/t/gru/try2/9");
  CHECK(run.config.run.seed == 9);
  CHECK(run.config.run.steps == 1000);
  CHECK(value_text(run.config.values(), "memory.layers") == *value_of(places[0].tries[1], "memory.layers"));
  const std::vector<std::string> arguments = train_arguments({&run});
  CHECK(std::vector<std::string>(arguments.end() - 2, arguments.end()) ==
        std::vector<std::string>{"--run.steps", "1000"});
}

TEST_CASE("tries with other layers are held to what the reference's own settings cost, the reference's, too") {
  std::istringstream text(
      "[compare]\nseeds = 0\nmatch = parameters\nreference = gru\ncontrols =\n[task]\nname = tmaze\n"
      "[memory]\nwidth = 48\nlayers = 1\n[tasks.t]\n[backbones.gru]\n[backbones.lstm]\n"
      "[tune]\nseeds = 9\nmemory.layers = 1, 2\n");
  const Experiment tuned = Experiment::from_settings(read_settings(text, "it"));
  const auto goal = static_cast<double>(plan_runs(tuned, "folder").front().budget.parameters);
  int layers = 0;
  for (const TunedPlace& place : plan_tries(tuned, "folder/tune"))
    for (const PlannedRun& run : place.runs) {
      CHECK(static_cast<double>(run.budget.parameters) / goal == doctest::Approx(1).epsilon(0.03));
      layers += value_text(run.config.memory.values(), "memory.layers") == "2" ? 1 : 0;
    }
  CHECK(layers == 2);
}

TEST_CASE("what is chosen is in the plan of the runs, and survives a record that another program has damaged loudly") {
  const TemporaryFolder folder;
  const Experiment tuned = experiment("seeds = 9\nlearner.learning_rate = 1e-4, 2e-3\n");
  CHECK_FALSE(plan_runs(tuned, folder.path()).front().tuned);
  TuneRecord record;
  record.rungs.push_back({250,
                          {{2, {{"learner.learning_rate", "2e-3"}}, "", {{9, 0.5, 0.25, 0.125}}},
                           {1, {{"learner.learning_rate", "1e-4"}}, "loss is not finite", {}}},
                          1});
  record.chosen = record.rungs[0].tries[0].settings;
  const auto file = record_file(tuning_folder(folder.path()), "t/gru");
  write_tune_record(file, record);
  CHECK(read_tune_record(file) == record);
  const std::vector<PlannedRun> runs = plan_runs(tuned, folder.path());
  REQUIRE(runs[0].tuned);
  CHECK(*runs[0].tuned == *record.chosen);
  CHECK(value_text(runs[1].config.values(), "learner.learning_rate") == "0.002");
  CHECK_FALSE(runs[2].tuned);
  for (const char* damaged :
       {"", "[]", "{}", "{\"rungs\":[],\"chosen\":3}", "{\"rungs\":[{\"steps\":1}],\"chosen\":null}",
        "{\"rungs\":[{\"steps\":1,\"tries\":[],\"kept\":1}],\"chosen\":null}"}) {
    CAPTURE(damaged);
    write_text(file, damaged);
    CHECK(message_of<UserError>([&] { plan_runs(tuned, folder.path()); }).find("is no record of tuning") !=
          std::string::npos);
  }
}
