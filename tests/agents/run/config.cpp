#include "agents/run/config/config.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <sstream>
#include <string>

#include "agents/learn/presets.h"
#include "agents/run/config/choices.h"
#include "base/error.h"
#include "envs/tasks/memory_rl/tmaze.h"
#include "envs/tasks/memory_rl/visual_match.h"
#include "memory/core/backbone_options.h"
#include "memory/core/registry.h"
#include "storage/settings.h"
#include "tests/flipped_bit.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

std::string settings_error(const Settings& settings) {
  return message_of<UserError>([&] { Config::from_settings(settings); });
}

SettingsLayer file_of(const std::string& text) {
  std::istringstream stream(text);
  return read_settings(stream, "the file");
}

std::string layers_error(const SettingsLayers& layers) {
  return message_of<UserError>([&] { Config::from_layers(layers); });
}

}  // namespace

TEST_CASE("defaults are those of the published runs") {
  Config config = Config::from_settings({});
  CHECK(config.task.name() == "visual_match");
  CHECK(config.memory.name() == "hqlt");
  CHECK(config.run.steps == 2'000'000);
  CHECK(config.run.updates_per_step == 0.25);
  CHECK(config.replay.batch_episodes == 64);
}

TEST_CASE("later settings win, and the choice of task and backbone comes first wherever it stands") {
  Config config = Config::from_settings({{"memory.window", "8"},
                                         {"task.corridor_length", "7"},
                                         {"task.corridor_length", "9"},
                                         {"memory.name", "hqlt"},
                                         {"task.name", "tmaze"}});
  CHECK(config.task.as<TMaze::Options>()->corridor_length == 9);
  CHECK(config.memory.as<HqltOptions>()->window == 8);
}

TEST_CASE("every preset is taken, and a setting overrides it") {
  REQUIRE(!task_presets().empty());
  for (const TaskPreset& preset : task_presets()) {
    CAPTURE(preset.name);
    CHECK(Config::from_settings({{"task.preset", preset.name}}).task.name() == preset.task);
    for (const auto& [key, value] : preset.values) {
      Config config = Config::from_settings({{"task." + key, value}, {"task.preset", preset.name}});
      CHECK(config.to_ini() == Config::from_settings({{"task.preset", preset.name}}).to_ini());
    }
  }
  CHECK(mentions(settings_error({{"task.preset", task_presets()[0].name},
                                 {"task.name", task_presets()[0].task == "tmaze" ? "visual_match" : "tmaze"}}),
                 "is a size of task"));
}

TEST_CASE("a layer wins over those below it as a whole, its preset, too") {
  const std::string file = "[task]\nname = visual_match\ndistractor_steps = 10\n[run]\nsteps = 77\n";
  const auto config_of = [&](const Settings& typed) {
    return Config::from_layers({file_of(file), {.settings = typed}});
  };
  const auto options_of = [](const Config& config) { return *config.task.as<VisualMatch::Options>(); };
  CHECK(options_of(config_of({})).distractor_steps == 10);
  const Config preset = config_of({{"task.preset", "visual_match_750"}});
  CHECK(options_of(preset).distractor_steps == 750);
  CHECK(preset.run.steps == 77);
  CHECK(
      options_of(config_of({{"task.distractor_steps", "20"}, {"task.preset", "visual_match_750"}})).distractor_steps ==
      20);
  // In a layer of its own it is below the other settings of that.
  const Config below = Config::from_layers({file_of("[task]\ndistractor_steps = 10\npreset = visual_match_750\n")});
  CHECK(options_of(below).distractor_steps == 10);
  // A preset replaces that of a layer below, and the task there.
  Config other = Config::from_layers({file_of("[task]\nname = visual_match\n[run]\nsteps = 77\n"),
                                      {.settings = {{"task.preset", "tmaze_passive_50"}}}});
  CHECK(other.task.as<TMaze::Options>()->corridor_length == 50);
  Config replaced = Config::from_layers(
      {file_of("[task]\npreset = visual_match_750\n"), {.settings = {{"task.preset", "tmaze_passive_50"}}}});
  CHECK(replaced.to_ini() == Config::from_settings({{"task.preset", "tmaze_passive_50"}}).to_ini());
}

