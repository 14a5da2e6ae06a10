// The tasks, the learners or the backbones of an experiment as its file has them: sections [tasks.LABEL],
// [learners.LABEL], [backbones.LABEL].
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "experiments/plan/experiment.h"
#include "storage/settings.h"

namespace engram {

inline constexpr const char* kCompare = "compare";
inline constexpr const char* kTasks = "tasks";
inline constexpr const char* kBackbones = "backbones";
inline constexpr const char* kLearners = "learners";
inline constexpr const char* kTune = "tune";
inline constexpr const char* kBackbonesOf = "compare.backbones_of";

// Of "section.key".
std::string section_of(const std::string& key);
std::string behind_dot(const std::string& key);

std::vector<std::string> labels_of(const std::vector<ExperimentEntry>& entries);

// `full_key`: as the file has it, that is behind "tasks.LABEL." where the setting is an entry's. Throws SettingError
// for a key that is none of the known ones.
void add_setting(Settings& settings, const std::string& key, const std::string& value,
                 const std::vector<std::string>& known_keys, const std::string& full_key);
void remove_setting(Settings& settings, const std::string& key);

// Throws SettingError for a section without keys that means nothing in an experiment's file.
void check_empty_section(const std::string& section);

// `file`, in `folder`, with the sections [backbones.LABEL] of the experiment beside it that compare.backbones_of names
// before its own. Throws SettingError where that has none of its own, and what reading it throws.
SettingsLayer with_backbones_of(SettingsLayer file, const std::filesystem::path& folder);

class EntryReader {
 public:
  // Begins with an entry for every section of this kind (kTasks, kBackbones, kLearners), also of those without keys.
  // The file and the keys have to outlive the reader. All its functions throw SettingError.
  EntryReader(const char* kind, const SettingsLayer& file, const std::vector<std::string>& known_keys);

  // The setting "LABEL.section.key" or "LABEL.like".
  void add(const std::string& rest, const std::string& value);

  // In the order of the file. Of learners, throws SettingError for an entry that says nothing: its label is none, and
  // it has no setting.
  std::vector<ExperimentEntry> take();

 private:
  ExperimentEntry& entry_of(const std::string& label, const std::string& full_key);
  // A label that is the name of a task, a backbone, a learner or a preset says which, where nothing else does.
  Settings named_by(const std::string& label) const;
  // The settings of the entry before `own` that "like" names.
  Settings settings_like(const ExperimentEntry& own, const std::string& label, const std::string& full_key) const;

  std::string kind_;
  const SettingsLayer& file_;
  const std::vector<std::string>& known_keys_;
  std::vector<ExperimentEntry> entries_;
};

}  // namespace engram
