// A path that the user gives is meant as given: "../x", "/x", "-rf" or a name with a line break in it is a place like
// any other, and links to folders on the way are followed. The rule that is held here for 1,000 of them:
//   - a run directory writes its own few files, of fixed names, under the folder given, and creates no other folders
//     than those on the way to it; an output file is that one file;
//   - whatever a link at the file's own place leads to is untouched, as are devices, pipes and folders;
//   - what is refused gets a one-line UserError and leaves everything as it was.
// No text inside a config, a weights file or an episode becomes part of a path.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "storage/files.h"
#include "storage/run/run_directory.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

namespace fs = std::filesystem;

// Every path under the folder, links not followed, with what is there: the text of a file, the target of a link.
std::map<fs::path, std::string> snapshot(const fs::path& folder) {
  std::map<fs::path, std::string> entries;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::file_status status = entry.symlink_status();
    entries[entry.path()] = fs::is_symlink(status)        ? "link to " + fs::read_symlink(entry.path()).string()
                            : fs::is_regular_file(status) ? read_text(entry.path())
                            : fs::is_directory(status)    ? "folder"
                                                          : "other";
  }
  return entries;
}

std::vector<std::string> hostile_names(const fs::path& sandbox, int count) {
  std::vector<std::string> parts = {"x",         "..",
                                    ".",         "",
                                    "-rf",       "--run",
                                    " ",         "a ",
                                    " b",        "a\nb",
                                    "\x1b[31m",  "\x7f",
                                    "\x01",      "~",
                                    "$(touch)",  "`id`",
                                    ";",         "*",
                                    "?",         "%s%n",
                                    "a\\b",      "C:",
                                    "con",       "nul",
                                    "\xc3\xa4",  "\xe2\x80\xae",
                                    "\xff",      "...",
                                    "lock",      "config.ini",
                                    "weights",   "x.partial1",
                                    "to_folder", "to_file",
                                    "dangling",  "loop",
                                    "pipe",      "file",
                                    "folder",    "'\""};
  parts.push_back(std::string(255, 'l'));
  parts.push_back(std::string(256, 'l'));
  parts.push_back(std::string(5000, 'l'));
  std::vector<std::string> names = parts;
  names.push_back("../../precious/new");
  names.push_back("a/../../b");
  names.push_back((sandbox / "absolute").string());
  std::mt19937 random(1);
  // At most two ".." keep every name inside the sandbox, which has three levels; no absolute names but into it.
  while (static_cast<int>(names.size()) < count) {
    std::string name = random() % 8 == 0 ? (sandbox / "one/two/here").string() + "/" : "";
    int up = 0;
    for (int depth = 1 + static_cast<int>(random() % 4), i = 0; i < depth; ++i) {
      const std::string& part = parts[random() % parts.size()];
      if (part == ".." && ++up > 2) continue;
      name += (i == 0 ? "" : "/") + part;
    }
    if (name.starts_with('/') && !name.starts_with(sandbox.string())) name = "." + name;
    names.push_back(name);
  }
  return names;
}

// Makes the sandbox anew: files that must not change, links to them, and the folder from which relative names start.
class Sandbox {
 public:
  Sandbox() : start_(fs::current_path()) { renew(); }
  ~Sandbox() { fs::current_path(start_); }

  const fs::path& path() const { return folder_.path(); }

  void renew() {
    fs::current_path(start_);
    for (const auto& entry : fs::directory_iterator(path())) fs::remove_all(entry.path());
    const fs::path here = path() / "one/two/here";
    fs::create_directories(here / "folder");
    fs::create_directories(path() / "one/precious");
    write_text(path() / "one/precious/file", "precious");
    write_text(here / "file", "old");
    fs::create_symlink(path() / "one/precious", here / "to_folder");
    fs::create_symlink(path() / "one/precious/file", here / "to_file");
    fs::create_symlink(path() / "one/precious/nothing", here / "dangling");
    fs::create_symlink("loop", here / "loop");
    REQUIRE(mkfifo((here / "pipe").c_str(), 0666) == 0);
    fs::current_path(here);
  }

 private:
  TemporaryFolder folder_;
  fs::path start_;
};

// Where the system finds the name, its last part not followed; empty where its folder does not exist.
fs::path place_of(const fs::path& name) {
  std::error_code error;
  const fs::path folder = fs::canonical(name.has_parent_path() ? name.parent_path() : ".", error);
  return error ? fs::path() : (folder / name.filename()).lexically_normal();
}

// The folders that the name leads through.
std::set<fs::path> folders_of(const fs::path& name) {
  std::set<fs::path> folders;
  fs::path on_the_way;
  std::error_code error;
  for (const fs::path& part : name) {
    on_the_way /= part;
    if (const fs::path folder = fs::canonical(on_the_way, error); !error) folders.insert(folder);
  }
  return folders;
}

