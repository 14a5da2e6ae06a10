// What a learner brings to a config besides its own options: defaults for other sections, and presets.
#include <doctest/doctest.h>

#include <cstddef>
#include <sstream>
#include <string>

#include "agents/learn/presets.h"
#include "agents/run/config/config.h"
#include "agents/run/trained/trained_agent.h"
#include "base/error.h"
#include "tests/agents/learn/preset_learner.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;
using engram::testing::add_preset_learner;

namespace {

const Settings kPreset = {{"learner.preset", "small_steps"}};

SettingsLayer ini_layer(const std::string& text) {
  std::istringstream stream(text);
  return read_settings(stream, "the file");
}

SettingsLayers layers_of(const std::string& file, const Settings& typed) {
  return {ini_layer(file), {.settings = typed, .name = kCommandLine}};
}

std::string value(const Config& config, const std::string& key) { return value_text(config.values(), key); }

std::string refusal(const SettingsLayers& layers) {
  return message_of<UserError>([&] { Config::from_layers(layers); });
}

}  // namespace

TEST_CASE("a learner's defaults for other sections lie below all layers, as far as the memory has the options") {
  add_preset_learner();
  const Settings named = {{"learner.name", "with_presets"}};
  const Config config = Config::from_settings(named);
  CHECK(value(config, "run.num_envs") == "8");
  CHECK(value(config, "network.dropout") == "0");
  CHECK(value(config, "memory.dropout") == "0");
  const Config asked = Config::from_layers(layers_of("[network]\ndropout = 0.2\n[run]\nnum_envs = 3\n", named));
  CHECK(value(asked, "network.dropout") == "0.2");
  CHECK(value(asked, "run.num_envs") == "3");
  CHECK(value(asked, "memory.dropout") == "0");
  const Config without = Config::from_settings({named[0], {"memory.name", "none"}});
  CHECK(value(without, "network.dropout") == "0");
  CHECK(value(without, "memory.dropout") == "");
  CHECK(value(Config::from_settings({{"format", "1"}, named[0]}), "network.dropout") == "0");
  for (const char* other : {"sac", "dqn"}) {
    CHECK(value(Config::from_settings({{"learner.name", other}}), "network.dropout") == "0.1");
    CHECK(LearnerConfig(other).defaults_elsewhere().empty());
  }
  // Saved with all its values, it reads back to itself.
  for (const Config& saved : {config, asked, without})
    CHECK(Config::from_layers({ini_layer(Config(saved).to_ini())}).to_ini() == saved.to_ini());
}

TEST_CASE("a learner's preset chooses it and sets values of all sections, below the other settings of its layer") {
  add_preset_learner();
  const Config config = Config::from_settings(kPreset);
  CHECK(config.learner.name() == "with_presets");
  CHECK(config.learner.optimizer().learning_rate == 1e-4);
  CHECK(config.network.hidden_width == 48);
  CHECK(config.run.num_envs == 16);               // the preset's, not that of the learner's defaults ...
  CHECK(value(config, "memory.dropout") == "0");  // ... which are there where it says nothing
  CHECK(value(config, "memory.layers") == "3");
  // It is of any memory: what this one does not have is passed over.
  const Config stack = Config::from_layers(layers_of("[memory]\nname = frame_stack\n", kPreset));
  CHECK(stack.network.hidden_width == 48);
  CHECK(value(stack, "memory.layers") == "");

  const std::string file = "[learner]\nname = sac\n[network]\nhidden_width = 20\n[run]\nsteps = 77\n";
  const Config above = Config::from_layers(layers_of(file, kPreset));
  CHECK(above.learner.name() == "with_presets");
  CHECK(above.network.hidden_width == 48);
  CHECK(above.run.steps == 77);
  const Config typed = Config::from_layers(layers_of(file, {{"network.hidden_width", "30"}, kPreset[0]}));
  CHECK(typed.network.hidden_width == 30);
  const Config below =
      Config::from_layers(layers_of("[network]\nhidden_width = 20\n[learner]\npreset = small_steps\n", {}));
  CHECK(below.network.hidden_width == 20);
  CHECK(below.run.num_envs == 16);
  const Config replaced =
      Config::from_layers(layers_of("[learner]\npreset = small_steps\n", {{"learner.preset", "large_steps"}}));
  CHECK(replaced.to_ini() == Config::from_settings({{"learner.preset", "large_steps"}}).to_ini());
  // Beside one of a task.
  const Config both = Config::from_settings({kPreset[0], {"task.preset", "tmaze_passive_50"}});
  CHECK(both.task.name() == "tmaze");
  CHECK(both.network.hidden_width == 48);
}

