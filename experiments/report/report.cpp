#include "experiments/report/report.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/formatted.h"
#include "base/words.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/plan.h"
#include "experiments/report/answer.h"
#include "experiments/report/files.h"
#include "experiments/report/latex.h"
#include "experiments/report/page.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/run_statistics.h"
#include "storage/files.h"
#include "storage/run_directory.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

std::string title_of(const Results& results) {
  if (!results.of_comparison()) {
    const auto runs = std::ranges::count_if(results.runs, [&](const RunResult& run) {
      return results.settings_known ? !run.plan.folder.empty() : run.scores.has_value();
    });
    return counted(runs, "run");
  }
  const fs::path& folder = results.folder;
  fs::path name = fs::absolute(folder).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  return "Comparison " + one_line(name.filename().string());
}

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
      add("log", results.of_comparison() ? output_file(results.folder, run.plan) : run.plan.folder / "metrics.jsonl");
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

std::vector<std::vector<std::size_t>> tasks_of_tables(const Results& results) {
  constexpr std::size_t kMostTasks = 7;  // beside the backbone's name
  std::vector<std::vector<std::size_t>> tables;
  if (results.tasks.size() <= kMostTasks) {
    std::vector<std::size_t>& all = tables.emplace_back();
    for (std::size_t task = 0; task < results.tasks.size(); ++task) all.push_back(task);
    return tables;
  }
  for (std::size_t task = 0; task < results.tasks.size(); ++task) {
    const auto same = std::ranges::find_if(tables, [&](const std::vector<std::size_t>& table) {
      return table.size() < kMostTasks && results.tasks[table.front()].info.name == results.tasks[task].info.name;
    });
    if (same == tables.end())
      tables.push_back({task});
    else
      same->push_back(task);
  }
  return tables;
}

void ReportWriter::add_by_backbone(const std::string& title, const std::string& caption, const Cell& cell,
                                   const std::vector<TaskRow>& rows) {
  const std::vector<std::vector<std::size_t>> tables = tasks_of_tables(results_);
  const bool several = tables.size() > 1;
  if (several) {
    document_.add(FoldBegin{title});
    paragraph(caption);
  }
  for (const std::vector<std::size_t>& tasks : tables) {
    TextTable table{several ? results_.tasks[tasks.front()].info.name : caption, {"backbone"}, {}};
    for (const std::size_t task : tasks) table.header.push_back(results_.tasks[task].label);
    const auto add = [&](const std::string& label, const std::function<std::string(std::size_t task)>& of) {
      std::vector<std::string> row = {label};
      for (const std::size_t task : tasks) row.push_back(of(task));
      table.rows.push_back(std::move(row));
    };
    for (std::size_t backbone = 0; backbone < experiment_.backbones.size(); ++backbone)
      add(experiment_.backbones[backbone].label, [&](std::size_t task) { return cell(task, backbone); });
    for (const TaskRow& row : rows) add(row.label, row.of);
    document_.add(std::move(table));
  }
  if (several) document_.add(FoldEnd{});
}

std::vector<double> figures_of(const Results& results, std::size_t task, std::size_t backbone,
                               const std::function<std::optional<double>(const RunResult&)>& figure) {
  std::vector<double> figures;
  for (std::size_t seed = 0; seed < results.experiment.seeds.size(); ++seed) {
    const RunResult& run = results.run(task, backbone, seed);
    if (!run.scores) continue;
    if (const std::optional<double> value = figure(run)) figures.push_back(*value);
  }
  return figures;
}

bool has_curve(const RunResult& run) { return run.scores && !run.curve.empty(); }

bool has_whole_range(const RunResult& run) {
  return !run.range.empty() && std::ranges::all_of(run.range, [](const auto& point) { return point.has_value(); });
}

std::size_t finished_runs(const Results& results, std::size_t task, std::size_t backbone) {
  return figures_of(results, task, backbone, [](const RunResult&) { return std::optional(0.0); }).size();
}

