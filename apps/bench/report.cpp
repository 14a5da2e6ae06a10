#include "apps/bench/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "apps/bench/bench.h"
#include "base/error.h"
#include "base/machine/processors.h"
#include "base/text/formatted.h"
#include "base/text/json_text.h"
#include "base/text/words.h"
#include "nn/device/device.h"
#include "storage/build_info.h"

namespace engram {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 26;
constexpr const char* kWhatIsTaken = "--against takes the lines that engram bench SUBJECT --json prints";

std::string machine_text(torch::Device device) {
  const std::string own = processor_name() + ", " + counted(available_processors(), "processor");
  return device.is_cpu() ? own : device_name(device) + "; " + own;
}

std::string read_text(const std::string& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) throw UserError("--against '" + file + "': there is no such file");
  if (!std::filesystem::is_regular_file(status)) throw UserError("--against '" + file + "' is not a regular file");
  if (std::filesystem::file_size(file, error) > kMaxFileBytes)
    throw UserError("--against '" + file + "' is too large; " + kWhatIsTaken);
  std::ifstream stream(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream.good() && !stream.eof()) throw UserError("--against '" + file + "' cannot be read");
  return text;
}

std::string text_field(const BenchJson& line, const char* name, const std::string& where) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_string() || found->get<std::string>().empty())
    throw UserError(where + " has no \"" + name + "\"; " + kWhatIsTaken);
  return found->get<std::string>();
}

EarlierRow parse_row(const BenchJson& line, std::size_t number, const std::string& where,
                     const std::vector<BenchFigure>& figures) {
  EarlierRow row{number, text_field(line, "machine", where), {}};
  for (const BenchFigure& figure : figures) {
    const auto found = line.find(figure.name);
    if (found == line.end() || found->is_null()) continue;
    if (!found->is_number() || !(found->get<double>() >= 0) || std::isinf(found->get<double>()))
      throw UserError(where + ": \"" + figure.name + "\" is " + found->dump().substr(0, 40) +
                      ", not a number from 0 on");
    row.figures[figure.name] = found->get<double>();
  }
  return row;
}

std::string figure_text(double value) { return std::isnan(value) ? "-" : formatted("%.5g", value); }

double value_of(const BenchJson& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found != fields.end() && found->is_number() ? found->get<double>() : NAN;
}

}  // namespace

void BenchOutput::list_options(OptionList& list) {
  list.add("json", json, "one JSON object a line instead of the table");
  list.add("against", against,
           "a file with lines that --json printed: at the end, the speed of each row over its speed there");
}

std::map<std::string, EarlierRow> parse_earlier_rows(const std::string& text, const std::string& file,
                                                     const std::string& subject,
                                                     const std::vector<BenchFigure>& figures) {
  std::map<std::string, EarlierRow> rows;
  std::string others;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = "--against '" + file + "', line " + std::to_string(++number);
    const BenchJson parsed = BenchJson::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object()) throw UserError(where + " is not a JSON object; " + kWhatIsTaken);
    const std::string of = text_field(parsed, "subject", where), name = text_field(parsed, "row", where);
    if (of != subject) {
      if (others.empty()) others = "; line " + std::to_string(number) + " is of bench " + of.substr(0, 40);
      continue;
    }
    const auto [at, is_new] = rows.try_emplace(name, parse_row(parsed, number, where, figures));
    if (!is_new)
      throw UserError(where + " has the row '" + name + "', as line " + std::to_string(at->second.line) + " has");
  }
  if (rows.empty()) throw UserError("--against '" + file + "' has no row of bench " + subject + others);
  return rows;
}

double speed_ratio(FigureKind kind, double now, double then) {
  const double ratio = kind == FigureKind::kTime ? then / now : now / then;
  return std::isfinite(ratio) ? ratio : NAN;
}

BenchReport::BenchReport(std::string subject, const BenchOutput& output, torch::Device device,
                         std::vector<BenchFigure> figures)
    : subject_(std::move(subject)), output_(output), machine_(machine_text(device)), figures_(std::move(figures)) {
  if (!output_.against.empty())
    earlier_ = parse_earlier_rows(read_text(output_.against), output_.against, subject_, figures_);
}

BenchJson BenchReport::compare(const std::string& name, const BenchJson& fields) {
  const auto found = earlier_.find(name);
  if (found == earlier_.end()) {
    compared_.push_back({name, "", NAN, NAN, NAN});
    return nullptr;
  }
  const EarlierRow& then = found->second;
  if (then.machine != machine_) other_machines_.insert(then.machine);
  BenchJson ratios = BenchJson::object();
  for (const BenchFigure& figure : figures_) {
    if (!fields.contains(figure.name)) continue;
    const auto earlier = then.figures.find(figure.name);
    const double before = earlier == then.figures.end() ? NAN : earlier->second;
    const double now = value_of(fields, figure.name), ratio = speed_ratio(figure.kind, now, before);
    compared_.push_back({name, figure.name, before, now, ratio});
    ratios[figure.name] = ratio;
  }
  return {{"machine", then.machine}, {"ratios", ratios}};
}

void BenchReport::add(const std::string& name, const BenchJson& fields, const std::string& line) {
  BenchJson against;
  if (!output_.against.empty()) against = compare(name, fields);
  if (json()) {
    BenchJson object = {{"subject", subject_}, {"row", name}};
    object.update(fields);
    object["machine"] = machine_;
    object["commit"] = build_info().commit;
    if (!output_.against.empty()) object["against"] = against;
    std::printf("%s\n", json_text(object).c_str());
  } else {
    std::fputs(line.c_str(), stdout);
  }
  std::fflush(stdout);
}

int BenchReport::finish(bool passed) const {
  const int status = passed ? 0 : 1;
  if (output_.against.empty() || json()) return status;
  std::printf("\nagainst %s: speed now over speed then, above 1 is faster\n", output_.against.c_str());
  for (const std::string& machine : other_machines_)
    std::printf("  not the same machine: then on %s\n                        now on %s\n", machine.c_str(),
                machine_.c_str());
  std::size_t rows = 3, figures = 6;
  for (const Compared& one : compared_) {
    rows = std::max(rows, one.row.size());
    figures = std::max(figures, one.figure.size());
  }
  const int row_column = static_cast<int>(rows), figure_column = static_cast<int>(figures);
  std::printf("%-*s %-*s %12s %12s %9s\n", row_column, "row", figure_column, "figure", "then", "now", "ratio");
  for (const Compared& one : compared_) {
    if (one.figure.empty())
      std::printf("%-*s not in %s\n", row_column, one.row.c_str(), output_.against.c_str());
    else
      std::printf("%-*s %-*s %12s %12s %9s\n", row_column, one.row.c_str(), figure_column, one.figure.c_str(),
                  figure_text(one.then).c_str(), figure_text(one.now).c_str(), fixed(one.ratio, 2, " x").c_str());
  }
  return status;
}

}  // namespace engram
