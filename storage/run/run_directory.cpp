#include "storage/run/run_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/machine/processors.h"
#include "base/text/json_text.h"
#include "base/text/words.h"
#include "nn/device/device.h"
#include "storage/build_info.h"
#include "storage/files.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFolders[] = {"weights", "checkpoints"};
constexpr std::string_view kAbout = "about.json";
constexpr std::string_view kConfig = "config.ini";

// Whether nothing is there but what a program leaves that was killed before the folder was a run: a lock, and beside it
// empty folders, the first files and what was half written of them.
bool is_empty_run(const fs::path& path) {
  std::error_code error;
  bool locked = false, begun = false;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const fs::file_type type = entry->symlink_status(error).type();
    if (name == "lock") {
      locked = true;
    } else if (std::ranges::find(kFolders, name) != std::end(kFolders)) {
      if (type != fs::file_type::directory || !fs::is_empty(entry->path(), error)) return false;
    } else if (name.starts_with(kAbout) || (name.starts_with(kConfig) && name != kConfig)) {
      if (type != fs::file_type::regular) return false;
      begun = true;
    } else {
      return false;
    }
  }
  if (error) throw_error("run directory '" + path.string() + "' cannot be read", error.value());
  return locked || !begun;
}

// Creates a folder and those on the way to it; unless kept, removes again those that it created and that are empty.
class NewFolders {
 public:
  explicit NewFolders(const fs::path& path) {
    std::error_code error;
    fs::path on_the_way;
    for (const fs::path& part : path) {
      on_the_way /= part;
      if (!fs::exists(on_the_way, error)) created_.push_back(on_the_way);
      if (fs::create_directory(on_the_way, error); !error) continue;
      remove();
      throw_error("run directory '" + path.string() + "' cannot be created", error.value());
    }
  }
  ~NewFolders() { remove(); }
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

  void keep() { created_.clear(); }

 private:
  void remove() {
    for (; !created_.empty(); created_.pop_back()) ::rmdir(created_.back().c_str());
  }

  std::vector<fs::path> created_;
};

// Those of a comparison and of several seeds: folders with a config.ini, up to runs/TASK/BACKBONE/SEED below `path`, in
// the order of their names. What would take long, such as a whole disk, is not searched to its end.
std::vector<fs::path> runs_within(const fs::path& path) {
  constexpr int kMostLevels = 4;
  constexpr std::size_t kMostFolders = 2000;
  std::vector<fs::path> runs, level = {path};
  std::size_t seen = 0;
  for (int i = 0; i < kMostLevels; ++i) {
    std::vector<fs::path> below;
    for (const fs::path& folder : level) {
      std::error_code error;
      for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        if (entry->symlink_status(error).type() != fs::file_type::directory) continue;
        if (++seen > kMostFolders) break;
        (RunDirectory::is_run(entry->path()) ? runs : below).push_back(entry->path());
      }
    }
    level = std::move(below);
  }
  std::ranges::sort(runs);
  return runs;
}

// Behind a message about a folder that is no run itself; empty where none is within it.
std::string runs_within_text(const fs::path& path) {
  constexpr std::size_t kNamed = 3;
  const std::vector<fs::path> runs = runs_within(path);
  if (runs.empty()) return "";
  std::string text = runs.size() == 1 ? "; a run within it is" : "; runs within it are";
  for (std::size_t i = 0; i < std::min(kNamed, runs.size()); ++i)
    text += (i == 0 ? " '" : ", '") + runs[i].string() + "'";
  return text + (runs.size() > kNamed ? " and " + std::to_string(runs.size() - kNamed) + " more" : "");
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json about(const RunStart& start) {
  const BuildInfo& build = build_info();
  Json parts = Json::array();
  for (const Road& road : start.roads)
    parts.push_back({{"part", road.part}, {"road", road.road}, {"reason", road.reason}});
  Json about = {{"engram", build.version},
                {"commit", build.commit},
                {"build_type", build.build_type},
                {"compiler", build.compiler},
                {"libtorch", build.torch_version},
                {"gpu_support", build.cuda},
                {"device", device_name(start.device)},
                {"cpu_cores", available_processors()},
                {"roads", std::move(parts)},
                {"command_line", start.command_line},
                {"started", utc_now()}};
  if (start.ranks > 1) about["ranks"] = start.ranks;
  for (const RunFact& fact : start.facts) about["drawn_for_the_run"][fact.name] = fact.text;
  return about;
}

}  // namespace

