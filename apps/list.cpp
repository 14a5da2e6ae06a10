// engram list: tasks, their published sizes, and backbones, each with its options.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "agents/config.h"
#include "apps/command_line.h"
#include "apps/commands.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

struct ListOptions {
  bool json = false;

  void list_options(OptionList& list) { list.add("json", json, "one JSON object instead of text"); }
};

// Costs of attention depend on the episode's length: that of the published visual match, 15 + 750 + 15 steps.
constexpr std::int64_t kCostSteps = 781;

ModelCost default_cost(const BackboneConfig& backbone) { return make_backbone(backbone, kCostSteps)->cost(); }

Json options_json(const OptionList& list) {
  Json result = Json::array();
  for (const Option& option : list.options())
    result.push_back(
        {{"name", option.name}, {"allowed", option.allowed}, {"default", option.get()}, {"help", option.help}});
  return result;
}

Json everything() {
  Json result;
  for (const std::string& name : task_names()) {
    TaskConfig task(name);
    const TaskInfo info = task.info();
    result["tasks"].push_back({{"name", name},
                               {"description", info.description},
                               {"chance_success", info.chance_success ? Json(*info.chance_success) : Json()},
                               {"chance_source", info.chance_source},
                               {"actions", info.action_names},
                               {"observation_shape", info.observation.shape},
                               {"observation_type", info.observation.type == ElementType::kUint8 ? "uint8" : "float32"},
                               {"max_episode_steps", info.max_episode_steps},
                               {"options", options_json(task.options())}});
  }
  for (const TaskPreset& preset : task_presets()) {
    Json values = Json::object();
    for (const auto& [key, value] : preset.values) values["task." + key] = value;
    result["presets"].push_back(
        {{"name", preset.name}, {"task", preset.task}, {"source", preset.source}, {"values", values}});
  }
  for (const std::string& name : backbone_names()) {
    BackboneConfig backbone(name);
    const ModelCost cost = default_cost(backbone);
    result["backbones"].push_back({{"name", name},
                                   {"parameters", cost.parameters},
                                   {"state_bytes", cost.state_bytes},
                                   {"multiply_adds_per_step", cost.multiply_adds_per_step},
                                   {"options", options_json(backbone.options())}});
  }
  return result;
}

void print_everything() {
  std::cout << "TASKS (--task.name)\n";
  for (const std::string& name : task_names()) {
    TaskConfig task(name);
    const TaskInfo info = task.info();
    std::string shape, actions;
    for (const std::int64_t size : info.observation.shape) shape += (shape.empty() ? "" : " x ") + std::to_string(size);
    for (const std::string& action : info.action_names) actions += (actions.empty() ? "" : ", ") + action;
    std::cout << "\n"
              << name << ": " << info.description << "\n  episodes of up to " << info.max_episode_steps
              << " steps; sees " << (info.observation.type == ElementType::kUint8 ? "an image " : "a vector ") << shape
              << "; actions " << actions;
    if (info.chance_success) std::cout << "; guessing succeeds in " << std::lround(100 * *info.chance_success) << "%";
    std::cout << "\n";
    print_options(std::cout, task.options());
  }
  std::cout << "\n\nPRESETS (--task.preset): published sizes\n\n";
  for (const TaskPreset& preset : task_presets()) {
    std::string values;
    for (const auto& [key, value] : preset.values) values += " task." + key + "=" + value;
    std::cout << "  " << preset.name << std::string(preset.name.size() < 30 ? 30 - preset.name.size() : 1, ' ')
              << wrapped(preset.task + ":" + values + " (" + preset.source + ")", 32) << "\n";
  }
  std::cout << "\n\nBACKBONES (--memory.name); costs of one row at the defaults, episodes of " << kCostSteps - 1
            << " steps\n";
  for (const std::string& name : backbone_names()) {
    BackboneConfig backbone(name);
    const ModelCost cost = default_cost(backbone);
    std::cout << "\n"
              << name << ": " << cost.parameters << " parameters, " << cost.state_bytes << " bytes of state, "
              << cost.multiply_adds_per_step << " multiply-adds a step\n";
    print_options(std::cout, backbone.options());
  }
}

}  // namespace

int run_list(const std::vector<std::string>& arguments) {
  ListOptions options;
  OptionList own("");
  options.list_options(own);
  if (parse_command_line(arguments, own).help) {
    std::cout << "engram list [--json]\n\n"
              << wrapped(
                     "Shows the tasks, their published sizes (presets) and the memory backbones, with all options "
                     "and defaults.",
                     0)
              << "\n\nOptions\n";
    print_options(std::cout, own);
    return 0;
  }
  if (options.json)
    std::cout << everything().dump(2) << std::endl;
  else
    print_everything();
  return 0;
}

}  // namespace engram
