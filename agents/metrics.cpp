#include "agents/metrics.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"

namespace engram {

MetricsLog::MetricsLog(const std::filesystem::path& json_lines, const std::filesystem::path& events)
    : json_file_(json_lines),
      json_lines_(json_lines, std::ios::trunc),
      events_(events),
      start_(std::chrono::steady_clock::now()) {
  if (!json_lines_) throw UserError("'" + json_file_.string() + "' cannot be written");
}

void MetricsLog::write(const std::string& kind, std::int64_t environment_steps, std::span<const Scalar> values) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json row = {
      {"kind", kind}, {"environment_steps", environment_steps}, {"wall_seconds", elapsed.count()}};
  std::vector<Scalar> tagged;
  for (const auto& [name, value] : values) {
    row[name] = value;
    tagged.emplace_back(kind + "/" + name, value);
  }
  json_lines_ << row.dump() << std::endl;
  if (!json_lines_) throw UserError("'" + json_file_.string() + "' cannot be written");
  events_.write(environment_steps, now.count(), tagged);
}

}  // namespace engram
