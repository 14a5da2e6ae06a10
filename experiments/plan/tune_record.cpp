#include "experiments/plan/tune_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text/json_text.h"
#include "base/throw_error.h"
#include "experiments/plan/settings_json.h"
#include "experiments/results/csv.h"
#include "storage/files.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

template <class Value>
double mean_of_runs(const TriedSettings& tried, const Value& value) {
  double sum = 0;
  for (const TriedSettings::Run& run : tried.runs) sum += value(run);
  return tried.runs.empty() ? 0 : sum / static_cast<double>(tried.runs.size());
}

Json tried_json(const TriedSettings& tried) {
  Json json = {{"try", tried.number},
               {"settings", settings_json(tried.settings)},
               {"failure", tried.failure},
               {"runs", Json::array()}};
  for (const TriedSettings::Run& run : tried.runs)
    json["runs"].push_back({{"seed", run.seed},
                            {"success", run.success},
                            {"mean_return", run.mean_return ? Json(*run.mean_return) : Json()},
                            {"area", run.area}});
  return json;
}

// Reads what may have been written by a stranger.
class RecordReader {
 public:
  explicit RecordReader(const fs::path& file) : where_("'" + file.string() + "'") {}

  TuneRecord record(const Json& json) const {
    TuneRecord record;
    for (const Json& rung : list(json, "rungs")) record.rungs.push_back(this->rung(rung));
    if (const Json& chosen = entry(json, "chosen"); !chosen.is_null()) record.chosen = settings(chosen);
    return record;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(where_ + " is no record of tuning: " + what);
  }
  const Json& entry(const Json& json, const char* key) const {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || found == json.end()) fail(std::string("it lacks '") + key + "'");
    return *found;
  }
  const Json& list(const Json& json, const char* key) const {
    const Json& value = entry(json, key);
    if (!value.is_array()) fail(std::string("'") + key + "' is no list");
    return value;
  }
  std::int64_t count(const Json& json, const char* key) const {
    const Json& value = entry(json, key);
    if (!value.is_number_integer() || value < 0 ||
        value > std::numeric_limits<std::int32_t>::max() * std::int64_t{1000})
      fail(std::string("'") + key + "' is no count");
    return value.get<std::int64_t>();
  }
  double fraction(const Json& json, const char* key) const {
    const Json& value = entry(json, key);
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= 1))
      fail(std::string("'") + key + "' is no fraction");
    return value.get<double>();
  }
  Settings settings(const Json& json) const {
    if (!json.is_object()) fail("settings are no object");
    Settings settings;
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string()) fail("the setting '" + key + "' is no text");
      settings.emplace_back(one_line(key), one_line(value.get<std::string>()));
    }
    return settings;
  }
  TriedSettings tried(const Json& json) const {
    TriedSettings tried{static_cast<int>(count(json, "try")), settings(entry(json, "settings")), "", {}};
    const Json& failure = entry(json, "failure");
    if (!failure.is_string()) fail("'failure' is no text");
    tried.failure = one_line(failure.get<std::string>());
    for (const Json& run : list(json, "runs")) {
      const Json& seed = entry(run, "seed");
      if (!seed.is_number_unsigned()) fail("'seed' is no number");
      const Json& mean_return = entry(run, "mean_return");
      if (!mean_return.is_null() && !mean_return.is_number()) fail("'mean_return' is no number");
      tried.runs.push_back({seed.get<std::uint64_t>(), fraction(run, "success"),
                            mean_return.is_null() ? std::nullopt : std::optional(mean_return.get<double>()),
                            fraction(run, "area")});
    }
    return tried;
  }
  TuneRung rung(const Json& json) const {
    TuneRung rung{count(json, "steps"), {}, static_cast<std::size_t>(count(json, "kept"))};
    for (const Json& one : list(json, "tries")) rung.tries.push_back(tried(one));
    if (rung.kept < 1 || rung.kept > rung.tries.size()) fail("'kept' is more than there are tries, or none");
    return rung;
  }

  std::string where_;
};

}  // namespace

double mean_success(const TriedSettings& tried) {
  return mean_of_runs(tried, [](const TriedSettings::Run& run) { return run.success; });
}

void sort_tries(std::vector<TriedSettings>& tries) {
  const auto rank = [](const TriedSettings& tried) {
    const double mean_return = mean_of_runs(tried, [](const TriedSettings::Run& run) {
      return run.mean_return.value_or(-std::numeric_limits<double>::infinity());
    });
    return std::tuple(!tried.failure.empty(), -mean_success(tried), -mean_return,
                      -mean_of_runs(tried, [](const TriedSettings::Run& run) { return run.area; }));
  };
  std::stable_sort(tries.begin(), tries.end(),
                   [&](const TriedSettings& a, const TriedSettings& b) { return rank(a) < rank(b); });
}

fs::path tuning_folder(const fs::path& directory) { return directory / "tune"; }

fs::path record_file(const fs::path& tuning, const std::string& place) {
  return tuning / "records" / (place + ".json");
}

TuneRecord read_tune_record(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return {};
  const Json json = Json::parse(read_table_file(file), nullptr, /*allow_exceptions=*/false);
  return RecordReader(file).record(json);
}

void write_tune_record(const fs::path& file, const TuneRecord& record) {
  Json json = {{"rungs", Json::array()}, {"chosen", record.chosen ? settings_json(*record.chosen) : Json()}};
  for (const TuneRung& rung : record.rungs) {
    Json entry = {{"steps", rung.steps}, {"tries", Json::array()}, {"kept", rung.kept}};
    for (const TriedSettings& tried : rung.tries) entry["tries"].push_back(tried_json(tried));
    json["rungs"].push_back(std::move(entry));
  }
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) throw_error("folder '" + file.parent_path().string() + "' cannot be created", error.value());
  replace_file(file, [&](std::ostream& out) { out << json_text(json, 1) << "\n"; });
}

}  // namespace engram
