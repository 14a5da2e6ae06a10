#include "experiments/plan/experiment.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "agents/learn/presets.h"
#include "base/error.h"
#include "base/text/suggest.h"
#include "base/text/words.h"
#include "experiments/plan/entry_reader.h"
#include "storage/settings.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

const EnumNames<Match> kMatchNames = {
    {Match::kParameters, "parameters"}, {Match::kState, "state"}, {Match::kFlops, "flops"}, {Match::kNone, "none"}};

// The section [compare].
struct CompareOptions {
  std::string question;
  std::string seeds = "0-4";
  Match match = Match::kNone;
  bool match_mlp = true;
  std::string reference;
  std::string controls = Experiment::kDefaultControls;
  std::string evaluate;

  void list_options(OptionList& list) {
    list.add("question", question, "what the experiment asks", EmptyText::kAllowed);
    list.add("seeds", seeds, "of the runs, as in 0-4,8");
    list.add("match", match, kMatchNames, "what widths are chosen to agree in");
    list.add("match_mlp", match_mlp, "whether the MLPs' widths are chosen, too");
    list.add("reference", reference, "the backbone whose sizes stay");
    list.add("controls", controls, "added as backbones: none,full_state,full_state_recurrent", EmptyText::kAllowed);
    list.add("evaluate", evaluate, "a number of the tasks and values of it to evaluate the trained agents at");
  }
};

// The value that a run of the entry has for the key, if the tasks do not change it, or `otherwise`.
std::string value_for(const Experiment& experiment, const ExperimentEntry& entry, const std::string& key,
                      const std::string& otherwise) {
  for (const Settings* settings : {&entry.settings, &experiment.common})
    if (const std::string* const value = value_of(*settings, key)) return *value;
  return otherwise;
}

std::string memory_of(const Experiment& experiment, const ExperimentEntry& entry) {
  static const Config defaults;
  return value_for(experiment, entry, "memory.name", defaults.memory.name());
}

// An entry may write a control out, with settings of its own, but stand for nothing else in its place.
void check_is_control(const Experiment& experiment, const ExperimentEntry& entry) {
  const bool remembers = entry.label == "full_state_recurrent", sees_all = entry.label != "none";
  if ((memory_of(experiment, entry) != "none") == remembers &&
      (value_for(experiment, entry, "task.full_state", "false") == "true") == sees_all)
    return;
  throw SettingError("[" + std::string(kBackbones) + "." + entry.label + "]",
                     "[backbones." + entry.label + "] is not the control '" + entry.label +
                         "' that compare.controls adds under this label; give it another label, or leave '" +
                         entry.label + "' out of compare.controls");
}

Settings control_settings(const std::string& control, const Experiment& experiment, const std::string& where) {
  if (control == "none") return {{"memory.name", "none"}};
  if (control == "full_state") return {{"memory.name", "none"}, {"task.full_state", "true"}};
  const ExperimentEntry* const reference = find_entry(experiment.backbones, experiment.reference);
  if (reference == nullptr)
    throw UserError(where +
                    ": compare.controls names full_state_recurrent, which has the memory of compare.reference '" +
                    experiment.reference + "', but that is none of the backbones");
  if (memory_of(experiment, *reference) == "none")
    throw UserError(where + ": compare.controls names full_state_recurrent, but compare.reference '" +
                    experiment.reference + "' has no memory");
  Settings settings = reference->settings;
  settings.emplace_back("task.full_state", "true");
  return settings;
}

std::vector<ExperimentEntry> selected(const std::vector<ExperimentEntry>& entries,
                                      const std::vector<std::string>& labels, const char* what) {
  const std::vector<std::string> known = labels_of(entries);
  for (const std::string& label : labels) {
    if (find_entry(entries, label) != nullptr) continue;
    throw UserError(std::string("the experiment has no ") + what + " '" + label + "'" + names_hint(label, known));
  }
  std::vector<ExperimentEntry> kept;
  for (const ExperimentEntry& entry : entries)
    if (std::ranges::find(labels, entry.label) != labels.end()) kept.push_back(entry);
  return kept;
}