TEST_CASE("a learner's preset that does not fit is refused by name") {
  add_preset_learner();
  CHECK(
      refusal(layers_of("[learner]\npreset = small_steps\n", {{"learner.name", "sac"}})) ==
      "the file, line 2: learner.preset 'small_steps' is a preset of learner with_presets, but learner.name is 'sac'");
  CHECK(refusal(layers_of("", {{"learner.preset", "small_stops"}})) ==
        "unknown learner preset 'small_stops'; did you mean 'small_steps'?");
  CHECK(refusal(layers_of("[learner]\npreset =\n", {})) ==
        "the file, line 2: learner.preset = '' is not allowed; it takes a name (engram list shows them)");
  CHECK(
      refusal(layers_of("[learner]\nepsilon_last = 0.1\n", kPreset)) ==
      "the file, line 2: unknown key 'learner.epsilon_last' for learner with_presets, which the command line chooses; "
      "it is an option of: dqn");
}

TEST_CASE("what a learner's preset overrides in the layers below it is said") {
  add_preset_learner();
  const auto said = [](const std::string& file, const Settings& typed) {
    return preset_overrides(layers_of(file, typed));
  };
  CHECK(said("[learner]\nname = with_presets\n[network]\nhidden_width = 20\n[run]\nnum_envs = 16\n", kPreset) ==
        "learner.preset 'small_steps' of the command line overrides the file: network.hidden_width = 48, not 20");
  CHECK(said("[learner]\nname = sac\n", kPreset) ==
        "learner.preset 'small_steps' of the command line overrides the file: learner.name = with_presets, not sac");
  CHECK(said("[network]\nhidden_width = 20\n", {{"network.hidden_width", "30"}, kPreset[0]}) == "");
  CHECK(said("[network]\nhidden_width = 20\n[learner]\npreset = small_steps\n", {}) == "");
  // The memory may be chosen in a layer that is not there, as when a run goes on: its options are not known here.
  CHECK(said("[memory]\nname = frame_stack\nlayers = 2\n", kPreset) ==
        "learner.preset 'small_steps' of the command line overrides the file: memory.layers = 3, not 2");
  CHECK(said("[task]\nname = tmaze\ncorridor_length = 10\n[memory]\nlayers = 2\n",
             {kPreset[0], {"task.preset", "tmaze_passive_50"}}) ==
        "task.preset 'tmaze_passive_50' of the command line overrides the file: task.corridor_length = 50, not 10; "
        "learner.preset 'small_steps' of the command line overrides the file: memory.layers = 3, not 2");
}

TEST_CASE("a run goes on with its learner: a preset of another one is refused, also where an agent is adapted") {
  add_preset_learner();
  const TemporaryFolder folder;
  Config trained = Config::from_settings({{"task.name", "tmaze"}, {"memory.name", "gru"}});
  CHECK(message_of<UserError>([&] { check_same_choices(trained, layers_of(trained.to_ini(), kPreset), "'run'"); }) ==
        "'run' was made with learner.name = sac and cannot go on with with_presets");
  RunDirectory::create(folder / "run", {trained.to_ini(), torch::kCPU, {}});
  CHECK(message_of<UserError>([&] { load_agent_to_adapt(folder / "run", {{.settings = kPreset}}); }) ==
        "learner.preset = 'small_steps' is of learner with_presets, but the learner of the agent in '" +
            (folder / "run").string() + "' is sac");
}

TEST_CASE("a learner or a preset of a name that there is already is not added") {
  add_preset_learner();
  const std::size_t learners = learner_names().size(), presets = learner_presets().size();
  LearnerEntry entry = learner_entry<engram::testing::PresetLearnerOptions>();
  CHECK_THROWS_WITH_AS(add_learner(entry), "there is a learner 'with_presets' already", UserError);
  entry.name = "other";
  CHECK_THROWS_WITH_AS(add_learner(entry),
                       "learner 'other' has a preset 'small_steps'; learner 'with_presets' has it already", UserError);
  CHECK(learner_names().size() == learners);
  CHECK(learner_presets().size() == presets);
}
