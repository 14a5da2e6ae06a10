#include "base/suggest.h"

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

TEST_CASE("a name of megabytes is answered at once") {
  const auto begin = std::chrono::steady_clock::now();
  CHECK(similar(std::string(10'000'000, 'k')) == Names{});
  CHECK(similar(std::string(10'000'000, '_')) == Names{});
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}
