#include "experiments/plan/experiment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/plan/plan.h"
#include "storage/files.h"
#include "storage/run/run_lock.h"
#include "storage/settings.h"
#include "tests/agents/learn/preset_learner.h"
#include "tests/experiments/labels.h"
#include "tests/experiments/plan/experiment_text.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

const std::string kSmall =
    "[compare]\nquestion = Which?\nseeds = 3,0-1\n[task]\nname = tmaze\n[memory]\nwidth = 16\nlayers = 1\n"
    "[tasks.short]\ntask.corridor_length = 4\n[tasks.long]\ntask.corridor_length = 8\nrun.steps = 500\n"
    "[backbones.gru]\nmemory.name = gru\n[backbones.wide+lstm]\nmemory.name = lstm\nmemory.width = 32\n";

std::string refusal(const std::string& text) {
  return message_of<UserError>([&] { plan_runs(experiment_of(text), "folder"); });
}

}  // namespace

TEST_CASE("seeds are ranges and numbers, ascending, each once") {
  CHECK(parse_seeds("5") == std::vector<std::uint64_t>{5});
  CHECK(parse_seeds("7, 0-2") == std::vector<std::uint64_t>{0, 1, 2, 7});
  CHECK(seeds_text({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
  for (const char* text : {"", "a", "1-", "-1", "3-1", "1,,2", "1-2-3", "1.5", "0-99999999999", "1,1", "0-3,2",
                           "99999999999999999999", "0x1", "1 2"}) {
    CAPTURE(text);
    CHECK(message_of<UserError>([&] { parse_seeds(text); }).starts_with(std::string("seeds '") + text + "'"));
  }
}

TEST_CASE("an experiment is read with its entries in order, and its controls behind them") {
  const Experiment experiment = experiment_of(kSmall);
  CHECK(experiment.question == "Which?");
  CHECK(experiment.match == Match::kNone);
  CHECK(experiment.reference == "gru");
  CHECK(labels(experiment.tasks) == Labels{"short", "long"});
  CHECK(labels(experiment.backbones) == Labels{"gru", "wide+lstm", "none", "full_state"});
  CHECK(experiment.seeds == std::vector<std::uint64_t>{0, 1, 3});

  const std::vector<PlannedRun> runs = plan_runs(experiment, "folder");
  REQUIRE(runs.size() == 2 * 4 * 3);
  CHECK(runs[0].name() == "short/gru/0");
  CHECK(runs[5].name() == "short/wide+lstm/3");
  CHECK(runs[5].folder == "folder/runs/short/wide+lstm/3");
  CHECK(runs[5].config.run.seed == 3);
  CHECK(runs[5].config.memory.width() == 32);
  CHECK(runs[5].config.task.info().max_episode_steps == 5);
  CHECK(runs[5].control == Control::kNone);
  CHECK(runs[6].control == Control::kMemoryless);
  CHECK(runs[9].control == Control::kFullState);
  CHECK(runs[9].config.task.info().observation.shape() == std::vector<std::int64_t>{5});
  CHECK(runs[12].config.run.steps == 500);
}

TEST_CASE("an entry may have the settings of one before it, and its own") {
  const Experiment experiment = experiment_of(
      "[tasks.a]\ntask.name = tmaze\ntask.corridor_length = 5\nrun.steps = 300\n"
      "[tasks.b]\nlike = a\nrun.steps = 500\n[tasks.c]\nlike = b\ntask.corridor_length = 7\n"
      "[backbones.gru]\nmemory.name = gru\n[backbones.wide]\nlike = gru\nmemory.width = 24\n");
  const auto config = [&](const char* task, const char* backbone) {
    return experiment.config(*find_entry(experiment.tasks, task), *find_entry(experiment.backbones, backbone), 0);
  };
  const Config before = config("a", "gru"), after = config("c", "wide");
  CHECK(before.run.steps == 300);
  CHECK(before.task.info().observation.shape() == config("b", "gru").task.info().observation.shape());
  CHECK(config("b", "gru").run.steps == 500);
  CHECK(after.run.steps == 500);
  CHECK(after.task.name() == "tmaze");
  CHECK(after.task.info().max_episode_steps > before.task.info().max_episode_steps);
  CHECK(after.memory.name() == "gru");
  CHECK(after.memory.width() == 24);
  CHECK(experiment_of(experiment.to_ini()).to_ini() == experiment.to_ini());
}

TEST_CASE("an entry without settings of its own has those above, and a label that is a name says which it is") {
  const auto plan = [](const std::string& text) {
    return plan_runs(experiment_of("[compare]\nseeds = 0\ncontrols =\n" + text), "d");
  };
  const std::vector<PlannedRun> shared = plan(
      "[task]\nname = tmaze\ncorridor_length = 7\n[memory]\nname = gru\n[tasks.base]\n[tasks.longer]\n"
      "task.corridor_length = 9\n[backbones.base]\n[backbones.lstm]\nmemory.name = lstm\n");
  REQUIRE(shared.size() == 4);
  CHECK(shared[0].name() == "base/base/0");
  CHECK(shared[0].config.task.info().max_episode_steps == 8);
  CHECK(shared[0].config.memory.name() == "gru");
  CHECK(shared[3].config.task.info().max_episode_steps == 10);
  CHECK(shared[3].config.memory.name() == "lstm");

  const std::string named =
      "[tasks.tmaze]\n[tasks.tmaze_passive_50]\n[tasks.t]\ntask.name = key_to_door\n"
      "[backbones.gru]\n[backbones.wide]\nlike = gru\nmemory.width = 24\n";
  const std::vector<PlannedRun> by_label = plan(named);
  REQUIRE(by_label.size() == 6);
  CHECK(by_label[0].config.task.name() == "tmaze");
  CHECK(by_label[2].config.task.info().max_episode_steps == 51);
  CHECK(by_label[4].config.task.name() == "key_to_door");
  CHECK(by_label[4].config.memory.name() == "gru");
  CHECK(by_label[5].config.memory.name() == "gru");
  CHECK(by_label[5].config.memory.width() == 24);
  CHECK(experiment_of(experiment_of(named).to_ini()).to_ini() == experiment_of(named).to_ini());

  CHECK(mentions(refusal("[tasks.a]\n[backbones.b]\n[lerner]\n"),
                 "it, line 3: unknown section [lerner]; did you mean 'le"));
  CHECK(mentions(refusal("[tasks.a.lerner]\n[backbones.b]\n"), "it, line 1: unknown section [lerner]"));
  CHECK(refusal("[tasks]\n[backbones.b]\n") == "it, line 1: [tasks] has no label; as in [tasks.LABEL]");
  CHECK(mentions(refusal("[tasks.a b]\n[backbones.b]\n"), "it, line 1: label 'a b' is not allowed"));
}

TEST_CASE("an entry's preset wins over what all runs share, and the command line over both") {
  Experiment experiment = experiment_of(
      "[compare]\nseeds = 0\ncontrols =\n[task]\nname = tmaze\ncorridor_length = 7\n[tasks.short]\n[tasks.p]\n"
      "task.preset = tmaze_passive_50\n[tasks.own]\ntask.corridor_length = 9\ntask.preset = tmaze_passive_50\n"
      "[backbones.gru]\nmemory.name = gru\n");
  const auto steps = [](const Experiment& of) {
    std::vector<int> all;
    for (const PlannedRun& run : plan_runs(of, "d")) all.push_back(run.config.task.info().max_episode_steps);
    return all;
  };
  CHECK(steps(experiment) == std::vector<int>{8, 51, 10});
  experiment.override_settings({{"task.corridor_length", "4"}});
  CHECK(steps(experiment) == std::vector<int>{5, 5, 5});
  CHECK(steps(experiment_of(experiment.to_ini())) == std::vector<int>{5, 5, 5});
}

TEST_CASE("so does an entry's preset of a learner, whatever the section") {
  testing::add_preset_learner();
  Experiment experiment = experiment_of(
      "[compare]\nseeds = 0\ncontrols =\n[network]\nhidden_width = 20\n[tasks.t]\ntask.name = tmaze\n"
      "[backbones.gru]\nmemory.name = gru\n[backbones.p]\nmemory.name = gru\nlearner.preset = small_steps\n");
  const auto widths = [](const Experiment& of) {
    std::vector<int> all;
    for (const PlannedRun& run : plan_runs(of, "d")) all.push_back(run.config.network.hidden_width);
    return all;
  };
  CHECK(widths(experiment) == std::vector<int>{20, 48});
  experiment.override_settings({{"network.hidden_width", "24"}});
  CHECK(widths(experiment) == std::vector<int>{24, 24});
  CHECK(widths(experiment_of(experiment.to_ini())) == std::vector<int>{24, 24});
  experiment.override_settings({{"learner.name", "dqn"}});
  CHECK(mentions(message_of<UserError>([&] { plan_runs(experiment, "d"); }),
                 "'small_steps' is a preset of learner with_presets, but learner.name is 'dqn'"));
  CHECK(mentions(message_of<UserError>([&] {
                   experiment.override_settings({{"learner.preset", "small_steps"}});
                 }),
                 "--learner.preset is not for a comparison"));
}

TEST_CASE("the text of an experiment reads back to the same experiment") {
  for (const std::string& text :
       {kSmall, std::string("[compare]\nmatch = state\nreference = lstm\ncontrols =\n[tasks.t]\ntask.name = tmaze\n"
                            "[backbones.lstm]\nmemory.name = lstm\n")}) {
    const Experiment before = experiment_of(text), after = experiment_of(before.to_ini());
    CHECK(after.to_ini() == before.to_ini());
    CHECK(labels(after.backbones) == labels(before.backbones));
    CHECK(after.match == before.match);
    CHECK(after.reference == before.reference);
    CHECK(after.common == before.common);
    CHECK(plan_runs(after, "d").back().name() == plan_runs(before, "d").back().name());
  }
}

TEST_CASE("controls are those asked for, an entry may write one out, and nothing else has its label") {
  const Experiment written = experiment_of(kSmall + "[backbones.none]\nmemory.name = none\nmemory.layers = 2\n");
  CHECK(labels(written.backbones) == Labels{"gru", "wide+lstm", "none", "full_state"});
  CHECK(plan_runs(written, "d")[6].control == Control::kMemoryless);
  const std::string end = " that compare.controls adds under this label; give it another label, or leave ";
  CHECK(refusal(kSmall + "[backbones.none]\nmemory.name = lstm\n") ==
        "it, line 19: [backbones.none] is not the control 'none'" + end + "'none' out of compare.controls");
  for (const std::string entry : {"full_state]\nmemory.name = none\n", "full_state]\ntask.full_state = true\n",
                                  "none]\nmemory.name = none\ntask.full_state = true\n"})
    CHECK(mentions(refusal(kSmall + "[backbones." + entry), "' that compare.controls adds under this label"));
  CHECK(mentions(refusal("[compare]\ncontrols = full_state_recurrent\n" + kSmall.substr(10) +
                         "[backbones.full_state_recurrent]\nmemory.name = gru\n"),
                 "is not the control 'full_state_recurrent'"));
  CHECK(labels(experiment_of("[compare]\ncontrols =\n" + kSmall.substr(10) + "[backbones.none]\nmemory.name = gru\n")
                   .backbones) == Labels{"gru", "wide+lstm", "none"});
  std::string text = kSmall;
  text.insert(text.find("[task]"), "controls = full_state\n");
  CHECK(labels(experiment_of(text).backbones) == Labels{"gru", "wide+lstm", "full_state"});
  text.replace(text.find("full_state"), 10, "random");
  CHECK(
      mentions(refusal(text), "compare.controls names 'random'; there are none, full_state and full_state_recurrent"));
}

TEST_CASE("full_state_recurrent has the memory of the reference, with its settings and its size") {
  const std::string text =
      "[compare]\nmatch = parameters\nreference = wide\nseeds = 0\ncontrols = full_state,full_state_recurrent\n"
      "[task]\nname = tmaze\n[memory]\nwidth = 16\nlayers = 1\n[tasks.t]\ntask.corridor_length = 4\n"
      "[backbones.gru]\nmemory.name = gru\n"
      "[backbones.wide]\nmemory.name = hqlt\nmemory.width = 32\nmemory.window = 9\nlearner.gamma = 0.9\n";
  const Experiment experiment = experiment_of(text);
  CHECK(labels(experiment.backbones) == Labels{"gru", "wide", "full_state", "full_state_recurrent"});
  std::vector<PlannedRun> runs = plan_runs(experiment, "d");
  PlannedRun &reference = runs[1], &full_state = runs[2], &recurrent = runs[3];
  CHECK(full_state.control == Control::kFullState);
  CHECK(recurrent.control == Control::kFullStateRecurrent);
  CHECK(std::string(control_name(recurrent.control)) == "full_state_recurrent");
  CHECK(recurrent.budget == reference.budget);
  // All settings are the reference's but what it sees.
  std::string expected = reference.config.to_ini();
  const std::string hidden = "full_state = false", seen = "full_state = true";
  REQUIRE(mentions(expected, hidden));
  expected.replace(expected.find(hidden), hidden.size(), seen);
  CHECK(recurrent.config.to_ini() == expected);
  CHECK(recurrent.config.task.info().observation.shape() != reference.config.task.info().observation.shape());
  // The folder keeps what the control was when it was begun.
  CHECK(labels(experiment_of(experiment.to_ini()).backbones) == labels(experiment.backbones));

  const auto with_reference = [&](const std::string& label) {
    std::string other = text;
    other.replace(other.find("= wide"), 6, "= " + label);
    return refusal(other);
  };
  CHECK(mentions(with_reference("lstm"), "compare.reference 'lstm', but that is none of the backbones"));
  std::string memoryless = text;
  memoryless.replace(memoryless.find("name = hqlt\nmemory.width = 32\nmemory.window = 9"), 47, "name = none");
  CHECK(mentions(refusal(memoryless), "compare.reference 'wide' has no memory"));
}

TEST_CASE("a plan of tasks of several lengths has the sizes of each task's own plan") {
  std::string backbones;
  for (const std::string& name : backbone_names())
    if (name != "none" && name != "stack") backbones += "[backbones." + name + "]\nmemory.name = " + name + "\n";
  const std::vector<std::string> tasks = {"[tasks.short]\ntask.corridor_length = 4\n",
                                          "[tasks.long]\ntask.corridor_length = 300\n",
                                          "[tasks.again]\ntask.corridor_length = 4\n"};
  for (const std::string match : {"parameters", "state"}) {
    const std::string begin = "[compare]\nmatch = " + match +
                              "\nreference = deltanet\nseeds = 0\ncontrols =\n[task]\n" +
                              "name = tmaze\n[memory]\nwidth = 32\n";
    const std::string others = match == "parameters" ? backbones
                                                     : "[backbones.deltanet]\nmemory.name = deltanet\n"
                                                       "[backbones.gru]\nmemory.name = gru\n";
    std::vector<PlannedRun> alone;
    for (const std::string& task : tasks)
      for (PlannedRun& run : plan_runs(experiment_of(begin + task + others), "d")) alone.push_back(std::move(run));
    std::vector<PlannedRun> together = plan_runs(experiment_of(begin + tasks[0] + tasks[1] + tasks[2] + others), "d");
    REQUIRE(together.size() == alone.size());
    for (std::size_t i = 0; i < together.size(); ++i) {
      CAPTURE(together[i].name());
      CHECK(together[i].name() == alone[i].name());
      CHECK(together[i].budget == alone[i].budget);
      CHECK(together[i].config.to_ini() == alone[i].config.to_ini());
    }
  }
}

TEST_CASE("a folder that was begun with widths matched alone goes on so, unless it is asked for something else") {
  const std::string text =
      "[compare]\nmatch = parameters\nreference = hqlt\nseeds = 0\ncontrols =\n[task]\nname = tmaze\n"
      "[tasks.t]\ntask.corridor_length = 4\n[backbones.hqlt]\nmemory.name = hqlt\n"
      "[backbones.deltanet]\nmemory.name = deltanet\n";
  const TemporaryFolder folder;
  write_text(experiment_file(folder.path()), text);
  const Experiment before = Experiment::read(folder.path());
  const auto widths = [&](const Experiment& experiment) {
    const Budget budget = plan_runs(experiment, "d")[1].budget;
    return std::pair(budget.width, budget.mlp_width);
  };
  CHECK(widths(before) == std::pair<std::int64_t, std::int64_t>(104, 512));
  const Experiment now = experiment_of(text);
  CHECK(widths(now) == std::pair<std::int64_t, std::int64_t>(112, 448));
  CHECK(mentions(now.to_ini(), "match_mlp = true\n"));
  Experiment again = now;
  again.add_saved(before, "'d'");
  CHECK(widths(again) == widths(before));
  CHECK(mentions(again.to_ini(), "match_mlp = false\n"));
  Experiment asked = experiment_of("[compare]\nmatch_mlp = true\n" + text.substr(10));
  CHECK(message_of<UserError>([&] { asked.add_saved(before, "'d'"); }) ==
        "'d' was made with compare.match_mlp = false and cannot go on with true");
  Experiment later = experiment_of(text);
  later.add_saved(now, "'d'");
  CHECK(widths(later) == widths(now));
}

TEST_CASE("a comparison of an earlier format keeps it, and one that begins now says its own") {
  const TemporaryFolder folder;
  write_text(experiment_file(folder.path()), kSmall);
  const Experiment before = Experiment::read(folder.path());
  CHECK(before.format == 1);
  Experiment now = experiment_of(kSmall);
  CHECK(now.to_ini().starts_with("format = " + std::to_string(kConfigFormat) + "\n"));
  now.add_saved(before, "'d'");
  CHECK(now.to_ini().starts_with("format = 1\n"));
  // Then presets lay below all other settings, and labels said nothing.
  write_text(experiment_file(folder.path()),
             "[compare]\ncontrols =\n[task]\nname = tmaze\ncorridor_length = 7\n[tasks.p]\n"
             "task.preset = tmaze_passive_50\n[backbones.gru]\nmemory.width = 64\n");
  const PlannedRun run = plan_runs(Experiment::read(folder.path()), "d").front();
  CHECK(run.config.task.info().max_episode_steps == 8);
  CHECK(run.config.memory.name() == "hqlt");
}

TEST_CASE("bad experiments are refused in one line") {
  const auto with = [](const std::string& more) { return kSmall + more; };
  CHECK(mentions(refusal(with("[backbones.x]\nmemory.name = gruu\n")), "short/x: unknown backbone 'gruu'"));
  CHECK(mentions(refusal(with("[tasks.x]\ntask.corridor = 3\n")), "it, line 20: unknown key 'task.corridor'"));
  CHECK(mentions(refusal(with("[compare]\nmatched = flops\n")), "unknown key 'compare.matched'"));
  CHECK(mentions(refusal(with("[compare]\nmatch = width\n")), "parameters | state | flops | none"));
  CHECK(mentions(refusal(with("[compare]\nreference = hqlt\n")), "compare.reference 'hqlt' is none of"));
  CHECK(mentions(refusal(with("[run]\nseed = 3\n")), "seeds stand in compare.seeds"));
  CHECK(mentions(refusal(with("[tasks.long]\nrun.seed = 3\n")), "seeds stand in compare.seeds"));
  CHECK(mentions(refusal(with("[evaluation]\nfinal_episodes = 0\n")), "leaves no final score"));
  CHECK(mentions(refusal(with("[tasks.x]\nlength = 3\n")), "is no setting of x"));
  CHECK(mentions(refusal(with("[tasks.x]\nlike = lang\n")), "'lang' is none of the sections before this one; did you"));
  CHECK(mentions(refusal(with("[tasks.x]\nlike = x\n")), "'x' is none of the sections before"));
  CHECK(mentions(refusal(with("[tasks.x]\nlike = gru\n")), "'gru' is none of the sections before"));
  CHECK(
      mentions(refusal(with("[tasks.x]\nrun.steps = 3\nlike = long\n")), "'x.like' has to come before the section's"));
  CHECK(mentions(refusal("steps = 3\n" + kSmall), "it, line 1: unknown key 'steps'"));
  for (const char* key : {"seeds", "match", "reference", "evaluate"})
    CHECK(mentions(refusal("[compare]\n" + std::string(key) + " =\n[tasks.x]\n[backbones.gru]\n"),
                   "it, line 2: compare." + std::string(key) + " = '' is not allowed; it takes "));
  CHECK(mentions(refusal(with("[backbones.x]\nmemory.name =\n")), "short/x: memory.name = '' is not allowed"));
  CHECK(mentions(refusal("[tasks.t]\ntask.name = tmaze\n[compare]\ncontrols =\n"), "has no backbone"));
  CHECK(mentions(refusal("[backbones.b]\nmemory.name = gru\n"), "has no task"));
}

TEST_CASE("the file of an experiment is named with the line of what is refused, and told from a run's") {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& text, const Settings& more = {}) {
    write_text(folder / "c.ini", text);
    return message_of<UserError>([&] { Experiment::from_file(folder / "c.ini", more); });
  };
  const std::string file = "config file '" + (folder / "c.ini").string() + "'";
  CHECK(error_of(kSmall) == "nothing was thrown");
  CHECK(error_of("[learner]\nlr = 3\n" + kSmall) ==
        file + ", line 2: unknown key 'learner.lr'; did you mean 'learner.learning_rate'?");
  CHECK(error_of("[tasks.a-b]\n\ntask.corridor_len = 3\n" + kSmall) ==
        file + ", line 3: unknown key 'task.corridor_len'; did you mean 'task.corridor_length'?");
  CHECK(error_of("[compare]\nsedes = 3\n[tasks.x]\ntask.name = tmaze\n") ==
        file + ", line 2: unknown key 'compare.sedes'; did you mean 'compare.seeds'?");
  CHECK(error_of("[tasks.x]\nlike = y\n" + kSmall) == file + ", line 2: 'y' is none of the sections before this one");
  CHECK(error_of("[tasks.a b]\ntask.name = tmaze\n").starts_with(file + ", line 1: label 'a b' is not allowed"));
  CHECK(error_of(kSmall, {{"compare.match", "width"}}).starts_with("compare.match = 'width' is not allowed"));
  const std::string of_run = error_of("[run]\nseed = 3\n[task]\nname = tmaze\n");
  CHECK(mentions(of_run, file + " has none of the sections [compare], [tasks.LABEL] and [backbones.LABEL]"));
  CHECK(mentions(of_run, "engram train --config " + (folder / "c.ini").string()));

  const auto sections = [](const std::string& text) {
    std::istringstream stream(text);
    return experiment_sections(read_settings(stream, "it"));
  };
  CHECK(sections(kSmall) == "[compare], [tasks.LABEL], [backbones.LABEL]");
  CHECK(sections("[run]\nseed = 3\n[tasks.a]\ntask.name = tmaze\n") == "[tasks.LABEL]");
  CHECK(sections("[run]\nseed = 3\n") == "");
}

TEST_CASE("an experiment may have the backbones of another file beside its own") {
  const TemporaryFolder folder;
  const std::filesystem::path own = folder / "own.ini", other = folder / "other.ini";
  write_text(other, kSmall);
  const auto read = [&](const std::string& text) {
    write_text(own, text);
    return Experiment::from_file(own);
  };
  const std::string own_tasks = "[compare]\nbackbones_of = other.ini\n[tasks.t]\ntask.name = tmaze\n";
  const Experiment taken =
      read(own_tasks + "[backbones.wide+lstm]\nmemory.layers = 2\nmemory.width = 8\n[backbones.lru]\n");
  CHECK(labels(taken.backbones) == Labels{"gru", "wide+lstm", "lru", "none", "full_state"});
  CHECK(taken.backbones[1].settings ==
        Settings{{"memory.name", "lstm"}, {"memory.layers", "2"}, {"memory.width", "8"}});
  CHECK(labels(taken.tasks) == Labels{"t"});
  CHECK(taken.reference == "gru");
  CHECK(taken.question.empty());
  CHECK_FALSE(mentions(taken.to_ini(), "backbones_of"));  // a comparison's folder needs no other file

  const auto error_of = [&](const std::string& text) { return message_of<UserError>([&] { read(text); }); };
  const std::string file = "config file '" + own.string() + "', line 2: ";
  CHECK(error_of("[compare]\nbackbones_of = nothing.ini\n[tasks.t]\ntask.name = tmaze\n")
            .find((folder / "nothing.ini").string()) != std::string::npos);
  write_text(other, "[compare]\ncontrols = none\n[tasks.t]\ntask.name = tmaze\n");
  CHECK(error_of(own_tasks) == file + "config file '" + other.string() + "' has no section [backbones.LABEL]");
  write_text(other, kSmall + "[backbones.x]\nmemory.widht = 3\n");
  CHECK(mentions(error_of(own_tasks), other.string() + "', line 20: unknown key 'memory.widht'"));
  write_text(other, own_tasks + "[backbones.gru]\n");
  CHECK(mentions(error_of(own_tasks), other.string() + "', line 2: compare.backbones_of stands in the file"));
  CHECK(mentions(message_of<UserError>([&] {
                   Experiment::from_settings({}, {{"compare.backbones_of", "other.ini"}});
                 }),
                 "compare.backbones_of stands in the file of a comparison alone"));
}

TEST_CASE("labels that are no plain names are refused: they become folders") {
  for (const std::string& label : {std::string("../x"), std::string("a/b"), std::string("-rf"), std::string(""),
                                   std::string("a b"), std::string("~"), std::string("$(x)"), std::string("\xc3\xa4"),
                                   std::string(65, 'l'), std::string("a\\b"), std::string("*")}) {
    CAPTURE(label);
    CHECK(mentions(message_of<UserError>([&] {
                     Experiment::from_settings({.settings = {{"tasks." + label + ".task.name", "tmaze"},
                                                             {"backbones.gru.memory.name", "gru"}}});
                   }),
                   "is not allowed; it takes 1 to 64 letters"));
  }
}

TEST_CASE("parts are selected by label, and settings of the command line hold for all") {
  Experiment experiment = experiment_of(kSmall);
  experiment.select_tasks({"long"});
  experiment.select_backbones({"full_state", "wide+lstm"});
  CHECK(labels(experiment.tasks) == Labels{"long"});
  CHECK(labels(experiment.backbones) == Labels{"wide+lstm", "full_state"});
  CHECK(experiment.reference == "wide+lstm");
  CHECK(mentions(message_of<UserError>([&] { experiment.select_tasks({"lang"}); }), "did you mean 'long'?"));
  CHECK(mentions(message_of<UserError>([&] { experiment.select_backbones({"zzz"}); }),
                 "no backbone 'zzz'; there are wide+lstm, full_state"));
  experiment.override_settings({{"memory.width", "24"}, {"run.steps", "77"}});
  for (const PlannedRun& run : plan_runs(experiment, "d")) {
    CHECK(run.config.memory.width() == 24);
    CHECK(run.config.run.steps == 77);
  }
  CHECK(mentions(message_of<UserError>([&] { experiment.override_settings({{"run.seed", "1"}}); }), "--seeds"));
  CHECK(mentions(message_of<UserError>([&] {
                   experiment.override_settings({{"memory.name", "gru"}});
                 }),
                 "--backbones"));
  CHECK(mentions(message_of<UserError>([&] {
                   experiment.override_settings({{"run.device", "cpu # x"}});
                 }),
                 "cannot be kept"));
}

TEST_CASE("an experiment grows, and what contradicts it is refused by name") {
  const Experiment saved = experiment_of(kSmall);
  Experiment more = experiment_of(kSmall + "[backbones.gru2]\nmemory.name = gru\nmemory.layers = 2\n");
  more.select_tasks({"long"});
  more.seeds = {7};
  more.add_saved(saved, "'d'");
  CHECK(labels(more.tasks) == Labels{"short", "long"});
  CHECK(labels(more.backbones) == Labels{"gru", "wide+lstm", "none", "full_state", "gru2"});
  CHECK(more.seeds == std::vector<std::uint64_t>{0, 1, 3, 7});

  const auto against = [&](const std::string& from, const std::string& to) {
    std::string text = kSmall;
    text.replace(text.find(from), from.size(), to);
    return message_of<UserError>([&] { experiment_of(text).add_saved(saved, "'d'"); });
  };
  CHECK(against("width = 16", "width = 20") ==
        "'d', short/gru, was made with memory.width = 16 and cannot go on with 20");
  CHECK(against("corridor_length = 8", "corridor_length = 9") ==
        "'d', long/gru, was made with task.corridor_length = 8 and cannot go on with 9");
  CHECK(against("name = lstm", "name = gru") ==
        "'d', short/wide+lstm, was made with memory.name = lstm and cannot go on with gru");
  CHECK(mentions(against("seeds = 3,0-1", "match = flops"), "compare.match = none and cannot go on with flops"));
  CHECK(against("run.steps = 500", "run.steps = 900") == "nothing was thrown");
}

TEST_CASE("matched widths stand in the plan, and memoryless controls keep theirs where states are matched") {
  Experiment experiment = experiment_of(
      "[compare]\nmatch = state\nreference = lstm\nseeds = 0\n[task]\nname = visual_match\n[memory]\nwidth = 100\n"
      "[tasks.t]\ntask.distractor_steps = 5\n[backbones.lstm]\nmemory.name = lstm\n[backbones.gru]\nmemory.name = "
      "gru\n");
  const std::vector<PlannedRun> runs = plan_runs(experiment, "d");
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].config.memory.width() == 100);
  CHECK(runs[1].config.memory.width() == 200);
  CHECK(runs[1].budget.state_bytes == runs[0].budget.state_bytes);
  CHECK(runs[2].config.memory.width() == 100);
  CHECK(runs[2].budget.state_bytes == 0);
}