TEST_CASE("what a preset overrides in the layers below it is said") {
  const auto said = [](const std::string& file, const Settings& typed) {
    const SettingsLayers layers = {file_of(file), {.settings = typed, .name = kCommandLine}};
    Config::from_layers(layers);
    return preset_overrides(layers);
  };
  const Settings preset = {{"task.preset", "tmaze_passive_50"}};
  CHECK(said("[task]\nname = tmaze\ncorridor_length = 10\n", preset) ==
        "task.preset 'tmaze_passive_50' of the command line overrides the file: task.corridor_length = 50, not 10");
  CHECK(said("[task]\nname = visual_match\n", preset) ==
        "task.preset 'tmaze_passive_50' of the command line overrides the file: task.name = tmaze, not visual_match");
  CHECK(said("[task]\nname = tmaze\ncorridor_length = 5e1\n", preset) == "");
  CHECK(said("[task]\nname = tmaze\ncorridor_length = 10\n", {{"task.corridor_length", "7"}, preset[0]}) == "");
  CHECK(said("[task]\npreset = tmaze_passive_50\ncorridor_length = 10\n", {{"run.steps", "7"}}) == "");
  CHECK(said("[task]\nname = tmaze\ncorridor_length = 10\n", {}) == "");
}

TEST_CASE("options that do not fit what another layer chooses are refused with who chooses it") {
  const auto refusal = [](const std::string& file, const Settings& typed) {
    return layers_error({file_of(file), {.settings = typed, .name = kCommandLine}});
  };
  CHECK(
      refusal("[task]\nname = tmaze\ncorridor_length = 10\n", {{"task.name", "visual_match"}}) ==
      "the file, line 3: unknown key 'task.corridor_length' for task visual_match, which the command line chooses; it "
      "is an option of: tmaze, endless_tmaze");
  CHECK(
      refusal("[task]\ncorridor_length = 10\nname = tmaze\n", {{"task.preset", "visual_match_750"}}) ==
      "the file, line 2: unknown key 'task.corridor_length' for task visual_match, which the command line chooses; it "
      "is an option of: tmaze, endless_tmaze");
  CHECK(
      refusal("[memory]\nname = lstm\n", {{"memory.window", "8"}})
          .starts_with("unknown key 'memory.window' for backbone lstm, which the file chooses; it is an option of: "));
  CHECK(refusal("[memory]\nname = hqlt\nwindow = 8\n", {{"memory.name", "gru"}})
            .starts_with("the file, line 3: unknown key 'memory.window' for backbone gru, which the command line "
                         "chooses; it is an option of: "));
  CHECK(refusal("[task]\npreset = tmaze_passive_50\n", {{"task.name", "visual_match"}}) ==
        "the file, line 2: task.preset 'tmaze_passive_50' is a size of task tmaze, but task.name is 'visual_match'");
}

TEST_CASE("a resolved config reads back to itself, for every task and backbone") {
  const TemporaryFolder folder;
  for (const std::string& task : task_names())
    for (const std::string& backbone : backbone_names()) {
      Config config = Config::from_settings({{"task.name", task},
                                             {"memory.name", backbone},
                                             {"run.seed", "18446744073709551615"},
                                             {"learner.alpha", "0.1234567890123"},
                                             {"run.device", "cuda:1"}});
      write_text(folder / "c.ini", config.to_ini());
      CHECK(read_config(folder / "c.ini").to_ini() == config.to_ini());
    }
}

TEST_CASE("a learner is chosen by name, and its options are no other's") {
  const TemporaryFolder folder;
  Config config = Config::from_settings({{"learner.epsilon_last", "0.1"}, {"learner.name", "dqn"}});
  CHECK(config.learner.name() == "dqn");
  write_text(folder / "c.ini", config.to_ini());
  CHECK(read_config(folder / "c.ini").to_ini() == config.to_ini());
  const auto refusal = [](const Settings& settings) {
    return message_of<UserError>([&] { Config::from_settings(settings); });
  };
  CHECK(refusal({{"learner.name", "dqn"}, {"learner.alpha", "0.1"}}) ==
        "unknown key 'learner.alpha' for learner dqn; it is an option of: sac");
  CHECK(refusal({{"learner.epsilon_last", "0.1"}}) ==
        "unknown key 'learner.epsilon_last' for learner sac; it is an option of: dqn");
  CHECK(refusal({{"learner.name", "dpn"}}) == "unknown learner 'dpn'; did you mean 'dqn' or 'ppo'?");
  const Config other = Config::from_settings({});
  CHECK(message_of<UserError>([&] { check_same_run(config, other, "'run'"); }) ==
        "'run' was made with learner.name = dqn and cannot go on with sac");
}

