#include "storage/metrics.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
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
  std::filesystem::resize_file(folder / "timings.jsonl", 3);
  CHECK(mentions(message_of<UserError>([&] { open(folder, positions); }), "timings.jsonl"));
}

TEST_CASE("a log that cannot be written is named") {
  const TemporaryFolder folder;
  const auto open_there = [&] { MetricsLog(folder / "none/metrics.jsonl", folder / "t", folder / "events"); };
  CHECK(mentions(message_of<UserError>(open_there), "none/metrics.jsonl"));
}
