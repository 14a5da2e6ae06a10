// engram list: tasks and backbones on one screen, each kind as a table, and of one task, size or backbone everything.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agents/learn/presets.h"
#include "agents/run/config/config.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/status_display.h"
#include "apps/list/roads.h"
#include "apps/list/small_configs.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/json_text.h"
#include "base/text/suggest.h"
#include "base/text/words.h"
#include "memory/core/first_scale.h"
#include "memory/core/registry.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

struct ListOptions {
  bool json = false;

  void list_options(OptionList& list) { list.add("json", json, "one JSON object instead of text"); }
};

// Costs of attention depend on the episode's length: that of the published visual match, 15 + 750 + 15 steps.
constexpr std::int64_t kCostSteps = 781;
// In place of a name: tables of one kind, and what runs fast.
constexpr const char* kTasks = "tasks";
constexpr const char* kPresets = "presets";
constexpr const char* kBackbones = "backbones";
constexpr const char* kLearners = "learners";
constexpr const char* kLearnerPresets = "learner_presets";
constexpr const char* kRoads = "roads";

ModelCost default_cost(const BackboneConfig& backbone) { return make_backbone(backbone, kCostSteps)->cost(); }

template <class Preset>
std::vector<std::string> names_of(const std::vector<Preset>& presets) {
  std::vector<std::string> names;
  for (const Preset& preset : presets) names.push_back(preset.name);
  return names;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names = task_names();
  for (const auto& more : {names_of(task_presets()),
                           backbone_names(),
                           learner_names(),
                           names_of(learner_presets()),
                           {kTasks, kPresets, kBackbones, kLearners, kLearnerPresets, kRoads}})
    names.insert(names.end(), more.begin(), more.end());
  return names;
}

