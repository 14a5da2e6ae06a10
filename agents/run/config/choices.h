// What the layers of a config choose before any option is looked at: task, memory and learner, each by its name, a task
// and a learner by a preset, too. The rules are said at Config::from_layers() (config.h), whose part this is.
#pragma once

#include <string>
#include <vector>

#include "agents/run/config/config.h"
#include "storage/settings.h"

namespace engram {

// The keys that choose, "task.name" and such; all others are values of an options struct.
const std::vector<std::string>& choice_keys();

// A preset that a layer chooses, whichever kind it is of.
struct ChosenPreset {
  std::string key, name;         // "task.preset", "visual_match_60"
  std::string owner_key, owner;  // whose it is, which it chooses, too: "task.name", "visual_match"
  Settings values;               // section.key -> value
  const SettingsLayer* layer = nullptr;
};

// The layers, which these point into, outlive them.
struct Choices {
  // With their defaults.
  TaskConfig task;
  BackboneConfig memory;
  LearnerConfig learner;
  // The highest layer that chooses it; null where none does.
  const SettingsLayer *task_layer = nullptr, *memory_layer = nullptr, *learner_layer = nullptr;
  std::vector<ChosenPreset> presets;  // in the order in which they are set

  // That of a config before anything is set.
  Config config() const;
};

// Throws SettingError for an unknown name, or a preset of another task or learner than a layer above it names.
Choices choose(const SettingsLayers& layers);

}  // namespace engram