// The entries of `saved`, in their order, with the settings of `now` where it has them; then the others of `now`.
std::vector<ExperimentEntry> joined_entries(const std::vector<ExperimentEntry>& saved,
                                            const std::vector<ExperimentEntry>& now) {
  std::vector<ExperimentEntry> all = saved;
  for (const ExperimentEntry& entry : now) {
    const auto found = std::ranges::find(all, entry.label, &ExperimentEntry::label);
    if (found == all.end())
      all.push_back(entry);
    else
      *found = entry;
  }
  return all;
}

// Whether an entry has a preset that wins over what all runs share of the key.
bool preset_decides(const Settings& entry, const std::string& key) {
  if (section_of(key) == kTaskSection && value_of(entry, "task.preset") != nullptr) return true;
  const std::string* const preset = value_of(entry, "learner.preset");
  return preset != nullptr && (key == "learner.name" || value_of(learner_preset(*preset).values, key) != nullptr);
}

// All settings as if one source had them.
SettingsLayer joined_layers(const SettingsLayers& layers) {
  SettingsLayer all;
  for (const SettingsLayer& layer : layers)
    all.settings.insert(all.settings.end(), layer.settings.begin(), layer.settings.end());
  return all;
}

std::string match_name(Match match) {
  for (const auto& [value, name] : kMatchNames)
    if (value == match) return name;
  return "";
}

// Seeds that settings were chosen by would flatter what they have chosen.
void check_tuning(const Experiment& experiment, const std::string& where) {
  if (!experiment.tune) return;
  for (const std::uint64_t seed : experiment.tune->seeds)
    if (std::ranges::binary_search(experiment.seeds, seed))
      throw UserError(where + ": seed " + std::to_string(seed) + " is in tune.seeds " +
                      seeds_text(experiment.tune->seeds) + " and in compare.seeds " + seeds_text(experiment.seeds) +
                      "; tuning takes seeds of its own");
  for (const TunedSetting& setting : experiment.tune->settings)
    if (experiment.match != Match::kNone && (setting.key == "memory.width" || setting.key == "memory.mlp_width"))
      throw UserError(where + ": tune." + setting.key + " and compare.match " + match_name(experiment.match) +
                      ", which chooses widths, contradict each other");
}

// What is chosen would no longer be what the section says.
void check_same_tuning(const std::optional<TuneOptions>& saved, const std::optional<TuneOptions>& now,
                       const std::string& where) {
  if (saved == now) return;
  const auto text = [](const std::optional<TuneOptions>& tune) { return tune ? tune->to_ini() : "no [tune]"; };
  const auto [before, after] = first_difference(text(saved), text(now));
  throw UserError(where + " was made with " + before + " and cannot go on with " + after +
                  ": tuning is settled at its beginning");
}

