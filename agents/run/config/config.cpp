#include "agents/run/config/config.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <utility>

#include "agents/run/config/choices.h"
#include "agents/run/config/on_policy.h"
#include "base/error.h"
#include "base/text/suggest.h"
#include "base/text/text.h"

namespace engram {
namespace {

bool is_choice(const std::string& key) { return std::ranges::find(choice_keys(), key) != choice_keys().end(); }

const Option* find_option(const OptionList& list, const std::string& key) {
  const auto found = std::ranges::find(list.options(), key, &Option::name);
  return found == list.options().end() ? nullptr : &*found;
}

void append_keys(std::vector<std::string>& keys, const OptionList& list) {
  for (const Option& option : list.options())
    if (std::find(keys.begin(), keys.end(), option.name) == keys.end()) keys.push_back(option.name);
}

// The tasks (or backbones) among `names` that have the option.
template <class OneOf>
std::vector<std::string> owners_of(const std::string& key, std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& name) {
    OneOf one(name);
    return find_option(one.options(), key) == nullptr;
  });
  return names;
}

// `chosen`: "task tmaze", which the layer `by` has chosen. Of an option that only `owners` have, if there are any.
void refuse_owned(const std::string& key, const SettingsLayer& layer, const std::string& chosen,
                  const SettingsLayer* by, const std::vector<std::string>& owners) {
  if (owners.empty()) return;
  const bool elsewhere = by != nullptr && by != &layer && !by->name.empty();
  throw SettingError(key, "unknown key '" + key + "' for " + chosen +
                              (elsewhere ? ", which " + by->name + " chooses" : "") +
                              "; it is an option of: " + listed(owners));
}

[[noreturn]] void refuse_unknown(const Choices& choices, const SettingsLayer& layer, const std::string& key) {
  refuse_owned(key, layer, "task " + choices.task.name(), choices.task_layer, owners_of<TaskConfig>(key, task_names()));
  refuse_owned(key, layer, "backbone " + choices.memory.name(), choices.memory_layer,
               owners_of<BackboneConfig>(key, backbone_names()));
  refuse_owned(key, layer, "learner " + choices.learner.name(), choices.learner_layer,
               owners_of<LearnerConfig>(key, learner_names()));
  throw SettingError(key, "unknown key '" + key + "'" + did_you_mean(key, all_config_keys()));
}

// That of the lowest layer that says one: what it leaves out means what it did then.
int format_of(const SettingsLayers& layers) {
  for (const SettingsLayer& layer : layers)
    if (value_of(layer.settings, kFormatKey) != nullptr) return config_format(layer.settings);
  return kConfigFormat;
}

void check_text(const SettingsLayers& layers) {
  for (const SettingsLayer& layer : layers)
    for (const auto& [key, value] : layer.settings)
      if (!is_utf8(value))
        throw SettingError(key, key + " = '" + value + "' is not UTF-8, as what a run keeps of its settings must be");
}

// What lies below all layers: today's defaults, or those of the time of an earlier format, and what the learner wants
// of other sections, as far as the task and the memory have it.
void set_defaults(const OptionList& options, const LearnerConfig& learner, int format) {
  for (const Option& option : options.options())
    if (format < option.since) option.set(option.before);
  for (const auto& [key, value] : learner.defaults_elsewhere())
    if (const Option* const option = find_option(options, key)) option->set(value);
}

void set_preset(const OptionList& options, const Choices& choices, const ChosenPreset& preset) {
  try {
    for (const auto& [key, value] : preset.values) {
      const Option* const option = find_option(options, key);
      // A learner's preset is of any memory, whether it has this option or not.
      const bool passed_over = preset.key != "task.preset" && key.starts_with("memory.");
      if (option == nullptr && passed_over) continue;
      if (option == nullptr) refuse_unknown(choices, *preset.layer, key);
      option->set(value);
    }
  } catch (const UserError& error) {
    throw SettingError(preset.key, preset.key + " '" + preset.name + "': " + error.what());
  }
}