template <class Names>
std::string joined(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

const char* type_name(const ObservationSpec& observation) {
  return observation.type == ElementType::kUint8 ? "uint8" : "float32";
}

std::string chance_text(const TaskInfo& info) {
  return info.chance_success ? std::to_string(std::lround(100 * *info.chance_success)) + "%" : "-";
}

// What a preset sets, by section.key.
Settings values_of(const TaskPreset& preset) {
  Settings values;
  for (const auto& [key, value] : preset.values) values.emplace_back("task." + key, value);
  return values;
}
const Settings& values_of(const LearnerPreset& preset) { return preset.values; }

std::string values_text(const Settings& values) {
  std::string text;
  for (const auto& [key, value] : values) text += (text.empty() ? "" : " ") + key + "=" + value;
  return text;
}

// ---- JSON

Json options_json(const std::vector<OptionValue>& defaults) {
  Json result = Json::array();
  for (const auto& [name, text, allowed, help] : defaults)
    result.push_back({{"name", name}, {"allowed", allowed}, {"default", text}, {"help", help}});
  return result;
}

Json parts_json(const ObservationSpec& observation) {
  Json parts = Json::array();
  for (const ObservationPart& part : observation.parts) {
    const char* const kind = part.kind == PartKind::kImage    ? "image"
                             : part.kind == PartKind::kVector ? "vector"
                                                              : "tokens";
    parts.push_back({{"name", part.name}, {"kind", kind}, {"shape", part.shape}});
    if (part.kind == PartKind::kTokens) parts.back()["values"] = part.values;
  }
  return parts;
}

// Of a continuous action; null of discrete ones.
Json action_numbers_json(const ActionSpec& action) {
  Json numbers;
  for (const auto& [name, least, most] : action.numbers)
    numbers.push_back({{"name", name}, {"least", least}, {"most", most}});
  return numbers;
}

Json task_json(const std::string& name) {
  TaskConfig task(name);
  const TaskInfo info = task.info();
  const SmallConfig* const small = small_config(name);
  return {{"name", name},
          {"description", info.description},
          {"memory_demand", info.memory_demand},
          {"source", info.source},
          {"chance_success", info.chance_success ? Json(*info.chance_success) : Json()},
          {"chance_source", info.chance_source},
          {"actions", info.action.names},
          {"action_numbers", action_numbers_json(info.action)},
          {"observation_shape", info.observation.shape()},
          {"observation_parts", parts_json(info.observation)},
          {"observation_type", type_name(info.observation)},
          {"max_episode_steps", info.max_episode_steps},
          {"small_config", small != nullptr ? Json{{"file", small->file}, {"outcome", small->outcome}} : Json()},
          {"options", options_json(task.values())}};
}

Json values_json(const Settings& values) {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = value;
  return json;
}

Json preset_json(const TaskPreset& preset) {
  return {{"name", preset.name},
          {"task", preset.task},
          {"source", preset.source},
          {"values", values_json(values_of(preset))}};
}

Json first_scale_json(const BackboneConfig& backbone) {
  const auto scale = first_scale(backbone);
  return scale ? Json(*scale) : Json();
}

Json backbone_json(const std::string& name) {
  BackboneConfig backbone(name);
  const ModelCost cost = default_cost(backbone);
  return {{"name", name},
          {"summary", backbone.summary()},
          {"source", backbone.source()},
          {"parameters", cost.parameters},
          {"state_bytes", cost.state_bytes},
          {"multiply_adds_per_step", cost.multiply_adds_per_step},
          {"first_scale", first_scale_json(backbone)},
          {"options", options_json(backbone.values())}};
}

Json learner_json(const std::string& name) {
  LearnerConfig learner(name);
  return {{"name", name},
          {"summary", learner.summary()},
          {"source", learner.source()},
          {"defaults_elsewhere", values_json(learner.defaults_elsewhere())},
          {"options", options_json(learner.values())}};
}

Json preset_json(const LearnerPreset& preset) {
  return {{"name", preset.name},
          {"learner", preset.learner},
          {"summary", preset.summary},
          {"source", preset.source},
          {"values", values_json(preset.values)}};
}

// Everything, or in the same form one kind of entries, or the one entry called `name`.
Json list_json(const std::string& name) {
  const auto wanted = [&name](const char* kind, const std::string& entry) {
    return name.empty() || name == kind || name == entry;
  };
  Json result;
  for (const std::string& task : task_names())
    if (wanted(kTasks, task)) result[kTasks].push_back(task_json(task));
  for (const TaskPreset& preset : task_presets())
    if (wanted(kPresets, preset.name)) result[kPresets].push_back(preset_json(preset));
  for (const std::string& backbone : backbone_names())
    if (wanted(kBackbones, backbone)) result[kBackbones].push_back(backbone_json(backbone));
  for (const std::string& learner : learner_names())
    if (wanted(kLearners, learner)) result[kLearners].push_back(learner_json(learner));
  for (const LearnerPreset& preset : learner_presets())
    if (wanted(kLearnerPresets, preset.name)) result[kLearnerPresets].push_back(preset_json(preset));
  return result;
}

// ---- Tables

void print_note(const std::string& text) {
  std::printf("%s\n", wrapped(text, 0, std::min(kScreenColumns, help_columns())).c_str());
}

void print_tasks() {
  ScreenTable table(
      {{"name"}, {"steps", true, 1}, {"observation"}, {"actions", true}, {"chance", true}, {"what to remember"}});
  for (const std::string& name : task_names()) {
    const TaskInfo info = TaskConfig(name).info();
    table.add(
        {name, std::to_string(info.max_episode_steps), info.observation.text(),
         info.action.continuous() ? std::to_string(info.action.words()) + " float" : std::to_string(info.num_actions()),
         chance_text(info), info.memory_demand});
  }
  std::printf("TASKS (--task.name), with the steps of the longest episode\n%s", table.text(0).c_str());
}

void print_presets() {
  std::printf("PRESETS (--task.preset), published sizes of the tasks\n");
  for (const std::string& task : task_names()) {
    std::vector<std::string> names;
    for (const TaskPreset& preset : task_presets())
      if (preset.task == task) names.push_back(preset.name);
    if (!names.empty()) print_note(task + ": " + joined(names));
  }
}

void print_backbones() {
  ScreenTable table({{"name"}, {"weights", true}, {"state", true}, {"work", true}, {"what it is"}});
  for (const std::string& name : backbone_names()) {
    const BackboneConfig backbone(name);
    const ModelCost cost = default_cost(backbone);
    table.add({name, count_text(static_cast<double>(cost.parameters)),
               count_text(static_cast<double>(cost.state_bytes)),
               count_text(static_cast<double>(cost.multiply_adds_per_step)), backbone.summary()});
  }
  std::printf("BACKBONES (--memory.name)\n%s\n", table.text(0).c_str());
  print_note(
      "State: bytes of one agent's memory. Work: multiply-adds a step. All at the defaults; state and work in "
      "episodes of " +
      counted(kCostSteps - 1, "step") + ".");
}

void print_learners() {
  std::printf("LEARNERS (--learner.name)\n");
  for (const std::string& name : learner_names()) print_note(name + ": " + LearnerConfig(name).summary());
}

void print_learner_presets() {
  std::printf("LEARNER PRESETS (--learner.preset), published settings of the learners\n");
  for (const LearnerPreset& preset : learner_presets())
    print_note(preset.name + " (" + preset.learner + "): " + preset.summary);
}

// On one screen.
void print_overview() {
  print_tasks();
  std::printf("\n");
  print_note("BACKBONES (--memory.name): " + joined(backbone_names()));
  std::printf("\n");
  print_note("LEARNERS (--learner.name): " + joined(learner_names()));
  std::printf("\n");
  print_note("engram list backbones or learners tells what they are, list presets names " +
             counted(task_presets().size(), "published size") +
             " of the tasks (--task.preset), list NAME shows one of these with its options and source. "
             "configs/small/TASK.ini trains a small agent in minutes.");
}

// ---- One of them

void print_title(const std::string& title, const std::string& description) {
  std::printf("%s\n\n%s\n\n", wrapped(title, 2).c_str(), wrapped(description, 0).c_str());
}

void print_entry(const char* title, const std::string& text) {
  constexpr std::size_t kIndent = 15;
  std::printf("  %-13s%s\n", title, wrapped(text, kIndent).c_str());
}

// "left, right", or "torque from -2 to 2".
std::string actions_text(const ActionSpec& action) {
  if (!action.continuous()) return joined(action.names);
  std::string text;
  for (const auto& [name, least, most] : action.numbers)
    text += (text.empty() ? "" : ", ") + std::string(name) + formatted(" from %g to %g", least, most);
  return text;
}

void print_task_facts(const TaskInfo& info) {
  print_entry("to remember", info.memory_demand);
  print_entry("observation", info.observation.text() + ", " + type_name(info.observation));
  print_entry("actions", actions_text(info.action));
  print_entry("episode", "up to " + counted(info.max_episode_steps, "step"));
  print_entry("chance", info.chance_success ? chance_text(info) + ": " + info.chance_source : info.chance_source);
}

// Those of one task or learner.
template <class Preset>
void print_own_presets(const std::vector<Preset>& presets, const char* option) {
  std::size_t width = 0;  // of the names
  for (const Preset& preset : presets) width = std::max(width, preset.name.size());
  if (width > 0) std::printf("\nPresets (%s)\n", option);
  for (const Preset& preset : presets)
    std::printf("  %-*s  %s\n", static_cast<int>(width), preset.name.c_str(),
                wrapped(values_text(values_of(preset)), width + 4).c_str());
}

void print_task(const std::string& name) {
  TaskConfig task(name);
  const TaskInfo info = task.info();
  print_title(name + ", a task (--task.name " + name + ")", info.description);
  print_task_facts(info);
  if (const SmallConfig* const small = small_config(name))
    print_entry("small config", small->file + ": " + small->outcome);
  print_entry("source", info.source);
  std::printf("\nOptions\n");
  print_options(std::cout, task.options());
  std::vector<TaskPreset> presets = task_presets();
  std::erase_if(presets, [&](const TaskPreset& preset) { return preset.task != name; });
  print_own_presets(presets, "--task.preset");
}

void print_preset(const TaskPreset& preset) {
  TaskConfig task = TaskConfig::from_preset(preset.name);
  const TaskInfo info = task.info();
  print_title(preset.name + ", a published size of task " + preset.task + " (--task.preset " + preset.name + ")",
              info.description);
  print_entry("sets", values_text(values_of(preset)));
  print_task_facts(info);
  print_entry("source", preset.source);
  std::printf("\nOptions, with the preset's values\n");
  print_options(std::cout, task.options());
}

void print_backbone(const std::string& name) {
  BackboneConfig backbone(name);
  const ModelCost cost = default_cost(backbone);
  print_title(name + ", a memory backbone (--memory.name " + name + ")", backbone.summary());
  const std::string in = " (at the defaults, in episodes of " + std::to_string(kCostSteps - 1) + " steps)";
  print_entry("parameters", std::to_string(cost.parameters));
  print_entry("state", std::to_string(cost.state_bytes) + " bytes" + in);
  print_entry("work", std::to_string(cost.multiply_adds_per_step) + " multiply-adds a step" + in);
  const auto scale = first_scale(backbone);
  print_entry("at first", scale ? "adds " + formatted("%.2g", *scale) +
                                      " to a residual stream of 1: root mean square of the first layer's mixer, before "
                                      "anything is learnt, at the defaults"
                                : "adds to no residual stream: what it gives is all of its output");
  print_entry("source", backbone.source());
  std::printf("\nOptions\n");
  print_options(std::cout, backbone.options());
}

void print_learner(const std::string& name) {
  LearnerConfig learner(name);
  print_title(name + ", a learner (--learner.name " + name + ")", learner.summary());
  if (const Settings elsewhere = learner.defaults_elsewhere(); !elsewhere.empty())
    print_entry("elsewhere", "with other defaults: " + values_text(elsewhere));
  print_entry("source", learner.source());
  std::printf("\nOptions\n");
  print_options(std::cout, learner.options());
  print_own_presets(learner.any().presets(), "--learner.preset");
}

void print_preset(const LearnerPreset& preset) {
  LearnerConfig learner(preset.learner);
  OptionList options = learner.options();
  for (const auto& [key, value] : preset.values)
    if (key.starts_with(std::string(kLearnerSection) + ".")) options.set(key, value);
  print_title(preset.name + ", a preset of learner " + preset.learner + " (--learner.preset " + preset.name + ")",
              preset.summary);
  print_entry("sets", values_text(preset.values));
  print_entry("source", preset.source);
  std::printf("\nOptions of the learner, with the preset's values\n");
  print_options(std::cout, options);
}

void print_one(const std::string& name) {
  for (const std::string& task : task_names())
    if (task == name) return print_task(name);
  for (const TaskPreset& preset : task_presets())
    if (preset.name == name) return print_preset(preset);
  for (const std::string& backbone : backbone_names())
    if (backbone == name) return print_backbone(name);
  for (const std::string& learner : learner_names())
    if (learner == name) return print_learner(name);
  for (const LearnerPreset& preset : learner_presets())
    if (preset.name == name) return print_preset(preset);
}

void check_known(const std::string& name) {
  const std::vector<std::string> names = all_names();
  if (std::ranges::find(names, name) != names.end()) return;
  throw UserError(unknown_name("task, preset, backbone or learner", name, names, "engram list"));
}

void print_list_help(const OptionList& own) {
  std::cout << help_head({"engram list [NAME] [--json]",
                          "engram list tasks|presets|backbones|learners|learner_presets [--json]", "engram list roads"},
                         {"Shows the tasks, their published sizes (presets), the memory backbones, the learners and "
                          "their published settings (learner_presets); of the one called NAME its options with their "
                          "defaults, and its source; of one kind all "
                          "that there are. engram list roads says which sizes engram's own kernels take on a GPU."})
            << "Options\n";
  print_options(std::cout, own);
  std::cout << "\nExamples\n  engram list\n  engram list hqlt\n  engram list tmaze --json\n  engram list roads\n";
}

CommandSyntax list_syntax() {
  return {.command = "list", .positional = {"NAME"}, .optional = 1, .values = {{"NAME", all_names()}}};
}

}  // namespace

void describe_list(const CommandVisitor& visit) { describe_options<ListOptions>("list", list_syntax(), visit); }

int run_list(const std::vector<std::string>& arguments) {
  ListOptions options;
  const auto line = command_line_of(arguments, options, list_syntax(), print_list_help);
  if (!line) return 0;
  const std::string name = line->positional.empty() ? "" : line->positional[0];
  if (!line->positional.empty()) check_known(name);
  if (name == kRoads && options.json) throw UserError("engram list roads prints Markdown and has no --json");
  if (name == kRoads)
    std::cout << roads_page();
  else if (options.json)
    std::cout << json_text(list_json(name), 2) << std::endl;
  else if (name.empty())
    print_overview();
  else if (name == kTasks)
    print_tasks();
  else if (name == kPresets)
    print_presets();
  else if (name == kBackbones)
    print_backbones();
  else if (name == kLearners)
    print_learners();
  else if (name == kLearnerPresets)
    print_learner_presets();
  else
    print_one(name);
  return 0;
}

}  // namespace engram
