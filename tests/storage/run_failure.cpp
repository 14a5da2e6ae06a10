#include "storage/run/run_failure.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

constexpr FailureKind kKinds[] = {FailureKind::kUnknown,     FailureKind::kError,  FailureKind::kRefused,
                                  FailureKind::kDiverged,    FailureKind::kKilled, FailureKind::kStopped,
                                  FailureKind::kOutOfMemory, FailureKind::kNoRoom};

}  // namespace

TEST_CASE("a failure of every kind comes back from its record, from its line and, of five kinds, from the status") {
  const TemporaryFolder folder;
  for (const FailureKind kind : kKinds) {
    const RunFailure failure{kind, "update 3: \"the loss\" is gone): \xc3\xa9"};
    write_failure(folder / "a/b/1.txt", failure);
    CHECK(read_failure(folder / "a/b/1.txt") == failure);
    CHECK(parse_failed_line(failed_line(failure)) == failure);
    CHECK(failure_kind(failure_name(kind)) == kind);
  }
  CHECK(failed_line({FailureKind::kOutOfMemory, "x"}) == "failed (out of memory): x");
  for (const char* line : {"", "failed: x", "failed (diverged) x", "failed (tired): x", "a failed (diverged): x"})
    CHECK_FALSE(parse_failed_line(line));
  CHECK(exit_status(FailureKind::kRefused) == 2);
  CHECK(exit_status(FailureKind::kDiverged) == 3);
  CHECK(exit_status(FailureKind::kOutOfMemory) == 4);
  CHECK(exit_status(FailureKind::kNoRoom) == 5);
  for (const FailureKind kind : kKinds) CHECK((exit_status(kind) == 1 || kind_of_exit(exit_status(kind)) == kind));
  for (const int status : {1, 6, 127, 255}) CHECK(kind_of_exit(status) == FailureKind::kError);
}

TEST_CASE("the record of an older version is a line, whose kind is unknown whatever it says") {
  const TemporaryFolder folder;
  std::ofstream(folder / "old.txt") << "the loss is not finite\nand more\n";
  CHECK(read_failure(folder / "old.txt") == RunFailure{FailureKind::kUnknown, "the loss is not finite"});
  CHECK(failure_text(read_failure(folder / "old.txt")) == "the loss is not finite");
  CHECK(read_failure(folder / "none.txt") == RunFailure{FailureKind::kUnknown, ""});
  for (const char* text : {"{\"kind\": \"diverged\"}", "{\"kind\": 3, \"reason\": \"x\"}", "[1]", "{\"kind\": \"di"})
    CHECK(parse_failure(text) == RunFailure{FailureKind::kUnknown, text});
  CHECK(parse_failure("{\"kind\": \"tired\", \"reason\": \"x\\u001b\"}") ==
        RunFailure{FailureKind::kUnknown, "x\\x1b"});
  CHECK(failure_text({FailureKind::kDiverged, "x"}) == "diverged: x");
}