// format: of the layer, where it says none.
void set_layer(const OptionList& options, const Choices& choices, const SettingsLayer& layer, int format) {
  for (const std::string& section : layer.empty_sections) check_section(section);
  const int own_format = value_of(layer.settings, kFormatKey) != nullptr ? config_format(layer.settings) : format;
  for (const ChosenPreset& preset : choices.presets)
    if (preset.layer == &layer) set_preset(options, choices, preset);
  for (const auto& [key, value] : layer.settings) {
    if (is_choice(key) || key == kFormatKey) continue;
    const Option* const option = find_option(options, key);
    if (option == nullptr) refuse_unknown(choices, layer, key);
    const bool renews = own_format < kConfigFormat && option->renewed;
    about_key(key, [&] { option->set(renews ? option->renewed(value, own_format) : value); });
  }
}

Config resolve(const SettingsLayers& layers) {
  check_text(layers);
  const Choices choices = choose(layers);
  Config config = choices.config();
  const OptionList options = config.options();
  const int format = format_of(layers);
  set_defaults(options, choices.learner, format);
  for (const SettingsLayer& layer : layers) set_layer(options, choices, layer, format);
  config.task.check();
  config.network.check();
  config.memory.check();
  config.learner.check();
  check_on_policy(config);
  return config;
}

// As the option has it; the text itself where this config has no option that takes it.
std::string plain_text(const OptionList& options, const std::string& key, const std::string& text) {
  const Option* const option = find_option(options, key);
  if (option == nullptr) return text;
  try {
    option->set(text);
    return option->get();
  } catch (const UserError&) {
    return text;
  }
}

// What the preset sets otherwise than a layer below it.
std::string overrides_of(const ChosenPreset& preset, const OptionList& options, const SettingsLayers& layers) {
  const auto own = static_cast<std::size_t>(preset.layer - layers.data());
  const std::span below(layers.data(), own), others(layers.data() + own, layers.size() - own);
  std::string source, changes;
  const auto compare = [&](const std::string& key, const std::string& text) {
    const std::string now = plain_text(options, key, text);
    for (const SettingsLayer& layer : below | std::views::reverse) {
      const std::string* const before = value_of(layer.settings, key);
      if (before == nullptr) continue;
      if (plain_text(options, key, *before) == now) return;
      source = layer.name;
      changes += (changes.empty() ? "" : ", ") + key + " = " + now + ", not " + *before;
      return;
    }
  };
  compare(preset.owner_key, preset.owner);
  for (const auto& [key, value] : preset.values) {
    const auto gives_it = [&](const SettingsLayer& layer) { return value_of(layer.settings, key) != nullptr; };
    if (!std::ranges::any_of(others, gives_it)) compare(key, value);  // else it is of no effect
  }
  if (changes.empty()) return "";
  return preset.key + " '" + preset.name + "' of " + preset.layer->name + " overrides " + source + ": " + changes;
}

void refuse_change(const std::string& where, const std::string& key, const std::string& before,
                   const std::string& now) {
  if (before != now)
    throw UserError(where + " was made with " + key + " = " + before + " and cannot go on with " + now);
}

}  // namespace

void check_learner_of_actions(const Config& config) {
  if (!config.task.info().action.continuous() || config.learner.learns_continuous_actions()) return;
  std::vector<std::string> others = learner_names();
  std::erase_if(others, [](const std::string& name) { return !LearnerConfig(name).learns_continuous_actions(); });
  throw UserError("learner.name " + config.learner.name() + " learns discrete actions, but those of task.name " +
                  config.task.name() + " are continuous; it takes learner.name " + listed(others));
}

