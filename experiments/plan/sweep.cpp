#include "experiments/plan/sweep.h"

#include <algorithm>
#include <ostream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "experiments/plan/entry_reader.h"
#include "experiments/plan/tune_record.h"
#include "storage/files.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultSeeds = "1-2";

// The layers of the agent, and the keys of [tune] of all of them without its name.
std::pair<SettingsLayers, Settings> without_tune(const SettingsLayers& layers) {
  SettingsLayers agent = layers;
  Settings tune;
  for (SettingsLayer& layer : agent)
    std::erase_if(layer.settings, [&](const auto& setting) {
      if (section_of(setting.first) != kTune) return false;
      remove_setting(tune, behind_dot(setting.first));
      tune.emplace_back(behind_dot(setting.first), setting.second);
      return true;
    });
  return {std::move(agent), std::move(tune)};
}

}  // namespace

fs::path sweep_file(const fs::path& folder) { return folder / "sweep.ini"; }
fs::path best_config_file(const fs::path& folder) { return folder / "best.ini"; }

Experiment sweep_of(const SettingsLayers& layers) {
  auto [agent, tune] = without_tune(layers);
  return naming_line(layers, [&, &agent = agent, &tune = tune] {
    for (const SettingsLayer& layer : agent)
      for (const std::string& section : layer.sections)
        if (const std::string kind = section_of(section);
            kind == kCompare || kind == kTasks || kind == kBackbones || kind == kLearners)
          throw SettingError("[" + section + "]", "[" + section +
                                                      "] is of a comparison, which has a section [tune] of its own: "
                                                      "give it to engram compare");
    Experiment sweep;
    const Config config = Config::from_layers(agent);
    sweep.format = kConfigFormat;
    std::istringstream values(config.to_ini());
    sweep.common = read_settings(values, "the sweep").settings;
    for (const char* key : {"run.seed", kFormatKey}) remove_setting(sweep.common, key);
    sweep.tasks = {{config.task.name(), {}}};
    sweep.backbones = {{config.memory.name(), {}}};
    sweep.reference = config.memory.name();
    if (value_of(tune, "seeds") == nullptr) tune.emplace_back("seeds", kDefaultSeeds);
    sweep.tune = TuneOptions::from_settings(tune, all_config_keys());
    sweep.seeds = {0};
    while (std::ranges::binary_search(sweep.tune->seeds, sweep.seeds.front())) ++sweep.seeds.front();
    return sweep;
  });
}

Experiment read_sweep(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(sweep_file(folder), error))
    throw UserError("'" + folder.string() + "' holds no sweep to go on with: it has no sweep.ini");
  return Experiment::from_settings(read_settings(sweep_file(folder)));
}

void check_same_sweep(const fs::path& folder, const Experiment& sweep) {
  const auto [before, now] = first_difference(read_sweep(folder).to_ini(), sweep.to_ini());
  if (before != now)
    throw UserError("'" + folder.string() + "' was made with " + before + " and cannot go on with " + now +
                    ": take another folder");
}

void write_sweep(const fs::path& folder, const Experiment& sweep) {
  std::error_code error;
  if (fs::exists(sweep_file(folder), error)) return;
  fs::create_directories(folder, error);
  if (error) throw UserError("folder '" + folder.string() + "' cannot be created: " + error.message());
  replace_file(sweep_file(folder), [&](std::ostream& out) { out << sweep.to_ini(); });
}

TunedPlace plan_sweep(const Experiment& sweep, const fs::path& folder) {
  return std::move(plan_tries(sweep, folder).front());
}

void write_best_config(const fs::path& folder, const Experiment& sweep, const Settings& chosen) {
  Config best = sweep.config(sweep.tasks.front(), sweep.learners.front(), sweep.backbones.front(), 0, chosen);
  best.run.seed = RunOptions{}.seed;
  replace_file(best_config_file(folder), [&](std::ostream& out) { out << best.to_ini(); });
}

}  // namespace engram
