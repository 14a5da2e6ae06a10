// The part of a report that says how the agents do elsewhere than where they were trained.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/run_statistics.h"

namespace engram {

void ReportWriter::add_range() {
  if (!experiment_.range) return;
  const EvaluationRange& range = *experiment_.range;
  heading(3, "Elsewhere than in training");
  std::vector<std::string> values;
  for (const EvaluationRange::Value& value : range.values) values.push_back(value.text);
  paragraph("The best weights of every run were also evaluated at " + range.key + " = " + joined(values) + ", on " +
            std::to_string(results_.runs[0].plan.config.evaluation.final_episodes) +
            " new episodes at each value, with the most probable actions and again with sampled ones.");

  std::vector<Panel> panels;
  std::vector<TextTable> tables;
  for (std::size_t task = 0; task < results_.tasks.size(); ++task) {
    const std::string trained = value_text(results_.run(task, 0, 0).plan.config.task.values(), range.key);
    Panel panel{results_.tasks[task].label + ", trained with " + trained, range.key, "success, %", {}, {}, false};
    if (results_.tasks[task].info.chance_success)
      panel.levels.push_back({"chance", *results_.tasks[task].info.chance_success});
    TextTable table{"Success in percent of the agents trained with " + range.key + " = " + trained + " (" +
                        results_.tasks[task].label + ") at each of its values: mean of the runs and, of " +
                        std::to_string(kTrustedRuns) +
                        " runs and more, its 95% interval, of fewer each run's own; n: evaluated runs, where it is not "
                        "all of the seeds. Sampled: the mean with sampled actions, where the two are more than "
                        "5 points apart.",
                    {"backbone"},
                    {}};
    table.header.insert(table.header.end(), values.begin(), values.end());
    for (std::size_t backbone = 0; backbone < methods_.size(); ++backbone) {
      const Analysis::RangeCurve& found = analysis_.ranges[task][backbone];
      std::vector<std::string> row = {methods_[backbone].label};
      Curve curve{backbone, {}};
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (found.runs == 0) {
          row.emplace_back("n=0");
          continue;
        }
        const bool all = found.runs == static_cast<int>(experiment_.seeds.size());
        row.push_back(percent_in_lines(found.greedy[i]) +
                      own_figures(task, backbone,
                                  [i](const RunResult& run) {
                                    return has_whole_range(run) ? percent(run.range[i]->greedy.success.estimate) : "";
                                  }) +
                      sampled_line(found.greedy[i], found.sampled[i]) +
                      (all ? "" : "\nn=" + std::to_string(found.runs)));
        curve.points.emplace_back(range.values[i].number, found.greedy[i]);
      }
      std::ranges::sort(curve.points, {}, [](const auto& point) { return point.first; });
      if (found.runs > 0 && drawn_[backbone]) panel.curves.push_back(std::move(curve));
      table.rows.push_back(std::move(row));
    }
    if (panel.curves.empty()) continue;
    panels.push_back(std::move(panel));
    tables.push_back(std::move(table));
  }
  if (panels.empty()) {
    paragraph("No run has been evaluated at all of these values yet.");
    return;
  }
  plot([&] {
    return plot_panels(folder_, "range",
                       "Success of the greedy policy against " + range.key +
                           ", which was another in training: mean over runs, of " + std::to_string(kTrustedRuns) +
                           " and more with 95% bootstrap intervals; markers stand a little aside of each other." +
                           which_are_drawn(drawn_),
                       methods_, panels);
  });
  for (TextTable& table : tables) document_.add(std::move(table));
}

}  // namespace engram
