#include "experiments/report/published.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "agents/study/statistics.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "envs/registry.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/results/csv.h"

namespace engram {

extern const char* const kPublishedPopgym;  // the text of published_popgym.csv (CMakeLists.txt)

namespace {

constexpr const char* kPublishedMemory = "gru";
constexpr double kLeastDeviation = 0.0005;  // of figures with three decimals

double published_number(const std::vector<std::string>& fields, std::size_t column, const std::string& where) {
  double value = 0;
  if (!parse_whole(fields[column], value) || !std::isfinite(value))
    throw UserError(where + " has '" + fields[column] + "' for a number");
  return value;
}

const PublishedScore* published_of(const Config& config) {
  for (const PublishedScore& score : published_popgym()) {
    const TaskConfig task = TaskConfig::from_preset(score.task);
    if (config.task.name() == task.name() && differences(config.task.values(), task.values()).empty()) return &score;
  }
  return nullptr;
}

std::string with_deviation(double mean, double deviation, bool known) {
  return formatted("%.3f", mean) + (known ? formatted(" ± %.3f", deviation) : "");
}

}  // namespace

std::vector<PublishedScore> read_published(const std::string& text, const std::string& where) {
  std::vector<PublishedScore> scores;
  const std::vector<std::string> header = {"task", "gru_mean", "gru_deviation", "best", "best_memory"};
  bool headed = false;
  for (std::size_t position = 0; position < text.size();) {
    if (text[position] == '#') {
      position = std::min(text.find('\n', position), text.size() - 1) + 1;
      continue;
    }
    const std::vector<std::string> fields = read_csv_record(text, position, where);
    if (!std::exchange(headed, true)) {
      if (fields != header) throw UserError(where + " has not the columns " + joined(header));
      continue;
    }
    if (fields.size() != header.size())
      throw UserError(where + " has a record of " + std::to_string(fields.size()) + " fields");
    scores.push_back({fields[0], published_number(fields, 1, where), published_number(fields, 2, where),
                      published_number(fields, 3, where), fields[4]});
  }
  return scores;
}

const std::vector<PublishedScore>& published_popgym() {
  static const std::vector<PublishedScore> scores = read_published(kPublishedPopgym, "published_popgym.csv");
  return scores;
}

bool BesidePublished::differs() const {
  return std::abs(difference()) > 3 * std::max(published.deviation, kLeastDeviation);
}

std::vector<BesidePublished> beside_published(const Results& results) {
  std::vector<BesidePublished> cells;
  for (std::size_t task = 0; task < results.tasks.size(); ++task)
    for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
      const PlannedRun& plan = results.run(task, backbone, 0).plan;
      const PublishedScore* const score =
          plan.config.memory.name() == kPublishedMemory ? published_of(plan.config) : nullptr;
      if (score == nullptr) continue;
      const std::vector<double> mmer =
          figures_of(results, task, backbone, [](const RunResult& run) { return run.scores->mmer; });
      if (!mmer.empty())
        cells.push_back({task, backbone, static_cast<int>(mmer.size()), mean_of(mmer), sample_deviation(mmer), *score});
    }
  return cells;
}

TextTable published_table(const Results& results, const std::vector<BesidePublished>& cells) {
  std::vector<double> steps;
  for (const BesidePublished& cell : cells)
    steps.push_back(static_cast<double>(results.run(cell.task, cell.backbone, 0).plan.config.run.steps));
  TextTable table{
      "MMER beside that of POPGym's GRU (Morad et al. 2023, table 3, at second hand: docs/compare/published.md), mean "
      "and standard deviation over runs. Ours after " +
          range_text(steps) +
          " environment steps, published after 15,000,000, of three trials. *: they differ by more than three of the "
          "published standard deviations, where one of 0.000 counts as 0.0005. count_recall had other actions then.",
      {"task", "backbone", "runs", "ours", "published", "difference", "best of 13, published"},
      {},
      2};
  const auto difference_text = [](double difference, bool differs) {
    return formatted("%+.3f", difference) + (differs ? " *" : "");
  };
  std::map<std::size_t, std::vector<const BesidePublished*>> by_backbone;
  for (const BesidePublished& cell : cells) {
    const PublishedScore& score = cell.published;
    by_backbone[cell.backbone].push_back(&cell);
    table.rows.push_back(
        {results.tasks[cell.task].label, results.experiment.backbones[cell.backbone].label, std::to_string(cell.runs),
         with_deviation(cell.mean, cell.deviation, cell.runs > 1), with_deviation(score.mean, score.deviation, true),
         difference_text(cell.difference(), cell.differs()),
         formatted("%.3f", score.best) + (score.best_memory.empty() ? "" : " (" + score.best_memory + ")")});
  }
  for (const auto& [backbone, own] : by_backbone) {
    if (own.size() < 2) continue;
    std::vector<double> ours, theirs, best;
    int runs = 0;
    for (const BesidePublished* cell : own) {
      runs += cell->runs;
      ours.push_back(cell->mean);
      theirs.push_back(cell->published.mean);
      best.push_back(cell->published.best);
    }
    table.rows.push_back({"mean of these " + std::to_string(own.size()), results.experiment.backbones[backbone].label,
                          std::to_string(runs), formatted("%.3f", mean_of(ours)), formatted("%.3f", mean_of(theirs)),
                          difference_text(mean_of(ours) - mean_of(theirs), false), formatted("%.3f", mean_of(best))});
  }
  return table;
}

}  // namespace engram
