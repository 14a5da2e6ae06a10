#include "experiments/statistics/score_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text/json_text.h"
#include "experiments/results/csv.h"
#include "storage/files.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHeader = "metric,units,task,method,seed,score";

// The first value that is there before; end() if all differ.
template <class T>
typename std::vector<T>::const_iterator repeated(const std::vector<T>& values) {
  std::set<T> seen;
  return std::find_if(values.begin(), values.end(), [&](const T& value) { return !seen.insert(value).second; });
}

void check_labels(const std::vector<std::string>& labels, const std::string& what) {
  if (labels.empty()) throw UserError("a table of scores needs at least one " + what);
  if (std::find(labels.begin(), labels.end(), "") != labels.end())
    throw UserError("the label of a " + what + " is empty");
  if (const auto twice = repeated(labels); twice != labels.end())
    throw UserError("the " + what + " '" + *twice + "' is there twice");
}

// The place of `label` in `labels`, where it is put if it is new.
template <class T>
std::size_t place_of(std::vector<T>& labels, std::map<T, std::size_t>& places, const T& label) {
  const auto [entry, is_new] = places.emplace(label, labels.size());
  if (is_new) labels.push_back(label);
  return entry->second;
}

std::string text_of(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) throw UserError(where + ": '" + key + "' is not a text");
  return found->get<std::string>();
}

const Json& list_of(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) throw UserError(where + ": '" + key + "' is not a list");
  return *found;
}

std::vector<std::string> labels_of(const Json& json, const char* key, const std::string& where) {
  std::vector<std::string> labels;
  for (const Json& label : list_of(json, key, where)) {
    if (!label.is_string()) throw UserError(where + ": '" + key + "' holds what is not a text");
    labels.push_back(label.get<std::string>());
  }
  return labels;
}

const Json& part_of(const Json& list, std::size_t index, std::size_t size, const std::string& where) {
  if (!list.is_array() || list.size() != size)
    throw UserError(where + ": 'scores' is not one number for each task, method and seed");
  return list[index];
}

ScoreTable table_of(std::string metric, std::string units, std::vector<std::string> tasks,
                    std::vector<std::string> methods, std::vector<std::uint64_t> seeds, const std::string& where) {
  try {
    return {std::move(metric), std::move(units), std::move(tasks), std::move(methods), std::move(seeds)};
  } catch (const UserError& error) {
    throw UserError(where + ": " + error.what());
  }
}

bool is_json(const std::filesystem::path& file) {
  if (file.extension() != ".json" && file.extension() != ".csv")
    throw UserError("a table of scores is a .json or a .csv file, not '" + file.string() + "'");
  return file.extension() == ".json";
}

}  // namespace

ScoreTable::ScoreTable(std::string metric, std::string units, std::vector<std::string> tasks,
                       std::vector<std::string> methods, std::vector<std::uint64_t> seeds)
    : metric(std::move(metric)),
      units(std::move(units)),
      tasks(std::move(tasks)),
      methods(std::move(methods)),
      seeds(std::move(seeds)) {
  check_labels(this->tasks, "task");
  check_labels(this->methods, "method");
  if (this->seeds.empty()) throw UserError("a table of scores needs at least one seed");
  if (const auto twice = repeated(this->seeds); twice != this->seeds.end())
    throw UserError("the seed " + std::to_string(*twice) + " is there twice");
  // Each factor is bounded first, so that the product cannot overflow.
  if (this->tasks.size() > kMaxCells || this->methods.size() > kMaxCells / this->tasks.size() ||
      this->seeds.size() > kMaxCells / (this->tasks.size() * this->methods.size()))
    throw UserError("a table of scores has at most " + std::to_string(kMaxCells) + " cells");
  scores.resize(this->tasks.size() * this->methods.size() * this->seeds.size());
}

std::string ScoreTable::to_json() const {
  Json json = {{"metric", metric}, {"units", units}, {"tasks", tasks}, {"methods", methods}, {"seeds", seeds}};
  Json& by_task = json["scores"] = Json::array();
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    Json& by_method = by_task.emplace_back(Json::array());
    for (std::size_t method = 0; method < methods.size(); ++method) {
      Json& by_seed = by_method.emplace_back(Json::array());
      for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
        const std::optional<double>& score = at(task, method, seed);
        by_seed.push_back(score ? Json(*score) : Json());
      }
    }
  }
  return json_text(json, 1) + "\n";
}

std::string ScoreTable::to_csv() const {
  std::string text = std::string(kHeader) + "\n";
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    for (std::size_t method = 0; method < methods.size(); ++method) {
      for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
        const std::optional<double>& score = at(task, method, seed);
        for (const std::string& field : {metric, units, tasks[task], methods[method]}) text += csv_field(field) + ",";
        text += std::to_string(seeds[seed]) + "," + (score ? number_text(*score) : "") + "\n";
      }
    }
  }
  return text;
}

