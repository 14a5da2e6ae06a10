#include "apps/train/train_start.h"

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <system_error>
#include <utility>

#include "agents/run/trained/trained_agent.h"
#include "base/error.h"
#include "base/text/words.h"
#include "experiments/plan/experiment.h"

namespace engram {
namespace {

// Sets what a run from its beginning is.
void begin(Start& start, const TrainOptions& options, const SettingsLayers& settings) {
  if (!options.adapt.empty()) {
    AgentToAdapt agent = load_agent_to_adapt(options.adapt, settings);
    start.config = std::move(agent.config);
    start.first_weights = {std::move(agent.weights), "weights file '" + agent.file.string() + "'"};
    return;
  }
  start.config = begin_training(settings).config;
}

Start find_first_start(const TrainOptions& options, const SettingsLayers& settings) {
  const bool automatic = options.resume == "auto";
  if (options.run.empty() && (options.resume.empty() || automatic))
    throw UserError("the argument DIR (or --run DIR) is missing: the folder for everything that the run leaves behind");
  if (!automatic && !options.resume.empty() && !options.run.empty() && options.run != options.resume)
    throw UserError("--resume '" + options.resume + "' and the run folder '" + options.run +
                    "' are two folders; give one");
  if (!automatic && !options.resume.empty() && !options.adapt.empty())
    throw UserError("--adapt '" + options.adapt + "' begins a run and --resume '" + options.resume +
                    "' goes on with one; give one");
  const std::string folder = automatic || options.resume.empty() ? options.run : options.resume;
  std::error_code ignored;
  if (!options.adapt.empty() && std::filesystem::equivalent(options.adapt, folder, ignored))
    throw UserError("--adapt '" + options.adapt + "' is the folder of the run itself; name another one for the run");
  Start start;
  if (options.resume.empty() || (automatic && !RunDirectory::is_run(folder))) {
    begin(start, options, settings);
    return start;
  }

  if (std::filesystem::exists(experiment_file(folder), ignored))
    throw UserError("'" + folder + "' is the folder of a comparison: go on with " +
                    shell_command({"engram", "compare", "--run", folder}));
  static_cast<TrainingStart&>(start) = resume_training(folder, settings, [](const std::string& damage) {
    std::cerr << "engram: " << damage << "; going on from an older one" << std::endl;
  });
  if (start.checkpoint) return start;
  if (!automatic) throw UserError("run directory '" + folder + "' has no checkpoint to go on from");
  start.over = true;
  begin(start, options, settings);
  return start;
}

}  // namespace

Start find_start(Ranks& ranks, const TrainOptions& options, const SettingsLayers& settings) {
  Start start;
  if (ranks.first()) {
    start = find_first_start(options, settings);
    start.preset_overrides = preset_overrides(settings);
  }
  if (ranks.alone()) return start;
  const std::string config = ranks.broadcast(start.config.to_ini());
  const std::string checkpoint =
      ranks.broadcast(start.checkpoint ? std::filesystem::absolute(start.checkpoint->file).string() : "");
  if (ranks.first()) return start;
  if (checkpoint.empty())
    begin(start, options, settings);
  else
    start.checkpoint = load_checkpoint(checkpoint);
  std::istringstream text(config);
  start.config = Config::from_layers({read_settings(text, "the config of rank 0")});
  return start;
}

}  // namespace engram
