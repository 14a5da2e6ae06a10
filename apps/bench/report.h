// What all subjects of engram bench print: rows with figures, each a line of a table or of JSON, and at the end beside
// the figures that a file with such lines of JSON has.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"

namespace engram {

using BenchJson = nlohmann::ordered_json;

// How a subject prints; options of every subject.
struct BenchOutput {
  bool json = false;
  std::string against;  // a file; empty: none

  void list_options(OptionList& list);
};

enum class FigureKind { kRate, kTime };  // of a time less is faster; a rate is whatever is not a time

// A field of a subject's rows that is compared.
struct BenchFigure {
  std::string name;
  FigureKind kind;
};

// A row's figures in a file of earlier ones.
struct EarlierRow {
  std::size_t line;
  std::string machine;
  std::map<std::string, double> figures;  // those that are not null
};

// The rows of `subject` in lines that --json printed, by their names. `text` is the file's, `file` its name for
// messages. Throws UserError for what is no such line, a figure that is no number from 0 on, a row that is there twice,
// and where no row is of the subject.
std::map<std::string, EarlierRow> parse_earlier_rows(const std::string& text, const std::string& file,
                                                     const std::string& subject,
                                                     const std::vector<BenchFigure>& figures);

// Speed now over speed then: above 1 is faster. NaN where one of the two is not there.
double speed_ratio(FigureKind kind, double now, double then);

class BenchReport {
 public:
  // Reads output.against. Throws UserError where parse_earlier_rows() does or the file cannot be read.
  BenchReport(std::string subject, const BenchOutput& output, torch::Device device, std::vector<BenchFigure> figures);

  bool json() const { return output_.json; }
  // Prints a row: `name` says which one it is, the same whenever it is measured; `fields` are those of its JSON, among
  // them the figures, where what is not finite is null; `line` is its line of the table, which ends with a line feed.
  void add(const std::string& name, const BenchJson& fields, const std::string& line);
  // After the last row: prints what the rows were compared with. Returns the exit status.
  int finish(bool passed = true) const;

 private:
  struct Compared {
    std::string row, figure;  // no figure: the file lacks the row
    double then, now, ratio;
  };
  BenchJson compare(const std::string& name, const BenchJson& fields);

  std::string subject_;
  BenchOutput output_;
  std::string machine_;
  std::vector<BenchFigure> figures_;
  std::map<std::string, EarlierRow> earlier_;
  std::vector<Compared> compared_;
  std::set<std::string> other_machines_;  // of rows that were compared
};

}  // namespace engram
