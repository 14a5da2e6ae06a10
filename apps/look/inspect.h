// What `engram inspect` finds out about files of tensors and run directories, and how it says it. Nothing here trusts
// what it reads, and text from a file comes out as one line without control characters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agents/run/config/config.h"
#include "storage/run/run_directory.h"
#include "storage/tensors/safetensors_summary.h"

namespace engram {

// A file of tensors: weights, checkpoint or trace of this program, or another program's.
struct FileFacts {
  std::filesystem::path file;
  SafetensorsSummary contents;
  std::string kind;                            // "weights", "checkpoint", "trace"; else "unknown"
  std::optional<std::string> version;          // of the engram that wrote it; none: another program
  std::optional<std::int64_t> steps, updates;  // none where it has none that are numbers
  std::optional<Config> config;                // none where it has none, or config_damage says what is wrong with it
  std::string config_damage;
};

// Throws UserError for a missing or damaged file, and for one that is no file of tensors at all.
FileFacts read_file_facts(const std::filesystem::path& file);
nlohmann::ordered_json file_json(const FileFacts& facts);
void print_file(const FileFacts& facts);

// Throw UserError for a folder that is no run directory, or one whose config cannot be read. Files in it that are
// damaged are part of what is told.
nlohmann::ordered_json run_json(const std::filesystem::path& folder);
void print_run(const std::filesystem::path& folder);

// The page of a finished run, with its diagnosis in words; replaces what is there. Throws UserError for a file that is
// no .html, a run that is not finished or has no best weights, and as they do that read it.
void write_run_page(const std::filesystem::path& folder, const std::filesystem::path& html);

// The same of the folder of a comparison (experiments/plan/experiment.h): what it compares and how far its runs are.
// Throw UserError if its experiment cannot be read.
nlohmann::ordered_json comparison_json(const std::filesystem::path& folder);
void print_comparison(const std::filesystem::path& folder);

// "checked" or "none".
std::string digest_text(const SafetensorsSummary& contents);
// "812B", "12.3kB", "1.46GB"
std::string bytes_text(std::uint64_t bytes);
// A line of what is told, or several of at most kScreenColumns; a command is never broken.
void print_fact(const char* name, const std::string& text);
void print_command(const char* name, const std::string& command);

// The values that differ from the defaults of the config's task, backbone and learner, with those; long ones shortened.
void print_settings(const Config& config);

}  // namespace engram
