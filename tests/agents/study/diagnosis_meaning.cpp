#include "agents/study/diagnosis_meaning.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>

using namespace engram;

namespace {

constexpr double kChance = 0.25;
const ActionSpec kActions{.names = {"a", "b", "c", "d"}, .numbers = {}};  // whose largest entropy is 1.386
const std::string kSurerBy = "lower the temperature";

CueReadout read(std::int64_t correct) { return {4, {.correct = correct, .count = 100, .most_common = 30}}; }

// 100 episodes of an agent that solves as many as it decides rightly, with the cue read rightly so often at first and
// at last.
Diagnosis figures(std::int64_t right, std::int64_t wrong, std::int64_t first_read, std::int64_t last_read,
                  std::optional<double> value_auc = {}) {
  Diagnosis found;
  found.episodes = 100;
  found.solved = right;
  found.decisions = {
      .right = right, .wrong = wrong, .value_auc = value_auc, .phase = right + wrong > 0 ? "reward" : ""};
  found.phases = {{"explore", 100, 1, 0.4, 1, 1}, {"reward", 100, 1, 0.6, 1, 1}};
  found.cue = {read(first_read), read(last_read)};
  return found;
}

std::string meaning(const Diagnosis& sampled, const Diagnosis* replayed = nullptr) {
  return meaning_of(sampled, sampled, replayed, kChance, kActions, kSurerBy);
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an agent that solves its task, or does so with sampled actions alone") {
  CHECK(meaning(figures(97, 3, 99, 99)) == "It solves its task: 97% success.");
  const Diagnosis sampled = figures(96, 2, 99, 99), greedy = figures(5, 1, 99, 99);
  CHECK(meaning_of(greedy, sampled, nullptr, kChance, kActions, kSurerBy) ==
        "With sampled actions it solves its task. With sampled actions it has 96% success, with the most probable ones "
        "5%: its policy is not sure enough; lower the temperature or train for longer.");
}

TEST_CASE("who never decides, or seldom, lacks exploration, not memory") {
  CHECK(meaning(figures(0, 0, 99, 99)) == "It never decides: this is exploration, not memory.");
  CHECK(meaning(figures(3, 9, 99, 30)) == "It decides in 12% of the episodes: this is exploration, not memory.");
  CHECK(meaning(figures(70, 1, 99, 99)) ==
        "What it decides is right, but it decides in 71% of the episodes: this is exploration, not memory.");
}

TEST_CASE("who decides by chance, better or worse, is told apart, and so is where the cue is lost") {
  const std::string by_chance = "It decides, and by chance: 28% of its decisions are right, where guessing gives 25%. ";
  CHECK(meaning(figures(25, 65, 99, 33)) ==
        by_chance + "Its memory loses the cue before it is needed (read: 33%, the commonest cue 30%).");
  CHECK(meaning(figures(25, 65, 50, 33)) ==
        by_chance +
            "Even while the cue is in sight it cannot be read from h_t (50%, the commonest cue 30%): the encoder does "
            "not show it.");
  CHECK(meaning(figures(25, 65, 99, 95)) ==
        by_chance + "Its memory holds the cue when it is needed (read: 95%, the commonest cue 30%).");
  CHECK(meaning(figures(60, 30, 99, 60)) ==
        "It remembers in part: 67% of its decisions are right, where guessing gives 25%. Its memory holds the cue in "
        "part when it is needed (read: 60%, the commonest cue 30%).");
  CHECK(says(meaning(figures(5, 90, 99, 60)), "It decides, more often wrongly than by guessing: 5% of"));
  Diagnosis unread = figures(25, 65, 99, 33);
  unread.cue.clear();
  CHECK(meaning(unread) == by_chance + "The cue could not be looked for in its memory.");
  CHECK(says(meaning_of(unread, unread, nullptr, {}, kActions, kSurerBy),
             "It decides, and 28% of its decisions are right."));
}

TEST_CASE("critics that know nothing, something, everything, or single episodes by heart") {
  const auto of_area = [](double fresh) { return meaning(figures(25, 65, 99, 95, fresh)); };
  CHECK(says(of_area(0.52), "Its critics do not tell right from wrong (area 0.52 on fresh episodes)."));
  CHECK(says(of_area(0.7), "Its critics tell right from wrong in part (area 0.70 on fresh episodes)."));
  CHECK(says(of_area(0.93),
             "Its critics tell right from wrong (area 0.93 on fresh episodes), and its policy does not follow."));
  const Diagnosis learnt = figures(25, 65, 99, 95, 0.96);
  CHECK(says(meaning(figures(25, 65, 99, 95, 0.62), &learnt),
             "Its critics know the episodes that they learnt from by heart (area 0.62 on fresh episodes, 0.96 on "
             "those): more episodes and fewer updates of each help."));
}

TEST_CASE("a critic of states is one that foresees, and says nothing of the policy") {
  const auto of_area = [](double fresh) {
    Diagnosis found = figures(25, 65, 99, 95, fresh);
    found.values_are_of_actions = false;
    return found;
  };
  const auto ends = [&](double fresh, const std::string& text) { return meaning(of_area(fresh)).ends_with(text); };
  CHECK(ends(0.52, "Its critic does not foresee which decisions are right (area 0.52 on fresh episodes)."));
  CHECK(ends(0.7, "Its critic foresees in part which decisions are right (area 0.70 on fresh episodes)."));
  CHECK(ends(0.93, "Its critic foresees which decisions are right (area 0.93 on fresh episodes)."));
  const Diagnosis learnt = of_area(0.96);
  CHECK(says(meaning(of_area(0.62), &learnt),
             "Its critic knows the episodes that it learnt from by heart (area 0.62 on fresh episodes, 0.96 on "
             "those): more episodes and fewer updates of each help."));
  Diagnosis elsewhere = of_area(0.52);
  elsewhere.phases[0].error_share = 0.93;
  CHECK(says(meaning(elsewhere), "93% of its critic's error are in the phase 'explore', where nothing is decided"));
  for (const double fresh : {0.52, 0.7, 0.93}) CHECK(!says(meaning(of_area(fresh)), "critics"));
}

TEST_CASE("an error that is spent elsewhere, and a policy that is uniform where it decides") {
  Diagnosis found = figures(25, 65, 99, 95);
  found.phases[0].error_share = 0.93;
  CHECK(says(meaning(found), "93% of its critics' error are in the phase 'explore', where nothing is decided"));
  CHECK(!says(meaning(found), "uniform"));
  found.phases[1].entropy = 1.35;
  CHECK(says(meaning(found), "Where it decides its policy is nearly uniform: lower the temperature."));
  found.phases = {{"explore", 100, 1, 0.07, 1.38, 1}, {"reward", 100, 1, 0.93, 1, 1}};  // as it should be
  CHECK(!says(meaning(found), "phase"));
  CHECK(!says(meaning(found), "uniform"));
}

TEST_CASE("what makes a policy surer is the learner's advice, and where it has none, more training") {
  Diagnosis uniform = figures(25, 65, 99, 95);
  uniform.phases[1].entropy = 1.35;
  const Diagnosis sampled = figures(96, 2, 99, 99), greedy = figures(5, 1, 99, 99);
  const auto advice = [&](const std::string& by) {
    return meaning_of(uniform, uniform, nullptr, kChance, kActions, by) + "\n" +
           meaning_of(greedy, sampled, nullptr, kChance, kActions, by);
  };
  for (const char* part : {"is nearly uniform: lower epsilon.", "not sure enough; lower epsilon or train for longer."})
    CHECK(says(advice("lower epsilon"), part));
  for (const char* part : {"is nearly uniform: train for longer.", "not sure enough; train for longer."})
    CHECK(says(advice(""), part));
}

TEST_CASE("a task that does not say what its decision is has its success and its cue") {
  Diagnosis found = figures(40, 0, 99, 33);
  found.decisions.reset();
  CHECK(meaning(found) ==
        "It solves 40% of the episodes, where guessing solves 25%. Its memory loses the cue before it is needed (read: "
        "33%, the commonest cue 30%).");
  found.cue.clear();
  CHECK(meaning_of(found, found, nullptr, {}, kActions, kSurerBy) == "It solves 40% of the episodes.");
}

TEST_CASE("of a handful of episodes nothing is said") {
  Diagnosis found = figures(0, 0, 99, 99);
  found.episodes = 9;
  CHECK(meaning(found) == "too few episodes to say; take --episodes 100 or more.");
}
