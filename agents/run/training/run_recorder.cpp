#include "agents/run/training/run_recorder.h"

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/device/device.h"
#include "storage/build_info.h"
#include "storage/log/weight_histograms.h"
#include "storage/tensors/weights.h"

namespace engram {
namespace {

MetricPositions restored_positions(StateArchive* archive) {
  MetricPositions positions;
  if (archive != nullptr) positions.visit_state(*archive);
  return positions;
}

// The program's peak memory since it started, in 10^6 bytes.
double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024e-6;  // Linux counts in KiB
}

void add_decisions(std::vector<Scalar>& row, const std::string& prefix, const std::optional<DecisionRates>& rates) {
  if (!rates) return;
  row.push_back({prefix + "decided", rates->decided});
  if (rates->right) row.push_back({prefix + "right_of_decided", *rates->right});
}

// One copy for all that is written of them.
TensorMap weights_on_host(const AgentNetwork& network) {
  TensorMap weights = module_weights(network);
  for (auto& [name, tensor] : weights) tensor = tensor.cpu();
  return weights;
}

}  // namespace

RunRecorder::RunRecorder(const RunDirectory& run, std::string config_text, int keep, StateArchive* restored)
    : run_(run),
      config_text_(std::move(config_text)),
      keep_(keep),
      metrics_(run.metrics_file(), run.timings_file(), run.events_file(), restored_positions(restored)) {}

void RunRecorder::write_hyperparameters(std::span<const Hyperparameter> hyperparameters) {
  metrics_.events().write_session_start(wall_clock(), hyperparameters);
}

void RunRecorder::write_film(const TrainStatus& status, int width, int height, const std::string& gif) {
  metrics_.events().write_image(status.final_evaluation.value().weights.environment_steps, wall_clock(),
                                "final/episode", width, height, gif);
  metrics_.sync();
}

void RunRecorder::measured(const TrainStatus& status) {
  std::vector<Scalar> row = {{"updates", static_cast<double>(status.updates)},
                             {"episodes", static_cast<double>(status.episodes)},
                             {"return", status.recent_return},
                             {"success", status.recent_success},
                             {"skipped_updates", static_cast<double>(status.skipped_updates)}};
  row.insert(row.end(), status.losses.begin(), status.losses.end());
  std::vector<Scalar> timings = {{"wall_seconds", status.seconds},
                                 {"steps_per_second", status.steps_per_second},
                                 {"updates_per_second", status.updates_per_second},
                                 {"peak_memory_mb", peak_memory_mb()}};
  if (const std::int64_t gpu = peak_device_memory_bytes(); gpu > 0)
    timings.push_back({"peak_gpu_memory_mb", static_cast<double>(gpu) * 1e-6});
  metrics_.write("train", status.steps, row, timings);
}

void RunRecorder::begins_iteration(const TrainStatus& status, const IterationEpisodes& iteration) {
  const std::vector<Scalar> row = {{"updates", static_cast<double>(status.updates)},
                                   {"episodes", static_cast<double>(iteration.episodes)},
                                   {"return", iteration.mean_return}};
  metrics_.write("iteration", status.steps, row, std::vector<Scalar>{{"wall_seconds", status.seconds}});
}

void RunRecorder::evaluated(const TrainStatus& status, const AgentNetwork& network, bool best) {
  const EvaluationSummary& evaluation = *status.last_evaluation;
  std::vector<Scalar> row = {{"updates", static_cast<double>(evaluation.updates)},
                             {"episodes", static_cast<double>(evaluation.episodes)},
                             {"return", evaluation.greedy.mean_return},
                             {"success", evaluation.greedy.success}};
  if (const auto& collected = evaluation.collected_episodes)
    row.push_back({"collected_episodes", static_cast<double>(*collected)});
  if (const auto& sampled = evaluation.sampled)
    row.insert(row.end(), {{"sampled_return", sampled->mean_return}, {"sampled_success", sampled->success}});
  add_decisions(row, "", evaluation.greedy_decisions);
  add_decisions(row, "sampled_", evaluation.sampled_decisions);
  row.insert(row.end(), evaluation.critic_loss_by_phase.begin(), evaluation.critic_loss_by_phase.end());
  metrics_.write("evaluation", evaluation.environment_steps, row,
                 std::vector<Scalar>{{"wall_seconds", status.seconds}});
  const TensorMap weights = weights_on_host(network);
  metrics_.events().write_histograms(evaluation.environment_steps, wall_clock(), weight_histograms(weights));
  if (best) write_best(evaluation, weights);
  write_weights(WhichWeights::kLast, status.steps, status.updates, weights);
}

// The rows are on the disk before the checkpoint that counts on them.
void RunRecorder::save(const TrainStatus& status, StateArchive& archive) {
  metrics_.sync();
  MetricPositions positions = metrics_.positions();
  positions.visit_state(archive);
  last_checkpoint_ =
      write_checkpoint(run_.checkpoints_folder(), archive, config_text_, status.steps, status.updates, keep_);
}

void RunRecorder::finished(const TrainStatus& status, const AgentNetwork& network) {
  if (const auto& last = status.final_evaluation) {
    std::vector<Scalar> row = {{"updates", static_cast<double>(last->weights.updates)},
                               {"episodes", static_cast<double>(last->episodes)}};
    const auto add = [&row](const std::string& prefix, const FinalEvaluation::Played& played) {
      row.insert(row.end(), {{prefix + "return", played.mean_return},
                             {prefix + "success", played.success.estimate},
                             {prefix + "success_low", played.success.low},
                             {prefix + "success_high", played.success.high}});
      add_decisions(row, prefix, played.decisions);
    };
    add("", last->greedy);
    if (last->sampled) add("sampled_", *last->sampled);
    metrics_.write("final", last->weights.environment_steps, row,
                   std::vector<Scalar>{{"wall_seconds", status.seconds}});
  }
  if (status.stopped != StopReason::kRequest) metrics_.events().write_session_end(wall_clock());
  metrics_.sync();
  write_weights(WhichWeights::kLast, status.steps, status.updates, module_weights(network));
}

void RunRecorder::write_best(const EvaluationSummary& evaluation, const TensorMap& weights) const {
  write_weights(WhichWeights::kBest, evaluation.environment_steps, evaluation.updates, weights);
}

void RunRecorder::write_weights(WhichWeights which, std::int64_t steps, std::int64_t updates,
                                const TensorMap& weights) const {
  save_safetensors(run_.weights_file(which), weights,
                   {{"kind", "weights"},
                    {"format", std::to_string(kConfigFormat)},
                    {"config", config_text_},
                    {"environment_steps", std::to_string(steps)},
                    {"updates", std::to_string(updates)}});
}

}  // namespace engram
