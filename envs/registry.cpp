#include "envs/registry.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace engram {
namespace {

using PresetValues = decltype(TaskPreset::values);

std::vector<TaskPreset> make_presets() {
  const std::string memory_rl = "Ni et al., When do Transformers shine in RL?, NeurIPS 2023 (Memory-RL)";
  std::vector<TaskPreset> presets = {
      {"visual_match_hqlt",
       "visual_match",
       {{"explore_steps", "15"}, {"distractor_steps", "750"}, {"reward_steps", "15"}, {"final_reward", "100"}},
       "Irie et al., Blending complementary memory systems in hybrid quadratic-linear Transformers, 2025, figure 2"}};
  for (const char* steps : {"60", "120", "250", "500", "750", "1000"})
    presets.push_back({std::string("visual_match_") + steps,
                       "visual_match",
                       {{"distractor_steps", steps}, {"final_reward", "10"}},
                       memory_rl});
  for (const char* steps : {"60", "120", "250", "500"})
    presets.push_back({std::string("key_to_door_") + steps, "key_to_door", {{"distractor_steps", steps}}, memory_rl});
  for (const char* length : {"50", "100", "250", "500", "750", "1000", "1250", "1500"})
    presets.push_back({std::string("tmaze_passive_") + length, "tmaze", {{"corridor_length", length}}, memory_rl});
  for (const char* length : {"20", "50", "100", "250", "500"})
    presets.push_back(
        {std::string("tmaze_active_") + length, "tmaze", {{"active", "true"}, {"corridor_length", length}}, memory_rl});
  const auto add_sizes = [&presets](const std::string& task, const std::array<PresetValues, 3>& sizes) {
    for (int i = 0; const char* const size : {"easy", "medium", "hard"})
      presets.push_back({task + "_" + size, task, sizes[i++], cards::kSource});
  };
  add_sizes("repeat_first", {{{{"num_decks", "1"}}, {{"num_decks", "8"}}, {{"num_decks", "16"}}}});
  add_sizes("repeat_previous",
            {{{{"num_decks", "1"}, {"k", "4"}}, {{"num_decks", "2"}, {"k", "32"}}, {{"num_decks", "3"}, {"k", "64"}}}});
  add_sizes("autoencode", {{{{"num_decks", "1"}}, {{"num_decks", "2"}}, {{"num_decks", "3"}}}});
  add_sizes("count_recall", {{{{"num_decks", "1"}, {"kind", "colours"}},
                              {{"num_decks", "2"}, {"kind", "suits"}},
                              {{"num_decks", "4"}, {"kind", "ranks"}}}});
  // bsuite's sweeps, of which memory_size takes the numbers up to 40.
  const std::vector<int> bsuite_sweep = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12, 14,
                                         17, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100};
  for (const int length : bsuite_sweep)
    presets.push_back({"memory_len_" + std::to_string(length),
                       "memory_chain",
                       {{"memory_length", std::to_string(length)}},
                       kBsuiteSource});
  for (const int bits : bsuite_sweep)
    if (bits <= 40)
      presets.push_back({"memory_size_" + std::to_string(bits),
                         "memory_chain",
                         {{"memory_length", "2"}, {"bits", std::to_string(bits)}},
                         kBsuiteSource});
  for (const int length : bsuite_sweep)
    presets.push_back({"umbrella_length_" + std::to_string(length),
                       "umbrella_chain",
                       {{"chain_length", std::to_string(length)}, {"distractors", "20"}},
                       kBsuiteSource});
  for (const char* size : {"7", "9", "11", "13"})
    presets.push_back(
        {std::string("minigrid_memory_s") + size, "minigrid_memory", {{"size", size}}, minigrid::kSource});
  for (const char* size : {"13", "17"})
    presets.push_back({std::string("minigrid_memory_s") + size + "_random",
                       "minigrid_memory",
                       {{"size", size}, {"random_length", "true"}},
                       minigrid::kSource});
  for (const char* size : {"6", "8"})
    presets.push_back({std::string("red_blue_doors_") + size, "red_blue_doors", {{"size", size}}, minigrid::kSource});
  for (const char* size : {"5", "6", "8", "16"})
    presets.push_back({std::string("door_key_") + size, "door_key", {{"size", size}}, minigrid::kSource});
  return presets;
}

// "; did you mean 'x'?" where something is near, otherwise the list of what there is.
std::string hint(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  if (!near.empty()) return "; did you mean '" + near + "'?";
  std::string list;
  for (const std::string& entry : known) list += (list.empty() ? "" : ", ") + entry;
  return "; there are " + list;
}

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  AllTasks::for_each([&]<class Task>() { names.push_back(Task::kName); });
  return names;
}

const std::vector<TaskPreset>& task_presets() {
  static const std::vector<TaskPreset> presets = make_presets();
  return presets;
}

TaskConfig::TaskConfig(const std::string& name) : name_(name) {
  bool found = false;
  AllTasks::for_each([&]<class Task>() {
    if (name != Task::kName) return;
    options_ = typename Task::Options{};
    found = true;
  });
  if (!found) throw UserError("unknown task '" + name + "'" + hint(name, task_names()));
}

TaskConfig TaskConfig::from_preset(const std::string& preset) {
  std::vector<std::string> names;
  for (const TaskPreset& known : task_presets()) {
    names.push_back(known.name);
    if (known.name != preset) continue;
    TaskConfig config(known.task);
    OptionList options = config.options();
    for (const auto& [key, value] : known.values) options.set(std::string(kTaskSection) + "." + key, value);
    return config;
  }
  throw UserError("unknown preset '" + preset + "'" + hint(preset, names));
}

OptionList TaskConfig::options() {
  OptionList list(kTaskSection);
  std::visit([&](auto& options) { options.list_options(list); }, options_);
  return list;
}

void TaskConfig::check() const {
  std::visit([](const auto& options) { options.check(); }, options_);
}

TaskInfo TaskConfig::info() const {
  check();
  return std::visit(
      [](const auto& options) { return task_info<typename std::decay_t<decltype(options)>::Task>(options); }, options_);
}

std::vector<RunFact> TaskConfig::run_facts(std::uint64_t seed) const {
  return std::visit(
      [&]<class Options>(const Options& options) -> std::vector<RunFact> {
        if constexpr (requires { Options::Task::run_facts(options, seed); })
          return Options::Task::run_facts(options, seed);
        return {};
      },
      options_);
}

}  // namespace engram
