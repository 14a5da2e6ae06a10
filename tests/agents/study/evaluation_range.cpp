#include "agents/study/evaluation_range.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "agents/play/evaluator.h"
#include "agents/study/evaluation.h"
#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

Config maze_of_ten() { return Config::from_settings({{"task.name", "tmaze"}, {"task.corridor_length", "10"}}); }

RangePoint point_at(double value, double success) {
  return {"task.corridor_length",
          value,
          {{success, success / 2, 1}, {1.5, 1, 2}},
          {{0.25, 0, 0.5}, {-1, -INFINITY, INFINITY}}};
}

RangeEvaluations some_points() { return {300, 75, 20, {point_at(10, 0.75), point_at(0.5, 0.5)}}; }

FinalEvaluation last_of(std::int64_t steps, std::int64_t updates, int episodes) {
  FinalEvaluation last;
  last.weights.environment_steps = steps;
  last.weights.updates = updates;
  last.episodes = episodes;
  return last;
}

std::string range_refusal(const std::string& text) {
  return message_of<UserError>([&] { RangeEvaluations::from_json(text, "it"); });
}

std::string replaced(std::string text, const std::string& part, const std::string& with) {
  const std::size_t place = text.find(part);
  REQUIRE(place != std::string::npos);
  return text.replace(place, part.size(), with);
}

}  // namespace

TEST_CASE("a range is a key and numbers, each once") {
  const EvaluationRange range = parse_range(" task.corridor_length:10, 2e1 ,50");
  CHECK(range.key == "task.corridor_length");
  REQUIRE(range.values.size() == 3);
  CHECK(range.values[1].text == "2e1");
  CHECK(range.values[1].number == 20);
  CHECK(range.text() == "task.corridor_length: 10,2e1,50");
  CHECK(parse_range(range.text()).text() == range.text());
  for (const char* text : {"", "10,20", "task.corridor_length", "task.corridor_length:", "task.corridor_length: ,",
                           "task.corridor_length: 1,", "run.steps: 1", "corridor_length: 1", ": 1",
                           "task.corridor_length: 1,x", "task.corridor_length: 1, 1.0", "task.corridor_length: nan",
                           "task.corridor_length: 1 2", "task.corridor_length: inf"}) {
    CAPTURE(text);
    CHECK(message_of<UserError>([&] { parse_range(text); }).starts_with(std::string("range '") + text + "'"));
  }
  std::string many = "task.corridor_length: 0";
  for (int i = 1; i <= 100; ++i) many += "," + std::to_string(i);
  CHECK(mentions(message_of<UserError>([&] { parse_range(many); }), "100 values at most"));
}

TEST_CASE("a range is checked against what the agents play") {
  const auto refused = [](const std::string& text) {
    return message_of<UserError>([&] { check_range(parse_range(text), maze_of_ten()); });
  };
  CHECK(refused("task.corridor_length: 1,1000") == "nothing was thrown");
  CHECK(mentions(refused("task.corridor_length: 10,0"), "task.corridor_length = '0' is not allowed"));
  CHECK(mentions(refused("task.corridor_length: 10.5"), "'10.5' is not allowed"));
  CHECK(mentions(refused("task.corridor_lenght: 10"), "did you mean 'task.corridor_length'"));
  CHECK(mentions(refused("task.distractor_steps: 10"), "unknown key 'task.distractor_steps' for task tmaze"));
  CHECK(mentions(refused("task.full_state: 1"), "false | true"));
  CHECK(config_at(parse_range("task.corridor_length: 30"), {"30", 30}, maze_of_ten()).task.info().max_episode_steps ==
        31);
}

TEST_CASE("episodes are measured with intervals") {
  const MeasuredEpisodes measured = measure({{1.5, true, 3}, {1.5, true, 3}, {1.5, false, 3}});
  CHECK(measured.success.estimate == 2.0 / 3);
  CHECK(measured.success.low < 0.5);
  CHECK(measured.total_return.estimate == 1.5);
  CHECK(measured.total_return.high == 1.5);
}

TEST_CASE("evaluations are kept in the run's folder and read back") {
  const TemporaryFolder folder;
  CHECK(!read_range_evaluations(folder.path()));
  write_range_evaluations(folder.path(), some_points());
  CHECK(range_file(folder.path()) == folder / "evaluations.json");
  const auto back = read_range_evaluations(folder.path());
  REQUIRE(back);
  CHECK(back->to_json() == some_points().to_json());
  CHECK(back->are_of(300, 75, 20));
  CHECK_FALSE(back->are_of(301, 75, 20));
  CHECK_FALSE(back->are_of(300, 75, 21));
  REQUIRE(back->find("task.corridor_length", 10) != nullptr);
  CHECK(back->find("task.corridor_length", 10)->greedy.success.low == 0.375);
  CHECK(std::isnan(back->find("task.corridor_length", 10)->sampled.total_return.low));  // was infinite
  CHECK(back->find("task.corridor_length", 11) == nullptr);
  CHECK(back->find("task.penalty", 10) == nullptr);

  const EvaluationRange range = parse_range("task.corridor_length: 20,10");
  const auto points = points_of_run(folder.path(), range, last_of(300, 75, 20));
  REQUIRE(points.size() == 2);
  CHECK(!points[0]);
  REQUIRE(points[1]);
  CHECK(points[1]->greedy.success.estimate == 0.75);
  CHECK(!points_of_run(folder.path(), range, last_of(400, 75, 20))[1]);  // of other weights
  CHECK(!points_of_run(folder.path(), range, last_of(300, 75, 10))[1]);  // of other episodes
}

TEST_CASE("a damaged file is refused in a line") {
  const std::string good = some_points().to_json();
  CHECK(range_refusal(good) == "nothing was thrown");
  for (const auto& [part, with] :
       std::vector<std::pair<std::string, std::string>>{{"\"format\": 1", "\"format\": 2"},
                                                        {"\"format\": 1", "\"format\": \"1\""},
                                                        {"\"format\"", "\"form\""},
                                                        {"300", "-1"},
                                                        {"300", "1.5"},
                                                        {"300", "1e30"},
                                                        {"\"episodes\": 20", "\"episodes\": null"},
                                                        {"\"value\": 10.0", "\"value\": null"},
                                                        {"\"value\": 10.0", "\"value\": 0.5"},
                                                        {"\"success\": 0.75", "\"success\": 1.5"},
                                                        {"\"success\": 0.75", "\"success\": null"},
                                                        {"\"success\": 0.75", "\"success\": [1]"},
                                                        {"\"greedy\"", "\"greed\""},
                                                        {"\"sampled\": {", "\"sampled\": [1], \"x\": {"},
                                                        {"\"key\": \"task", "\"key\": 3, \"x\": \""}}) {
    CAPTURE(part);
    CAPTURE(with);
    CHECK(range_refusal(replaced(good, part, with)).starts_with("it"));
  }
  for (std::size_t length = 0; length + 2 < good.size(); ++length)
    REQUIRE(range_refusal(good.substr(0, length)).starts_with("it"));
  for (const std::string& text : {std::string("[]"), std::string("3"), std::string(100'000, '[')})
    CHECK(range_refusal(text).starts_with("it"));
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "evaluations.json");
  CHECK(mentions(message_of<UserError>([&] { read_range_evaluations(folder.path()); }), "is not a file"));
}