ReportWriter::ReportWriter(const Results& results, const Analysis& analysis, const ReportFiles& files,
                           const FilmStrip& film, const BootstrapOptions& bootstrap, Plots plots)
    : results_(results),
      experiment_(results.experiment),
      analysis_(analysis),
      plots_(plots),
      folder_(files.folder, plots == Plots::kPdf),
      film_(film),
      bootstrap_(bootstrap),
      document_(title_of(results)) {
  for (std::size_t backbone = 0; backbone < experiment_.backbones.size(); ++backbone)
    methods_.push_back(
        {experiment_.backbones[backbone].label, results.run(0, backbone, 0).plan.control != Control::kNone});
  drawn_ = methods_to_draw(analysis_.scores[0], methods_, experiment_.reference);
}

Document ReportWriter::write() {
  add_question();
  document_.add(Charts{});
  add_results();
  if (results_.settings_known) {
    add_film();
    add_protocol();
    add_tuning();
  } else {
    add_notes();
  }
  add_budgets();
  add_cost();
  add_left_out();
  add_reproduction();
  return std::move(document_);
}

std::string ReportWriter::stages() const {
  std::map<std::string, int> counts;
  for (const RunResult& run : results_.runs)
    ++counts[run.scores                              ? "finished"
             : run.state.stage == RunStage::kMissing ? (results_.of_comparison() ? "not begun" : "not there")
             : run.state.running                     ? "running"
             : run.state.stage == RunStage::kFailed  ? "failed"
                                                     : "unfinished"];
  std::vector<std::string> texts;
  for (const auto& [stage, count] : counts) texts.push_back(std::to_string(count) + " " + stage);
  return joined(texts);
}

int ReportWriter::fewest_runs() const {
  int fewest = kTrustedRuns;
  for (std::size_t task = 0; task < results_.tasks.size(); ++task)
    for (std::size_t backbone = 0; backbone < experiment_.backbones.size(); ++backbone)
      if (const std::size_t runs = finished_runs(results_, task, backbone); runs > 0)
        fewest = std::min(fewest, static_cast<int>(runs));
  return fewest;
}

std::vector<Level> ReportWriter::levels(std::size_t task) const {
  const TaskFacts& facts = results_.tasks[task];
  std::vector<Level> lines;
  if (facts.info.chance_success) lines.push_back({"chance", *facts.info.chance_success});
  if (facts.random.episodes > 0) lines.push_back({"random play", facts.random.success.estimate});
  return lines;
}

void ReportWriter::add_question() {
  if (!experiment_.question.empty()) paragraph(one_line(experiment_.question));
  const std::vector<std::string> said = said_ ? *said_ : answer_of(results_, analysis_);
  for (const std::string& sentence : said) document_.add(Paragraph{sentence, /*answer=*/true});
  paragraph(size_text(results_.planned) + " (" + seeds_text(experiment_.seeds) +
            "): " + counted(results_.runs.size(), "run") + ", of them " + stages() +
            ". The figures below are of the finished ones.");
  add_running();

  if (const int fewest = fewest_runs(); fewest < kTrustedRuns && !said_)
    paragraph("With fewer than " + std::to_string(kTrustedRuns) + " seeds intervals are not to be trusted. Here some " +
              "figures rest on " + counted(fewest, "run") +
              " of a backbone in a task; such figures are given without an interval, those of the runs beside their "
              "mean, and a difference between them may be chance.");
}

void ReportWriter::add_running() {
  TextTable table{"Runs that a program is training now, when this page was made.",
                  {"run", "on", "steps", "%", "last evaluation, %"},
                  {},
                  2};
  for (const RunResult& run : results_.runs) {
    if (!run.state.running) continue;
    const auto steps = static_cast<double>(run.metrics.steps), all = static_cast<double>(run.plan.config.run.steps);
    const auto& last = run.metrics.last_evaluation;
    table.rows.push_back({run.plan.name(), run.provenance.device, progress_text(run.plan, run.metrics.steps),
                          formatted("%.0f", 100 * steps / all), last ? percent(last->greedy.success) : "none yet"});
  }
  if (!table.rows.empty()) document_.add(std::move(table));
}

