#include "agents/run/training/training.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "agents/act/roads.h"
#include "agents/run/config/hyperparameters.h"
#include "agents/run/machine/memory_estimate.h"
#include "agents/run/training/run_share.h"
#include "base/error.h"
#include "base/machine/processors.h"
#include "base/text/words.h"

namespace engram {
namespace {

const Config& checked(const Config& config, torch::Device device) {
  check_precision(config, device);
  return config;
}

}  // namespace

TrainingStart begin_training(const SettingsLayers& settings) {
  TrainingStart start;
  start.config = Config::from_layers(settings);
  check_learner_of_actions(start.config);
  if (start.config.adapters.rank > 0)
    throw UserError("adapters.rank " + std::to_string(start.config.adapters.rank) +
                    " adapts a trained agent; --adapt DIR names the folder of its run");
  return start;
}

TrainingStart resume_training(const std::filesystem::path& folder, const SettingsLayers& settings,
                              const std::function<void(const std::string&)>& warn) {
  TrainingStart start;
  start.run = RunDirectory::open_to_write(folder);
  start.checkpoint = load_newest_checkpoint(start.run->checkpoints_folder(), warn);
  if (!start.checkpoint) return start;
  const std::string where = "run '" + folder.string() + "'";
  const Config saved = Config::from_settings(start.checkpoint->config);
  SettingsLayers all = {read_settings(start.run->config_file())};
  all.insert(all.end(), settings.begin(), settings.end());
  check_same_choices(saved, all, where);
  start.config = Config::from_layers(all);
  check_same_run(saved, start.config, where);
  // Environments step together: a finished run may have done a few steps more than its total.
  const std::int64_t done = start.checkpoint->steps, total = start.config.run.steps;
  if (total < done && total != saved.run.steps)
    throw UserError(where + " has done " + counted(done, "step") + " already and cannot end after run.steps " +
                    std::to_string(total) + "; it takes " + std::to_string(done) + " or more");
  return start;
}

TrainingPlace training_place(const Config& config, Ranks& ranks, int at_once) {
  const torch::Device device = use_device(config.run.device, ranks);
  const RunShare share = share_of(config, ranks);
  Config own = config;
  own.replay = share.replay;
  own.run.num_envs = static_cast<int>(share.environments.count);
  check_memory_of_machine(own, device, device.is_cuda() ? at_once : at_once * ranks.on_this_machine());
  const int processors = available_processors() / (ranks.on_this_machine() * at_once);
  return {device, training_threads(config, device, std::max(1, processors))};
}

TrainingRun::TrainingRun(TrainingStart& start, const Where& where, std::optional<RunDirectory>& run)
    : trainer_(checked(start.config, where.place.device), where.place.device, where.place.threads.count,
               start.first_weights, where.ranks, where.source),
      roads_(roads_of(start.config, trainer_.network(), where.place.device)),
      facts_(start.config.task.run_facts(start.config.run.seed)) {
  const Config& config = start.config;
  check_kernels(config, roads_);
  StateArchive* const state = start.checkpoint ? &start.checkpoint->state : nullptr;
  if (state != nullptr) trainer_.restore(*state);

  const RunStart about{config.to_ini(), where.place.device, where.command_line, roads_, facts_, where.ranks->size()};
  run = start.run ? *start.run : RunDirectory::create(where.directory, about);
  if (start.over) run->start_over(about);
  start.run.reset();
  recorder_.emplace(*run, config.to_ini(), config.checkpoint.keep, state);
  if (state != nullptr) {
    state->check_all_restored();
    run->record_resume(about, start.checkpoint->file);
    if (const auto& best = trainer_.status().best_evaluation) recorder_->write_best(*best, trainer_.best_weights());
  }
  if (recorder_->lacks_hyperparameters()) recorder_->write_hyperparameters(hyperparameters(config));
}

TrainStatus TrainingRun::run(const std::vector<TrainObserver*>& observers) {
  std::vector<TrainObserver*> all = {&*recorder_};
  all.insert(all.end(), observers.begin(), observers.end());
  return trainer_.run(all);
}

}  // namespace engram
