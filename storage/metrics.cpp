#include "storage/metrics.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "storage/state_archive.h"

namespace engram {
namespace {

std::uint64_t length(std::int64_t position) { return static_cast<std::uint64_t>(position); }

}  // namespace

void MetricPositions::visit_state(StateArchive& archive) {
  archive.value("metrics_bytes", metrics);
  archive.value("timings_bytes", timings);
  archive.value("events_bytes", events);
  if (metrics < 0 || timings < 0 || events < 0) archive.refuse("metrics_bytes", "a length is negative");
}

MetricsLog::MetricsLog(const std::filesystem::path& metrics, const std::filesystem::path& timings,
                       const std::filesystem::path& events, const MetricPositions& positions)
    : metrics_(metrics, length(positions.metrics)),
      timings_(timings, length(positions.timings)),
      events_(events, length(positions.events)) {}

void MetricsLog::write(const std::string& kind, std::int64_t environment_steps, std::span<const Scalar> values,
                       std::span<const Scalar> timings) {
  std::vector<Scalar> tagged;
  const auto append = [&](AppendFile& file, std::span<const Scalar> scalars) {
    nlohmann::ordered_json row = {{"kind", kind}, {"environment_steps", environment_steps}};
    for (const auto& [name, value] : scalars) {
      row[name] = value;
      tagged.emplace_back(kind + "/" + name, value);
    }
    file.append(row.dump() + "\n");
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
