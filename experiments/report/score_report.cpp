// The report of a table of scores alone.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "experiments/report/files.h"
#include "experiments/report/page.h"
#include "experiments/report/text.h"
#include "experiments/statistics/run_statistics.h"

namespace engram {
namespace {

// A table of scores has tasks and methods, of which nothing else is known.
Json scores_page_data(const ScoreTable& table, const AggregateScores& scores) {
  Json data = {
      {"tasks", Json::array()}, {"backbones", Json::array()}, {"runs", Json::array()}, {"curves", Json::array()}};
  for (const std::string& task : table.tasks) data["tasks"].push_back({{"label", task}});
  for (const std::string& method : table.methods) data["backbones"].push_back({{"label", method}});
  data["scores"][table.metric] = scores_data(table, scores);
  return data;
}

}  // namespace

std::string write_score_report(const ScoreTable& table, const std::string& title, const ReportFiles& files,
                               const BootstrapOptions& bootstrap, const ReportExtras& extras) {
  const AggregateScores all = aggregate(table, bootstrap), scores = with_trusted_intervals(all, table);
  const bool plots = extras.plots != Plots::kNone;
  const PlotFolder folder(files.folder, extras.plots == Plots::kPdf);
  create_folders(files, plots);
  std::vector<PlottedMethod> methods;
  for (const std::string& method : table.methods) methods.push_back({method, false});
  Document document(title);
  document.add(Paragraph{table.metric + " (" + table.units + ") of " + counted(table.methods.size(), "backbone") +
                         " in " + counted(table.tasks.size(), "task") + ", seeds " + seeds_text(table.seeds) + ". " +
                         about_intervals(bootstrap)});
  TextTable means{table.metric + " in percent: mean of the runs and, of " + std::to_string(kTrustedRuns) +
                      " runs and more, its 95% interval, of fewer each run's own",
                  {"backbone"},
                  {}};
  means.header.insert(means.header.end(), table.tasks.begin(), table.tasks.end());
  for (std::size_t method = 0; method < table.methods.size(); ++method) {
    means.rows.push_back({table.methods[method]});
    for (std::size_t task = 0; task < table.tasks.size(); ++task) {
      const auto& cell = scores.cells[task][method];
      std::vector<std::string> runs;
      for (std::size_t seed = 0; seed < table.seeds.size(); ++seed)
        if (const auto& score = table.at(task, method, seed)) runs.push_back(percent(*score));
      means.rows.back().push_back(cell ? percent_in_lines(*cell) + runs_line(runs) : "n=0");
    }
  }
  const std::vector<bool> drawn = methods_to_draw(scores, methods);
  document.add(Charts{});
  document.add(std::move(means));
  if (plots && std::ranges::count(drawn, false) > 0)
    document.add(matrix_plot(scores, table.metric, table.tasks, {}, methods, folder));
  if (!scores.tasks.empty()) {
    document.add(Heading{2, "Over the tasks " + joined(scores.tasks)});
    document.add(over_tasks_table(scores, table.metric));
    if (plots) document.add(over_tasks_plot(scores, table.metric, methods, folder));
    if (plots) document.add(profiles_plot(scores, table.metric, methods, drawn, folder));
  }
  if (!scores.comparisons.empty()) {
    document.add(Heading{2, "Backbone against backbone"});
    document.add(pairs_table(scores, table.metric));
  }
  BulletList left_out{scores.left_out};
  if (const std::string why = document.why_figures_are_missing(); !why.empty())
    left_out.items.push_back("figures: " + why);
  if (!left_out.items.empty()) {
    document.add(Heading{2, "What is left out"});
    document.add(std::move(left_out));
  }
  write_text_file(files.csv, table.to_csv());
  write_text_file(files.json, scores_json(table, all));
  write_text_file(files.markdown, document.to_markdown(files.folder.filename().string()));
  write_text_file(files.html, report_page(document, scores_page_data(table, all)));
  return document.why_figures_are_missing();
}

}  // namespace engram
