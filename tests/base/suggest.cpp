#include "base/text/suggest.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace engram;

namespace {

using Names = std::vector<std::string>;

const Names kNames = {"seed",
                      "config",
                      "on-nan",
                      "run.seed",
                      "run.steps",
                      "run.on_nan",
                      "run.metrics_every_steps",
                      "task.name",
                      "task.corridor_length",
                      "memory.name",
                      "memory.width",
                      "memory.layers",
                      "network.hidden_width",
                      "learner.alpha",
                      "learner.gamma",
                      "learner.learning_rate",
                      "learner.target_entropy",
                      "replay.batch_episodes",
                      "evaluation.every_steps",
                      "checkpoint.every_steps"};

Names similar(const std::string& text) { return similar_names(text, kNames); }

}  // namespace

TEST_CASE("the same key in another section, or in none") {
  CHECK(similar("steps") == Names{"run.steps"});
  CHECK(similar("learning-rate") == Names{"learner.learning_rate"});
  CHECK(similar("Learning_Rate") == Names{"learner.learning_rate"});
  CHECK(similar("run.gamma") == Names{"learner.gamma"});
  CHECK(similar("memory") == Names{"memory.name"});
  CHECK(similar("every_steps") == Names{"evaluation.every_steps", "checkpoint.every_steps"});
  CHECK(similar("name") == Names{"task.name", "memory.name"});
}

TEST_CASE("a few edits away, those of the same section first") {
  CHECK(similar("run.stepz") == Names{"run.steps"});
  CHECK(similar("stesp") == Names{"run.steps"});
  CHECK(similar("confg") == Names{"config"});
  CHECK(similar("lerner.gama") == Names{"learner.gamma"});
  CHECK(similar("sede") == Names{"seed"});
  CHECK(similar("run.sede") == Names{"run.seed"});
}

TEST_CASE("initials and words in common") {
  CHECK(similar("lr") == Names{"learner.learning_rate"});
  CHECK(similar("learner.lr") == Names{"learner.learning_rate"});
  CHECK(similar("learn_rate") == Names{"learner.learning_rate"});
  CHECK(similar("batch_size") == Names{"replay.batch_episodes"});
  CHECK(similar("hidden-size") == Names{"network.hidden_width"});
  CHECK(similar("num_layers") == Names{"memory.layers"});
  CHECK(similar("max_steps") == Names{"run.steps"});
  CHECK(similar("length") == Names{"task.corridor_length"});
}

TEST_CASE("nothing is suggested for what is like nothing") {
  for (const char* text : {"", ".", "-", "--", "q", "zzzzzz", "elsewhere.entirely.different", "%option%", "......"}) {
    CAPTURE(text);
    CHECK(similar(text) == Names{});
  }
}

TEST_CASE("at most three names, as a question") {
  const Names names = {"a.every", "b.every", "c.every", "d.every", "e.other"};
  CHECK(similar_names("every", names) == Names{"a.every", "b.every", "c.every"});
  CHECK(did_you_mean("every", names) == "; did you mean 'a.every', 'b.every' or 'c.every'?");
  CHECK(did_you_mean("other", names, "--") == "; did you mean '--e.other'?");
  CHECK(did_you_mean("something", names) == "");
  CHECK(either_of({"x", "y"}) == "x or y");
}

TEST_CASE("a name that is none of a list is answered with the nearest three, or with what there is") {
  const Names sizes = {"maze_short_50", "maze_long_50", "maze_long_500", "maze_longest_50", "room_50"};
  CHECK(unknown_name("size", "maze_50", sizes) ==
        "unknown size 'maze_50'; did you mean 'maze_short_50', 'maze_long_50' or 'maze_longest_50'?");
  CHECK(unknown_name("size", "maze_long_51", sizes) ==
        "unknown size 'maze_long_51'; did you mean 'maze_long_50', 'maze_long_500' or 'maze_longest_50'?");
  CHECK(unknown_name("size", "zzz", {"a", "b"}, "list") == "unknown size 'zzz'; there are a, b");
  Names many;
  for (char name = 'a'; many.size() < kMostListed; ++name) many.emplace_back(4, name);
  CHECK(listed(many) == "aaaa, bbbb, cccc, dddd, eeee, ffff, gggg, hhhh, iiii, jjjj, kkkk, llll");
  many.push_back("mmmm");
  CHECK(names_hint("zzz", many) == "; there are aaaa, bbbb, cccc and 10 more");
  CHECK(names_hint("zzz", many, "list") == "; there are aaaa, bbbb, cccc and 10 more; list shows them");
}

TEST_CASE("a name of megabytes is answered at once") {
  const auto begin = std::chrono::steady_clock::now();
  CHECK(similar(std::string(10'000'000, 'k')) == Names{});
  CHECK(similar(std::string(10'000'000, '_')) == Names{});
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}