void ReportWriter::add_protocol() {
  heading(2, "Protocol");
  TextTable tasks{
      "The tasks.", {"task", "rules", "settings of its own", "steps an episode", "chance", "random play"}, {}, 3};
  for (std::size_t i = 0; i < results_.tasks.size(); ++i) {
    const TaskFacts& task = results_.tasks[i];
    tasks.rows.push_back({task.label, task.info.name, settings_text(experiment_.tasks[i].settings),
                          count_with_commas(task.info.max_episode_steps),
                          task.info.chance_success ? percent(*task.info.chance_success) + "%" : "none",
                          percent(task.random.success.estimate) + "%"});
  }
  document_.add(tasks);

  TextTable backbones{"The backbones.", {"label", "backbone", "role", "settings of its own"}, {}, 4};
  for (std::size_t i = 0; i < experiment_.backbones.size(); ++i) {
    const PlannedRun& plan = results_.run(0, i, 0).plan;
    const std::string role = plan.control == Control::kMemoryless           ? "control: memoryless"
                             : plan.control == Control::kFullState          ? "control: full state"
                             : plan.control == Control::kFullStateRecurrent ? "control: full state and memory"
                                                                            : "";
    backbones.rows.push_back({experiment_.backbones[i].label, plan.config.memory.name(), role,
                              settings_text(experiment_.backbones[i].settings)});
  }
  document_.add(backbones);

  const auto over_runs = [&](const std::function<double(const Config&)>& value) {
    std::vector<double> values;
    for (const RunResult& run : results_.runs) values.push_back(value(run.plan.config));
    return range_text(values);
  };
  const std::string goal = over_runs([](const Config& c) { return 100 * c.evaluation.stop_at_success; });
  BulletList list;
  list.items.push_back(
      "A run: " + over_runs([](const Config& c) { return static_cast<double>(c.run.steps); }) + " environment steps, " +
      over_runs([](const Config& c) { return c.updates_per_step(); }) + " updates a step; an evaluation of " +
      over_runs([](const Config& c) { return static_cast<double>(c.evaluation.episodes); }) +
      " greedy episodes every " +
      over_runs([](const Config& c) { return static_cast<double>(c.evaluation.every_steps); }) +
      " steps; a final evaluation of " +
      over_runs([](const Config& c) { return static_cast<double>(c.evaluation.final_episodes); }) + " episodes" +
      (goal == "0" ? "." : ". It ends early once an evaluation's success reaches " + goal + "%."));
  list.items.push_back(experiment_.match == Match::kNone
                           ? "Widths are those of the settings: budgets are not matched."
                           : std::string("Widths are chosen so that the backbones agree in ") +
                                 figure_name(experiment_.match) + " with " + experiment_.reference + " within " +
                                 formatted("%g", 100 * kMatchTolerance) + "%" +
                                 (experiment_.match != Match::kState && experiment_.match_mlp.value_or(true)
                                      ? ", and the widths of their MLPs so that these have the same share of it."
                                      : "."));
  list.items.insert(list.items.end(), results_.notes.begin(), results_.notes.end());
  list.items.push_back(about_intervals(bootstrap_));
  document_.add(list);
}

void ReportWriter::add_notes() {
  heading(2, "About the figures");
  BulletList list{results_.notes};
  list.items.push_back(about_intervals(bootstrap_));
  document_.add(std::move(list));
}

void ReportWriter::add_film() {
  heading(2, "An episode of each");
  if (film_.png.empty())
    paragraph(film_.note);
  else
    document_.add(Figure{"film", film_.note, "", film_.png});
}

void ReportWriter::add_left_out() {
  heading(2, "What is left out, and what is unusual");
  // What is the same of several runs of a backbone in a task is said once.
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> notes;
  const auto note = [&](const RunResult& run, const std::string& text) {
    const std::string all = run.plan.place() + ": " + text;
    const auto found = std::find_if(notes.begin(), notes.end(), [&](const auto& other) { return other.first == all; });
    if (found == notes.end())
      notes.push_back({all, {run.plan.seed}});
    else
      found->second.push_back(run.plan.seed);
  };
  for (const RunResult& run : results_.runs) {
    const std::string steps = progress_text(run.plan, run.metrics.steps);
    if (run.state.stage == RunStage::kFailed)
      note(run, "failed: " + run.state.reason);
    else if (!run.scores && run.state.stage != RunStage::kMissing)
      note(run, (run.state.running ? "running, " : "unfinished, ") + steps);
    if (!run.remark.empty()) note(run, run.remark);
  }
  BulletList list;
  for (const auto& [text, seeds] : notes) list.items.push_back(text + " (seed " + seeds_text(seeds) + ")");
  for (const std::string& sentence : analysis_.scores[0].left_out) list.items.push_back(sentence);
  if (const std::string why = document_.why_figures_are_missing(); !why.empty())
    list.items.push_back("figures: " + why);
  if (list.items.empty())
    paragraph("Nothing: every run is finished and has taken its planned course.");
  else
    document_.add(std::move(list));
}

