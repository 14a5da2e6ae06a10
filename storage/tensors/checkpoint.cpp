#include "storage/tensors/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/text/formatted.h"
#include "storage/files.h"
#include "storage/tensors/safetensors.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "checkpoint_";
constexpr const char* kSuffix = ".safetensors";

fs::path file_of(const fs::path& folder, std::int64_t number) {
  return folder / (kPrefix + formatted("%06lld", static_cast<long long>(number)) + kSuffix);
}

const std::string& entry(const std::map<std::string, std::string>& metadata, const std::string& key,
                         const std::string& where) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) throw UserError(where + " is not a checkpoint: it has no '" + key + "'");
  return found->second;
}

}  // namespace

std::int64_t checkpoint_number(const fs::path& file) {
  std::string name = file.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return 0;
  name =
      name.substr(std::string(kPrefix).size(), name.size() - std::string(kPrefix).size() - std::string(kSuffix).size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size() && number > 0 ? number : 0;
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error))
    if (checkpoint_number(item->path()) > 0) files.push_back(item->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw_error("'" + folder.string() + "' cannot be read", error.value());
  std::ranges::sort(files, {}, checkpoint_number);
  return files;
}

fs::path write_checkpoint(const fs::path& folder, const StateArchive& state, const std::string& config_text,
                          std::int64_t steps, std::int64_t updates, int keep) {
  std::map<std::string, std::string> metadata = state.saved_metadata();
  metadata.insert({{"kind", "checkpoint"},
                   {"checkpoint_format", std::to_string(Checkpoint::kFormat)},
                   {"config", config_text},
                   {"environment_steps", std::to_string(steps)},
                   {"updates", std::to_string(updates)}});
  std::vector<fs::path> files = list_checkpoints(folder);
  const fs::path file = file_of(folder, files.empty() ? 1 : checkpoint_number(files.back()) + 1);
  save_safetensors(file, state.saved_tensors(), metadata);

  files.push_back(file);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < files.size(); ++i) {
    std::error_code error;
    if (!fs::remove(files[i], error) && error)
      throw FileError("'" + files[i].string() + "' cannot be removed: " + error.message());
  }
  return file;
}

CheckpointHeader read_checkpoint_header(const std::map<std::string, std::string>& metadata, bool digest_checked,
                                        const std::string& where) {
  if (entry(metadata, "kind", where) != "checkpoint") throw UserError(where + " is not a checkpoint");
  if (const std::string& format = entry(metadata, "checkpoint_format", where);
      format != std::to_string(Checkpoint::kFormat))
    throw UserError(where + " is of another version: format '" + format + "', this program reads format " +
                    std::to_string(Checkpoint::kFormat));
  if (!digest_checked) throw UserError(where + " has no digest");
  CheckpointHeader header;
  std::istringstream config(entry(metadata, "config", where));
  header.config = read_settings(config, "the config in " + where).settings;
  const auto count = [&](const char* key) {
    const std::string& text = entry(metadata, key, where);
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < 0)
      throw UserError(where + ": '" + text + "' is not a number of " + key);
    return number;
  };
  header.steps = count("environment_steps");
  header.updates = count("updates");
  return header;
}

Checkpoint load_checkpoint(const fs::path& file) {
  const std::string where = "checkpoint '" + file.string() + "'";
  SafetensorsFile contents = load_safetensors(file, "checkpoint");
  Checkpoint checkpoint{read_checkpoint_header(contents.metadata, contents.digest_checked, where), file, {}};
  checkpoint.state = StateArchive(std::move(contents), where);
  return checkpoint;
}

std::optional<Checkpoint> load_newest_checkpoint(const fs::path& folder,
                                                 const std::function<void(const std::string&)>& warn) {
  const std::vector<fs::path> files = list_checkpoints(folder);
  std::vector<std::string> damages;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    try {
      Checkpoint checkpoint = load_checkpoint(*file);
      for (const std::string& damage : damages) warn(damage);
      return checkpoint;
    } catch (const UserError& error) {
      damages.emplace_back(error.what());
    }
  }
  if (!damages.empty())
    throw UserError("no checkpoint in '" + folder.string() + "' can be read; the newest: " + damages.front());
  return std::nullopt;
}

}  // namespace engram
