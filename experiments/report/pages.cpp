// The files of a report: its page, from where the links on it lead, and what programs read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/report/data.h"
#include "experiments/report/files.h"
#include "experiments/report/page.h"
#include "experiments/report/paper/latex.h"
#include "experiments/report/report.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/run_statistics.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

// What is shown of it.
Analysis with_trusted_intervals(const Results& results, const Analysis& analysis) {
  Analysis shown = analysis;
  for (std::size_t kind = 0; kind < kScoreKinds.size(); ++kind)
    shown.scores[kind] = with_trusted_intervals(shown.scores[kind], results.table(kScoreKinds[kind]));
  for (std::size_t task = 0; task < shown.curves.size(); ++task)
    for (std::size_t backbone = 0; backbone < shown.curves[task].size(); ++backbone) {
      const auto with_curve = figures_of(results, task, backbone, [](const RunResult& run) {
        return has_curve(run) ? std::optional(0.0) : std::nullopt;
      });
      if (with_curve.size() < kTrustedRuns)
        for (auto& [steps, estimate] : shown.curves[task][backbone]) estimate.interval.reset();
      if (finished_runs(results, task, backbone) >= kTrustedRuns) continue;
      if (auto& returns = shown.returns[task][backbone]) {
        for (Estimate* const estimate : {&returns->final, &returns->best}) estimate->interval.reset();
        if (returns->mmer) returns->mmer->interval.reset();
      }
    }
  for (auto& task : shown.ranges)
    for (Analysis::RangeCurve& curve : task) {
      if (curve.runs >= kTrustedRuns) continue;
      for (auto* const estimates : {&curve.greedy, &curve.sampled})
        for (Estimate& estimate : *estimates) estimate.interval.reset();
    }
  return shown;
}

// Of a page without figures.
Json empty_data() {
  return {{"tasks", Json::array()},
          {"backbones", Json::array()},
          {"runs", Json::array()},
          {"curves", Json::array()},
          {"scores", Json::object()}};
}

Json live_json(const Results& results, const UnderWay& state) {
  Json running = Json::array();
  for (const RunResult& run : results.runs) {
    if (!run.state.running) continue;
    const auto all = static_cast<double>(std::max<std::int64_t>(1, run.plan.config.run.steps));
    const auto& last = run.metrics.last_evaluation;
    running.push_back({{"name", run.plan.name()},
                       {"done", std::min(1.0, static_cast<double>(run.metrics.steps) / all)},
                       {"text", progress_text(run.plan, run.metrics.steps) +
                                    (last ? ", success " + percent(last->greedy.success) + "%" : "")}});
  }
  return {{"headline", state.headline},
          {"time", state.time},
          {"done", state.done},
          {"next_seconds", state.next_seconds},
          {"running", std::move(running)}};
}

// Of each run the files beside the page that a reader may want, as paths from `folder`, that of the page.
void add_links(Json& data, const Results& results, const fs::path& folder) {
  std::error_code error;
  const fs::path from = fs::absolute(folder.empty() ? "." : folder, error);
  for (std::size_t i = 0; i < data["runs"].size(); ++i) {
    const RunResult& run = results.runs[i];
    Json links = Json::object();
    const auto add = [&](const char* name, const fs::path& file) {
      if (fs::is_regular_file(file, error))
        links[name] = fs::absolute(file, error).lexically_relative(from).generic_string();
    };
    if (!run.plan.folder.empty()) {
      add("settings", run.plan.folder / "config.ini");
      for (const fs::directory_entry& entry : fs::directory_iterator(run.plan.folder, error))
        if (const std::string ending = entry.path().extension().string(); ending == ".gif" || ending == ".mp4")
          add("film", entry.path());
      add("log", results.of_comparison() ? output_file(run.plan) : run.plan.folder / "metrics.jsonl");
    }
    data["runs"][i]["links"] = std::move(links);
  }
}

// The page at `html`, from where its links lead.
std::string linked_page(const Document& document, Json data, const Results& results, const fs::path& html) {
  add_links(data, results, html.parent_path());
  return report_page(document, data);
}

}  // namespace

std::string page_under_way(const Results& results, const UnderWay* state, const fs::path& html,
                           const BootstrapOptions& bootstrap) {
  const bool any = !results.tasks.empty();
  const Analysis analysis = any ? analyse(results, bootstrap) : Analysis{};
  const FilmStrip film{"", "engram compare report makes the film strip."};
  Document document(title_of(results));
  if (any) {
    const Analysis shown = with_trusted_intervals(results, analysis);
    document = ReportWriter(results, shown, ReportFiles::beside(html), film, bootstrap, Plots::kNone).write();
  } else {
    if (!results.experiment.question.empty()) document.add(Paragraph{one_line(results.experiment.question)});
    document.add(Paragraph{"No run is finished yet.", /*answer=*/true});
    document.add(Charts{});
  }
  Json data = any ? report_data(results, analysis, bootstrap) : empty_data();
  if (state != nullptr) data["live"] = live_json(results, *state);
  return linked_page(document, std::move(data), results, html);
}

std::string run_page(const Results& results, const std::vector<std::string>& said, const FilmStrip& film,
                     const fs::path& html, const BootstrapOptions& bootstrap) {
  const Analysis analysis = analyse(results, bootstrap), shown = with_trusted_intervals(results, analysis);
  ReportWriter writer(results, shown, ReportFiles::beside(html), film, bootstrap, Plots::kNone);
  writer.begin_with(said);
  const Document document = writer.write();
  return linked_page(document, report_data(results, analysis, bootstrap), results, html);
}

std::string write_report(const Results& results, const ReportFiles& files, const FilmStrip& film,
                         const BootstrapOptions& bootstrap, const ReportExtras& extras) {
  create_folders(files, extras.plots != Plots::kNone || !film.png.empty());
  const Analysis analysis = analyse(results, bootstrap);
  const Analysis shown = with_trusted_intervals(results, analysis);
  const Document document = ReportWriter(results, shown, files, film, bootstrap, extras.plots).write();
  if (!film.png.empty()) write_text_file(files.folder / "film.png", film.png);
  if (extras.latex) write_text_file(files.latex, report_latex(results, shown));
  write_text_file(files.csv, report_csv(results));
  Json data = report_data(results, analysis, bootstrap);
  write_text_file(files.json, data_text(data));
  write_text_file(files.markdown, document.to_markdown(files.folder.filename().string()));
  write_text_file(files.html, linked_page(document, std::move(data), results, files.html));
  return document.why_figures_are_missing();
}

}  // namespace engram