void ReportWriter::add_commands() {
  const std::string folder = results_.folder.string();
  document_.add(CodeBlock{shell_command({"engram", "compare", "--config", "experiment.ini", "--run", folder}) + "\n" +
                              shell_command({"engram", "compare", "report", folder}) + "\n",
                          ""});
  document_.add(CodeBlock{results_.planned.to_ini(), "experiment.ini"});
  document_.add(CodeBlock{
      train_command(results_.folder, results_.runs.front().plan) + "\n",
      "The command of the first run; plan.json in the folder has that of every run, configs/ the settings that "
      "they name"});
}

void ReportWriter::add_commands_of_plain_runs() {
  std::string commands, report = "engram compare report";
  for (const RunResult& run : results_.runs) {
    if (run.plan.folder.empty()) continue;
    commands += shell_command(
                    {"engram", "train", "--config", (run.plan.folder / "config.ini").string(), "--run", "NEW_FOLDER"}) +
                "\n";
    report.append(" ").append(shell_word(run.plan.folder.string()));
  }
  document_.add(CodeBlock{report + " --output FILE.html\n", ""});
  document_.add(CodeBlock{commands, "The command of every run"});
}

namespace {

std::size_t middle_of(const std::vector<const RunResult*>& runs) { return (runs.size() - 1) / 2; }

// The run in the middle of runs in order, or the nearest to it whose best weights are there.
const RunResult* to_film(const std::vector<const RunResult*>& runs) {
  const std::size_t middle = middle_of(runs);
  for (std::size_t distance = 0; distance < runs.size(); ++distance)
    for (const std::size_t i : {middle - distance, middle + distance})  // below 0: past the end
      if (i < runs.size() && has_best_weights(*runs[i])) return runs[i];
  return runs[middle];
}

}  // namespace

bool has_best_weights(const RunResult& run) {
  return RunDirectory::is_run(run.plan.folder) &&
         fs::exists(RunDirectory::open(run.plan.folder).weights_file(WhichWeights::kBest));
}

std::vector<const RunResult*> runs_to_film(const Results& results) {
  const Experiment& experiment = results.experiment;
  const auto finished = [&](std::size_t task, std::size_t backbone) {
    std::vector<const RunResult*> runs;
    for (std::size_t seed = 0; seed < experiment.seeds.size(); ++seed)
      if (const RunResult& run = results.run(task, backbone, seed); run.scores) runs.push_back(&run);
    std::stable_sort(runs.begin(), runs.end(), [](const RunResult* a, const RunResult* b) {
      return a->scores->final_success < b->scores->final_success;
    });
    return runs;
  };
  // The task with runs of most backbones that can be filmed, among those the one with the widest spread of their middle
  // runs.
  std::vector<const RunResult*> best;
  std::tuple<std::ptrdiff_t, std::size_t, double> most = {-1, 0, 0};
  for (std::size_t task = 0; task < experiment.tasks.size(); ++task) {
    std::vector<const RunResult*> chosen;
    double low = 1, high = 0;
    for (std::size_t backbone = 0; backbone < experiment.backbones.size(); ++backbone) {
      const std::vector<const RunResult*> runs = finished(task, backbone);
      if (runs.empty()) continue;
      chosen.push_back(to_film(runs));
      const Control control = chosen.back()->plan.control;
      if (control == Control::kFullState || control == Control::kFullStateRecurrent) continue;
      const double success = runs[middle_of(runs)]->scores->final_success;
      low = std::min(low, success);
      high = std::max(high, success);
    }
    const std::tuple these(std::ranges::count_if(chosen, [](const RunResult* run) { return has_best_weights(*run); }),
                           chosen.size(), high - low);
    if (these > most) {
      best = std::move(chosen);
      most = these;
    }
  }
  return best;
}

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