TEST_CASE("what learners want of other sections and set by presets are settings, and a preset is of its learner") {
  const auto keys = all_config_keys();
  const auto check_keys = [&](const Settings& values) {
    for (const auto& [key, value] : values) {
      CAPTURE(key);
      CHECK(std::ranges::count(keys, key) == 1);
      CHECK(std::ranges::count(choice_keys(), key) == 0);
    }
  };
  for (const std::string& name : learner_names()) {
    CAPTURE(name);
    const LearnerConfig learner(name);
    check_keys(learner.defaults_elsewhere());
    Config::from_settings({{"learner.name", name}});
    for (const LearnerPreset& preset : learner.any().presets()) {
      CHECK(preset.learner == name);
      check_keys(preset.values);
    }
  }
}

TEST_CASE("what makes a policy surer is an option of its learner that can do so") {
  for (const std::string& name : learner_names()) {
    CAPTURE(name);
    const LearnerConfig learner(name);
    const std::string advice = learner.surer_by();
    const std::size_t begin = advice.find("(learner."), end = advice.find(')');
    REQUIRE((begin != std::string::npos && end != std::string::npos));
    const std::string key = advice.substr(begin + 1, end - begin - 1);
    const auto values = learner.values();
    CHECK(std::ranges::any_of(values, [&](const OptionValue& option) { return option.name == key; }));
  }
  const auto advice = [](const Settings& settings) { return Config::from_settings(settings).learner.surer_by(); };
  CHECK(mentions(advice({}), "learner.alpha"));
  CHECK(mentions(advice({{"learner.temperature", "learnt"}}), "learner.target_entropy_fraction"));
  CHECK(mentions(advice({{"learner.name", "ppo"}}), "lower the entropy weight"));
  CHECK(advice({{"learner.preset", "popgym"}}).empty());  // its weight is 0
  CHECK(mentions(advice({{"learner.name", "dqn"}}), "lower epsilon"));
}

TEST_CASE("all keys are known to the command line") {
  const auto keys = all_config_keys();
  for (const char* key : {"run.seed", "task.name", "task.preset", "task.corridor_length", "task.distractor_steps",
                          "memory.name", "memory.window", "learner.preset", "learner.gamma", "evaluation.episodes"})
    CHECK(std::count(keys.begin(), keys.end(), key) == 1);
}

TEST_CASE("wrong settings are named, with what would be right") {
  CHECK(mentions(settings_error({{"run.sed", "1"}}), "unknown key 'run.sed'; did you mean 'run.seed'?"));
  CHECK(mentions(settings_error({{"learner.lr", "1"}}), "'learner.lr'; did you mean 'learner.learning_rate'?"));
  CHECK(mentions(settings_error({{"steps", "1"}}), "'steps'; did you mean 'run.steps'?"));
  CHECK(mentions(settings_error({{"memory.name", "lstm"}, {"memory.window", "8"}}),
                 "unknown key 'memory.window' for backbone lstm; it is an option of: hqlt"));
  CHECK(mentions(settings_error({{"task.corridor_length", "8"}}),
                 "unknown key 'task.corridor_length' for task visual_match; it is an option of: tmaze, endless_tmaze"));
  CHECK(mentions(settings_error({{"task.name", "tmase"}}), "tmase"));
  CHECK(mentions(settings_error({{"memory.name", "lsmt"}}), "lsmt"));
  CHECK(mentions(settings_error({{"task.preset", "none_such"}}), "none_such"));
  CHECK(mentions(settings_error({{"run.steps", "many"}}), "run.steps = 'many' is not allowed; it takes integer"));
  CHECK(mentions(settings_error({{"learner.gamma", "2"}}), "learner.gamma = '2'"));
  CHECK(mentions(settings_error({{"learner.gamma", "nan"}}), "learner.gamma = 'nan'"));
  CHECK(mentions(settings_error({{"memory.width", "30"}, {"memory.heads", "4"}}), "30"));
}

