#include "apps/compare/report.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>

#include "apps/cli/command_line.h"
#include "apps/cli/threads.h"
#include "base/error.h"
#include "base/text/words.h"
#include "experiments/plan/plain_runs.h"
#include "experiments/report/table_runs.h"
#include "storage/run/run_directory.h"

namespace engram {
namespace {

struct ReportOptions {
  std::string output;
  bool force = false;
  Plots figures = Plots::kNone;
  bool latex = false;
  int resamples = BootstrapOptions{}.resamples;
  std::uint64_t bootstrap_seed = 0;

  void list_options(OptionList& list) {
    list.add("output", output, "page to write, .html; without it, report/report.html in DIR, as often as you ask");
    list.add("force", force, "replace what is there of the report that --output names");
    list.add("figures", figures, {{Plots::kNone, "none"}, {Plots::kSvg, "svg"}, {Plots::kPdf, "pdf"}},
             "none | svg | pdf: plots for a paper, drawn by gnuplot into FILE_figures/ (with pdf as SVG, too)");
    list.add("latex", latex, "also FILE.tex: tables for a paper, the protocol and BibTeX");
    list.add("resamples", resamples, {1000, 10'000'000}, "bootstrap resamples behind the intervals");
    list.add("bootstrap_seed", bootstrap_seed, "of their random numbers");
  }
};

const CommandSyntax kReportSyntax = {.command = "compare report",
                                     .positional = {"DIR"},
                                     .repeats = true,
                                     .values = {{"DIR", {"FILE"}}, {"output", {"FILE"}}}};  // or SCORES

void print_compare_report_help(const OptionList& own) {
  std::cout
      << help_head(
             {"engram compare report DIR [--output FILE.html]", "engram compare report RUN... --output FILE.html",
              "engram compare report RUNS.csv --output FILE.html",
              "engram compare report SCORES.json --output FILE.html"},
             {"Reports on the comparison in DIR from the runs that are finished: one page that opens without a "
              "network, with protocol, tables, charts, costs, a film strip and how to do it again; beside it the "
              "same as Markdown (.md), the runs as .csv and every figure as .json. For papers there are --figures, "
              "which takes gnuplot, and --latex. Without video there is no film strip. The .csv alone makes the "
              "same page again, but for settings and films. Run directories that belong to no comparison are put side "
              "by side by task, "
              "backbone and seed; settings that differ between runs of one group are refused. Of a table of "
              "scores (.json or .csv, as engram probe writes them) the statistics alone."})
      << "Options\n";
  print_options(std::cout, own);
  std::cout << "\nExample\n  engram compare report runs/delay --output delay.html\n";
}

// The tables are written whatever is missing.
void say_missing_figures(const std::string& why) {
  if (!why.empty()) std::cerr << "engram: the report has no plots: " << why << std::endl;
}

// "3 of 6 runs are finished, 1 has diverged, 2 are running"
std::string stages_text(const Results& results) {
  const auto count = [&](const auto& counts) { return std::ranges::count_if(results.runs, counts); };
  const std::size_t all = results.number_of_runs(), diverged = results.diverged_runs();
  const auto running = count([](const RunResult& run) { return run.state.running; });
  const auto are = [](auto number) { return number == 1 ? " is " : " are "; };
  return std::to_string(count([](const RunResult& run) { return run.scores.has_value(); })) + " of " +
         counted(all, "run") + are(all) + "finished" +
         (diverged == 0 ? "" : ", " + std::to_string(diverged) + (diverged == 1 ? " has" : " have") + " diverged") +
         (running == 0 ? "" : ", " + std::to_string(running) + are(running) + "running");
}

}  // namespace

void describe_compare_report(const CommandVisitor& visit) {
  describe_options<ReportOptions>("compare report", kReportSyntax, visit);
}

int run_compare_report(const std::vector<std::string>& arguments) {
  ReportOptions options;
  const auto line = command_line_of(arguments, options, kReportSyntax, print_compare_report_help);
  if (!line) return 0;
  const std::vector<std::filesystem::path> folders(line->positional.begin(), line->positional.end());
  const std::filesystem::path& folder = folders[0];
  const bool several = folders.size() > 1, plain = several || RunDirectory::is_run(folder);
  const bool runs_table = !plain && is_runs_table(folder);
  const bool scores = !plain && !runs_table && (folder.extension() == ".json" || folder.extension() == ".csv");
  if ((scores || runs_table || several) && options.output.empty())
    throw UserError("--output FILE.html is missing: the page to write");
  const ReportFiles files = ReportFiles::beside(options.output.empty() ? folder / "report" / "report.html"
                                                                       : std::filesystem::path(options.output));
  if (!options.output.empty())
    for (const std::filesystem::path& file :
         {files.html, files.markdown, files.csv, files.json, files.latex, files.folder})
      check_not_there("output", file, options.force);
  const BootstrapOptions bootstrap{.resamples = options.resamples, .seed = options.bootstrap_seed};
  const ReportExtras extras{.plots = options.figures, .latex = options.latex};
  if (scores) {
    if (options.latex) throw UserError("--latex is of runs, and '" + folder.string() + "' is a table of scores");
    const std::string title = "Scores " + one_line(folder.filename().string());
    say_missing_figures(write_score_report(read_score_table(folder), title, files, bootstrap, extras));
    std::cout << "The report is " << files.html.string() << "\n";
    return 0;
  }
  use_threads(1);  // films are of a single environment
  const Results results = plain        ? read_plain_runs(folders)
                          : runs_table ? read_runs_table(folder)
                                       : read_results(folder);
  say_missing_figures(write_report(results, files, film_runs(runs_to_film(results)), bootstrap, extras));
  std::cout << stages_text(results) << ". The report is " << files.html.string() << "\n";
  return 0;
}

}  // namespace engram