// Throws SettingError for what is about one key, UserError for the rest. `more`: of [compare] alone.
Experiment experiment_of(const SettingsLayer& file, const SettingsLayer& more) {
  CompareOptions options;
  OptionList list(kCompare);
  options.list_options(list);
  const std::vector<std::string> known_keys = all_config_keys();
  const std::string& where = file.name;
  Experiment experiment;
  for (const std::string& section : file.empty_sections) check_empty_section(section);
  EntryReader tasks(kTasks, file, known_keys), backbones(kBackbones, file, known_keys),
      learners(kLearners, file, known_keys);
  Settings tune;
  for (const SettingsLayer* layer : {&file, &more})
    for (const auto& [key, value] : layer->settings) {
      const std::string section = section_of(key);
      if (key == kFormatKey) {
        experiment.format = config_format(file.settings);
      } else if (key == kBackbonesOf) {
        throw SettingError(key, key + " stands in the file of a comparison alone, and in none that it names");
      } else if (section == kCompare) {
        about_key(key, [&] { list.set(key, value); });
        if (key == "compare.match_mlp") experiment.match_mlp = options.match_mlp;
      } else if (section == kTasks || section == kBackbones || section == kLearners) {
        (section == kTasks ? tasks : section == kBackbones ? backbones : learners).add(behind_dot(key), value);
      } else if (section == kTune) {
        tune.emplace_back(behind_dot(key), value);
      } else {
        add_setting(experiment.common, key, value, known_keys, key);
      }
      if (key.ends_with("run.seed") && section != kTune)
        throw UserError(where + " gives '" + key + "'; seeds stand in compare.seeds");
    }
  experiment.tasks = tasks.take();
  experiment.backbones = backbones.take();
  if (auto entries = learners.take(); !entries.empty()) experiment.learners = std::move(entries);
  experiment.reference = options.reference;
  if (experiment.reference.empty() && !experiment.backbones.empty())
    experiment.reference = experiment.backbones.front().label;
  for (const std::string& control : trimmed_parts(options.controls, ',')) {
    if (control != "none" && control != "full_state" && control != "full_state_recurrent")
      throw UserError(where + ": compare.controls names '" + control +
                      "'; there are none, full_state and full_state_recurrent");
    if (const ExperimentEntry* const own = find_entry(experiment.backbones, control))
      check_is_control(experiment, *own);
    else
      experiment.backbones.push_back({control, control_settings(control, experiment, where)});
  }
  if (experiment.tasks.empty()) throw UserError(where + " has no task: a section [tasks.LABEL]");
  if (experiment.backbones.empty()) throw UserError(where + " has no backbone: a section [backbones.LABEL]");
  experiment.question = options.question;
  experiment.match = options.match;
  if (experiment.reference.empty()) experiment.reference = experiment.backbones.front().label;
  experiment.seeds = parse_seeds(options.seeds);
  if (!options.evaluate.empty()) {
    try {
      experiment.range = parse_range(options.evaluate);
    } catch (const UserError& error) {
      throw SettingError("compare.evaluate", std::string("compare.evaluate: ") + error.what());
    }
  }
  const bool tunes = std::ranges::find(file.sections, kTune) != file.sections.end();
  if (tunes || !tune.empty()) experiment.tune = TuneOptions::from_settings(tune, known_keys);
  check_tuning(experiment, where);
  return experiment;
}

}  // namespace

