// ScoreTable: one score for each task, method and seed, as far as there is one; what statistics and reports are made
// of. Plain data, and its JSON and CSV.
//
//   JSON  {"metric": "success", "units": "fraction of episodes", "tasks": ["a"], "methods": ["hqlt", "none"],
//          "seeds": [1, 2], "scores": [[[0.5, null], [0.25, 0.75]]]}       scores by task, method, seed
//   CSV   metric,units,task,method,seed,score                              a row a cell, no score: an empty field
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engram {

struct ScoreTable {
  std::string metric;  // such as "success"
  std::string units;   // such as "fraction of episodes"
  std::vector<std::string> tasks;
  std::vector<std::string> methods;  // backbones, controls
  std::vector<std::uint64_t> seeds;
  std::vector<std::optional<double>> scores;  // tasks x methods x seeds, the last runs fastest; finite

  ScoreTable() = default;
  // Without any score. Throws UserError for an empty list, a label or seed given twice, an empty label, or more than
  // kMaxCells cells.
  ScoreTable(std::string metric, std::string units, std::vector<std::string> tasks, std::vector<std::string> methods,
             std::vector<std::uint64_t> seeds);

  static constexpr std::size_t kMaxCells = 1'000'000;

  std::size_t index(std::size_t task, std::size_t method, std::size_t seed) const {
    return (task * methods.size() + method) * seeds.size() + seed;
  }
  std::optional<double>& at(std::size_t task, std::size_t method, std::size_t seed) {
    return scores[index(task, method, seed)];
  }
  const std::optional<double>& at(std::size_t task, std::size_t method, std::size_t seed) const {
    return scores[index(task, method, seed)];
  }

  // Whole files; numbers read back to the same double.
  std::string to_json() const;
  std::string to_csv() const;
  // Throw UserError, `where` and line or key named, for anything that the functions above do not write: another
  // layout, a cell given twice (CSV: or not at all), a number that is not finite.
  static ScoreTable from_json(std::string_view text, const std::string& where);
  static ScoreTable from_csv(std::string_view text, const std::string& where);

  bool operator==(const ScoreTable&) const = default;
};

// Through replace_file() (storage/files.h); the file's ending, .json or .csv, says which. Throw UserError for another
// ending, or a file that cannot be read or written.
void write_score_table(const ScoreTable& table, const std::filesystem::path& file);
ScoreTable read_score_table(const std::filesystem::path& file);

}  // namespace engram
