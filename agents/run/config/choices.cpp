#include "agents/run/config/choices.h"

#include <optional>
#include <ranges>

#include "agents/learn/presets.h"

namespace engram {
namespace {

// The value of a key that chooses, and the highest layer that has one.
struct Choice {
  std::string value;
  const SettingsLayer* layer;
};

std::optional<Choice> choice_of(const SettingsLayers& layers, const std::string& key) {
  for (const SettingsLayer& layer : layers | std::views::reverse) {
    const std::string* const value = value_of(layer.settings, key);
    if (value == nullptr) continue;
    if (value->empty()) throw SettingError(key, key + " = '' is not allowed; it takes a name (engram list shows them)");
    return Choice{*value, &layer};
  }
  return {};
}

// A kind of presets: of tasks, of learners.
struct PresetKind {
  std::string key, owner_key;  // "task.preset", "task.name"
  std::string belongs;         // between a preset's name and its owner's: "is a size of task"
  // Sets owner and values. Throws UserError for an unknown name.
  void (*find)(const std::string& name, ChosenPreset& preset);
};

const PresetKind kTaskPresets = {"task.preset", "task.name", "is a size of task",
                                 [](const std::string& name, ChosenPreset& preset) {
                                   const TaskPreset& known = task_preset(name);
                                   preset.owner = known.task;
                                   for (const auto& [option, value] : known.values)
                                     preset.values.emplace_back(std::string(kTaskSection) + "." + option, value);
                                 }};
const PresetKind kLearnerPresets = {"learner.preset", "learner.name", "is a preset of learner",
                                    [](const std::string& name, ChosenPreset& preset) {
                                      const LearnerPreset& known = learner_preset(name);
                                      preset.owner = known.learner;
                                      preset.values = known.values;
                                    }};

std::optional<ChosenPreset> preset_of(const SettingsLayers& layers, const PresetKind& kind) {
  const std::optional<Choice> choice = choice_of(layers, kind.key);
  if (!choice) return {};
  ChosenPreset preset{.key = kind.key,
                      .name = choice->value,
                      .owner_key = kind.owner_key,
                      .owner = {},
                      .values = {},
                      .layer = choice->layer};
  about_key(kind.key, [&] { kind.find(choice->value, preset); });
  return preset;
}

// Sets `chosen` to what a layer names. Returns the layer; null where none does.
template <class Chosen>
const SettingsLayer* choose_by_name(Chosen& chosen, const std::string& key, const std::optional<Choice>& name) {
  if (!name) return nullptr;
  chosen = about_key(key, [&] { return Chosen(name->value); });
  return name->layer;
}

// The same where there are presets: one wins over the names in the layers below its own, and has to be of what those
// above name.
template <class Chosen>
const SettingsLayer* choose_by_preset(Chosen& chosen, const PresetKind& kind, const SettingsLayers& layers,
                                      std::vector<ChosenPreset>& presets) {
  const std::optional<Choice> name = choice_of(layers, kind.owner_key);
  const std::optional<ChosenPreset> preset = preset_of(layers, kind);
  if (!preset) return choose_by_name(chosen, kind.owner_key, name);
  presets.push_back(*preset);
  if (!name || name->layer < preset->layer) {
    chosen = Chosen(preset->owner);
    return preset->layer;
  }
  choose_by_name(chosen, kind.owner_key, name);
  if (preset->owner != name->value)
    throw SettingError(kind.key, kind.key + " '" + preset->name + "' " + kind.belongs + " " + preset->owner + ", but " +
                                     kind.owner_key + " is '" + name->value + "'");
  return name->layer;
}

}  // namespace

const std::vector<std::string>& choice_keys() {
  static const std::vector<std::string> keys = {"task.name", "task.preset", "memory.name", "learner.name",
                                                "learner.preset"};
  return keys;
}

Config Choices::config() const {
  Config config;
  config.task = task;
  config.memory = memory;
  config.learner = learner;
  return config;
}

Choices choose(const SettingsLayers& layers) {
  const Config defaults;
  Choices choices{.task = defaults.task, .memory = defaults.memory, .learner = defaults.learner, .presets = {}};
  choices.task_layer = choose_by_preset(choices.task, kTaskPresets, layers, choices.presets);
  choices.memory_layer = choose_by_name(choices.memory, "memory.name", choice_of(layers, "memory.name"));
  choices.learner_layer = choose_by_preset(choices.learner, kLearnerPresets, layers, choices.presets);
  return choices;
}

}  // namespace engram
