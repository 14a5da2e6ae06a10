#include "agents/study/metrics_summary.h"

#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace engram {
namespace {

constexpr std::size_t kMaxRowBytes = 1 << 16;

struct BadRow : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// null stands for what is not finite.
double number(const nlohmann::json& row, const char* key) {
  const auto found = row.find(key);
  if (found != row.end() && found->is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (found == row.end() || !found->is_number()) throw BadRow(key);
  return found->get<double>();
}

std::int64_t count(const nlohmann::json& row, const char* key, double most = 9e15) {
  const double value = number(row, key);
  if (!(value >= 0 && value <= most) || value != std::floor(value)) throw BadRow(key);
  return static_cast<std::int64_t>(value);
}

double rate(const nlohmann::json& row, const char* key) {
  const double value = number(row, key);
  if (!(value >= 0 && value <= 1)) throw BadRow(key);
  return value;
}

// Rows of older versions have no sampled episodes.
bool has_sampled(const nlohmann::json& row) {
  return row.contains("sampled_success") || row.contains("sampled_return");
}

// Rows of older versions, and of tasks that do not say what their decision is, have none.
std::optional<DecisionRates> decisions(const nlohmann::json& row, const std::string& prefix) {
  const std::string decided = prefix + "decided", right = prefix + "right_of_decided";
  if (!row.contains(decided)) return {};
  DecisionRates rates{rate(row, decided.c_str()), {}};
  if (row.contains(right)) rates.right = rate(row, right.c_str());
  return rates;
}

EvaluationSummary evaluation(const nlohmann::json& row) {
  EvaluationSummary summary{count(row, "environment_steps"),
                            count(row, "updates"),
                            static_cast<int>(count(row, "episodes", 1e9)),
                            {rate(row, "success"), number(row, "return")}};
  if (row.contains("collected_episodes")) summary.collected_episodes = count(row, "collected_episodes");
  if (has_sampled(row)) summary.sampled = {rate(row, "sampled_success"), number(row, "sampled_return")};
  summary.greedy_decisions = decisions(row, "");
  summary.sampled_decisions = decisions(row, "sampled_");
  return summary;
}

FinalEvaluation final_evaluation(const nlohmann::json& row) {
  const EvaluationSummary all = evaluation(row);
  FinalEvaluation last{};
  last.weights.environment_steps = all.environment_steps;
  last.weights.updates = all.updates;
  last.episodes = all.episodes;
  const auto played = [&](const PlayedEpisodes& episodes, const char* low, const char* high) {
    return FinalEvaluation::Played{static_cast<int>(std::lround(episodes.success * all.episodes)),
                                   {episodes.success, rate(row, low), rate(row, high)},
                                   episodes.mean_return};
  };
  last.greedy = played(all.greedy, "success_low", "success_high");
  last.greedy.decisions = all.greedy_decisions;
  if (all.sampled) {
    last.sampled = played(*all.sampled, "sampled_success_low", "sampled_success_high");
    last.sampled->decisions = all.sampled_decisions;
  }
  return last;
}

// A figure that is not there, or null, says nothing.
void set_amount(std::optional<double>& amount, const nlohmann::json& row, const char* key) {
  if (!row.contains(key) || row[key].is_null()) return;
  const double value = number(row, key);
  if (!(value >= 0 && value <= 1e18)) throw BadRow(key);
  amount = value;
}

void add_row(MetricsSummary& summary, const std::string& text) {
  const nlohmann::json row = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object() || !row.contains("kind") || !row["kind"].is_string()) throw BadRow("kind");
  const std::string kind = row["kind"].get<std::string>();
  if (kind == "train") {
    const std::int64_t steps = count(row, "environment_steps"), updates = count(row, "updates"),
                       episodes = count(row, "episodes"), skipped = count(row, "skipped_updates");
    std::optional<double> alpha;
    set_amount(alpha, row, "alpha");
    if (alpha) summary.temperatures.push_back({steps, *alpha});
    summary.steps = steps;
    summary.updates = updates;
    summary.episodes = episodes;
    summary.skipped_updates = skipped;
  } else if (kind == "evaluation") {
    const EvaluationSummary latest = evaluation(row);
    summary.evaluations.push_back(latest);
    summary.last_evaluation = latest;
    if (!summary.best_evaluation || better_or_equal(latest, *summary.best_evaluation)) summary.best_evaluation = latest;
  } else if (kind == "iteration") {
    count(row, "environment_steps");
    count(row, "episodes");
    const double mean = number(row, "return");
    if (std::isfinite(mean) && (!summary.mmer || mean > *summary.mmer)) summary.mmer = mean;
  } else if (kind == "final") {
    summary.final_evaluation = final_evaluation(row);
  }
}

void add_row(TimingsSummary& summary, const std::string& text) {
  const nlohmann::json row = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) throw BadRow("kind");
  TimingsSummary latest = summary;
  set_amount(latest.wall_seconds, row, "wall_seconds");
  set_amount(latest.steps_per_second, row, "steps_per_second");
  set_amount(latest.updates_per_second, row, "updates_per_second");
  set_amount(latest.peak_memory_mb, row, "peak_memory_mb");
  set_amount(latest.peak_gpu_memory_mb, row, "peak_gpu_memory_mb");
  summary = latest;
}

template <class Summary>
Summary summarize_rows(std::istream& stream, const std::string& where) {
  Summary summary;
  std::vector<char> buffer(kMaxRowBytes);
  for (;;) {
    stream.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    if (stream.eof() || stream.bad()) break;  // without a newline: nothing, or a row in writing
    if (stream.fail()) {                      // longer than any row
      stream.clear();
      stream.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      ++summary.damaged_rows;
      continue;
    }
    try {
      add_row(summary, std::string(buffer.data(), static_cast<std::size_t>(stream.gcount() - 1)));
    } catch (const BadRow&) {
      ++summary.damaged_rows;
    }
  }
  if (stream.bad()) throw UserError(where + " cannot be read to its end");
  return summary;
}

template <class Summary>
Summary summarize_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto type = std::filesystem::status(file, error).type();
  if (type == std::filesystem::file_type::not_found) return {};
  const std::string where = std::string("'").append(file.string()).append("'");
  if (type != std::filesystem::file_type::regular) throw UserError(where + " is not a file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw UserError(where + " cannot be read");
  return summarize_rows<Summary>(stream, where);
}

}  // namespace

MetricsSummary summarize_metrics(const std::filesystem::path& file) { return summarize_file<MetricsSummary>(file); }

MetricsSummary summarize_metrics(std::istream& stream, const std::string& where) {
  return summarize_rows<MetricsSummary>(stream, where);
}

TimingsSummary summarize_timings(const std::filesystem::path& file) { return summarize_file<TimingsSummary>(file); }

}  // namespace engram
