#include "envs/recorded/played_episode.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "envs/recorded/base64.h"
#include "envs/vec/vec_env.h"
#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Plays random actions to the end of the episode, or for `most` steps.
PlayedEpisode play(TaskConfig task, std::uint64_t seed, Purpose purpose, int environment, std::uint32_t number,
                   std::size_t most = 100'000) {
  const auto env = make_cpu_vec_env(task, seed, purpose, environment + 1, 1);
  const auto row = static_cast<std::size_t>(environment);
  const auto bytes = static_cast<std::size_t>(env->info().observation.bytes());
  PlayedEpisode played{std::move(task), seed, purpose, environment, number};
  Rng rng(seed, Purpose::kAction, 0, 0);
  env->reset_row(environment, number);
  for (;;) {
    const auto now = env->observation_N().subspan(row * bytes, bytes);
    played.observations.insert(played.observations.end(), now.begin(), now.end());
    if (env->end_N()[row] != End::kNone || played.rewards.size() == most) break;
    std::vector<std::int32_t> action(static_cast<std::size_t>(env->info().action.words()));
    draw_action(env->info().action, rng, action.data());
    env->step_row(environment, action);
    played.actions.insert(played.actions.end(), action.begin(), action.end());
    played.rewards.push_back(env->reward_N()[row]);
  }
  played.end = env->end_N()[row];
  played.success = env->success_N()[row] != 0;
  return played;
}

TaskConfig short_match() {
  TaskConfig task("visual_match");
  OptionList options = task.options();
  for (const auto& [key, value] : {std::pair{"explore_steps", "2"},
                                   {"distractor_steps", "30"},
                                   {"reward_steps", "4"},
                                   {"apple_reward", "0.1"},
                                   {"colours", "fixed"}})
    options.set(std::string("task.") + key, value);
  return task;
}

// An episode with rewards.
PlayedEpisode example() {
  PlayedEpisode played = play(short_match(), 7, Purpose::kEvaluation, 2, 4'000'000'000u);
  REQUIRE(*std::max_element(played.rewards.begin(), played.rewards.end()) > 0);
  return played;
}

Json line_of(const PlayedEpisode& played) { return Json::parse(played_episode_line(played)); }

}  // namespace