TEST_CASE("where a run stands is read from its files") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(kSmall);
  const std::vector<PlannedRun> runs = plan_runs(experiment, folder.path());
  write_plan(folder.path(), experiment, runs);
  CHECK(Experiment::read(folder.path()).to_ini() == experiment.to_ini());
  const PlannedRun& run = runs.front();
  const auto state = [&] { return read_run_state(run); };
  CHECK(state().stage == RunStage::kMissing);

  std::filesystem::create_directories(run.folder);
  Config config = run.config;
  write_text(run.folder / "config.ini", config.to_ini());
  CHECK(state().stage == RunStage::kUnfinished);
  const std::string final_row =
      "{\"kind\":\"final\",\"environment_steps\":10,\"updates\":2,\"episodes\":100,\"success\":0.5,"
      "\"success_low\":0.4,\"success_high\":0.6,\"return\":1}\n";
  write_text(run.folder / "metrics.jsonl", final_row);
  CHECK(state().stage == RunStage::kFinished);
  {
    const RunLock lock(run.folder);
    CHECK(state().stage == RunStage::kUnfinished);
    CHECK(state().running);
  }
  config.run.steps += 1;  // it was asked for less than the plan has now
  write_text(run.folder / "config.ini", config.to_ini());
  CHECK(state().stage == RunStage::kUnfinished);
  std::filesystem::create_directories(failure_file(run).parent_path());
  write_text(failure_file(run), "no memory\nleft\n");
  CHECK(state().stage == RunStage::kFailed);
  CHECK(state().failure == RunFailure{FailureKind::kUnknown, "no memory"});  // a record of an older version
  write_failure(failure_file(run), {FailureKind::kDiverged, "the loss"});
  CHECK(state().failure == RunFailure{FailureKind::kDiverged, "the loss"});

  config.learner.options().set("learner.gamma", "0.5");
  write_text(run.folder / "config.ini", config.to_ini());
  CHECK(mentions(message_of<UserError>(state), "runs/short/gru/0' was made with learner.gamma = 0.5"));
  write_text(run.folder / "config.ini", runs[3].config.task.name() + "[memory]\nname = lstm\n");
  CHECK_THROWS_AS(state(), UserError);
}

TEST_CASE("every config that comes with the program is one that it takes") {
  int configs = 0, comparisons = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ENGRAM_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".ini") continue;
    const std::string name = entry.path().string();
    CAPTURE(name);
    const SettingsLayer settings = read_settings(entry.path());
    const bool compares = !experiment_sections(settings).empty();
    ++(compares ? comparisons : configs);
    if (compares)
      CHECK(!plan_runs(Experiment::from_file(entry.path()), "folder").empty());
    else
      CHECK_NOTHROW(Config::from_layers({settings}));
  }
  CHECK(configs >= 4);
  CHECK(comparisons >= 5);
}
