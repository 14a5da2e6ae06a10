// engram inspect: what a run directory or a file of tensors is.
#include "apps/look/inspect.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>

#include "agents/run/config/config_json.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/status_display.h"
#include "apps/cli/terminal.h"
#include "base/error.h"
#include "base/text/json_text.h"
#include "base/text/words.h"
#include "experiments/plan/experiment.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFactNames = 11;  // columns

struct InspectOptions {
  bool json = false;
  std::string html;

  void list_options(OptionList& list) {
    list.add("json", json, "one JSON object instead of text");
    list.add(
        "html", html,
        "page to write, .html, which is replaced: of a run that is finished, with what engram diagnose says of it");
  }
};

const CommandSyntax kInspectSyntax = {.command = "inspect", .positional = {"DIR|FILE"}, .values = {{"html", {"FILE"}}}};

void print_inspect_help(const OptionList& own) {
  std::cout << help_head(
                   {"engram inspect DIR|FILE [--json]", "engram inspect DIR --html FILE.html"},
                   {"Of a run directory DIR: where it stands and how to go on, its progress and evaluations, the "
                    "settings that differ from the defaults of its task, backbone and learner, its weights and "
                    "checkpoints with "
                    "their digests checked. It may be training meanwhile.",
                    "Of the folder of a comparison: what it compares, how many of its runs are finished, and how to go "
                    "on or report.",
                    "Of a safetensors file FILE (weights, a checkpoint, a trace, or one of another program): what it "
                    "is, which version wrote it and when in its run, and its tensors. A damaged one is refused."})
            << "Options\n";
  print_options(std::cout, own);
  std::cout << "\nExamples\n  engram inspect runs/a\n  engram inspect runs/a/weights/best.safetensors --json\n";
}