RunDirectory RunDirectory::create(const std::filesystem::path& path, const RunStart& start) {
  const std::string where = "run directory '" + path.string() + "'";
  if (path.empty()) throw UserError(where + " is not a name");
  std::error_code error;
  const bool existed = fs::exists(path, error);
  if (existed && !fs::is_directory(path, error)) throw UserError(where + " is a file");
  const auto refuse_unless_empty = [&] {
    if (is_empty_run(path)) return;
    if (is_run(path))
      throw UserError(where + " holds a run: go on with it (" +
                      shell_command({"engram", "train", "--resume", path.string()}) + "), look at it (" +
                      shell_command({"engram", "evaluate", path.string()}) + "), choose another --run, or remove it");
    throw UserError(where + " exists and is not empty: choose another --run, or remove it");
  };
  const bool had_lock = fs::exists(path / "lock", error);
  if (existed && !RunLock::held(path)) refuse_unless_empty();  // before anything is changed
  NewFolders folders(path);
  RunDirectory run(path);
  run.lock_ = std::make_shared<RunLock>(path);
  std::vector<std::string_view> made;
  if (!had_lock) made = {"lock"};
  try {
    refuse_unless_empty();  // now that no other program can be filling it
    remove_leftovers(path);
    made = {"weights", "checkpoints", kConfig, kAbout, "lock"};
    for (const char* const name : kFolders) {
      fs::create_directory(path / name, error);
      if (error) throw_error(where + " cannot be created", error.value());
    }
    run.write_start(start);
    folders.keep();
    return run;
  } catch (...) {
    for (const std::string_view name : made) std::remove((path / name).c_str());
    throw;
  }
}

RunDirectory RunDirectory::open(const std::filesystem::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) throw UserError("run directory '" + path.string() + "' does not exist");
  RunDirectory run(path);
  if (!fs::is_regular_file(run.config_file(), error))
    throw UserError("'" + path.string() + "' is not a run directory: it has no config.ini" + runs_within_text(path));
  return run;
}

RunDirectory RunDirectory::open_to_write(const std::filesystem::path& path) {
  RunDirectory run = open(path);
  std::error_code error;
  // A run from elsewhere could lead what is written here to other places.
  for (const char* const name : kFolders) {
    const fs::file_type type = fs::symlink_status(path / name, error).type();
    if (type == fs::file_type::not_found) fs::create_directory(path / name, error);
    if (type != fs::file_type::directory && (type != fs::file_type::not_found || error))
      throw UserError("'" + (path / name).string() + "' is not a folder of the run directory");
  }
  run.lock_ = std::make_shared<RunLock>(path);
  remove_leftovers(path);
  for (const char* const name : kFolders) remove_leftovers(path / name);
  return run;
}

bool RunDirectory::is_run(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / kConfig, error);
}

// config.ini last: it makes the folder a run.
void RunDirectory::write_start(const RunStart& start) const {
  replace_file(path_ / kAbout, [&](std::ostream& stream) { stream << json_text(about(start), 2) << "\n"; });
  replace_file(config_file(), [&](std::ostream& stream) { stream << start.config_text; });
}

void RunDirectory::record_resume(const RunStart& start, const fs::path& checkpoint) const {
  Json row = about(start);
  row["checkpoint"] = checkpoint.filename().string();
  const fs::path file = path_ / "resumes.jsonl";
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  AppendFile(file, error ? 0 : size).append(json_text(row) + "\n");
  replace_file(config_file(), [&](std::ostream& stream) { stream << start.config_text; });
}

std::vector<Road> RunDirectory::roads() const {
  std::ifstream stream(path_ / kAbout);
  const Json about = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  std::vector<Road> roads;
  if (!about.is_object() || !about.contains("roads") || !about["roads"].is_array()) return roads;
  for (const Json& entry : about["roads"]) {
    const auto text = [&](const char* name) {
      return entry.is_object() && entry.contains(name) && entry[name].is_string() ? entry[name].get<std::string>() : "";
    };
    roads.push_back({text("part"), text("road"), text("reason")});
  }
  return roads;
}

std::filesystem::path RunDirectory::weights_file(WhichWeights which) const {
  return path_ / "weights" / (which == WhichWeights::kBest ? "best.safetensors" : "last.safetensors");
}

}  // namespace engram
