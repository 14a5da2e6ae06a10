// The parts of a report that say what was asked, how it was measured, and what is not in it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/plan.h"
#include "experiments/report/answer.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/run_statistics.h"

namespace engram {
std::string title_of(const Results& results) {
  if (!results.of_comparison()) return counted(results.number_of_runs(), "run");
  const std::filesystem::path& folder = results.folder;
  std::filesystem::path name = std::filesystem::absolute(folder).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  return "Comparison " + one_line(name.filename().string());
}

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

std::vector<double> successes_of(const Results& results, std::size_t task, std::size_t backbone) {
  std::vector<double> successes;
  for (std::size_t seed = 0; seed < results.experiment.seeds.size(); ++seed)
    if (const auto success = results.run(task, backbone, seed).score(kScoreKinds[0])) successes.push_back(*success);
  return successes;
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
             : run.state.diverged()                  ? "diverged"
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
      if (const std::size_t runs = successes_of(results_, task, backbone).size(); runs > 0)
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
            ". The figures below are of the finished ones" +
            (results_.diverged_runs() > 0
                 ? ", and of those that diverged: one counts with a success of 0, since no agent came of it. "
                   "What else there is to measure of an agent (returns, decisions, curves, costs) is of the "
                   "finished ones alone."
                 : "."));
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

  TextTable backbones{
      "The backbones. Adds at first: the root mean square of what the first layer's mixer adds to a residual stream of "
      "root mean square 1 before anything is learnt (memory.first_values); \"-\" where there is no such stream.",
      {"label", "backbone", "adds at first", "role", "settings of its own"},
      {},
      2};
  for (std::size_t i = 0; i < experiment_.backbones.size(); ++i) {
    const PlannedRun& plan = results_.run(0, i, 0).plan;
    const std::string role = plan.control == Control::kMemoryless           ? "control: memoryless"
                             : plan.control == Control::kFullState          ? "control: full state"
                             : plan.control == Control::kFullStateRecurrent ? "control: full state and memory"
                                                                            : "";
    const std::optional<double>& scale = analysis_.first_scales[i];
    backbones.rows.push_back({experiment_.backbones[i].label, plan.config.memory.name(),
                              scale ? formatted("%.2g", *scale) : "-", role,
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
      note(run, "failed: " + failure_text(run.state.failure));
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
      train_command(results_.runs.front().plan) + "\n",
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

}  // namespace engram
