#include "agents/run_directory.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "agents/build_info.h"
#include "agents/files.h"
#include "base/error.h"

namespace engram {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string about_text(torch::Device device, const std::vector<std::string>& command_line) {
  const BuildInfo& build = build_info();
  const nlohmann::ordered_json about = {{"engram", build.version},
                                        {"commit", build.commit},
                                        {"build_type", build.build_type},
                                        {"compiler", build.compiler},
                                        {"libtorch", build.torch_version},
                                        {"gpu_support", build.cuda},
                                        {"device", device_text(device)},
                                        {"cpu_cores", std::thread::hardware_concurrency()},
                                        {"command_line", command_line},
                                        {"started", utc_now()}};
  return about.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string device_text(torch::Device device) { return device.str(); }

RunDirectory RunDirectory::create(const std::filesystem::path& path, Config& config, torch::Device device,
                                  const std::vector<std::string>& command_line) {
  namespace fs = std::filesystem;
  const std::string where = "run directory '" + path.string() + "'";
  std::error_code error;
  const bool existed = fs::exists(path, error);
  if (existed && !fs::is_directory(path, error)) throw UserError(where + " is a file");
  if (existed && !fs::is_empty(path, error))
    throw UserError(where + " exists and is not empty: choose another --run, remove it, or look at it with 'engram evaluate " +
                    path.string() + "'");
  fs::create_directories(path / "weights", error);
  if (error) throw UserError(where + " cannot be created: " + error.message());
  try {
    RunDirectory run(path);
    replace_file(run.config_file(), [&](std::ostream& stream) { stream << config.to_ini(); });
    replace_file(path / "about.json", [&](std::ostream& stream) { stream << about_text(device, command_line); });
    return run;
  } catch (...) {
    fs::remove_all(existed ? path / "weights" : path, error);
    throw;
  }
}

RunDirectory RunDirectory::open(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) throw UserError("run directory '" + path.string() + "' does not exist");
  RunDirectory run(path);
  if (!std::filesystem::is_regular_file(run.config_file()))
    throw UserError("'" + path.string() + "' is not a run directory: it has no config.ini");
  return run;
}

std::filesystem::path RunDirectory::new_events_file() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return path_ / ("events.out.tfevents." + std::to_string(seconds) + ".engram");
}

std::filesystem::path RunDirectory::weights_file(WhichWeights which) const {
  return path_ / "weights" / (which == WhichWeights::kBest ? "best.safetensors" : "last.safetensors");
}

}  // namespace engram
