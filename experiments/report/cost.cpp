// The parts of a report that say what its runs cost.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/aggregate.h"

namespace engram {
namespace {

// "1,200", "1,200 (3 of 5)", or "-" where no run came so far.
std::string learnt_text(const Results& results, std::size_t task, std::size_t backbone) {
  const std::size_t finished = finished_runs(results, task, backbone);
  std::vector<double> episodes = figures_of(results, task, backbone, [](const RunResult& run) -> std::optional<double> {
    if (!run.episodes_until_learnt) return std::nullopt;
    return static_cast<double>(*run.episodes_until_learnt);
  });
  if (episodes.empty()) return finished == 0 ? "" : "-";
  const std::string median = count_with_commas(std::llround(quantile(episodes, 0.5)));
  return episodes.size() == finished
             ? median
             : median + " (" + std::to_string(episodes.size()) + " of " + std::to_string(finished) + ")";
}

}  // namespace

void ReportWriter::add_budgets() {
  heading(2, "Budgets");
  TextTable table{
      "What a backbone costs: parameters of the backbone alone, bytes of one environment's memory, and "
      "floating-point operations of a step (2 a multiply-add; attention at a full window or cache). MLP: the hidden "
      "units of its MLPs, which carry nothing from step to step, and in brackets their share of parameters and "
      "operations; the rest is the memory's.",
      {"backbone", "task", "width", "MLP", "parameters (MLP)", "state, bytes", "flops per step (MLP)"},
      {},
      2};
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return formatted(" (%.0f%%)", 100 * static_cast<double>(part) / static_cast<double>(whole));
  };
  for (std::size_t backbone = 0; backbone < experiment_.backbones.size(); ++backbone) {
    // Tasks in a row where the budgets are the same.
    std::vector<std::pair<Budget, std::vector<std::string>>> groups;
    for (std::size_t task = 0; task < results_.tasks.size(); ++task) {
      const Budget& budget = results_.run(task, backbone, 0).plan.budget;
      const auto found =
          std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == budget; });
      if (found == groups.end())
        groups.push_back({budget, {results_.tasks[task].label}});
      else
        found->second.push_back(results_.tasks[task].label);
    }
    for (const auto& [budget, tasks] : groups)
      table.rows.push_back(
          {experiment_.backbones[backbone].label, groups.size() == 1 ? "all" : joined(tasks),
           count_with_commas(budget.width), budget.mlp_width > 0 ? count_with_commas(budget.mlp_width) : "",
           count_with_commas(budget.parameters) + share(budget.mlp_parameters, budget.parameters),
           count_with_commas(budget.state_bytes),
           count_with_commas(budget.flops_per_step) + share(budget.mlp_flops_per_step, budget.flops_per_step)});
  }
  document_.add(std::move(table));
}

void ReportWriter::add_cost() {
  heading(2, "Cost");
  const auto median_text = [&](const std::function<std::optional<double>(const RunResult&)>& figure,
                               const std::function<std::string(double)>& text) {
    return [this, figure, text](std::size_t task, std::size_t backbone) {
      std::vector<double> figures = figures_of(results_, task, backbone, figure);
      return figures.empty() ? std::string() : text(quantile(figures, 0.5));
    };
  };
  add_by_backbone("Wall time", "Wall time of a run, evaluations included; median of the finished runs.",
                  median_text([](const RunResult& run) { return run.timings.wall_seconds; }, duration_text));
  add_by_backbone(
      "Environment steps", "Environment steps a run took; median.",
      median_text([](const RunResult& run) { return std::optional(static_cast<double>(run.metrics.steps)); },
                  [](double steps) { return count_with_commas(std::llround(steps)); }));
  add_by_backbone(
      "Episodes until learnt",
      formatted(
          "Episodes of training until an evaluation had a success of %.0f%%; median of the finished runs that came "
          "so far, and their number where others did not.",
          100 * kLearntSuccess),
      [this](std::size_t task, std::size_t backbone) { return learnt_text(results_, task, backbone); });
  const auto rate_text = [](double rate) { return formatted(rate < 100 ? "%.1f" : "%.0f", rate); };
  add_by_backbone("Environment steps a second",
                  "Environment steps a second, with acting, learning and evaluating; median.",
                  median_text([](const RunResult& run) { return run.timings.steps_per_second; }, rate_text));
  add_by_backbone("Updates a second", "Updates a second, likewise; median.",
                  median_text([](const RunResult& run) { return run.timings.updates_per_second; }, rate_text));
  const auto megabytes = [](double memory) { return formatted("%.0f", memory); };
  add_by_backbone("Peak memory", "Peak memory of a run's program in megabytes, without that of a GPU; median.",
                  median_text([](const RunResult& run) { return run.timings.peak_memory_mb; }, megabytes));
  const auto gpu_memory = [](const RunResult& run) { return run.timings.peak_gpu_memory_mb; };
  if (std::ranges::any_of(results_.runs, [&](const RunResult& run) { return gpu_memory(run).has_value(); }))
    add_by_backbone("Peak memory of the GPU", "Peak memory of a run on its GPU in megabytes; median.",
                    median_text(gpu_memory, megabytes));
}

}  // namespace engram
