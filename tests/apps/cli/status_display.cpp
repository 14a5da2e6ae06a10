#include "apps/cli/status_display.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "agents/run/trained/trained_agent.h"
#include "tests/contains.h"

using namespace engram;
using engram::testing::contains;

namespace {

TrainStatus some_status() {
  TrainStatus status;
  status.steps = 12'300;
  status.total_steps = 24'600;
  status.episodes = 3;
  status.done = 0.5;
  status.steps_per_second = 950;
  status.updates_per_second = 240;
  status.seconds_left = 125;
  status.recent_return = 1.5;
  status.recent_success = 0.75;
  return status;
}

std::ptrdiff_t count(const std::string& text, char character) {
  return std::count(text.begin(), text.end(), character);
}

// What a terminal of so many columns shows of the status.
std::string live_line(const TrainStatus& status, std::size_t columns) {
  std::ostringstream out;
  StatusDisplay display(out, [=] { return columns; });
  display.report(status);
  const std::string text = out.str();
  return text.substr(1, text.find('\033') - 1);
}

}  // namespace

TEST_CASE("counts are short") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(2.25) == "2.2");
  CHECK(count_text(812) == "812");
  CHECK(count_text(12'345) == "12.3k");
  CHECK(count_text(999'990) == "1.00M");
}

TEST_CASE("a wide terminal gets one live line with everything in it") {
  std::ostringstream out;
  StatusDisplay display(out, [] { return 130; });
  display.report(some_status());
  display.report(some_status());
  for (const char* part : {"[##########..........]", " 50%", "12.3k steps", "950 steps/s", "240 updates/s",
                           "2m05s left", "return 1.50", "success 75%"})
    CHECK(contains(out.str(), part));
  CHECK(count(out.str(), '\n') == 0);
  CHECK(count(out.str(), '\033') == 2);  // is erased and written twice
}

TEST_CASE("the live line fits any width, and shows the most important figures first") {
  TrainStatus status = some_status();
  status.last_evaluation = EvaluationSummary{10'000, 2'500, 20, 0.9, 0.85};
  for (const double scale : {1.0, 40.0, 100'000.0}) {
    status.steps = static_cast<std::int64_t>(12'300 * scale);
    status.steps_per_second = 950 * scale;
    status.seconds_left = 125 * scale;
    status.recent_return = -10 * scale;
    for (std::size_t columns = 20; columns <= 200; ++columns) {
      const std::string line = live_line(status, columns);
      CHECK(line.size() < columns);
      CHECK(contains(line, " 50%"));
      CHECK(contains(line, " left"));
    }
    CHECK(contains(live_line(status, 40), "success 75%"));
    for (const char* part : {"success 75%", "evaluated 90%", "steps"}) CHECK(contains(live_line(status, 65), part));
    for (const char* part : {"[#", "success 75%", "evaluated 90%", "steps"})
      CHECK(contains(live_line(status, 80), part));
  }
  status = some_status();
  status.last_evaluation = EvaluationSummary{10'000, 2'500, 20, 0.9, 0.85};
  CHECK(live_line(status, 20) == " 50%  2m05s left");
  CHECK(live_line(status, 40) == " 50%  2m05s left  success 75%");
  CHECK(live_line(status, 60) == " 50%  12.3k steps  2m05s left  success 75%  evaluated 90%");
  CHECK(live_line(status, 80) == "[#########..........]  50%  12.3k steps  2m05s left  success 75%  evaluated 90%");
  CHECK(live_line(status, 120) ==
        "[#########.........]  50%  12.3k steps  950 steps/s  240 updates/s  2m05s left  return 1.50  success 75%  "
        "evaluated 90%");
}

TEST_CASE("the live line follows a terminal that is resized") {
  std::ostringstream out;
  std::size_t columns = 120;
  StatusDisplay display(out, [&] { return columns; });
  display.report(some_status());
  CHECK(contains(out.str(), "950 steps/s"));
  out.str("");
  columns = 40;
  display.report(some_status());
  CHECK(out.str() == "\r 50%  2m05s left  success 75%\033[J\r");
}

TEST_CASE("lines that stay are wrapped to the terminal") {
  const Config config = Config::from_settings({{"task.name", "tmaze"}, {"memory.name", "none"}});
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  TrainStatus status = some_status();
  status.last_evaluation = EvaluationSummary{123'456'789, 2'500, 1'000'000, 1, -123.45};
  status.final_evaluation = FinalEvaluation{*status.last_evaluation, 1000, 930, {0.93, 0.861, 0.971}, 0.93};
  for (std::size_t columns = 20; columns <= 200; ++columns) {
    std::ostringstream out;
    StatusDisplay display(out, [&] { return columns; });
    display.evaluated(status, *network, true);
    display.finished(status, *network);
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) CHECK(line.size() < columns);
  }
  status.last_evaluation = EvaluationSummary{10'000, 2'500, 20, 0.9, 0.85};
  std::ostringstream out;
  StatusDisplay(out, [] { return 80; }).evaluated(status, *network, true);
  CHECK(count(out.str(), '\n') == 1);  // the usual case needs no second line
}

TEST_CASE("before the first update no time left is claimed") {
  std::ostringstream out;
  TrainStatus status = some_status();
  status.seconds_left.reset();
  StatusDisplay(out, [] { return 80; }).report(status);
  CHECK_FALSE(contains(out.str(), "left"));
}

TEST_CASE("a file gets plain lines, not more than one every few seconds") {
  std::ostringstream out;
  StatusDisplay display(out, {});
  display.report(some_status());
  display.report(some_status());
  CHECK(count(out.str(), '\n') == 1);
  CHECK_FALSE(contains(out.str(), "\r"));
  CHECK_FALSE(contains(out.str(), "\033"));
}

TEST_CASE("evaluations and the end are told in lines that stay") {
  std::ostringstream out;
  StatusDisplay display(out, [] { return 100; });
  const Config config = Config::from_settings({{"task.name", "tmaze"}, {"memory.name", "none"}});
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  TrainStatus status = some_status();
  status.last_evaluation = EvaluationSummary{10'000, 2'500, 20, {0.9, 0.85}, PlayedEpisodes{0.65, 0.6}};
  display.evaluated(status, *network, true);
  CHECK(contains(out.str(), "greedy success  90%, sampled  65%, return   0.85 (best)\n"));
  status.stopped = StopReason::kSolved;
  status.final_evaluation = FinalEvaluation{*status.last_evaluation, 200, {190, {0.95, 0.91, 0.97}, 0.9}};
  status.final_evaluation->sampled = FinalEvaluation::Played{132, {0.66, 0.59, 0.72}, 0.55};
  display.finished(status, *network);
  CHECK(contains(out.str(), "evaluation.stop_at_success is reached"));
  CHECK(contains(out.str(), "greedy  success  95.0% (95% interval 91.0 to 97.0), return 0.90\n"));
  CHECK(contains(out.str(), "sampled success  66.0% (95% interval 59.0 to 72.0), return 0.55\n"));
}
