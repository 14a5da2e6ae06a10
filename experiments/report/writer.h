// ReportWriter: composes the page of a report and draws its plots.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/report/plots.h"
#include "experiments/report/report.h"

namespace engram {

class ReportWriter {
 public:
  // All but the bootstrap's options must outlive it.
  ReportWriter(const Results& results, const Analysis& analysis, const ReportFiles& files, const FilmStrip& film,
               const BootstrapOptions& bootstrap, Plots plots);

  // Begins the page with this instead of the answer to a comparison.
  void begin_with(std::vector<std::string> said) { said_ = std::move(said); }
  // Once.
  Document write();

 private:
  void paragraph(const std::string& text) { document_.add(Paragraph{text}); }
  // What `draw` draws, where plots are asked for.
  void plot(const std::function<Figure()>& draw) {
    if (plots_ != Plots::kNone) document_.add(draw());
  }
  void heading(int level, const std::string& text) { document_.add(Heading{level, text}); }
  // How many runs are finished, unfinished ..., as a text.
  std::string stages() const;
  // The fewest runs of a backbone in a task that count, of those that have any; at most kTrustedRuns.
  int fewest_runs() const;
  // A line of those of the runs of a backbone in a task that count (runs_line()); without those that are empty.
  std::string own_figures(std::size_t task, std::size_t backbone,
                          const std::function<std::string(const RunResult&)>& figure) const;
  // Chance and random play in a task.
  std::vector<Level> levels(std::size_t task) const;

  using Cell = std::function<std::string(std::size_t task, std::size_t backbone)>;
  struct TaskRow {
    std::string label;
    std::function<std::string(std::size_t task)> of;
  };
  // A row for each backbone, and `rows` behind them; of several tables (tasks_of_tables()) all folded under `title`.
  void add_by_backbone(const std::string& title, const std::string& caption, const Cell& cell,
                       const std::vector<TaskRow>& rows = {});

  void add_question();
  void add_running();
  void add_protocol();
  void add_tuning();
  void add_learners();
  void add_notes();
  void add_results();
  void add_yardsticks();
  void add_score_table();
  void add_matrix();
  void add_returns();
  void add_published();
  void add_sweep();
  void add_range();
  void add_curves();
  void add_over_tasks();
  void add_profiles();
  void add_pairs();
  void add_budgets();
  void add_cost();
  void add_film();
  void add_left_out();
  void add_reproduction();
  void add_commands();
  void add_commands_of_plain_runs();

  const Results& results_;
  const Experiment& experiment_;
  const Analysis& analysis_;
  const Plots plots_;
  const PlotFolder folder_;  // of the plots
  const FilmStrip& film_;
  const BootstrapOptions bootstrap_;
  std::optional<std::vector<std::string>> said_;
  Document document_;
  std::vector<PlottedMethod> methods_;
  std::vector<bool> drawn_;  // which of them have curves
};

// "Comparison NAME", or of plain runs how many there are.
std::string title_of(const Results& results);

// The figures of the finished runs of a backbone in a task, those that there are.
std::vector<double> figures_of(const Results& results, std::size_t task, std::size_t backbone,
                               const std::function<std::optional<double>(const RunResult&)>& figure);

std::size_t finished_runs(const Results& results, std::size_t task, std::size_t backbone);
// Final success of the runs that count: of those that have diverged, too.
std::vector<double> successes_of(const Results& results, std::size_t task, std::size_t backbone);
// Of a finished run: an older or shortened table of an earlier report has no evaluations.
bool has_curve(const RunResult& run);

// Whether it is evaluated at all values of the experiment's range.
bool has_whole_range(const RunResult& run);

// The tasks of each table that has a column for each of them: together up to seven, else by family, which is the task's
// name; a table that is wider than a page is read by nobody.
std::vector<std::vector<std::size_t>> tasks_of_tables(const Results& results);

}  // namespace engram
