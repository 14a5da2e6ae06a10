#include "agents/config.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/suggest.h"

namespace engram {
namespace {

// The keys that choose a task or a backbone; all others are values of an options struct.
const std::vector<std::string> kChoiceKeys = {"task.name", "task.preset", "memory.name"};

bool is_choice(const std::string& key) {
  return std::find(kChoiceKeys.begin(), kChoiceKeys.end(), key) != kChoiceKeys.end();
}

std::optional<std::string> last_value(const Settings& settings, const std::string& key) {
  std::optional<std::string> value;
  for (const auto& [name, text] : settings)
    if (name == key) value = text;
  return value;
}

bool has_key(const OptionList& list, const std::string& key) {
  return std::any_of(list.options().begin(), list.options().end(),
                     [&key](const Option& option) { return option.name == key; });
}

void append_keys(std::vector<std::string>& keys, const OptionList& list) {
  for (const Option& option : list.options())
    if (std::find(keys.begin(), keys.end(), option.name) == keys.end()) keys.push_back(option.name);
}

// The tasks (or backbones) among `names` that have the option, as "a, b"; empty if none has.
template <class Choice>
std::string owners_of(const std::string& key, const std::vector<std::string>& names) {
  std::string owners;
  for (const std::string& name : names) {
    Choice choice(name);
    if (has_key(choice.options(), key)) owners += (owners.empty() ? "" : ", ") + name;
  }
  return owners;
}

// Sets the option to what a config of `format` says by `value`.
void set_option(const Option& option, const std::string& value, int format) {
  option.set(format < kConfigFormat && option.renewed ? option.renewed(value, format) : value);
}

void set_value(Config& config, const OptionList& options, const std::string& key, const std::string& value,
               int format) {
  for (const Option& option : options.options())
    if (option.name == key) return about_key(key, [&] { set_option(option, value, format); });
  if (const std::string tasks = owners_of<TaskConfig>(key, task_names()); !tasks.empty())
    throw SettingError(key,
                       "unknown key '" + key + "' for task " + config.task.name() + "; it is an option of: " + tasks);
  if (const std::string backbones = owners_of<BackboneConfig>(key, backbone_names()); !backbones.empty())
    throw SettingError(
        key, "unknown key '" + key + "' for backbone " + config.memory.name() + "; it is an option of: " + backbones);
  throw SettingError(key, "unknown key '" + key + "'" + did_you_mean(key, all_config_keys()));
}

void refuse_change(const std::string& where, const std::string& key, const std::string& before,
                   const std::string& now) {
  if (before != now)
    throw UserError(where + " was made with " + key + " = " + before + " and cannot go on with " + now);
}

TaskConfig choose_task(const Settings& settings) {
  const std::optional<std::string> name = last_value(settings, "task.name");
  const std::optional<std::string> preset = last_value(settings, "task.preset");
  const auto named = [&] { return about_key("task.name", [&] { return TaskConfig(*name); }); };
  if (!preset) return name ? named() : Config{}.task;
  TaskConfig task = about_key("task.preset", [&] { return TaskConfig::from_preset(*preset); });
  if (name && named().name() != task.name())
    throw SettingError("task.preset", "task.preset '" + *preset + "' is a size of task " + task.name() +
                                          ", but task.name is '" + *name + "'");
  return task;
}

}  // namespace

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

Config Config::from_settings(const Settings& settings) {
  Config config;
  config.task = choose_task(settings);
  if (const auto name = last_value(settings, "memory.name"))
    config.memory = about_key("memory.name", [&] { return BackboneConfig(*name); });
  const OptionList options = config.options();
  const int format = config_format(settings);
  for (const Option& option : options.options())
    if (format < option.since) option.set(option.before);
  for (const auto& [key, value] : settings)
    if (!is_choice(key) && key != kFormatKey) set_value(config, options, key, value, format);
  config.task.check();
  config.memory.check();
  config.learner.check();
  return config;
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
  add_section("learner", learner);
  add_section("replay", replay);
  add_section("evaluation", evaluation);
  add_section("checkpoint", checkpoint);
  return all;
}

std::string Config::to_ini() {
  std::string text = kFormatKey + (" = " + std::to_string(kConfigFormat)) + "\n";
  std::string section;
  const OptionList all = options();
  for (const Option& option : all.options()) {
    const std::size_t dot = option.name.find('.');
    if (const std::string next = option.name.substr(0, dot); next != section) {
      section = next;
      text += "\n[" + section + "]\n";
      if (section == "task") text += "name = " + task.name() + "\n";
      if (section == "memory") text += "name = " + memory.name() + "\n";
    }
    text += option.name.substr(dot + 1) + " = " + option.get() + "\n";
  }
  return text;
}

void check_same_choices(const Config& saved, const Settings& wanted, const std::string& where) {
  for (const auto& [key, value] : wanted) {
    if (key == "task.name") refuse_change(where, key, saved.task.name(), value);
    if (key == "memory.name") refuse_change(where, key, saved.memory.name(), value);
  }
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

void check_same_run(Config& saved, Config& wanted, const std::string& where) {
  const OptionList before = saved.options(), now = wanted.options();
  for (std::size_t i = 0; i < before.options().size(); ++i) {
    const Option& option = before.options()[i];
    if (!may_change_on_resume(option.name)) refuse_change(where, option.name, option.get(), now.options()[i].get());
  }
}

std::vector<std::string> all_config_keys() {
  std::vector<std::string> keys = kChoiceKeys;
  Config config;
  append_keys(keys, config.options());
  for (const std::string& name : task_names()) append_keys(keys, TaskConfig(name).options());
  for (const std::string& name : backbone_names()) append_keys(keys, BackboneConfig(name).options());
  return keys;
}

std::vector<std::string> task_config_keys() {
  std::vector<std::string> keys = all_config_keys();
  std::erase_if(keys, [](const std::string& key) { return !key.starts_with("task."); });
  return keys;
}

Config read_config(const std::filesystem::path& file) {
  return naming_line(file, {}, [&] { return Config::from_settings(read_settings(file)); });
}

}  // namespace engram
