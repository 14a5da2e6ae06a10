// What is promised about files while the machine fails: every call of every operation is made to fail once.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <ios>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include "storage/files.h"
#include "storage/run/run_directory.h"
#include "storage/tensors/safetensors.h"
#include "tests/faulty_io/faulty_io.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

struct Fault {
  long nth;
  int error;
  bool stays;
};

// Runs `action` once for every call that it makes in the folder, that call failing with each of the errors, for the
// moment or from then on; `check` gets the message of what was thrown, or "". Returns the number of calls.
long for_every_fault(const TemporaryFolder& folder, const std::vector<int>& errors, const std::function<void()>& before,
                     const std::function<void()>& action,
                     const std::function<void(const Fault&, const std::string& message)>& check) {
  const std::string prefix = folder.path().string();
  before();
  faulty_io_arm(prefix.c_str(), 0, 0, false);
  action();
  const long calls = faulty_io_calls();
  faulty_io_disarm();
  for (const int error : errors)
    for (const bool stays : {false, true})
      for (long nth = 1; nth <= calls; ++nth) {
        if (stays && (error == EINTR || error == 0)) continue;  // not failures: they would go on for ever
        before();
        faulty_io_arm(prefix.c_str(), nth, error, stays);
        std::string message;
        try {
          action();
        } catch (const std::exception& thrown) {
          message = thrown.what();
        }
        faulty_io_disarm();
        CAPTURE(nth);
        CAPTURE(error);
        CAPTURE(stays);
        CAPTURE(message);
        CAPTURE(std::string(faulty_io_failed()));
        check({nth, error, stays}, message);
      }
  return calls;
}

const std::vector<int> kErrors = {ENOSPC, EIO, EDQUOT};

std::string reason(int error) { return std::generic_category().message(error); }

std::size_t entries(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

// Small and large pieces, and a place that is written last.
void write_pieces(std::ostream& stream) {
  stream << "........" << 12 << 'x';
  const std::string large(200'000, 'l');
  stream.write(large.data(), static_cast<std::streamsize>(large.size()));
  for (int i = 0; i < 20'000; ++i) stream << i << ' ';
  stream.seekp(0);
  stream << "first!!!";
}

std::string written_pieces() {
  std::string text = "first!!!12x" + std::string(200'000, 'l');
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i) + " ";
  return text;
}

}  // namespace

TEST_CASE("whatever call of replace_file fails, the old file is there or the new one") {
  const TemporaryFolder folder;
  const std::string whole = written_pieces();
  const auto before = [&] { write_text(folder / "a", "old"); };
  const auto action = [&] { replace_file(folder / "a", write_pieces); };
  int kept = 0, replaced = 0;
  const long calls =
      for_every_fault(folder, kErrors, before, action, [&](const Fault& fault, const std::string& message) {
        REQUIRE(message == "'" + (folder / "a").string() + "' cannot be written: " + reason(fault.error));
        const std::string text = read_text(folder / "a");
        (text == "old" ? kept : replaced) += 1;
        if (text != "old") REQUIRE(text == whole);
        REQUIRE(entries(folder.path()) == 1);
      });
  CHECK(calls >= 8);
  CHECK(replaced ==
        2 * 2 * static_cast<int>(kErrors.size()));  // the folder's opening and its sync come after the rename
  CHECK(kept > 4 * replaced / 2);

  // Interrupted and short calls are gone on with.
  for_every_fault(folder, {EINTR, 0}, before, action, [&](const Fault&, const std::string& message) {
    REQUIRE(message.empty());
    REQUIRE(read_text(folder / "a") == whole);
  });
}

TEST_CASE("the machine's failures are told from bad paths") {
  const TemporaryFolder folder;
  const auto open_fails = [&](int error) {
    faulty_io_arm(folder.path().c_str(), 1, error, false);
    std::string kind;
    try {
      replace_file(folder / "a", write_pieces);
    } catch (const FileError&) {
      kind = "machine";
    } catch (const UserError&) {
      kind = "user";
    }
    faulty_io_disarm();
    return kind;
  };
  for (const int error : {ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM}) CHECK(open_fails(error) == "machine");
  for (const int error : {EACCES, EROFS, ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP}) CHECK(open_fails(error) == "user");
}

TEST_CASE("whatever call of a save fails, a whole file of tensors is there") {
  const TemporaryFolder folder;
  const auto save = [&](float value) {
    save_safetensors(folder / "w", {{"x", torch::full({300'000}, value)}, {"y", torch::full({3}, value)}}, {});
  };
  for_every_fault(
      folder, kErrors, [&] { save(1); }, [&] { save(2); },
      [&](const Fault& fault, const std::string& message) {
        REQUIRE(mentions(message, (folder / "w").string()));
        REQUIRE(mentions(message, reason(fault.error)));
        const SafetensorsFile file = load_safetensors(folder / "w");
        const float value = file.tensors.at("y")[0].item<float>();
        REQUIRE(torch::equal(file.tensors.at("x"), torch::full({300'000}, value)));
        REQUIRE(entries(folder.path()) == 1);
      });
}

TEST_CASE("a log is whole rows whatever fails, and goes on once the machine is well again") {
  const TemporaryFolder folder;
  const std::string row = "{\"a\":1}\n";
  std::optional<AppendFile> log;
  for_every_fault(
      folder, kErrors,
      [&] {
        log.emplace(folder / "log");
        log->append(row);
      },
      [&] {
        log->append(row + row);
        log->sync();
        log->append(row);
      },
      [&](const Fault& fault, const std::string& message) {
        REQUIRE(message == "'" + (folder / "log").string() + "' cannot be written: " + reason(fault.error));
        const bool cut_failed = fault.stays;
        if (!cut_failed) REQUIRE(read_text(folder / "log").size() == log->position());
        REQUIRE(log->position() % row.size() == 0);
        const std::size_t rows = log->position() / row.size();
        log->append("{}\n");  // shorter than what a failed write may have left
        std::string expected;
        for (std::size_t i = 0; i < rows; ++i) expected += row;
        REQUIRE(read_text(folder / "log") == expected + "{}\n");
      });
  // Opening, at the start and at a position.
  for (const std::uint64_t position : {std::uint64_t{0}, std::uint64_t{8}})
    for_every_fault(
        folder, kErrors, [&] { write_text(folder / "log", row + "half a r"); },
        [&] { AppendFile(folder / "log", position); },
        [&](const Fault&, const std::string& message) {
          REQUIRE(mentions(message, "cannot be written"));
          REQUIRE(read_text(folder / "log").starts_with(row));
        });
}

TEST_CASE("a run directory is created whole or not at all") {
  const TemporaryFolder folder;
  for_every_fault(
      folder, {ENOSPC}, [&] { std::filesystem::remove_all(folder / "new"); },
      [&] {
        RunDirectory::create(folder / "new/run", {"[run]\n", torch::kCPU, {}});
      },
      [&](const Fault& fault, const std::string& message) {
        REQUIRE(mentions(message, reason(fault.error)));
        REQUIRE_FALSE(std::filesystem::exists(folder / "new"));
      });
}
