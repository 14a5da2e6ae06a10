#include "agents/study/evaluation_range.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <limits>
#include <ostream>
#include <system_error>
#include <utility>

#include "agents/run/trained/task_change.h"
#include "agents/study/measured_json.h"
#include "base/error.h"
#include "base/text/json_text.h"
#include "storage/files.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxValues = 100;
constexpr std::size_t kMaxFileBytes = 1 << 24;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

Json interval_json(const Interval& interval) { return {interval.low, interval.high}; }

// Reading, where `where` names the file and nothing is trusted.

const Json& entry(const Json& json, const char* key, const std::string& where) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end()) throw UserError(where + " has no '" + key + "'");
  return *found;
}

double number(const Json& json, const std::string& what, const std::string& where) {
  if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();  // was not finite
  if (!json.is_number()) throw UserError(where + ": " + what + " is no number");
  return json.get<double>();
}

std::int64_t count(const Json& json, const char* key, std::int64_t most, const std::string& where) {
  const Json& found = entry(json, key, where);
  if (!found.is_number_integer() || found.get<double>() < 0 || found.get<double>() > static_cast<double>(most))
    throw UserError(where + ": '" + key + "' is no count");
  return found.get<std::int64_t>();
}

std::pair<double, double> ends(const Json& json, const char* key, const std::string& where) {
  const Json& found = entry(json, key, where);
  if (!found.is_array() || found.size() != 2) throw UserError(where + ": '" + key + "' is no interval");
  return {number(found[0], key, where), number(found[1], key, where)};
}

MeasuredEpisodes measured_from(const Json& json, const std::string& where) {
  const auto success = ends(json, "success_interval", where), total = ends(json, "return_interval", where);
  MeasuredEpisodes measured{{number(entry(json, "success", where), "'success'", where), success.first, success.second},
                            {number(entry(json, "return", where), "'return'", where), total.first, total.second}};
  for (const double rate : {measured.success.estimate, measured.success.low, measured.success.high})
    if (!(rate >= 0 && rate <= 1)) throw UserError(where + ": 'success' is no rate");
  return measured;
}

}  // namespace

Json measured_json(const MeasuredEpisodes& measured) {
  return {{"success", measured.success.estimate},
          {"success_interval", interval_json(measured.success)},
          {"return", measured.total_return.estimate},
          {"return_interval", interval_json(measured.total_return)}};
}

Json point_json(const RangePoint& point) {
  return {{"key", point.key},
          {"value", point.value},
          {"greedy", measured_json(point.greedy)},
          {"sampled", measured_json(point.sampled)}};
}

EvaluationRange parse_range(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    throw UserError("range '" + text + "' is not allowed" + why + "; as in task.corridor_length: 10,20,50");
  };
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) refuse("");
  EvaluationRange range{trimmed(text.substr(0, colon)), {}};
  if (!range.key.starts_with(std::string(kTaskSection) + ".")) refuse(": '" + range.key + "' is no option of a task");
  for (std::size_t begin = colon + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string value = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    double number = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || rest != value.data() + value.size() || !std::isfinite(number))
      refuse(": '" + value + "' is no number");
    if (std::ranges::find(range.values, number, &EvaluationRange::Value::number) != range.values.end())
      refuse(": " + value + " is there twice");
    if (range.values.size() == kMaxValues) refuse(", there may be " + std::to_string(kMaxValues) + " values at most");
    range.values.push_back({value, number});
  }
  return range;
}

std::string EvaluationRange::text() const {
  std::string list;
  for (const Value& value : values) list += (list.empty() ? "" : ",") + value.text;
  return key + ": " + list;
}

Config config_at(const EvaluationRange& range, const EvaluationRange::Value& value, const Config& trained) {
  return with_task_settings(trained, {{range.key, value.text}});
}

void check_range(const EvaluationRange& range, const Config& trained) {
  for (const EvaluationRange::Value& value : range.values) config_at(range, value, trained);
}

const RangePoint* RangeEvaluations::find(const std::string& key, double value) const {
  const auto found =
      std::ranges::find_if(points, [&](const RangePoint& point) { return point.key == key && point.value == value; });
  return found == points.end() ? nullptr : &*found;
}

std::string RangeEvaluations::to_json() const {
  Json json = {{"format", kFormat},
               {"weights", {{"environment_steps", environment_steps}, {"updates", updates}}},
               {"episodes", episodes},
               {"evaluations", Json::array()}};
  for (const RangePoint& point : points) json["evaluations"].push_back(point_json(point));
  return json_text(json, 2) + "\n";
}

RangeEvaluations RangeEvaluations::from_json(std::string_view text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  constexpr std::int64_t kMostSteps = 1'000'000'000'000'000, kMostEpisodes = 1'000'000'000;
  if (count(json, "format", kMostEpisodes, where) != kFormat)
    throw UserError(where + " is of another version: this program reads format " + std::to_string(kFormat));
  RangeEvaluations evaluations;
  const Json& weights = entry(json, "weights", where);
  evaluations.environment_steps = count(weights, "environment_steps", kMostSteps, where);
  evaluations.updates = count(weights, "updates", kMostSteps, where);
  evaluations.episodes = static_cast<int>(count(json, "episodes", kMostEpisodes, where));
  const Json& list = entry(json, "evaluations", where);
  if (!list.is_array()) throw UserError(where + ": 'evaluations' is no list");
  for (const Json& item : list) {
    const Json& key = entry(item, "key", where);
    if (!key.is_string()) throw UserError(where + ": 'key' is no text");
    RangePoint point{key.get<std::string>(), number(entry(item, "value", where), "'value'", where),
                     measured_from(entry(item, "greedy", where), where),
                     measured_from(entry(item, "sampled", where), where)};
    if (!std::isfinite(point.value)) throw UserError(where + ": 'value' is no number");
    if (evaluations.find(point.key, point.value) != nullptr) throw UserError(where + " has a value twice");
    evaluations.points.push_back(std::move(point));
  }
  return evaluations;
}

fs::path range_file(const fs::path& run_directory) { return run_directory / "evaluations.json"; }

std::optional<RangeEvaluations> read_range_evaluations(const fs::path& run_directory) {
  const fs::path file = range_file(run_directory);
  const std::string where = std::string("'").append(file.string()).append("'");
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return std::nullopt;
  if (!fs::is_regular_file(file, error)) throw UserError(where + " is not a file");
  if (fs::file_size(file, error) > kMaxFileBytes || error) throw UserError(where + " is too large");
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw UserError(where + " cannot be read");
  return RangeEvaluations::from_json(text, where);
}

void write_range_evaluations(const fs::path& run_directory, const RangeEvaluations& evaluations) {
  replace_file(range_file(run_directory), [&](std::ostream& stream) { stream << evaluations.to_json(); });
}

std::vector<std::optional<RangePoint>> points_of_run(const fs::path& run_directory, const EvaluationRange& range,
                                                     const FinalEvaluation& last) {
  std::vector<std::optional<RangePoint>> points(range.values.size());
  const auto evaluations = read_range_evaluations(run_directory);
  if (!evaluations || !evaluations->are_of(last.weights.environment_steps, last.weights.updates, last.episodes))
    return points;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (const RangePoint* const point = evaluations->find(range.key, range.values[i].number)) points[i] = *point;
  return points;
}

}  // namespace engram
