#include "agents/run_recorder.h"

#include <utility>
#include <vector>

#include "agents/build_info.h"
#include "agents/weights.h"

namespace engram {

RunRecorder::RunRecorder(const RunDirectory& run, std::string config_text)
    : run_(run), config_text_(std::move(config_text)), metrics_(run.metrics_file(), run.new_events_file()) {}

void RunRecorder::report(const TrainStatus& status) {
  std::vector<Scalar> row = {{"updates", static_cast<double>(status.updates)},
                             {"episodes", static_cast<double>(status.episodes)},
                             {"return", status.recent_return},
                             {"success", status.recent_success},
                             {"steps_per_second", status.steps_per_second},
                             {"updates_per_second", status.updates_per_second}};
  if (status.losses) {
    const LossValues& losses = *status.losses;
    row.insert(row.end(), {{"critic_loss", losses.critic_loss},
                           {"actor_loss", losses.actor_loss},
                           {"entropy", losses.entropy},
                           {"alpha", losses.alpha},
                           {"mean_q", losses.mean_q},
                           {"gradient_norm", losses.gradient_norm}});
  }
  metrics_.write("train", status.steps, row);
}

void RunRecorder::evaluated(const TrainStatus& status, const AgentNetwork& network, bool best) {
  const EvaluationSummary& evaluation = *status.last_evaluation;
  const std::vector<Scalar> row = {{"updates", static_cast<double>(status.updates)},
                                   {"episodes", static_cast<double>(evaluation.episodes)},
                                   {"return", evaluation.mean_return},
                                   {"success", evaluation.success}};
  metrics_.write("evaluation", evaluation.environment_steps, row);
  if (best) save(WhichWeights::kBest, status, network);
  save(WhichWeights::kLast, status, network);
}

void RunRecorder::finished(const TrainStatus& status, const AgentNetwork& network) {
  report(status);
  save(WhichWeights::kLast, status, network);
}

void RunRecorder::save(WhichWeights which, const TrainStatus& status, const AgentNetwork& network) const {
  save_safetensors(run_.weights_file(which), module_weights(network),
                   {{"engram", build_info().version},
                    {"format", std::to_string(Config::kFormat)},
                    {"config", config_text_},
                    {"environment_steps", std::to_string(status.steps)},
                    {"updates", std::to_string(status.updates)}});
}

}  // namespace engram