std::string experiment_sections(const SettingsLayer& layer) {
  std::string text;
  for (const auto& [section, name] :
       {std::pair(kCompare, "[compare]"), std::pair(kTasks, "[tasks.LABEL]"), std::pair(kLearners, "[learners.LABEL]"),
        std::pair(kBackbones, "[backbones.LABEL]"), std::pair(kTune, "[tune]")})
    if (std::ranges::any_of(layer.sections, [&](const std::string& given) { return section_of(given) == section; }) ||
        std::ranges::any_of(layer.settings, [&](const auto& setting) { return section_of(setting.first) == section; }))
      text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

SettingsLayer read_run_settings(const fs::path& file) {
  SettingsLayer settings = read_settings(file);
  if (const std::string sections = experiment_sections(settings); !sections.empty())
    throw UserError(settings.name + " has " + sections +
                    (sections == "[tune]" ? ", the section of a sweep: it is for " +
                                                shell_command({"engram", "sweep", "DIR", "--config", file.string()})
                                          : ", the sections of a comparison: it is for " +
                                                shell_command({"engram", "compare", "--config", file.string()})));
  return settings;
}

std::string size_text(const Experiment& experiment) {
  return counted(experiment.tasks.size(), "task") + " x " +
         (experiment.has_learners() ? counted(experiment.learners.size(), "learner") + " x " : "") +
         counted(experiment.backbones.size(), "backbone") + " x " + counted(experiment.seeds.size(), "seed");
}

const ExperimentEntry* find_entry(const std::vector<ExperimentEntry>& entries, const std::string& label) {
  const auto found = std::ranges::find(entries, label, &ExperimentEntry::label);
  return found == entries.end() ? nullptr : &*found;
}

Experiment Experiment::from_settings(const SettingsLayer& file, const Settings& more) {
  const SettingsLayers layers = {file, {.settings = more, .name = kCommandLine}};
  return naming_line(layers, [&] { return experiment_of(layers.front(), layers.back()); });
}

Experiment Experiment::from_file(const fs::path& file, const Settings& more) {
  SettingsLayer settings = read_settings(file);
  if (experiment_sections(settings).empty())
    throw UserError(settings.name +
                    " has none of the sections [compare], [tasks.LABEL] and [backbones.LABEL]: a run's config is " +
                    "for " + shell_command({"engram", "train", "--config", file.string()}));
  settings = naming_line({settings}, [&] { return with_backbones_of(settings, file.parent_path()); });
  return from_settings(settings, more);
}

Experiment Experiment::read(const fs::path& directory, const Settings& more) {
  std::error_code error;
  if (!fs::is_regular_file(experiment_file(directory), error))
    throw UserError("'" + directory.string() + "' is not the folder of a comparison: it has no experiment.ini");
  SettingsLayer file = read_settings(experiment_file(directory));
  if (value_of(file.settings, kFormatKey) == nullptr) file.settings.emplace_back(kFormatKey, "1");
  Experiment experiment = from_settings(file, more);
  if (!experiment.match_mlp) experiment.match_mlp = false;
  return experiment;
}

std::string Experiment::to_ini() const {
  std::string text = kFormatKey + (" = " + std::to_string(format.value_or(kConfigFormat))) + "\n\n[compare]\n";
  if (!question.empty()) text += "question = " + question + "\n";
  text += "seeds = " + seeds_text(seeds) + "\nmatch = " + match_name(match) + "\n";
  if (match != Match::kNone) text += std::string("match_mlp = ") + (match_mlp.value_or(true) ? "true" : "false") + "\n";
  text += "reference = " + reference + "\ncontrols =\n";
  if (range) text += "evaluate = " + range->text() + "\n";
  std::string section;
  for (const auto& [key, value] : common) {
    if (section_of(key) != section) {
      section = section_of(key);
      text += "\n[" + section + "]\n";
    }
    text += key.substr(section.size() + 1) + " = " + value + "\n";
  }
  const auto add_entries = [&](const char* kind, const std::vector<ExperimentEntry>& entries) {
    for (const ExperimentEntry& entry : entries) {
      text += "\n[" + std::string(kind) + "." + entry.label + "]\n";
      for (const auto& [key, value] : entry.settings) text += key + " = " + value + "\n";
    }
  };
  add_entries(kTasks, tasks);
  if (has_learners()) add_entries(kLearners, learners);
  add_entries(kBackbones, backbones);
  if (tune) text += "\n" + tune->to_ini();
  return text;
}

void Experiment::select_tasks(const std::vector<std::string>& labels) { tasks = selected(tasks, labels, "task"); }

void Experiment::select_learners(const std::vector<std::string>& labels) {
  if (!has_learners()) throw UserError("the experiment has no learners to select from: no section [learners.LABEL]");
  learners = selected(learners, labels, "learner");
}

void Experiment::select_backbones(const std::vector<std::string>& labels) {
  backbones = selected(backbones, labels, "backbone");
  if (match == Match::kNone && find_entry(backbones, reference) == nullptr) reference = backbones.front().label;
}

void Experiment::override_settings(const Settings& settings) {
  for (const auto& [key, value] : settings) {
    if (key == "run.seed") throw UserError("--run.seed is not for a comparison; give --seeds");
    if (key == "task.name" || key == "task.preset" || key == "memory.name" || (key == "learner.name" && has_learners()))
      throw UserError("--" + key + " is not for a comparison, whose entries choose it; give " +
                      (key == "learner.name" ? "--learners" : "--tasks or --backbones"));
    if (key == "learner.preset") throw UserError("--" + key + " is not for a comparison, whose file chooses it");
    if (value.find('#') != std::string::npos || one_line(value) != value || (!value.empty() && value.front() == ' ') ||
        value.ends_with(' '))
      throw UserError("--" + key + " '" + value + "' cannot be kept in an INI file");
    remove_setting(common, key);
    common.emplace_back(key, value);
    for (std::vector<ExperimentEntry>* entries : {&tasks, &learners, &backbones})
      for (ExperimentEntry& entry : *entries) {
        remove_setting(entry.settings, key);
        if (preset_decides(entry.settings, key)) entry.settings.emplace_back(key, value);
      }
  }
}

void Experiment::add_saved(const Experiment& saved, const std::string& where) {
  if (saved.match != match)
    throw UserError(where + " was made with compare.match = " + match_name(saved.match) + " and cannot go on with " +
                    match_name(match));
  if (match != Match::kNone && saved.reference != reference)
    throw UserError(where + " was made with compare.reference = " + saved.reference + " and cannot go on with " +
                    reference);
  if (!range) range = saved.range;
  const bool saved_match_mlp = saved.match_mlp.value_or(true);
  if (!match_mlp) match_mlp = saved_match_mlp;
  if (match != Match::kNone && *match_mlp != saved_match_mlp)
    throw UserError(where + " was made with compare.match_mlp = " + (saved_match_mlp ? "true" : "false") +
                    " and cannot go on with " + (saved_match_mlp ? "false" : "true"));
  if (saved.has_learners() != has_learners())
    throw UserError(where + " was made with" + (saved.has_learners() ? "" : "out") +
                    " sections [learners.LABEL] and cannot go on with" + (saved.has_learners() ? "out" : ""));
  check_same_tuning(saved.tune, tune, where);
  format = saved.format;
  if (has_learners()) learners = joined_entries(saved.learners, learners);
  tasks = joined_entries(saved.tasks, tasks);
  backbones = joined_entries(saved.backbones, backbones);
  if (find_entry(saved.backbones, saved.reference) != nullptr) reference = saved.reference;
  seeds.insert(seeds.end(), saved.seeds.begin(), saved.seeds.end());
  std::ranges::sort(seeds);
  seeds.erase(std::unique(seeds.begin(), seeds.end()), seeds.end());
  check_tuning(*this, where);
  for (const ExperimentEntry& task : saved.tasks)
    for (const ExperimentEntry& backbone : saved.backbones)
      for (const ExperimentEntry& learner : saved.learners) {
        const std::string which = where + ", " + place_of(task.label, learner.label, backbone.label) + ",";
        check_same_run(saved.config(task, learner, backbone, seeds.front()),
                       config(*find_entry(tasks, task.label), *find_entry(learners, learner.label),
                              *find_entry(backbones, backbone.label), seeds.front()),
                       which);
      }
}

Config Experiment::config(const ExperimentEntry& task, const ExperimentEntry& learner, const ExperimentEntry& backbone,
                          std::uint64_t seed, const Settings& tuned) const {
  SettingsLayers layers = {{.settings = common},
                           {.settings = task.settings},
                           {.settings = learner.settings},
                           {.settings = backbone.settings},
                           {.settings = tuned},
                           {.settings = {{"run.seed", std::to_string(seed)}}}};
  if (format) layers.front().settings.emplace_back(kFormatKey, std::to_string(*format));
  if (format == 1) layers = {joined_layers(layers)};
  const std::string where = place_of(task.label, learner.label, backbone.label) + ": ";
  try {
    Config config = Config::from_layers(layers);
    check_learner_of_actions(config);
    if (config.evaluation.final_episodes == 0)
      throw UserError("evaluation.final_episodes = 0 leaves no final score to compare");
    if (range) check_range(*range, config);
    return config;
  } catch (const UserError& error) {
    throw UserError(where + (tuned.empty() ? "" : "with " + settings_text(tuned) + ": ") + error.what());
  }
}

std::string pair_label(const std::string& backbone, const std::string& learner) {
  return learner.empty() ? backbone : backbone + " by " + learner;
}

Experiment Experiment::by_learner() const {
  if (!has_learners()) return *this;
  Experiment pairs = *this;
  pairs.learners = {{}};
  pairs.backbones.clear();
  for (const ExperimentEntry& backbone : backbones)
    for (const ExperimentEntry& learner : learners) {
      ExperimentEntry& pair =
          pairs.backbones.emplace_back(ExperimentEntry{pair_label(backbone.label, learner.label), learner.settings});
      pair.settings.insert(pair.settings.end(), backbone.settings.begin(), backbone.settings.end());
    }
  pairs.reference = pair_label(reference, learners.front().label);
  return pairs;
}

std::string place_of(const std::string& task, const std::string& learner, const std::string& backbone) {
  return task + "/" + (learner.empty() ? "" : learner + "/") + backbone;
}

std::string PlannedRun::place() const {
  return place_of(task, learner, backbone) + (try_number > 0 ? "/try" + std::to_string(try_number) : "");
}

fs::path experiment_file(const fs::path& directory) { return directory / "experiment.ini"; }

fs::path config_file(const PlannedRun& run) { return run.directory / "configs" / (run.place() + ".ini"); }

fs::path failure_file(const PlannedRun& run) { return run.directory / "failures" / (run.name() + ".txt"); }

fs::path output_file(const PlannedRun& run) { return run.directory / "output" / (run.name() + ".txt"); }

}  // namespace engram