std::string entry(const SafetensorsSummary& contents, const std::string& key) {
  const auto found = contents.metadata.find(key);
  return found == contents.metadata.end() ? "" : found->second;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::uint64_t elements_of(const SafetensorsSummary::Tensor& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

struct Totals {
  std::uint64_t elements = 0, bytes = 0;
};

Totals totals_of(const SafetensorsSummary& contents) {
  Totals totals;
  for (const SafetensorsSummary::Tensor& tensor : contents.tensors) {
    totals.elements += elements_of(tensor);
    totals.bytes += tensor.bytes;
  }
  return totals;
}

std::string title(const FileFacts& facts) {
  if (!facts.version) return "tensors of another program";
  std::string text = facts.kind == "unknown" ? "tensors" : facts.kind;
  if (facts.kind == "checkpoint") text += " (format " + shortened(entry(facts.contents, "checkpoint_format"), 20) + ")";
  if (facts.config) text += " of " + facts.config->memory.name() + " on " + facts.config->task.name();
  return text;
}

void print_tensors(const SafetensorsSummary& contents) {
  if (contents.tensors.empty()) return;
  ScreenTable table({{"tensor"}, {"dtype"}, {"shape"}, {"bytes", true}});
  for (const SafetensorsSummary::Tensor& tensor : contents.tensors)
    table.add({tensor.name, tensor.dtype, shape_text(tensor.shape), bytes_text(tensor.bytes)});
  std::printf("\n%s", table.text().c_str());
}

// Throws UserError if the file cannot be one of tensors: what stands behind the eight bytes of its header's length is
// no JSON object. One that is damaged behind that is for the reader of the format to refuse.
void refuse_other_file(const std::filesystem::path& file) {
  constexpr std::size_t kLengthBytes = 8;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return;
  std::string begin(kLengthBytes + 1, '\0');
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (stream.gcount() == static_cast<std::streamsize>(begin.size()) && begin.back() == '{') return;
  throw UserError(std::string("'").append(file.string()) +
                  "' is no safetensors file: engram inspect takes a run directory, the folder of a comparison, or a "
                  "file of tensors (weights, a checkpoint, a trace)");
}

}  // namespace

std::string digest_text(const SafetensorsSummary& contents) { return contents.digest_checked ? "checked" : "none"; }

std::string bytes_text(std::uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  return count < 999.995e6 ? count_text(count) + "B" : count_text(count / 1e9) + "GB";
}

void print_fact(const char* name, const std::string& text) {
  constexpr std::size_t kIndent = 2 + kFactNames + 2;
  std::printf("  %-*s  %s\n", kFactNames, name, wrap(one_line(text), kScreenColumns, kIndent, kIndent).c_str());
}

void print_command(const char* name, const std::string& command) {
  std::printf("  %-*s  %s\n", kFactNames, name, command.c_str());
}

void print_settings(const Config& config) {
  const Config defaults = Config::from_settings({{"task.name", config.task.name()},
                                                 {"memory.name", config.memory.name()},
                                                 {"learner.name", config.learner.name()}});
  ScreenTable table({{"setting"}, {"value"}, {"default"}});
  for (const auto& [name, allowed, usual, value] : differences(defaults.values(), config.values()))
    table.add({name, value, usual.empty() ? "none" : usual});
  std::printf("\n%s", table.empty() ? "  every setting has its default\n" : table.text().c_str());
}

FileFacts read_file_facts(const std::filesystem::path& file) {
  refuse_other_file(file);
  FileFacts facts{.file = file,
                  .contents = summarize_safetensors(file),
                  .kind = "unknown",
                  .version = {},
                  .steps = {},
                  .updates = {},
                  .config = {},
                  .config_damage = {}};
  const SafetensorsSummary& contents = facts.contents;
  if (!contents.metadata.contains("engram")) return facts;
  facts.version = entry(contents, "engram");
  for (const char* const kind : {"weights", "checkpoint", "trace"})
    if (entry(contents, "kind") == kind) facts.kind = kind;
  facts.steps = count_entry(contents, "environment_steps");
  facts.updates = count_entry(contents, "updates");
  if (!contents.metadata.contains("config")) return facts;
  try {
    std::istringstream stream(entry(contents, "config"));
    facts.config = Config::from_layers({read_settings(stream, "its config")});
  } catch (const UserError& error) {
    facts.config_damage = error.what();
  }
  return facts;
}

Json file_json(const FileFacts& facts) {
  const SafetensorsSummary& contents = facts.contents;
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
  const Totals totals = totals_of(contents);
  Json json = {
      {"file", facts.file.string()},
      {"kind", facts.version ? facts.kind : "foreign"},
      {"engram", optional(facts.version)},
      {"format", optional(count_entry(contents, "checkpoint_format"))},
      {"environment_steps", optional(facts.steps)},
      {"updates", optional(facts.updates)},
      {"task", facts.config ? Json(facts.config->task.name()) : Json()},
      {"backbone", facts.config ? Json(facts.config->memory.name()) : Json()},
      {"digest", digest_text(contents)},
      {"bytes", contents.bytes},
      {"totals", {{"tensors", contents.tensors.size()}, {"elements", totals.elements}, {"bytes", totals.bytes}}},
      {"config", facts.config ? config_json(*facts.config) : Json()},
      {"config_damage", facts.config_damage.empty() ? Json() : Json(facts.config_damage)},
      {"tensors", Json::array()}};
  for (const SafetensorsSummary::Tensor& tensor : contents.tensors)
    json["tensors"].push_back(
        {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
  return json;
}

void print_file(const FileFacts& facts) {
  const Totals totals = totals_of(facts.contents);
  std::printf("%s\n", one_line(facts.file.string()).c_str());
  print_fact("what", title(facts));
  if (facts.version) print_fact("written by", "engram " + shortened(*facts.version, 40));
  if (facts.steps && facts.updates)
    print_fact("after", counted(*facts.steps, "step") + ", " + counted(*facts.updates, "update"));
  print_fact("digest", digest_text(facts.contents));
  print_fact("size", bytes_text(facts.contents.bytes) + ": " + counted(facts.contents.tensors.size(), "tensor") + ", " +
                         std::to_string(totals.elements) + (facts.kind == "weights" ? " parameters, " : " elements, ") +
                         bytes_text(totals.bytes));
  if (!facts.config_damage.empty()) print_fact("config", facts.config_damage);
  if (facts.config) print_settings(*facts.config);
  print_tensors(facts.contents);
}

void describe_inspect(const CommandVisitor& visit) {
  describe_options<InspectOptions>("inspect", kInspectSyntax, visit);
}

int run_inspect(const std::vector<std::string>& arguments) {
  InspectOptions options;
  const auto line = command_line_of(arguments, options, kInspectSyntax, print_inspect_help);
  if (!line) return 0;
  const std::filesystem::path path = line->positional[0];
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  const bool is_comparison = is_folder && std::filesystem::exists(experiment_file(path), error);
  if (!options.html.empty()) {
    if (options.json) throw UserError("--json and --html are two ways to say the same: give one");
    if (is_comparison)
      throw UserError("--html is of a run, and '" + path.string() + "' is a comparison: its page is made by " +
                      shell_command({"engram", "compare", "report", path.string()}));
    if (!is_folder) throw UserError("--html is of a run, and '" + path.string() + "' is no run directory");
    write_run_page(path, options.html);
    std::cout << "The page is " << options.html << "\n";
    return 0;
  }
  const auto print_json = [](const Json& json) { std::cout << json_text(json, 2) << std::endl; };
  if (is_folder && options.json) {
    print_json(is_comparison ? comparison_json(path) : run_json(path));
  } else if (is_comparison) {
    print_comparison(path);
  } else if (is_folder) {
    print_run(path);
  } else {
    const FileFacts facts = read_file_facts(path);
    if (options.json)
      print_json(file_json(facts));
    else
      print_file(facts);
  }
  return 0;
}

}  // namespace engram