ScoreTable ScoreTable::from_json(std::string_view text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw UserError(where + " is not a JSON object");
  std::vector<std::uint64_t> seeds;
  for (const Json& seed : list_of(json, "seeds", where)) {
    if (!seed.is_number_unsigned()) throw UserError(where + ": 'seeds' holds what is not a whole number");
    seeds.push_back(seed.get<std::uint64_t>());
  }
  ScoreTable table =
      table_of(text_of(json, "metric", where), text_of(json, "units", where), labels_of(json, "tasks", where),
               labels_of(json, "methods", where), std::move(seeds), where);
  const Json& scores = list_of(json, "scores", where);
  for (std::size_t task = 0; task < table.tasks.size(); ++task) {
    for (std::size_t method = 0; method < table.methods.size(); ++method) {
      for (std::size_t seed = 0; seed < table.seeds.size(); ++seed) {
        const Json& by_method = part_of(scores, task, table.tasks.size(), where);
        const Json& by_seed = part_of(by_method, method, table.methods.size(), where);
        const Json& score = part_of(by_seed, seed, table.seeds.size(), where);
        if (score.is_null()) continue;
        if (!score.is_number() || !std::isfinite(score.get<double>()))
          throw UserError(where + ": 'scores' holds what is neither a number nor null");
        table.at(task, method, seed) = score.get<double>();
      }
    }
  }
  return table;
}

ScoreTable ScoreTable::from_csv(std::string_view text, const std::string& where) {
  struct Cell {
    std::size_t task, method, seed;
    std::optional<double> score;
  };
  std::string metric, units;
  std::vector<std::string> tasks, methods;
  std::vector<std::uint64_t> seeds;
  std::map<std::string, std::size_t> task_places, method_places;
  std::map<std::uint64_t, std::size_t> seed_places;
  std::vector<Cell> cells;
  std::size_t position = 0;
  for (std::size_t number = 1; position < text.size(); ++number) {
    const std::string record = where + ", record " + std::to_string(number);
    const std::vector<std::string> fields = read_csv_record(text, position, record);
    if (number == 1) {
      std::string header;
      for (const std::string& field : fields) header += (header.empty() ? "" : ",") + field;
      if (header != kHeader) throw UserError(where + " does not begin with '" + std::string(kHeader) + "'");
      continue;
    }
    if (fields.size() != 6) throw UserError(record + " has " + std::to_string(fields.size()) + " fields instead of 6");
    if (number == 2) {
      metric = fields[0];
      units = fields[1];
    } else if (fields[0] != metric || fields[1] != units) {
      throw UserError(record + " is of another metric or other units");
    }
    std::uint64_t seed = 0;
    if (!parse_whole(fields[4], seed)) throw UserError(record + " has the seed '" + fields[4] + "'");
    std::optional<double> score;
    if (!fields[5].empty()) {
      double value = 0;
      if (!parse_whole(fields[5], value) || !std::isfinite(value))
        throw UserError(record + " has the score '" + fields[5] + "'");
      score = value;
    }
    if (cells.size() == kMaxCells) throw UserError(where + " has more than " + std::to_string(kMaxCells) + " cells");
    cells.push_back({place_of(tasks, task_places, fields[2]), place_of(methods, method_places, fields[3]),
                     place_of(seeds, seed_places, seed), score});
  }
  ScoreTable table = table_of(metric, units, tasks, methods, seeds, where);
  std::vector<bool> given(table.scores.size());
  for (const Cell& cell : cells) {
    const std::size_t place = table.index(cell.task, cell.method, cell.seed);
    if (given[place]) {
      throw UserError(where + " gives task '" + tasks[cell.task] + "', method '" + methods[cell.method] + "', seed " +
                      std::to_string(seeds[cell.seed]) + " twice");
    }
    given[place] = true;
    table.scores[place] = cell.score;
  }
  if (cells.size() != table.scores.size()) {
    throw UserError(where + " has " + std::to_string(cells.size()) + " of the " + std::to_string(table.scores.size()) +
                    " cells of its tasks, methods and seeds");
  }
  return table;
}

void write_score_table(const ScoreTable& table, const std::filesystem::path& file) {
  const std::string text = is_json(file) ? table.to_json() : table.to_csv();
  replace_file(file, [&](std::ostream& out) { out << text; });
}

ScoreTable read_score_table(const std::filesystem::path& file) {
  const bool json = is_json(file);
  const std::string where = std::string("'").append(file.string()).append("'");
  const std::string text = read_table_file(file);
  return json ? ScoreTable::from_json(text, where) : ScoreTable::from_csv(text, where);
}

}  // namespace engram
