#include "films/render_film.h"

#include <doctest/doctest.h>

#include <vector>

#include "agents/learn/registry.h"
#include "tests/agents/act/state_values.h"

using namespace engram;

namespace {

std::vector<FrameContents> moments(const LearnerConfig& learner) {
  Config config = Config::from_settings({{"task.name", "tmaze"}, {"task.corridor_length", "3"}});
  config.learner = learner;
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  network->eval();
  std::vector<FrameContents> all;
  film_first_episode({config, {}, network}, [&](const FrameContents& contents) { all.push_back(contents); });
  return all;
}

}  // namespace

TEST_CASE("a film shows the values of actions, or the one of the state, whichever the agent has") {
  for (const LearnerConfig& learner : {LearnerConfig("sac"), learner_config(StateValueOptions())}) {
    CAPTURE(learner.name());
    const bool of_states = learner.name() == "state_values";
    const std::vector<FrameContents> all = moments(learner);
    REQUIRE(all.size() == 5);  // four steps, and the end
    for (const FrameContents& contents : all) {
      if (!contents.decision) continue;
      CHECK(contents.decision->q_values.size() == (of_states ? 0 : 4));
      CHECK(contents.decision->state_value.has_value() == of_states);
    }
  }
}
