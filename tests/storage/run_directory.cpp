#include "storage/run/run_directory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "storage/settings.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {
RunDirectory create(const std::filesystem::path& path) {
  return RunDirectory::create(path, {"[run]\nseed = 5\n", torch::kCPU, {"engram", "train", "--run.seed", "5"}});
}
}  // namespace

TEST_CASE("a new run directory holds config and origin") {
  const TemporaryFolder folder;
  const RunDirectory run = create(folder / "deep/run");
  CHECK((read_settings(run.config_file()).settings == Settings{{"run.seed", "5"}}));
  const auto about = nlohmann::json::parse(read_text(folder / "deep/run/about.json"));
  for (const char* key : {"engram", "commit", "build_type", "compiler", "libtorch", "device", "cpu_cores", "started"})
    CHECK(about.contains(key));
  CHECK(about["command_line"][3] == "5");
  CHECK(run.roads().empty());
  CHECK_FALSE(about.contains("drawn_for_the_run"));
  CHECK(run.weights_file(WhichWeights::kBest) == folder / "deep/run/weights/best.safetensors");
  CHECK(mentions(run.events_file().string(), "tfevents"));
  CHECK(RunDirectory::open(folder / "deep/run").path() == run.path());
}

TEST_CASE("a run directory keeps the roads of its agent, and damage to them is no error") {
  const TemporaryFolder folder;
  const RunDirectory run = RunDirectory::create(
      folder / "run", {"[run]\n",
                       torch::kCPU,
                       {},
                       {{"backbone", "LibTorch", "width 1030 is more than 1024"}, {"loss", "one kernel", ""}}});
  const std::vector<Road> roads = run.roads();
  REQUIRE(roads.size() == 2);
  CHECK(roads[0].part == "backbone");
  CHECK(roads[0].road == "LibTorch");
  CHECK(roads[0].reason == "width 1030 is more than 1024");
  CHECK(roads[1].reason.empty());
  for (const char* damaged : {"", "{", "[]", "{\"roads\": 3}", "{\"roads\": [4, {\"part\": []}]}"}) {
    write_text(folder / "run/about.json", damaged);
    for (const Road& road : run.roads()) CHECK(road.part.empty());
  }
}

TEST_CASE("a run directory keeps what the seed drew for the run, at its start and when it goes on") {
  const TemporaryFolder folder;
  const std::vector<RunFact> facts = {{"colours", "blue, red, green"}, {"said \"so\"", "yes"}};
  const RunDirectory run = RunDirectory::create(folder / "run", {"[run]\n", torch::kCPU, {}, {}, facts});
  const auto drawn = [&](const std::string& text) { return nlohmann::json::parse(text)["drawn_for_the_run"]; };
  const nlohmann::json expected = {{"colours", "blue, red, green"}, {"said \"so\"", "yes"}};
  CHECK(drawn(read_text(folder / "run/about.json")) == expected);
  run.start_over({"[run]\n", torch::kCPU, {}});
  CHECK(drawn(read_text(folder / "run/about.json")).is_null());
  run.start_over({"[run]\n", torch::kCPU, {}, {}, facts});
  CHECK(drawn(read_text(folder / "run/about.json")) == expected);
  run.record_resume({"[run]\n", torch::kCPU, {}, {}, facts}, "checkpoints/a");
  CHECK(drawn(read_text(folder / "run/resumes.jsonl")) == expected);
}

TEST_CASE("what is there is never overwritten") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  create(folder / "run");  // an empty folder is fine
  write_text(folder / "run/lock", "12345\n");
  const std::string before = read_text(folder / "run/config.ini");
  const auto message = message_of<UserError>([&] { create(folder / "run"); });
  CHECK(mentions(message, "holds a run: go on with it (engram train --resume " + (folder / "run").string() + ")"));
  CHECK(mentions(message, "choose another --run, or remove it"));
  CHECK(read_text(folder / "run/config.ini") == before);
  CHECK(read_text(folder / "run/lock") == "12345\n");
  write_text(folder / "file", "x");
  CHECK(
      mentions(message_of<UserError>([&] { create(folder.path()); }), "exists and is not empty: choose another --run"));
  CHECK(mentions(message_of<UserError>([&] { create(folder / "file"); }), "is a file"));
  CHECK(mentions(message_of<UserError>([&] { create(folder / "file/run"); }), "file/run"));
}

TEST_CASE("a run that was killed before it was one is begun again") {
  const TemporaryFolder folder;
  for (const char* name : {"weights", "checkpoints"}) std::filesystem::create_directories(folder / "run" / name);
  for (const char* name : {"about.json", "config.ini.partial999999999"}) write_text(folder / "run" / name, "{");
  CHECK(mentions(message_of<UserError>([&] { create(folder / "run"); }), "is not empty"));  // somebody else's
  CHECK_FALSE(std::filesystem::exists(folder / "run/lock"));
  write_text(folder / "run/lock", "999999999\n");
  write_text(folder / "run/weights/mine", "x");
  CHECK(mentions(message_of<UserError>([&] { create(folder / "run"); }), "is not empty"));
  CHECK(read_text(folder / "run/about.json") == "{");
  std::filesystem::remove(folder / "run/weights/mine");
  create(folder / "run");
  CHECK(nlohmann::json::parse(read_text(folder / "run/about.json")).contains("engram"));
  CHECK_FALSE(std::filesystem::exists(folder / "run/config.ini.partial999999999"));
}

TEST_CASE("a folder that is no run directory is refused") {
  const TemporaryFolder folder;
  CHECK(mentions(message_of<UserError>([&] { RunDirectory::open(folder / "none"); }), "none' does not exist"));
  const auto refusal = [&] { return message_of<UserError>([&] { RunDirectory::open(folder.path()); }); };
  CHECK(refusal().ends_with("has no config.ini"));
  // Where runs are within it, they are named.
  const auto add_run = [&](const std::string& name) {
    std::filesystem::create_directories(folder / name);
    write_text(folder / (name + "/config.ini"), "");
  };
  add_run("runs/task/backbone/2");
  add_run("a/b/c/d/too_deep");
  CHECK(refusal().ends_with("has no config.ini; a run within it is '" + (folder / "runs/task/backbone/2").string() +
                            "'"));
  std::filesystem::create_directory_symlink(folder / "runs", folder / "again");
  for (const char* const name : {"runs/task/backbone/1", "1", "1/weights/2", "4"}) add_run(name);
  CHECK(refusal().ends_with("; runs within it are '" + (folder / "1").string() + "', '" + (folder / "4").string() +
                            "', '" + (folder / "runs/task/backbone/1").string() + "' and 1 more"));
}

TEST_CASE("a run goes on without folders that are empty of what it needs, but not through others' ones") {
  const TemporaryFolder folder;
  create(folder / "run");
  for (const char* name : {"weights", "checkpoints"}) {
    std::filesystem::remove(folder / "run" / name);
    RunDirectory::open_to_write(folder / "run");
    CHECK(std::filesystem::is_directory(folder / "run" / name));
    std::filesystem::remove(folder / "run" / name);
    std::filesystem::create_directory_symlink(folder.path(), folder / "run" / name);
    CHECK(mentions(message_of<UserError>([&] { RunDirectory::open_to_write(folder / "run"); }),
                   std::string(name) + "' is not a folder of the run directory"));
    std::filesystem::remove(folder / "run" / name);
  }
}