void RunOptions::list_options(OptionList& list) {
  list.add("seed", seed, "of everything random in the run");
  list.add("steps", steps, {1, 1'000'000'000'000}, "environment steps of the whole run");
  list.add("random_episodes", random_episodes, {0, 1'000'000}, "episodes of random actions before the first update");
  list.add("updates_per_step", updates_per_step, {0, 1000}, "gradient updates per environment step");
  list.add("num_envs", num_envs, {1, 1'000'000}, "environments that collect in lockstep");
  list.add("threads", threads, {0, 1024}, "CPU threads; 0: one for a small network, else all available");
  list.add("device", device, "auto (a GPU where there is one) | cpu | cuda | cuda:N");
  list.add("precision", precision,
           {{Precision::kAuto, "auto"}, {Precision::kFloat32, "float32"}, {Precision::kBfloat16, "bfloat16"}},
           "of matrix products on a GPU, where auto is bfloat16; the CPU computes in float32");
  list.add("kernels", kernels, {{Kernels::kAuto, "auto"}, {Kernels::kRequire, "require"}, {Kernels::kOff, "off"}},
           "engram's own kernels on a GPU, and loops on a CPU: where they are supported, in every part or no run, or "
           "LibTorch alone");
  list.add(
      "gpu_wait", gpu_wait, {{GpuWait::kAuto, "auto"}, {GpuWait::kSpin, "spin"}, {GpuWait::kSleep, "sleep"}},
      "how a processor waits for a GPU: spin is sooner, sleep leaves it to other runs; auto sleeps where more runs "
      "begin together than there are processors");
  list.add("memoryless_collection", memoryless_collection,
           "collect with an empty memory at every step, as the reference code of the HQLT paper does with DeltaNet and "
           "HQLT; evaluation remembers");
  list.add("on_nan", on_nan, {{OnNan::kStop, "stop"}, {OnNan::kSkip, "skip"}},
           "when a loss or gradient is not finite: stop the run, or skip the update and go on");
  list.add("report_seconds", report_seconds, {0.01, 86'400}, "seconds between status reports");
  list.add("metrics_every_steps", metrics_every_steps, {1, 1'000'000'000'000},
           "environment steps between rows of metrics");
  list.add("max_seconds", max_seconds, {0, 1e9}, "seconds after which the run stops; 0: no limit");
}

void EvaluationOptions::list_options(OptionList& list) {
  list.add("every_steps", every_steps, {1, 1'000'000'000'000}, "environment steps between evaluations");
  list.add("episodes", episodes, {1, 1'000'000}, "greedy episodes of one evaluation, and as many with sampled actions");
  list.add("stop_at_success", stop_at_success, {0, 1},
           "the run stops once the success rate of an evaluation's greedy episodes reaches this; 0: never");
  list.add("final_episodes", final_episodes, {0, 1'000'000},
           "greedy episodes of the best weights when the run is over, and as many with sampled actions, none of which "
           "chose them; 0: none");
  list.add("dropout", dropout,
           "whether the agent is evaluated, filmed and traced with dropout, as it collects: over hundreds of steps a "
           "recurrent memory may need the noise that it has learnt with");
}

void CheckpointOptions::list_options(OptionList& list) {
  list.add("every_steps", every_steps, {0, 1'000'000'000'000},
           "environment steps between checkpoints; 0: by time alone");
  list.add("every_minutes", every_minutes, {0, 1e6}, "minutes between checkpoints; 0: by steps alone");
  list.add("keep", keep, {1, 1000}, "checkpoints kept, the newest");
}

Config Config::from_layers(const SettingsLayers& layers) {
  return naming_line(layers, [&] { return resolve(layers); });
}

OptionList Config::options() {
  OptionList all("");
  const auto add_section = [&all](const char* section, auto& options) {
    OptionList list(section);
    options.list_options(list);
    all.append(std::move(list));
  };
  add_section("run", run);
  all.append(task.options());
  add_section("network", network);
  all.append(memory.options());
  add_section("adapters", adapters);
  all.append(learner.options());
  add_section("replay", replay);
  add_section("evaluation", evaluation);
  add_section("checkpoint", checkpoint);
  return all;
}

double Config::updates_per_step() const {
  const std::optional<IterationOptions> iterations = learner.iterations();
  if (!iterations) return run.updates_per_step;
  return static_cast<double>(iterations->passes) * iterations->minibatches / static_cast<double>(iterations->steps);
}

std::string Config::to_ini() const {
  std::string text = kFormatKey + (" = " + std::to_string(kConfigFormat)) + "\n";
  std::string section;
  for (const OptionValue& option : values()) {
    const std::size_t dot = option.name.find('.');
    if (const std::string next = option.name.substr(0, dot); next != section) {
      section = next;
      text += "\n[" + section + "]\n";
      if (section == "task") text += "name = " + task.name() + "\n";
      if (section == "memory") text += "name = " + memory.name() + "\n";
      if (section == "learner") text += "name = " + learner.name() + "\n";
    }
    text += option.name.substr(dot + 1) + " = " + option.text + "\n";
  }
  return text;
}

void check_same_choices(const Config& saved, const SettingsLayers& wanted, const std::string& where) {
  const Choices choices = naming_line(wanted, [&] { return choose(wanted); });
  refuse_change(where, "task.name", saved.task.name(), choices.task.name());
  refuse_change(where, "memory.name", saved.memory.name(), choices.memory.name());
  refuse_change(where, "learner.name", saved.learner.name(), choices.learner.name());
}

bool may_change_on_resume(const std::string& key) {
  static const std::set<std::string> free = {"run.steps",
                                             "run.max_seconds",
                                             "run.threads",
                                             "run.device",
                                             "run.kernels",
                                             "run.gpu_wait",
                                             "run.report_seconds",
                                             "run.on_nan",
                                             "evaluation.stop_at_success",
                                             "evaluation.final_episodes"};
  return free.contains(key) || key.starts_with("checkpoint.");
}

void check_same_run(const Config& saved, const Config& wanted, const std::string& where) {
  refuse_change(where, "task.name", saved.task.name(), wanted.task.name());
  refuse_change(where, "memory.name", saved.memory.name(), wanted.memory.name());
  refuse_change(where, "learner.name", saved.learner.name(), wanted.learner.name());
  for (const OptionDifference& changed : differences(saved.values(), wanted.values()))
    if (!may_change_on_resume(changed.name)) refuse_change(where, changed.name, changed.before, changed.now);
}

std::vector<std::string> all_config_keys() {
  std::vector<std::string> keys = choice_keys();
  Config config;
  append_keys(keys, config.options());
  for (const std::string& name : task_names()) append_keys(keys, TaskConfig(name).options());
  for (const std::string& name : backbone_names()) append_keys(keys, BackboneConfig(name).options());
  for (const std::string& name : learner_names()) append_keys(keys, LearnerConfig(name).options());
  return keys;
}

std::vector<std::string> task_config_keys() {
  std::vector<std::string> keys = all_config_keys();
  std::erase_if(keys, [](const std::string& key) { return !key.starts_with("task."); });
  return keys;
}

void check_section(const std::string& section) {
  std::vector<std::string> sections;
  for (const std::string& key : all_config_keys())
    if (std::string known = key.substr(0, key.find('.')); std::ranges::find(sections, known) == sections.end())
      sections.push_back(std::move(known));
  if (std::ranges::find(sections, section) == sections.end())
    throw SettingError("[" + section + "]", "unknown section [" + section + "]" + names_hint(section, sections));
}

std::string preset_overrides(const SettingsLayers& layers) {
  const Choices choices = choose(layers);
  Config config = choices.config();
  const OptionList options = config.options();
  std::string text;
  for (const ChosenPreset& preset : choices.presets)
    if (const std::string own = overrides_of(preset, options, layers); !own.empty())
      text += (text.empty() ? "" : "; ") + own;
  return text;
}

Config read_config(const std::filesystem::path& file) { return Config::from_layers({read_settings(file)}); }

}  // namespace engram