TEST_CASE("a config of format 1 means by what it leaves out what was meant then") {
  const auto value = [](const Settings& settings, const std::string& key) {
    return value_text(Config::from_settings(settings).values(), key);
  };
  struct Changed {
    const char *memory, *key, *before, *now;
  };
  for (const Changed& changed : {Changed{"mamba2", "memory.skip", "false", "true"},
                                 {"mamba2", "memory.convolution_bias", "false", "true"},
                                 {"mlstm", "memory.first_decay", "mamba2", "mlstm"},
                                 {"mlstm", "memory.write_bias", "false", "true"},
                                 {"gated_deltanet", "memory.first_decay", "mamba2", "gated_deltanet"}}) {
    CAPTURE(changed.key);
    const Settings named = {{"memory.name", changed.memory}};
    Settings old = named, asked = named;
    old.emplace_back("format", "1");
    asked = {{"format", "1"}, {changed.key, changed.now}, named[0]};
    CHECK(value(named, changed.key) == changed.now);
    CHECK(value(old, changed.key) == changed.before);
    CHECK(value(asked, changed.key) == changed.now);
    std::istringstream saved(Config::from_settings(old).to_ini());
    CHECK(value(read_settings(saved, "it").settings, changed.key) == changed.before);
    // Of its weights there are none that such a run has not.
    const auto has_weight = [&](const Settings& settings, const std::string& name) {
      return make_backbone(Config::from_settings(settings).memory, 1)->named_parameters().contains(name);
    };
    for (const char* weight : {"blocks.0.mixer.skip", "blocks.0.mixer.convolution.bias", "blocks.0.mixer.beta_bias"})
      CHECK_FALSE(has_weight(old, weight));
  }
  // Where memories are named inside of a text.
  const auto text = [&](const std::string& memory, const std::string& key, const std::string& written) {
    return value({{"format", "1"}, {"memory.name", memory}, {key, written}}, key);
  };
  CHECK(text("hqlt", "memory.fast_weights", "mlstm") == "mlstm:first_decay=mamba2:write_bias=false");
  CHECK(text("hqlt", "memory.fast_weights", "mlstm:write_bias=true:first_decay=mlstm") ==
        "mlstm:write_bias=true:first_decay=mlstm");
  CHECK(text("hqlt", "memory.fast_weights", "deltanet") == "deltanet");
  CHECK(text("stack", "memory.stack", "mamba2:heads=1,deltanet,hqlt:fast_weights=gated_deltanet") ==
        "mamba2:heads=1:convolution_bias=false:skip=false,deltanet,"
        "hqlt:fast_weights=[gated_deltanet:first_decay=mamba2]");
  CHECK(value({{"memory.name", "stack"}, {"memory.stack", "mamba2"}}, "memory.stack") == "mamba2");
  CHECK(settings_error({{"format", "1"}, {"memory.name", "stack"}, {"memory.stack", "mamba3"}})
            .starts_with("unknown layer 'mamba3'; did you mean 'mamba2'?"));
}

TEST_CASE("whole numbers and names of a config file in every spelling make the same config") {
  const TemporaryFolder folder;
  write_text(folder / "a.ini",
             "[run]\nsteps = 1.5M\nmax-seconds = 7\non-nan = skip\n[task]\nname = tmaze\n"
             "corridor-length = 1e1\n");
  write_text(folder / "b.ini",
             "[run]\nsteps = 1500000\nmax_seconds = 7\non_nan = skip\n[task]\nname = tmaze\n"
             "corridor_length = 10\n");
  CHECK(read_config(folder / "a.ini").to_ini() == read_config(folder / "b.ini").to_ini());
  CHECK(mentions(read_config(folder / "a.ini").to_ini(), "\nsteps = 1500000\n"));
  CHECK(mentions(message_of<UserError>([] { file_of("[run]\non-nan = stop\non_nan = skip\n"); }),
                 "gives 'run.on_nan' twice, in lines 2 and 3"));
}