TEST_CASE("an episode of any task, whole or not, is written, read and drawn again") {
  for (const std::string& name : task_names())
    for (const std::size_t most : {std::size_t{3}, std::size_t{100'000}}) {
      CAPTURE(name);
      const PlayedEpisode played = play(TaskConfig(name), 18'446'744'073'709'551'615u, Purpose::kTraining, 0, 5, most);
      CHECK((played.end != End::kNone || played.rewards.size() == most));
      const std::string line = played_episode_line(played);
      CHECK(line.find('\n') == std::string::npos);
      CHECK(mismatch_of(Json::parse(line)) == "");
    }
}

TEST_CASE("a line names the stream, every option and all that came") {
  const PlayedEpisode played = example();
  const Json line = line_of(played);
  CHECK(line["task"] == "visual_match");
  CHECK(line["options"]["distractor_steps"] == "30");
  CHECK(line["options"]["colours"] == "fixed");
  CHECK(line["options"].size() == TaskConfig("visual_match").options().options().size());
  CHECK(line["seed"] == 7);
  CHECK(line["purpose"] == "evaluation");
  CHECK(line["environment"] == 2);
  CHECK(line["episode"] == 4'000'000'000u);
  CHECK(line["length"] == 36);
  CHECK(line["end"] == "terminated");
  CHECK(line["actions"] == Json(played.actions));
  CHECK(line["obs_b64"].get<std::string>().size() == 37 * 75 * 4 / 3);
  CHECK(mismatch_of(line) == "");
  Json defaults = line_of(play(TaskConfig("tmaze"), 1, Purpose::kTest, 0, 0));
  defaults["options"] = Json::object();  // those that are left out have their defaults
  CHECK(mismatch_of(defaults) == "");
}

TEST_CASE("any difference is found and named at its step") {
  const PlayedEpisode played = example();
  const std::size_t paid =
      static_cast<std::size_t>(std::max_element(played.rewards.begin(), played.rewards.end()) - played.rewards.begin());
  const auto mismatch = [](const PlayedEpisode& changed) { return mismatch_of(line_of(changed)); };
  PlayedEpisode changed = played;
  changed.observations[75 * 20 + 11] ^= std::byte{1};
  CHECK(mismatch(changed).starts_with("step 20: observation\n  expected 204 "));
  changed = played;
  changed.observations.back() ^= std::byte{128};
  CHECK(mismatch(changed).starts_with("step 36: observation\n"));
  changed = played;
  changed.rewards[paid] = 0;
  CHECK(mismatch(changed) == "step " + std::to_string(paid) + ": reward\n  expected 0\n  came     0.100000001");
  changed = played;
  for (std::size_t t = 0; t < changed.actions.size(); ++t) changed.actions[t] = 3 - changed.actions[t];
  CHECK(mismatch(changed).find(": observation\n") != std::string::npos);
  changed = played;
  changed.end = End::kTruncated;
  CHECK(mismatch(changed) == "step 35: end of the episode\n  expected truncated\n  came     terminated");
  changed.end = End::kNone;
  CHECK(mismatch(changed) == "step 35: end of the episode\n  expected no end\n  came     terminated");
  changed = played;
  changed.success = !played.success;
  CHECK(
      mismatch(changed).starts_with("step 36: success\n  expected " + std::string(changed.success ? "true" : "false")));
  // Another stream, by any of its numbers, is another episode.
  changed = played;
  changed.seed = 8;
  CHECK(mismatch(changed) != "");
  changed = played;
  ++changed.episode;
  CHECK(mismatch(changed) != "");
  changed = played;
  changed.environment = 1;
  CHECK(mismatch(changed) != "");
  changed = played;
  changed.purpose = Purpose::kTest;
  CHECK(mismatch(changed) != "");
  Json line = line_of(played);
  line["options"]["explore_steps"] = "3";
  line["options"]["distractor_steps"] = "29";
  CHECK(mismatch_of(line) != "");
  CHECK(replay_text(line_of(changed).dump()).first_mismatch.starts_with("episode 1 (it, line 1, visual_match), step "));
}

TEST_CASE("malformed lines are refused by field") {
  const Json line = line_of(example());
  check_fields(line, {"task"});
  const auto refused = [&line](const std::string& field, const Json& value) {
    Json changed = line;
    changed[field] = value;
    return error_of(changed);
  };
  CHECK(refused("task", 3) == "it, line 1: 'task' is 3; it takes a text");
  CHECK(refused("task", "visual_matsch") == "it, line 1: unknown task 'visual_matsch'; did you mean 'visual_match'?");
  CHECK(refused("seed", -1) == "it, line 1: 'seed' is -1; it takes an integer 0..18446744073709551615");
  CHECK(refused("seed", 1.5).starts_with("it, line 1: 'seed' is 1.5; it takes"));
  CHECK(refused("purpose", "dropout") == "it, line 1: 'purpose' is \"dropout\"; it takes training, evaluation or test");
  CHECK(refused("environment", 1024) == "it, line 1: 'environment' is 1024; it takes an integer 0..1023");
  CHECK(refused("episode", 4'294'967'296u) == "it, line 1: 'episode' is 4294967296; it takes an integer 0..4294967295");
  CHECK(refused("length", 37) == "it, line 1: 'length' is 37; it takes an integer 1..36");
  CHECK(refused("length", 0) == "it, line 1: 'length' is 0; it takes an integer 1..36");
  CHECK(refused("length", 35) == "it, line 1: 'actions' has 36 entries; it takes 35");
  CHECK(refused("end", "over") == "it, line 1: 'end' is \"over\"; it takes none, terminated or truncated");
  CHECK(refused("obs_b64", "AAAA") == "it, line 1: 'obs_b64' holds 3 bytes; 37 observations take 2775");
  CHECK(refused("obs_b64", line["obs_b64"].get<std::string>() + "AAAA") ==
        "it, line 1: 'obs_b64' holds 2778 bytes; 37 observations take 2775");
  CHECK(refused("obs_b64", "AAA?").starts_with("it, line 1: character 3 of a base64 text"));
  Json changed = line;
  changed["actions"][3] = 4;
  CHECK(error_of(changed) == "it, line 1: 'actions' is 4; it takes integers 0..3");
  changed = line;
  changed["rewards"][3] = "1";
  CHECK(error_of(changed) == "it, line 1: 'rewards' is \"1\"; it takes a number");
  changed = line;
  changed["options"]["corridor_length"] = "5";
  CHECK(error_of(changed).starts_with("it, line 1: unknown key 'task.corridor_length'"));
  changed = line;
  changed["options"]["explore_steps"] = "0";
  CHECK(error_of(changed) == "it, line 1: task.explore_steps = '0' is not allowed; it takes integer 1..1000000");
  changed["options"]["explore_steps"] = 2;
  CHECK(error_of(changed) == "it, line 1: 'options' is 2; it takes a text for 'explore_steps'");
  changed = line;
  changed.erase("task");
  CHECK(error_of(changed) == "it, line 1: there is no field 'env'");
}

TEST_CASE("damaged lines are refused or replayed") {
  std::mt19937_64 random(3);
  check_damaged(played_episode_line(play(TaskConfig("umbrella_chain"), 1, Purpose::kTest, 0, 0, 2)), random);
}

TEST_CASE("lines with a layout of their own and lines that are drawn again stand in one file") {
  const std::string golden = first_episode(golden_file("episodes.jsonl"), [](const Json&) { return true; }).dump();
  const EpisodeFileReport report = replay_text(golden + "\n" + played_episode_line(example()) + "\n");
  CHECK(report.episodes == 2);
  CHECK(report.mismatches == 0);
}
