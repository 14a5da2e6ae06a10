#include "storage/files.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <ostream>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

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

TEST_CASE("a log goes on where it was, without what stands behind") {
  const TemporaryFolder folder;
  {
    AppendFile log(folder / "log");
    log.append("one\n");
    log.append("two\n");
    log.sync();
    CHECK(log.position() == 8);
  }
  write_text(folder / "log", "one\ntwo\nthr");
  {
    AppendFile log(folder / "log", 4);
    CHECK(read_text(folder / "log") == "one\n");
    log.append("2\n");
  }
  CHECK(read_text(folder / "log") == "one\n2\n");
  const auto message = message_of<UserError>([&] { AppendFile(folder / "log", 7); });
  CHECK(mentions(message, "log' has 6 bytes, but the run that it belongs to had written 7"));
  CHECK(read_text(folder / "log") == "one\n2\n");
  CHECK(mentions(message_of<UserError>([&] { AppendFile(folder / "none", 7); }), "none' cannot be written: No such"));
  AppendFile(folder / "log");
  CHECK(read_text(folder / "log").empty());
}

TEST_CASE("what killed processes left goes, what living ones write and what only looks like it stays") {
  const TemporaryFolder folder;
  const std::string mine = "x.partial" + std::to_string(getpid());
  for (const std::string& name :
       {std::string("x.partial999999999"), mine, std::string("x.partial"), std::string("x.partial12y"),
        std::string("x.partial-1"), std::string("xpartial9999999"), std::string("x.partial99999999999999999999"),
        std::string("x")})
    write_text(folder / name, "");
  std::filesystem::create_directory(folder / "folder.partial999999998");
  std::filesystem::create_symlink("x", folder / "link.partial999999998");
  // A process that has ended, of which nobody has asked how.
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  siginfo_t how{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(ended), &how, WEXITED | WNOWAIT) == 0);
  write_text(folder / ("x.partial" + std::to_string(ended)), "");
  remove_leftovers(folder.path());
  CHECK_FALSE(std::filesystem::exists(folder / ("x.partial" + std::to_string(ended))));
  waitpid(ended, nullptr, 0);
  CHECK_FALSE(std::filesystem::exists(folder / "x.partial999999999"));
  CHECK(entries(folder.path()) == 9);
  CHECK_THROWS_AS(remove_leftovers(folder / "none"), UserError);
}

TEST_CASE("what a killed process of the same number left is no obstacle") {
  const TemporaryFolder folder;
  write_text(folder / ("a.partial" + std::to_string(getpid())), "half");
  replace_file(folder / "a", [](std::ostream& out) { out << "whole"; });
  CHECK(read_text(folder / "a") == "whole");
  CHECK(entries(folder.path()) == 1);
}
