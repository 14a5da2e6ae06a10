#include "storage/log/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

const std::vector<Scalar> kTimings = {{"wall_seconds", 3}};

MetricsLog open(const TemporaryFolder& folder, const MetricPositions& positions = {}) {
  return {folder / "metrics.jsonl", folder / "timings.jsonl", folder / "events.out.tfevents.engram", positions};
}

}  // namespace

TEST_CASE("metrics are one JSON object a line, there as soon as they are written, and times are kept apart") {
  const TemporaryFolder folder;
  MetricsLog log = open(folder);
  log.write("train", 10, std::vector<Scalar>{{"return", 0.5}, {"loss", std::numeric_limits<double>::quiet_NaN()}},
            kTimings);
  log.write("evaluation", 20, std::vector<Scalar>{{"success", 1}}, kTimings);
  std::istringstream lines(read_text(folder / "metrics.jsonl"));
  std::string line;
  REQUIRE(std::getline(lines, line));
  const auto train = nlohmann::json::parse(line);
  CHECK(train["kind"] == "train");
  CHECK(train["environment_steps"] == 10);
  CHECK(train["return"] == 0.5);
  CHECK(train["loss"].is_null());
  CHECK_FALSE(train.contains("wall_seconds"));
  REQUIRE(std::getline(lines, line));
  CHECK(nlohmann::json::parse(line)["success"] == 1);
  CHECK_FALSE(std::getline(lines, line));
  CHECK(read_text(folder / "timings.jsonl") ==
        "{\"kind\":\"train\",\"environment_steps\":10,\"wall_seconds\":3.0}\n"
        "{\"kind\":\"evaluation\",\"environment_steps\":20,\"wall_seconds\":3.0}\n");
  const std::string events = read_text(folder / "events.out.tfevents.engram");
  CHECK(mentions(events, "train/return"));
  CHECK(mentions(events, "evaluation/success"));
  CHECK(mentions(events, "train/wall_seconds"));
}

TEST_CASE("a log that goes on at a position cuts off what is behind, and refuses files that end before it") {
  const TemporaryFolder folder;
  MetricPositions positions;
  std::string metrics, events;
  {
    MetricsLog log = open(folder);
    log.write("train", 10, std::vector<Scalar>{{"return", 1}}, kTimings);
    positions = log.positions();
    metrics = read_text(folder / "metrics.jsonl"), events = read_text(folder / "events.out.tfevents.engram");
    log.write("train", 20, std::vector<Scalar>{{"return", 2}}, kTimings);
  }
  const std::string both = read_text(folder / "metrics.jsonl");
  {
    MetricsLog log = open(folder, positions);
    CHECK(read_text(folder / "metrics.jsonl") == metrics);
    CHECK(read_text(folder / "events.out.tfevents.engram") == events);
    log.write("train", 20, std::vector<Scalar>{{"return", 2}}, kTimings);
    CHECK(read_text(folder / "metrics.jsonl") == both);
  }
  CHECK(lost_metrics(folder / "metrics.jsonl", positions.metrics).empty());
  std::filesystem::resize_file(folder / "metrics.jsonl", 3);
  const std::string lost = message_of<UserError>([&] { open(folder, positions); });
  CHECK(lost == "'" + (folder / "metrics.jsonl").string() + "' has 3 bytes, but the run had written " +
                    std::to_string(positions.metrics) +
                    ": what it has measured is lost; put the file back, or begin a new run");
  CHECK(lost == lost_metrics(folder / "metrics.jsonl", positions.metrics));
  std::filesystem::remove(folder / "metrics.jsonl");
  CHECK(mentions(message_of<UserError>([&] { open(folder, positions); }), "metrics.jsonl' does not exist, but"));
  CHECK_FALSE(std::filesystem::exists(folder / "metrics.jsonl"));
}

TEST_CASE("a log goes on without the files that it does not need, and makes TensorBoard's curves again") {
  const TemporaryFolder whole;
  MetricPositions positions;
  {
    MetricsLog log = open(whole);
    CHECK(log.began_events());
    log.write("train", 10, std::vector<Scalar>{{"return", 1}, {"loss", NAN}}, kTimings);
    log.write("evaluation", 20, std::vector<Scalar>{{"success", 0.5}}, kTimings);
    positions = log.positions();
  }
  const auto at = [](const TemporaryFolder& folder, const char* name) { return folder / name; };
  const auto copied = [&](const TemporaryFolder& to) {
    for (const char* name : {"metrics.jsonl", "timings.jsonl", "events.out.tfevents.engram"})
      std::filesystem::copy_file(at(whole, name), at(to, name));
  };
  const std::string timings = read_text(whole / "timings.jsonl");
  const std::size_t first_row = timings.find('\n') + 1;
  for (const auto& [left, kept] : {std::pair{std::string(), std::string()},
                                   std::pair{timings.substr(0, first_row + 5), timings.substr(0, first_row)}}) {
    const TemporaryFolder folder;
    copied(folder);
    write_text(folder / "timings.jsonl", left);
    if (left.empty()) std::filesystem::remove(folder / "timings.jsonl");
    MetricsLog log = open(folder, positions);
    REQUIRE(log.repairs().size() == 1);
    CHECK(mentions(log.repairs()[0], "timings.jsonl' had lost rows"));
    CHECK_FALSE(log.began_events());
    log.write("train", 30, std::vector<Scalar>{{"return", 2}}, kTimings);
    CHECK(read_text(folder / "timings.jsonl") ==
          kept + "{\"kind\":\"train\",\"environment_steps\":30,\"wall_seconds\":3.0}\n");
  }
  for (const char* left : {"", "cut"}) {
    const TemporaryFolder folder;
    copied(folder);
    write_text(folder / "events.out.tfevents.engram", left);
    if (*left == '\0') std::filesystem::remove(folder / "events.out.tfevents.engram");
    MetricsLog log = open(folder, positions);
    CHECK(log.began_events());
    REQUIRE(log.repairs().size() == 1);
    CHECK(mentions(log.repairs()[0], "events.out.tfevents.engram' had lost events"));
    const std::string events = read_text(folder / "events.out.tfevents.engram");
    for (const char* tag : {"train/return", "train/loss", "evaluation/success", "train/wall_seconds"})
      CHECK(mentions(events, tag));
    CHECK(read_text(folder / "metrics.jsonl") == read_text(whole / "metrics.jsonl"));
    MetricsLog again = open(folder, log.positions());
    CHECK(again.repairs().empty());
  }
}

TEST_CASE("a log that cannot be written is named") {
  const TemporaryFolder folder;
  const auto open_there = [&] { MetricsLog(folder / "none/metrics.jsonl", folder / "t", folder / "events"); };
  CHECK(mentions(message_of<UserError>(open_there), "none/metrics.jsonl"));
}
