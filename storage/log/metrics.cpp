#include "storage/log/metrics.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/text/json_text.h"
#include "storage/tensors/state_archive.h"

namespace engram {
namespace {

constexpr const char* kKind = "kind";
constexpr const char* kSteps = "environment_steps";

std::uint64_t length(std::int64_t position) { return static_cast<std::uint64_t>(position); }

// 0 where there is no file.
std::uint64_t bytes_of(const std::filesystem::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  return error ? 0 : bytes;
}

// The file, unless lost_metrics() has something to say.
const std::filesystem::path& whole(const std::filesystem::path& metrics, std::int64_t bytes) {
  if (const std::string lost = lost_metrics(metrics, bytes); !lost.empty()) throw UserError(lost);
  return metrics;
}

// The end of the last whole row in a file that ends before `position`; else that.
std::uint64_t end_of_rows(const std::filesystem::path& file, std::uint64_t position) {
  if (bytes_of(file) >= position) return position;
  std::ifstream stream(file, std::ios::binary);
  std::uint64_t end = 0;
  for (std::string row; std::getline(stream, row) && !stream.eof();) end += row.size() + 1;
  return end;
}

// As write() has given it to TensorBoard; nothing for what is no row.
struct TaggedRow {
  std::int64_t environment_steps;
  std::vector<Scalar> values;
};

std::optional<TaggedRow> tagged_row(const std::string& text) {
  const auto row = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object() || !row.contains(kKind) || !row[kKind].is_string() || !row.contains(kSteps) ||
      !row[kSteps].is_number_integer())
    return std::nullopt;
  TaggedRow tagged{row[kSteps].get<std::int64_t>(), {}};
  for (const auto& [name, value] : row.items())
    if (name != kKind && name != kSteps && (value.is_number() || value.is_null()))
      tagged.values.emplace_back(row[kKind].get<std::string>() + "/" + name,
                                 value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  return tagged;
}

}  // namespace

std::string lost_metrics(const std::filesystem::path& metrics, std::int64_t bytes) {
  const std::uint64_t there = bytes_of(metrics);
  if (there >= length(bytes)) return "";
  std::error_code ignored;
  return "'" + metrics.string() + "' " +
         (std::filesystem::exists(metrics, ignored) ? "has " + std::to_string(there) + " bytes" : "does not exist") +
         ", but the run had written " + std::to_string(bytes) +
         ": what it has measured is lost; put the file back, or begin a new run";
}

void MetricPositions::visit_state(StateArchive& archive) {
  archive.value("metrics_bytes", metrics);
  archive.value("timings_bytes", timings);
  archive.value("events_bytes", events);
  if (metrics < 0 || timings < 0 || events < 0) archive.refuse("metrics_bytes", "a length is negative");
}

MetricsLog::MetricsLog(const std::filesystem::path& metrics, const std::filesystem::path& timings,
                       const std::filesystem::path& events, const MetricPositions& positions)
    : began_events_(positions.events == 0 || bytes_of(events) < length(positions.events)),
      metrics_(whole(metrics, positions.metrics), length(positions.metrics)),
      timings_(timings, end_of_rows(timings, length(positions.timings))),
      events_(events, began_events_ ? 0 : length(positions.events)) {
  if (timings_.position() < length(positions.timings))
    repairs_.push_back("'" + timings.string() + "' had lost rows: it goes on without them");
  if (!began_events_ || positions.events == 0) return;
  remake_events(metrics);
  remake_events(timings);
  repairs_.push_back("'" + events.string() +
                     "' had lost events: its curves are made again, histograms of before are not");
}

void MetricsLog::remake_events(const std::filesystem::path& rows) {
  std::ifstream stream(rows, std::ios::binary);
  for (std::string row; std::getline(stream, row);)
    if (const auto tagged = tagged_row(row)) events_.write(tagged->environment_steps, wall_clock(), tagged->values);
}

void MetricsLog::write(const std::string& kind, std::int64_t environment_steps, std::span<const Scalar> values,
                       std::span<const Scalar> timings) {
  std::vector<Scalar> tagged;
  const auto append = [&](AppendFile& file, std::span<const Scalar> scalars) {
    nlohmann::ordered_json row = {{kKind, kind}, {kSteps, environment_steps}};
    for (const auto& [name, value] : scalars) {
      row[name] = value;
      tagged.emplace_back(kind + "/" + name, value);
    }
    file.append(json_text(row) + "\n");
  };
  append(metrics_, values);
  append(timings_, timings);
  events_.write(environment_steps, wall_clock(), tagged);
}

void MetricsLog::sync() {
  metrics_.sync();
  timings_.sync();
  events_.sync();
}

MetricPositions MetricsLog::positions() const {
  return {static_cast<std::int64_t>(metrics_.position()), static_cast<std::int64_t>(timings_.position()),
          static_cast<std::int64_t>(events_.position())};
}

}  // namespace engram
