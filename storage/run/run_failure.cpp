#include "storage/run/run_failure.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <ios>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>

#include "base/error.h"
#include "base/text/json_text.h"
#include "base/throw_error.h"
#include "storage/files.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A reason is at most kMaxErrorBytes long, a byte of it at most six in JSON.
constexpr std::size_t kMostRecordBytes = 8 * kMaxErrorBytes;

constexpr std::string_view kFailed = "failed (", kColon = "): ";

struct KindWords {
  FailureKind kind;
  const char* name;
  int exit_status;
};

constexpr KindWords kKinds[] = {{FailureKind::kUnknown, "unknown", 1},
                                {FailureKind::kError, "error", 1},
                                {FailureKind::kRefused, "refused", 2},
                                {FailureKind::kDiverged, "diverged", 3},
                                {FailureKind::kOutOfMemory, "out of memory", 4},
                                {FailureKind::kNoRoom, "no room", 5},
                                {FailureKind::kKilled, "killed", 1},
                                {FailureKind::kStopped, "stopped", 1}};

const KindWords& words_of(FailureKind kind) { return *std::ranges::find(kKinds, kind, &KindWords::kind); }

}  // namespace

const char* failure_name(FailureKind kind) { return words_of(kind).name; }

std::optional<FailureKind> failure_kind(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &KindWords::name);
  return found == std::end(kKinds) ? std::nullopt : std::optional(found->kind);
}

std::string failure_text(const RunFailure& failure) {
  const bool says = failure.kind != FailureKind::kUnknown && failure.kind != FailureKind::kError;
  return (says ? std::string(failure_name(failure.kind)) + ": " : "") + failure.reason;
}

int exit_status(FailureKind kind) { return words_of(kind).exit_status; }

FailureKind kind_of_exit(int status) {
  const auto* const found = std::ranges::find(kKinds, status, &KindWords::exit_status);
  return status == 1 || found == std::end(kKinds) ? FailureKind::kError : found->kind;
}

std::string failed_line(const RunFailure& failure) {
  return std::string(kFailed) + failure_name(failure.kind) + std::string(kColon) + failure.reason;
}

std::optional<RunFailure> parse_failed_line(std::string_view line) {
  const std::size_t end = line.find(kColon);
  if (!line.starts_with(kFailed) || end == std::string_view::npos) return {};
  const auto kind = failure_kind(line.substr(kFailed.size(), end - kFailed.size()));
  if (!kind) return {};
  return RunFailure{*kind, one_line(std::string(line.substr(end + kColon.size())))};
}

void write_failure(const fs::path& file, const RunFailure& failure) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) throw_error("folder '" + file.parent_path().string() + "' cannot be created", error.value());
  const Json json = {{"kind", failure_name(failure.kind)}, {"reason", failure.reason}};
  replace_file(file, [&](std::ostream& stream) { stream << json_text(json) << "\n"; });
}

RunFailure read_failure(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostRecordBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return parse_failure(text);
}

RunFailure parse_failure(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto words = [&](const char* key) -> const std::string* {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return json.is_object() && found != json.end() ? found->get_ptr<const std::string*>() : nullptr;
  };
  const std::string *const kind = words("kind"), *const reason = words("reason");
  if (kind == nullptr || reason == nullptr) return {FailureKind::kUnknown, one_line(text.substr(0, text.find('\n')))};
  return {failure_kind(*kind).value_or(FailureKind::kUnknown), one_line(*reason)};
}

}  // namespace engram