TEST_CASE("a setting of a config file that is refused is named with its file and line") {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& text) {
    write_text(folder / "c.ini", text);
    return message_of<UserError>([&] { read_config(folder / "c.ini"); });
  };
  const std::string where = "config file '" + (folder / "c.ini").string() + "', line ";
  CHECK(error_of("[learner]\n# a comment\n\nlr = 1\n") ==
        where + "4: unknown key 'learner.lr'; did you mean 'learner.learning_rate'?");
  CHECK(error_of("[run]\nseed = 1\n  [ task ]  \n[run]  # again\n\tsteps = many # so\n")
            .starts_with(where + "5: run.steps = 'many' is not allowed; it takes integer 1.."));
  CHECK(error_of("steps = 3\n") == where + "1: unknown key 'steps'; did you mean 'run.steps'?");
  CHECK(error_of("[task]\nname = tmase\n").starts_with(where + "2: unknown task 'tmase'"));
  CHECK(error_of("[task]\npreset = none_such\n").starts_with(where + "2: unknown preset 'none_such'"));
  CHECK(error_of("[memory]\nname = lsmt\n").starts_with(where + "2: unknown backbone 'lsmt'"));
  CHECK(error_of("[memory]\nname = lstm\nwindow = 8\n")
            .starts_with(where + "3: unknown key 'memory.window' for backbone lstm; it is an option of: hqlt"));
  for (const char* name : {"%invalid_line%", "%prefix%", "%option%", "%canonical_option%", "%value%"})
    CHECK(mentions(error_of(std::string("[run]\n") + name + " = 1\n"),
                   where + "2: unknown key 'run." + std::string(name) + "'"));
  CHECK(mentions(error_of("[run]\r\nseed = x\r\n"), where + "2: run.seed = 'x'"));
  CHECK(error_of("[memory]\nname =\n") == where +
                                              "2: memory.name = '' is not allowed; it takes a name (engram list "
                                              "shows them)");
  CHECK(error_of("[run]\ndevice =\n") == where + "2: run.device = '' is not allowed; it takes text that is not empty");

  // What the command line gives is not the file's fault.
  CHECK(layers_error({file_of("[run]\nseed = 1\n"), {.settings = {{"run.seed", "x"}}, .name = kCommandLine}})
            .starts_with("run.seed = 'x' is not allowed"));
}

TEST_CASE("a section without keys is a section: known, or refused with its line") {
  Config config = Config::from_layers({file_of("[learner]\n# gamma = 0.5\n[task]\n[memory]\nname = gru\n")});
  CHECK(config.to_ini() == Config::from_settings({{"memory.name", "gru"}}).to_ini());
  CHECK(layers_error({file_of("[run]\n\n[learnre]\n")}) ==
        "the file, line 3: unknown section [learnre]; did you mean 'learner'?");
  CHECK(layers_error({file_of("[run.seed]\n")}).starts_with("the file, line 1: unknown section [run.seed]"));
}

TEST_CASE("a config file that is cut or flipped is refused in one line or taken, never more") {
  // What reading and taking it says; "" if it is taken.
  const auto error_of = [](const std::string& text) -> std::string {
    std::istringstream stream(text);
    try {
      Config::from_layers({read_settings(stream, "it")});
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  };
  const auto readable = [](const std::string& message) {
    return message.size() <= kMaxErrorBytes &&
           std::ranges::all_of(message, [](unsigned char byte) { return byte >= 0x20 && byte != 0x7f; });
  };
  const std::string whole = Config::from_settings({{"task.name", "tmaze"}, {"memory.name", "hqlt"}}).to_ini();
  REQUIRE(error_of(whole) == "");
  for (std::size_t length = 0; length < whole.size(); ++length) REQUIRE(readable(error_of(whole.substr(0, length))));
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string message = error_of(testing::flipped_bit(whole, random));
    REQUIRE(readable(message));
    refused += message.empty() ? 0 : 1;
  }
  CHECK(refused > 1000);
}

TEST_CASE("a hostile config file is refused in one line of bounded length, and soon") {
  const std::string long_text(1'000'000, 'k');
  for (const std::string& text :
       {"[run]\n" + long_text + " = 1\n", "[run]\nseed = " + long_text, "[" + long_text + "]\nseed = 1\n",
        std::string("[run]\nse\0ed = 1\n", 16), std::string("\xff\xfe\x00", 3), std::string("[run\nseed=1"),
        std::string("[run]\nseed = \x1b[2J\n"), std::string("= 3\n"), std::string("[run]\n = 3\n")}) {
    const TemporaryFolder folder;
    write_text(folder / "c.ini", text);
    const std::string message = message_of<UserError>([&] { read_config(folder / "c.ini"); });
    CHECK(message != "nothing was thrown");
    CHECK(message.size() <= kMaxErrorBytes);
    CHECK(std::ranges::all_of(message, [](unsigned char byte) { return byte >= 0x20; }));
  }
}

TEST_CASE("a setting that is no UTF-8 is refused before anything keeps it") {
  const auto error = [](const Settings& settings) {
    return message_of<UserError>([&] { Config::from_settings(settings); });
  };
  CHECK(mentions(error({{"task.name", "caf\xe9"}}), "task.name = 'caf\xe9' is not UTF-8"));
  CHECK(mentions(error({{"run.device", "\xff"}}), "run.device = '\xff' is not UTF-8"));
  CHECK(mentions(error({{"task.name", "caf\xc3\xa9"}}), "unknown task"));
}
