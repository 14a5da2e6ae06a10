#include "experiments/plan/entry_reader.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "agents/learn/learner_config.h"
#include "agents/learn/presets.h"
#include "base/text/suggest.h"
#include "envs/registry.h"
#include "memory/core/backbone_config.h"

namespace engram {
namespace {

constexpr std::size_t kMaxLabelBytes = 64;
constexpr const char* kLike = "like";

void check_label(const std::string& label, const std::string& full_key) {
  const auto safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '+';
  };
  if (label.empty() || label.size() > kMaxLabelBytes || label[0] == '-' || !std::ranges::all_of(label, safe))
    throw SettingError(full_key, "label '" + label + "' is not allowed; it takes 1 to " +
                                     std::to_string(kMaxLabelBytes) +
                                     " letters, digits, '_', '-' and '+', and begins with no '-'");
}

// What a label may be the name of, in the order in which it is looked for: settings, and the names that they take.
using Names = std::vector<std::pair<std::string, std::vector<std::string>>>;

template <class Preset>
std::vector<std::string> preset_names(const std::vector<Preset>& presets) {
  std::vector<std::string> names;
  for (const Preset& preset : presets) names.push_back(preset.name);
  return names;
}

Names names_of(const std::string& kind) {
  if (kind == kTasks) return {{"task.name", task_names()}, {"task.preset", preset_names(task_presets())}};
  if (kind == kLearners)
    return {{"learner.name", learner_names()}, {"learner.preset", preset_names(learner_presets())}};
  return {{"memory.name", backbone_names()}};
}

}  // namespace

std::string section_of(const std::string& key) { return key.substr(0, key.find('.')); }

std::string behind_dot(const std::string& key) {
  const std::size_t dot = key.find('.');
  return dot == std::string::npos ? "" : key.substr(dot + 1);
}

std::vector<std::string> labels_of(const std::vector<ExperimentEntry>& entries) {
  std::vector<std::string> labels;
  for (const ExperimentEntry& entry : entries) labels.push_back(entry.label);
  return labels;
}

void add_setting(Settings& settings, const std::string& key, const std::string& value,
                 const std::vector<std::string>& known_keys, const std::string& full_key) {
  if (std::ranges::find(known_keys, key) == known_keys.end())
    throw SettingError(full_key, "unknown key '" + key + "'" + did_you_mean(key, known_keys));
  settings.emplace_back(key, value);
}

void remove_setting(Settings& settings, const std::string& key) {
  std::erase_if(settings, [&](const auto& setting) { return setting.first == key; });
}

void check_empty_section(const std::string& section) {
  if (section == kCompare || section == kTune) return;
  const std::string kind = section_of(section), key = "[" + section + "]";
  if (kind != kTasks && kind != kBackbones && kind != kLearners) return check_section(section);
  const std::string entry = behind_dot(section), rest = behind_dot(entry);
  if (entry.empty()) throw SettingError(key, key + " has no label; as in [" + kind + ".LABEL]");
  if (!rest.empty()) about_key(key, [&] { check_section(rest); });
}

SettingsLayer with_backbones_of(SettingsLayer file, const std::filesystem::path& folder) {
  const std::string* const named = value_of(file.settings, kBackbonesOf);
  if (named == nullptr) return file;
  SettingsLayer other = read_settings(folder / *named);
  Experiment::from_settings(other);  // where something is wrong in it, its line is named
  const auto is_other = [](const std::string& name) { return section_of(name) != kBackbones; };
  std::erase_if(other.sections, is_other);
  std::erase_if(other.settings, [&](const auto& setting) { return is_other(setting.first); });
  if (other.sections.empty()) throw SettingError(kBackbonesOf, other.name + " has no section [backbones.LABEL]");
  std::erase_if(file.settings, [](const auto& setting) { return setting.first == kBackbonesOf; });
  file.sections.insert(file.sections.begin(), other.sections.begin(), other.sections.end());
  file.settings.insert(file.settings.begin(), other.settings.begin(), other.settings.end());
  return file;
}

EntryReader::EntryReader(const char* kind, const SettingsLayer& file, const std::vector<std::string>& known_keys)
    : kind_(kind), file_(file), known_keys_(known_keys) {
  for (const std::string& section : file.sections)
    if (section.starts_with(kind_ + ".")) entry_of(section_of(behind_dot(section)), "[" + section + "]");
}

void EntryReader::add(const std::string& rest, const std::string& value) {
  const std::string label = section_of(rest), key = behind_dot(rest), full_key = kind_ + "." + rest;
  ExperimentEntry& entry = entry_of(label, full_key);
  if (key == kLike) {
    if (!entry.settings.empty())
      throw SettingError(full_key, "'" + rest + "' has to come before the section's settings");
    entry.settings = settings_like(entry, value, full_key);
    return;
  }
  if (key.find('.') == std::string::npos)
    throw SettingError(full_key, "'" + rest + "' is no setting of " + label + "; it takes section.key = value");
  remove_setting(entry.settings, key);  // the one that "like" has brought
  add_setting(entry.settings, key, value, known_keys_, full_key);
}

ExperimentEntry& EntryReader::entry_of(const std::string& label, const std::string& full_key) {
  if (const auto found = std::ranges::find(entries_, label, &ExperimentEntry::label); found != entries_.end())
    return *found;
  check_label(label, full_key);
  return entries_.emplace_back(ExperimentEntry{label, named_by(label)});
}

Settings EntryReader::named_by(const std::string& label) const {
  const Names choices = names_of(kind_);
  const std::string prefix = kind_ + "." + label + ".";
  if (config_format(file_.settings) == 1 || value_of(file_.settings, prefix + kLike) != nullptr) return {};
  // Learners are told apart by their labels whatever the runs share.
  for (const auto& [key, names] : choices)
    if ((kind_ != kLearners && value_of(file_.settings, key) != nullptr) ||
        value_of(file_.settings, prefix + key) != nullptr)
      return {};
  for (const auto& [key, names] : choices)
    if (std::ranges::find(names, label) != names.end()) return {{key, label}};
  return {};
}

std::vector<ExperimentEntry> EntryReader::take() {
  for (const ExperimentEntry& entry : entries_)
    if (kind_ == kLearners && entry.settings.empty())
      throw SettingError("[" + kind_ + "." + entry.label + "]", "'" + entry.label +
                                                                    "' is no learner, and its section has no setting" +
                                                                    names_hint(entry.label, learner_names()));
  return std::move(entries_);
}

Settings EntryReader::settings_like(const ExperimentEntry& own, const std::string& label,
                                    const std::string& full_key) const {
  const std::span before(entries_.data(), static_cast<std::size_t>(&own - entries_.data()));
  const auto found = std::ranges::find(before, label, &ExperimentEntry::label);
  if (found != before.end()) return found->settings;
  throw SettingError(full_key, "'" + label + "' is none of the sections before this one" +
                                   did_you_mean(label, labels_of({before.begin(), before.end()})));
}

}  // namespace engram
