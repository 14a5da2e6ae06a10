#include "envs/recorded/episode_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using Json = nlohmann::json;

namespace {

const std::string kGolden = testing::golden_file("episodes.jsonl");

// The first golden episode with these values.
Json find_episode(const Json& values) {
  CAPTURE(values.dump());
  return testing::first_episode(kGolden, [&](const Json& episode) {
    bool fits = true;
    for (const auto& [key, value] : values.items()) fits = fits && episode.contains(key) && episode[key] == value;
    return fits;
  });
}

EpisodeFileReport replay_text(const std::string& text) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("engram_episodes_" + std::to_string(::getpid()) + ".jsonl");
  std::ofstream(path) << text;
  struct Remover {
    std::filesystem::path path;
    ~Remover() { std::filesystem::remove(path); }
  } remover{path};
  return replay_episode_file(path.string());
}

// What is wrong, without the file's name; "" if nothing is.
std::string error_of(const std::string& text) {
  try {
    replay_text(text);
  } catch (const UserError& error) {
    const std::string message = error.what();
    CHECK(message.find('\n') == std::string::npos);
    const std::size_t line = message.find("line ");
    return line == std::string::npos ? message : message.substr(line);
  }
  return "";
}

std::string mismatch_of(const Json& episode) {
  const EpisodeFileReport report = replay_text(episode.dump() + "\n");
  CHECK(report.episodes == 1);
  CHECK(report.mismatches == (report.first_mismatch.empty() ? 0 : 1));
  const std::size_t step = report.first_mismatch.find("step ");
  return report.first_mismatch.empty() ? "" : report.first_mismatch.substr(step);
}

}  // namespace

TEST_CASE("every golden episode is matched byte for byte") {
  const EpisodeFileReport report = replay_episode_file(kGolden);
  CHECK(report.first_mismatch == "");
  CHECK(report.episodes == 98);
  CHECK(report.mismatches == 0);
}

TEST_CASE("the golden file covers every form of the tasks") {
  for (const char* text :
       {R"({"env":"visual_match","passive":true})", R"({"env":"visual_match","passive":false})",
        R"({"env":"key_to_door","variant":"sr"})", R"({"env":"key_to_door","variant":"cca"})",
        R"({"env":"tmaze","active":true})", R"({"env":"tmaze","active":false})", R"({"length":780})",
        R"({"env":"visual_match","respawn_every":0})", R"({"env":"visual_match","respawn_every":5})"}) {
    const Json values = Json::parse(text);
    CHECK(mismatch_of(find_episode(values)) == "");
  }
}

TEST_CASE("any difference is a mismatch at its step") {
  const Json episode = find_episode({{"env", "visual_match"}, {"passive", true}, {"length", 60}});
  Json changed = episode;
  changed["rewards"][7] = 0.5;
  CHECK(mismatch_of(changed) == "step 7: reward\n  expected 0.5\n  came     0");
  changed = episode;
  changed["player"][20] = {6, 10};
  CHECK(mismatch_of(changed).starts_with("step 20: player\n  expected row 6, column 10\n  came     row "));
  changed = episode;
  changed["success"] = !episode["success"].get<bool>();
  CHECK(mismatch_of(changed).starts_with("step 60: success"));
  for (const int step : {0, 33, 60}) {
    changed = episode;
    std::string observations = changed["obs_b64"];
    char& digit = observations[static_cast<std::size_t>(step) * 100 + 50];
    digit = digit == 'A' ? 'B' : 'A';
    changed["obs_b64"] = observations;
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(step) + ": observation"));
  }
  changed = episode;
  changed["reward_frames"] = 16;
  CHECK(mismatch_of(changed) == "step 59: end of the episode\n  expected the end\n  came     no end");
  changed = episode;
  changed["reward_frames"] = 14;
  CHECK(mismatch_of(changed) == "step 58: end of the episode\n  expected no end\n  came     the end");
  for (const char* field : {"respawn_every", "explore_frames", "apple_reward"}) {
    changed = episode;
    changed[field] = 2;
    CHECK(mismatch_of(changed) != "");
  }
  for (const char* symbol : {" ", "#", "+", "a", "b", "c", "e"}) {
    changed = episode;
    changed["colours"][symbol] = {1, 2, 3};
    if (mismatch_of(changed) == "") CHECK(std::string(symbol).find_first_of("bce") == 0);  // an unseen square
  }

  Json solved = find_episode({{"env", "key_to_door"}, {"success", true}});
  solved["final_reward"] = 6;
  CHECK(mismatch_of(solved).find(": reward\n  expected 5\n  came     6") != std::string::npos);

  const Json maze = find_episode({{"env", "tmaze"}, {"active", false}, {"corridor_length", 5}});
  changed = maze;
  changed["penalty"] = -0.3;
  CHECK(mismatch_of(changed).starts_with("step 0: reward"));
  changed = maze;
  changed["goal_y"] = -maze["goal_y"].get<int>();
  CHECK(mismatch_of(changed).starts_with("step 0: observation"));
  changed = maze;
  changed["obs"][6] = {0.5, 0};
  CHECK(mismatch_of(changed).starts_with("step 6: observation"));
  changed = maze;
  changed["corridor_length"] = 6;
  CHECK(mismatch_of(changed) != "");
}

