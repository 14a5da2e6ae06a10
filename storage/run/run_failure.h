// RunFailure: why a run has failed, as a kind that programs act on and a line for people.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace engram {

enum class FailureKind {
  kUnknown,      // a record of before kinds, or a damaged one, does not say
  kError,        // the program or the machine: an error that is none of the others, a run that leaves no result
  kRefused,      // something of what it was asked for is wrong, or in use
  kDiverged,     // a loss, a gradient or the policy was not finite
  kOutOfMemory,  // the machine or the GPU
  kNoRoom,       // the GPU lets no further program in
  kKilled,       // the program was ended by a signal that it does not take
  kStopped       // by a signal from elsewhere; the run is saved, and can go on
};

// "unknown", "error", "refused", "diverged", "out of memory", "no room", "killed", "stopped".
const char* failure_name(FailureKind kind);
std::optional<FailureKind> failure_kind(std::string_view name);

struct RunFailure {
  FailureKind kind = FailureKind::kError;
  std::string reason;  // one line; empty where nobody has said it

  bool operator==(const RunFailure&) const = default;
};

// "diverged: update 3: the loss is not finite ..."; the reason alone of a kind that says nothing more (unknown, error).
std::string failure_text(const RunFailure& failure);

// A run that has failed, as its command says it; the program leaves with exit_status(kind()).
class RunFailed : public std::runtime_error {
 public:
  explicit RunFailed(const RunFailure& failure) : std::runtime_error(failure.reason), kind_(failure.kind) {}
  FailureKind kind() const { return kind_; }

 private:
  FailureKind kind_;
};

// How a program that trains says it to one that has started it. Of one run by its exit status: 2 where it was refused,
// 3 where it has diverged, 4 where memory ran out, 5 where there was no room, 1 after anything else; kError of any
// other status.
int exit_status(FailureKind kind);
FailureKind kind_of_exit(int status);
// Of one of several runs by a line, "failed (diverged): REASON"; nothing of any other line.
std::string failed_line(const RunFailure& failure);
std::optional<RunFailure> parse_failed_line(std::string_view line);

// The record of a failure: {"kind": "diverged", "reason": "..."}. Creates the folder. Errors are those of
// replace_file().
void write_failure(const std::filesystem::path& file, const RunFailure& failure);
// Trusts nothing. A file that is no such object is the record of an older version: its first line is the reason, and
// the kind unknown.
RunFailure read_failure(const std::filesystem::path& file);
RunFailure parse_failure(const std::string& text);

}  // namespace engram
