#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/probe/probe.h"
#include "experiments/results/csv.h"
#include "experiments/statistics/aggregate.h"
#include "storage/files.h"

namespace engram {
namespace {

std::string percent(double fraction) { return formatted("%.1f", 100 * fraction); }

std::string mean_loss_text(const std::vector<double>& losses) {
  if (losses.empty()) return "-";
  return formatted("%.4f", std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size()));
}

// One task's and backbone's cells at the rate that counts.
struct Row {
  double rate = 0;
  std::vector<std::optional<ProbeResult>> by_seed;
};

// The best in validation as ProbeLearner::train() takes it: by the loss unless that is kCrossEntropy.
Row best_row(const std::vector<Row>& rows, ProbeLoss loss) {
  const bool by_loss = loss != ProbeLoss::kCrossEntropy;
  const double worst = by_loss ? -1e9 : 0;
  const auto validation = [&](const Row& row) {
    double sum = 0;
    int count = 0;
    for (const auto& result : row.by_seed) {
      if (!result) continue;
      const double score = by_loss ? -result->validation_loss.value_or(-worst) : result->validation_accuracy;
      sum += result->diverged_at ? worst : score;
      ++count;
    }
    return count == 0 ? worst - 1 : sum / count;
  };
  return *std::max_element(rows.begin(), rows.end(),
                           [&](const Row& a, const Row& b) { return validation(a) < validation(b); });
}

}  // namespace

ProbeSummary summarise_probe(const ProbeOptions& options, const std::filesystem::path& folder) {
  const std::vector<ProbeCell> cells = plan_probe(options);
  const std::size_t rates = probe_rates(options).size();
  ProbeSummary summary{probe_table(options), probe_table(options, "test loss", "mean over answers"), {}, 0};
  const std::vector<std::string>&tasks = summary.table.tasks, &backbones = summary.table.methods;
  const std::vector<std::uint64_t>& seeds = summary.table.seeds;
  std::vector<std::string> left_out;
  std::vector<Row> rows;  // tasks x backbones
  std::size_t next = 0;
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    const ProbeLoss loss = make_probe_task(tasks[task])->loss();
    for (std::size_t backbone = 0; backbone < backbones.size(); ++backbone) {
      std::vector<Row> candidates;
      for (std::size_t rate = 0; rate < rates; ++rate) {
        Row row{cells[next].rate, {}};
        for (std::size_t seed = 0; seed < seeds.size(); ++seed, ++next) {
          row.by_seed.push_back(read_probe_cell(cells[next], folder / "cells"));
          if (!row.by_seed.back()) ++summary.missing;
        }
        candidates.push_back(std::move(row));
      }
      rows.push_back(best_row(candidates, loss));
      for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
        const auto& result = rows.back().by_seed[seed];
        const std::string name = tasks[task] + ", " + backbones[backbone] + ", seed " + std::to_string(seeds[seed]);
        if (!result)
          left_out.push_back(name + ": not finished");
        else if (result->diverged_at)
          left_out.push_back(name + ": the loss was not finite after " + counted(*result->diverged_at, "step"));
        else {
          summary.table.at(task, backbone, seed) = result->normalised();
          summary.losses.at(task, backbone, seed) = result->test_loss;
        }
      }
    }
  }

  std::vector<std::vector<std::optional<Estimate>>> estimates;
  const bool any = std::any_of(summary.table.scores.begin(), summary.table.scores.end(),
                               [](const auto& score) { return score.has_value(); });
  if (any) estimates = aggregate(summary.table).cells;

  std::string& text = summary.markdown;
  text =
      "# Probes\n\nNormalised accuracy, (accuracy - chance) / (1 - chance), in percent: mean over seeds, its 95% "
      "bootstrap interval,\nbest and median. Test loss: mean over seeds of the task's loss, "
      "of an answer (text: bits a byte). " +
      std::to_string(options.training.steps) + " steps of " + std::to_string(options.training.batch) +
      " sequences, width " + std::to_string(options.width) + ", heads " + std::to_string(options.heads) + ", layers " +
      options.layers + ", window " + std::to_string(options.window) + ", AdamW, learning rates " + options.rates +
      ", seeds " + options.seeds + ".\nTested are the weights that are best in validation, every " +
      std::to_string(options.training.validate_every) + " steps; best step: their median training steps.\n";
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    text += "\n## " + tasks[task] + "\n\n" +
            "| backbone | mean | 95% interval | best | median | test loss | seeds | rate | best step | parameters | "
            "state bytes | seconds a run |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (std::size_t backbone = 0; backbone < backbones.size(); ++backbone) {
      std::vector<double> scores, losses;
      for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
        if (const auto& score = summary.table.at(task, backbone, seed)) scores.push_back(*score);
        if (const auto& loss = summary.losses.at(task, backbone, seed)) losses.push_back(*loss);
      }
      text += "| " + backbones[backbone];
      if (scores.empty()) {
        text += " | - | - | - | - | - | 0 | - | - | - | - | - |\n";
        continue;
      }
      const Row& row = rows[task * backbones.size() + backbone];
      const Estimate estimate = *estimates[task][backbone];
      double seconds = 0;
      const ProbeResult* any_result = nullptr;
      std::vector<double> best_steps;
      for (const auto& result : row.by_seed)
        if (result) {
          seconds += result->seconds;
          best_steps.push_back(result->best_step);
          any_result = &*result;
        }
      text += " | " + percent(estimate.value) + " | " +
              (estimate.interval ? percent(estimate.interval->first) + " to " + percent(estimate.interval->second)
                                 : std::string("one run")) +
              " | " + percent(*std::max_element(scores.begin(), scores.end())) + " | " +
              percent(quantile(scores, 0.5)) + " | " + mean_loss_text(losses) + " | " + std::to_string(scores.size()) +
              " | " + number_text(row.rate) + " | " + std::to_string(std::lround(quantile(best_steps, 0.5))) + " | " +
              std::to_string(any_result->cost.parameters) + " | " + std::to_string(any_result->cost.state_bytes) +
              " | " + std::to_string(std::lround(seconds / static_cast<double>(best_steps.size()))) + " |\n";
    }
  }
  if (!left_out.empty()) text += "\nLeft out:\n\n";
  for (const std::string& line : left_out) text += "- " + line + "\n";

  write_score_table(summary.table, folder / "scores.json");
  write_score_table(summary.table, folder / "scores.csv");
  write_score_table(summary.losses, folder / "losses.csv");
  replace_file(folder / "probe.md", [&](std::ostream& out) { out << text; });
  return summary;
}

}  // namespace engram