bool is_one_line(const std::string& message) {
  for (const char byte : message)
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) return false;
  return !message.empty() && message.size() <= kMaxErrorBytes;
}

const std::set<std::string> kRunFiles = {"config.ini", "about.json", "lock", "weights", "checkpoints"};

}  // namespace

TEST_CASE("1,000 hostile output names write the file named or nothing") {
  Sandbox sandbox;
  int written = 0, refused = 0;
  for (const std::string& name : hostile_names(sandbox.path(), 1000)) {
    CAPTURE(name);
    sandbox.renew();
    auto expected = snapshot(sandbox.path());
    const fs::path place = place_of(name);
    std::string message;
    try {
      replace_file(name, [](std::ostream& stream) { stream << "new"; });
      ++written;
      REQUIRE_FALSE(place.empty());
      expected[place] = "new";
    } catch (const UserError& error) {
      ++refused;
      REQUIRE(is_one_line(error.what()));
    }
    REQUIRE(snapshot(sandbox.path()) == expected);
  }
  MESSAGE("written: ", written, ", refused: ", refused);
  CHECK(written > 100);
  CHECK(refused > 100);
}

TEST_CASE("devices are refused") {
  for (const char* name : {"/dev/null", "/dev/full", "/dev/zero", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/2"}) {
    CAPTURE(name);
    if (fs::is_regular_file(name)) continue;  // standard output into a file
    CHECK_THROWS_AS(replace_file(name, [](std::ostream& stream) { stream << "new"; }), UserError);
    CHECK_THROWS_AS(check_writable(name), UserError);
    CHECK_THROWS_AS(AppendFile{name}, UserError);
  }
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a log is not written through a link, nor into a pipe") {
  Sandbox sandbox;
  const auto before = snapshot(sandbox.path());
  for (const char* name : {"to_file", "dangling", "loop", "pipe", "folder", "to_folder"})
    CHECK_THROWS_AS(AppendFile{name}, UserError);
  CHECK(snapshot(sandbox.path()) == before);
  CHECK(mentions(message_of<UserError>([] { AppendFile("file", 4); }), "'file' has 3 bytes"));
}

TEST_CASE("1,000 hostile run names write under the folder named or nothing") {
  Sandbox sandbox;
  int created = 0, refused = 0;
  for (const std::string& name : hostile_names(sandbox.path(), 1000)) {
    CAPTURE(name);
    sandbox.renew();
    const auto before = snapshot(sandbox.path());
    bool done = true;
    try {
      RunDirectory::create(name, {"[run]\n", torch::kCPU, {"engram", "train", "--run", name}});
    } catch (const UserError& error) {
      done = false;
      REQUIRE(is_one_line(error.what()));
    }
    (done ? created : refused) += 1;
    const auto after = snapshot(sandbox.path());
    if (!done) {
      REQUIRE(after == before);
      continue;
    }
    const fs::path run = fs::canonical(name);
    const std::set<fs::path> on_the_way = folders_of(name);
    for (const auto& [path, content] : before) REQUIRE(after.at(path) == content);
    for (const auto& [path, content] : after) {
      if (before.contains(path)) continue;
      CAPTURE(path.string());
      if (on_the_way.contains(path))
        REQUIRE(content == "folder");
      else
        REQUIRE((path.parent_path() == run && kRunFiles.contains(path.filename().string())));
    }
    REQUIRE(RunDirectory::open(name).path() == fs::path(name));
  }
  MESSAGE("created: ", created, ", refused: ", refused);
  CHECK(created > 100);
  CHECK(refused > 100);
}

TEST_CASE("a run from elsewhere does not lead writes to other places") {
  Sandbox sandbox;
  RunDirectory::create("run", {"[run]\n", torch::kCPU, {}});
  fs::remove("run/weights");
  fs::create_symlink(sandbox.path() / "one/precious", "run/weights");
  CHECK(mentions(message_of<UserError>([] { RunDirectory::open_to_write("run"); }), "'run/weights' is not a folder"));
  fs::remove("run/weights");
  fs::create_directory("run/weights");
  fs::create_symlink(sandbox.path() / "one/precious/file", "run/weights/last.safetensors");
  fs::remove("run/lock");
  fs::create_symlink(sandbox.path() / "one/precious/file", "run/lock");
  CHECK_THROWS_AS(RunDirectory::open_to_write("run"), UserError);
  fs::remove("run/lock");
  const RunDirectory run = RunDirectory::open_to_write("run");
  replace_file(run.weights_file(WhichWeights::kLast), [](std::ostream& stream) { stream << "new"; });
  CHECK(read_text(sandbox.path() / "one/precious/file") == "precious");
  CHECK(read_text("run/weights/last.safetensors") == "new");
}