TEST_CASE("mismatching episodes are counted and the first is told") {
  Json wrong = find_episode({{"env", "tmaze"}});
  const std::string right = wrong.dump();
  wrong["success"] = !wrong["success"].get<bool>();
  const EpisodeFileReport report = replay_text(right + "\n\n" + wrong.dump() + "\n" + right + "\n" + wrong.dump());
  CHECK(report.episodes == 4);
  CHECK(report.mismatches == 2);
  CHECK(report.first_mismatch.starts_with("episode 2 ("));
  CHECK(report.first_mismatch.find(", line 3, tmaze)") != std::string::npos);
}

TEST_CASE("rewards are compared as float32") {
  Json maze = find_episode({{"env", "tmaze"}, {"corridor_length", 30}});
  for (Json& reward : maze["rewards"])
    if (reward != 0.0) reward = static_cast<double>(static_cast<float>(reward.get<double>()));
  CHECK(mismatch_of(maze) == "");
  const double penalty = maze["penalty"];
  for (Json& reward : maze["rewards"])
    if (reward.get<double>() < 0) reward = penalty * (1 + 1e-6);
  CHECK(mismatch_of(maze) != "");
}

TEST_CASE("a malformed line is refused with its number and what is wrong") {
  const Json board = find_episode({{"env", "visual_match"}, {"length", 60}});
  const Json maze = find_episode({{"env", "tmaze"}});
  const auto board_error = [&](const std::function<void(Json&)>& change) {
    Json changed = board;
    change(changed);
    return error_of(maze.dump() + "\n" + changed.dump() + "\n");
  };
  const auto maze_error = [&](const std::function<void(Json&)>& change) {
    Json changed = maze;
    change(changed);
    return error_of(changed.dump());
  };
  CHECK(error_of("{\"env\": ") == "line 1: not JSON (at character 9)");
  CHECK(error_of("[1, 2]") == "line 1: the line is not a JSON object");
  CHECK(error_of(maze.dump() + "\nnonsense") == "line 2: not JSON (at character 2)");
  CHECK(error_of("{\"env\": 1e999}") == "line 1: a number is too large");
  CHECK(error_of("{}") == "line 1: there is no field 'env'");
  CHECK(error_of("{\"env\": \"chess\"}") ==
        "line 1: 'env' is \"chess\"; there are visual_match, key_to_door, tmaze and 22 more");
  for (const auto& [key, value] : board.items()) {
    if (key == "colours" || key == "env") continue;
    const std::string message = board_error([&](Json& episode) { episode.erase(key); });
    CHECK(message == "line 2: there is no field '" + key + "'");
    CHECK(board_error([&](Json& episode) { episode[key] = nullptr; }).starts_with("line 2: '" + key + "' is null"));
  }
  for (const auto& [key, value] : maze.items())
    if (key != "env" && key != "action_meaning")
      CHECK(maze_error([&](Json& episode) { episode[key] = "x"; }).starts_with("line 1: '" + key + "' is \"x\""));

  CHECK(board_error([](Json& episode) { episode["rewards"].erase(0); }) ==
        "line 2: 'rewards' has 59 entries; it takes 60");
  CHECK(board_error([](Json& episode) { episode["actions"] = "NSWE"; }) ==
        "line 2: 'actions' has 4 letters; it takes 60");
  CHECK(board_error([](Json& episode) { episode["actions"] = std::string(60, 'X'); }) ==
        "line 2: 'actions' holds 'X'; it takes N, S, W, E");
  CHECK(board_error([](Json& episode) {
          episode["player"][0] = {7, 0};
        }) == "line 2: 'player' is [7,0]; it takes a row 0..6 and a column 0..10");
  CHECK(board_error([](Json& episode) {
          episode["obs_shape"] = {60, 3, 5, 5};
        }) == "line 2: 'obs_shape' is [60,3,5,5]; it takes [61,3,5,5]");
  CHECK(board_error([](Json& episode) { episode["obs_b64"] = "Zm9v"; }) ==
        "line 2: 'obs_b64' holds 3 bytes; obs_shape takes 4575");
  CHECK(board_error([](Json& episode) { episode["obs_b64"] = "Zm9v!"; }) ==
        "line 2: base64 text of 5 characters; it takes a multiple of 4");
  CHECK(board_error([](Json& episode) { episode["num_apples"] = 9; }) ==
        "line 2: 'num_apples' is 9, but the distractor map holds 10");
  CHECK(board_error([](Json& episode) { episode["explore_frames"] = 0; }) ==
        "line 2: 'explore_frames' is 0; it takes an integer 1..1000000");
  CHECK(board_error([](Json& episode) { episode["explore_frames"] = 18446744073709551615u; }) ==
        "line 2: 'explore_frames' is 18446744073709551615; it takes an integer 1..1000000");
  CHECK(board_error([](Json& episode) { episode["colours"].erase("c"); }) == "line 2: 'colours' has no entry for 'c'");
  CHECK(board_error([](Json& episode) {
          episode["colours"]["c"] = {0, 0, 256};
        }) == "line 2: 'colours' is [0,0,256]; it takes three integers 0..255 for 'c'");
  CHECK(board_error([](Json& episode) { episode["target"] = "k"; }) ==
        "line 2: target 'k' is not one of the squares b, c, e");
  CHECK(board_error([](Json& episode) { episode["grids"][1].erase(0); }).starts_with("line 2: 'grids' is "));
  CHECK(board_error([](Json& episode) { episode["grids"][2][0] = "#"; }) ==
        "line 2: the reward map has a row of 1 characters: '#'; each of the 7 rows takes 11");
  CHECK(maze_error([](Json& episode) { episode["actions"][0] = 4; }) ==
        "line 1: 'actions' is 4; it takes integers 0..3");
  CHECK(maze_error([](Json& episode) { episode["goal_y"] = 0; }) == "line 1: 'goal_y' is 0; it takes -1 or 1");
  CHECK(maze_error([](Json& episode) {
          episode["obs"][0] = {1, 2, 3};
        }) == "line 1: 'obs' is [1,2,3]; it takes two numbers a row");
}

