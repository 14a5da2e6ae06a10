#include "experiments/report/paper/latex.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/run_statistics.h"

namespace engram {
namespace {

// "98.7\,{\scriptsize(95.1, 100.0)}"
std::string latex_percent(const std::optional<Estimate>& estimate) {
  if (!estimate) return "--";
  if (!estimate->interval) return percent(estimate->value);
  return percent(estimate->value) + "\\,{\\scriptsize(" + percent(estimate->interval->first) + ", " +
         percent(estimate->interval->second) + ")}";
}

std::string latex_table(const std::string& caption, const std::string& label, const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows) {
  const auto line = [](const std::vector<std::string>& cells) { return joined(cells, " & ") + " \\\\\n"; };
  std::string text = "\\begin{table}\n\\centering\n\\caption{" + caption + "}\n\\label{tab:" + label +
                     "}\n\\begin{tabular}{l" + std::string(header.size() - 1, 'r') + "}\n\\toprule\n" + line(header) +
                     "\\midrule\n";
  for (const auto& row : rows) text += line(row);
  return text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n\n";
}

std::string tables_of_tasks(const Results& results, const Analysis& analysis) {
  std::string text;
  for (const std::vector<std::size_t>& tasks : tasks_of_tables(results)) {
    std::vector<std::string> header = {"memory"};
    std::vector<std::vector<std::string>> rows;
    for (const std::size_t task : tasks) header.push_back(latex_escaped(results.tasks[task].label));
    for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
      std::vector<std::string>& row = rows.emplace_back();
      row.push_back(latex_escaped(results.experiment.backbones[backbone].label));
      for (const std::size_t task : tasks) row.push_back(latex_percent(analysis.scores[0].cells[task][backbone]));
    }
    std::vector<std::string>& chance = rows.emplace_back();
    chance.emplace_back("chance");
    for (const std::size_t task : tasks) {
      const auto& success = results.tasks[task].info.chance_success;
      chance.push_back(success ? percent(*success) : "--");
    }
    text +=
        latex_table("Final success in percent, mean over runs" +
                        formatted("; in brackets, of %d runs and more, its 95\\%% bootstrap interval.", kTrustedRuns),
                    "success-" + std::to_string(tasks.front()), header, rows);
  }
  return text;
}

std::string table_over_tasks(const Results& results, const Analysis& analysis) {
  const AggregateScores& scores = analysis.scores[0];
  if (results.tasks.size() < 2 || scores.methods.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const MethodScores& method : scores.methods)
    rows.push_back({latex_escaped(method.method), latex_percent(method.interquartile_mean), latex_percent(method.mean),
                    latex_percent(method.median), latex_percent(method.optimality_gap)});
  std::vector<std::string> tasks;
  for (const std::string& task : scores.tasks) tasks.push_back(latex_escaped(task));
  return latex_table("Final success in percent over the tasks " + joined(tasks) + ".", "over-tasks",
                     {"memory", "interquartile mean", "mean", "median of tasks", "optimality gap"}, rows);
}

// What is the same of several runs is said once.
std::string protocol_text(const Results& results) {
  const auto over_runs = [&](const auto& value) {
    std::vector<double> values;
    for (const RunResult& run : results.runs) values.push_back(static_cast<double>(value(run.plan.config)));
    return range_text(values);
  };
  std::string text = "\\paragraph{Protocol.} ";
  text += "We compare " + counted(results.experiment.backbones.size(), "memory", "memories") + " on " +
          counted(results.tasks.size(), "task") + " with " + counted(results.experiment.seeds.size(), "seed") +
          " each. ";
  if (results.settings_known)
    text += "A run takes " + over_runs([](const Config& c) { return c.run.steps; }) +
            " environment steps; the weights of its best evaluation of " +
            over_runs([](const Config& c) { return c.evaluation.episodes; }) + " episodes play " +
            over_runs([](const Config& c) { return c.evaluation.final_episodes; }) +
            " new ones, whose success is reported. ";
  if (const std::size_t diverged = results.diverged_runs(); diverged > 0)
    text +=
        counted(diverged, "run") + " diverged and " + (diverged == 1 ? "counts" : "count") + " with a success of 0. ";
  return text +
         "Intervals are 95\\% percentile intervals of a stratified bootstrap (Agarwal et al. 2021). Figures over tasks "
         "leave out those that tell no memories apart: that no run solves, that an agent without memory solves, or in "
         "which memories differ by no more than their seeds (intraclass correlation).\n\n";
}

// Where something was published is a text: the entry has it as its note.
std::string bibtex(const Results& results) {
  std::map<std::string, std::string> sources;  // by key
  for (const TaskFacts& task : results.tasks)
    if (!task.info.source.empty()) sources["task_" + task.info.name] = task.info.source;
  if (results.settings_known)
    for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
      const auto& memory = results.run(0, backbone, 0).plan.config.memory;
      if (!memory.source().empty()) sources["memory_" + memory.name()] = memory.source();
    }
  sources["statistics_rliable"] =
      "Agarwal, Schwarzer, Castro, Courville and Bellemare, Deep reinforcement learning at the edge of the statistical "
      "precipice, NeurIPS 2021";
  std::string text = "\\endinput\nBibTeX, for a .bib file: LaTeX reads nothing below the line above.\n\n";
  for (const auto& [key, source] : sources) text += "@misc{" + key + ",\n  note = {" + latex_escaped(source) + "}\n}\n";
  return text;
}

}  // namespace

std::string latex_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\textbackslash{}";
    else if (c == '~' || c == '^')
      escaped += std::string("\\") + c + "{}";
    else if (std::string("&%$#_{}").find(c) != std::string::npos)
      escaped += std::string("\\") + c;
    else
      escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return escaped;
}

std::string report_latex(const Results& results, const Analysis& analysis) {
  return "% Of engram compare report --latex; needs \\usepackage{booktabs}.\n\n" + tables_of_tasks(results, analysis) +
         table_over_tasks(results, analysis) + protocol_text(results) + bibtex(results);
}

}  // namespace engram
