#include "agents/metrics.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "tests/agents/temporary_folder.h"

using namespace engram;

TEST_CASE("metrics are one JSON object a line, there as soon as they are written") {
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl", folder / "events.out.tfevents.1");
  log.write("train", 10, std::vector<Scalar>{{"return", 0.5}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
  log.write("evaluation", 20, std::vector<Scalar>{{"success", 1}});
  std::istringstream lines(read_text(folder / "metrics.jsonl"));
  std::string line;
  REQUIRE(std::getline(lines, line));
  const auto train = nlohmann::json::parse(line);
  CHECK(train["kind"] == "train");
  CHECK(train["environment_steps"] == 10);
  CHECK(train["return"] == 0.5);
  CHECK(train["loss"].is_null());
  CHECK(train["wall_seconds"] >= 0);
  REQUIRE(std::getline(lines, line));
  CHECK(nlohmann::json::parse(line)["success"] == 1);
  CHECK_FALSE(std::getline(lines, line));
  const std::string events = read_text(folder / "events.out.tfevents.1");
  CHECK(mentions(events, "train/return"));
  CHECK(mentions(events, "evaluation/success"));
}

TEST_CASE("a log that cannot be written is named") {
  const TemporaryFolder folder;
  const auto open = [&] { MetricsLog(folder / "none/metrics.jsonl", folder / "events.out.tfevents.1"); };
  CHECK(mentions(message_of<UserError>(open), "none/metrics.jsonl"));
}
