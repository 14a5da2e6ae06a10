#include "agents/files.h"

#include <doctest/doctest.h>

#include <iterator>
#include <stdexcept>

#include "base/error.h"
#include "tests/agents/temporary_folder.h"

using namespace engram;

namespace {
auto entries(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}
}  // namespace

TEST_CASE("replace_file writes whole files and nothing else") {
  const TemporaryFolder folder;
  replace_file(folder / "a", [](std::ostream& out) { out << "first"; });
  replace_file(folder / "a", [](std::ostream& out) { out << "second"; });
  CHECK(read_text(folder / "a") == "second");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a write that fails leaves the old file and no trace") {
  const TemporaryFolder folder;
  write_text(folder / "a", "old");
  const auto fail = [](std::ostream& out) {
    out << "half";
    throw std::runtime_error("cut short");
  };
  CHECK_THROWS_AS(replace_file(folder / "a", fail), std::runtime_error);
  CHECK(read_text(folder / "a") == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a path that cannot be written is named") {
  const TemporaryFolder folder;
  const auto message = message_of<UserError>([&] { check_writable(folder / "no/such/folder"); });
  CHECK(mentions(message, (folder / "no/such/folder").string()));
  CHECK(mentions(message_of<UserError>([&] { check_writable(folder.path()); }), "it is a folder"));
  check_writable(folder / "a");
  CHECK(entries(folder.path()) == 0);
}