TEST_CASE("a byte order mark before the first episode is skipped, and that of another encoding refused") {
  const auto report_of = [](const std::string& text) {
    std::istringstream stream(text);
    return replay_episodes(stream, "it");
  };
  std::ifstream file(kGolden);
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(report_of("\xef\xbb\xbf" + line + "\n").mismatches == 0);
  CHECK_THROWS_WITH_AS(report_of("\xff\xfe" + line), "'it' is UTF-16 or UTF-32; save it as UTF-8", UserError);
}

TEST_CASE("a file that is missing, empty or a folder is refused") {
  CHECK_THROWS_WITH_AS(replay_episode_file("/nonexistent/episodes.jsonl"), "cannot read '/nonexistent/episodes.jsonl'",
                       UserError);
  CHECK(error_of("").find("holds no episode") != std::string::npos);
  CHECK(error_of("\n\n").find("holds no episode") != std::string::npos);
  CHECK_THROWS_AS(replay_episode_file(std::filesystem::temp_directory_path().string()), UserError);
}

TEST_CASE("an episode that is cut, flipped or nested is refused or replayed, never more") {
  std::mt19937_64 random(1);
  for (const char* task : {"tmaze", "key_to_door", "visual_match"}) {
    CAPTURE(task);
    const std::string whole = find_episode({{"env", task}}).dump();
    testing::check_damaged(whole, random, 10'000, whole.size() < 20'000 ? 1 : whole.size() / 5'000);
  }
  const std::string deep(1'000'000, '[');
  CHECK(testing::error_of("{\"env\":\"tmaze\",\"length\":" + deep + std::string(deep.size(), ']') + "}") ==
        "it, line 1: it is nested too deeply");
  CHECK(testing::error_of(deep) == "it, line 1: it is nested too deeply");
}
