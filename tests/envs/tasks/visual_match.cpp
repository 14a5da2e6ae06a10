#include "envs/tasks/memory_rl/visual_match.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "envs/task_entry.h"

using namespace engram;

namespace {

using Options = VisualMatch::Options;

VisualMatch::State fresh(const VisualMatch::Params& params, std::uint32_t episode) {
  Rng rng(1, Purpose::kTest, 0, episode);
  return VisualMatch::reset(params, rng);
}

// At the start of the reward phase.
VisualMatch::State at_squares(const VisualMatch::Params& params, std::uint8_t target) {
  VisualMatch::State state = fresh(params, 0);
  state.target = target;
  state.board.phase = board::kReward;
  state.board.player = params.board.starts[board::kReward].cell[0];
  return state;
}

struct Walk {
  std::vector<float> rewards;
  std::vector<End> ends;
};

Walk walk(const VisualMatch::Params& params, VisualMatch::State& state, const std::string& letters) {
  Walk result;
  Rng unused;
  for (const char letter : letters) {
    const Outcome outcome =
        VisualMatch::step(params, state, static_cast<int>(std::string("NSWE").find(letter)), unused);
    result.rewards.push_back(outcome.reward);
    result.ends.push_back(outcome.end);
  }
  return result;
}

float sum(const std::vector<float>& values) {
  float total = 0;
  for (const float value : values) total += value;
  return total;
}

const std::string kToLeft = "NNNWWWN", kToMiddle = "NNNN", kToRight = "NNNEEEN";

}  // namespace

TEST_CASE("the right square pays once, then all squares are gone and pay nothing") {
  const VisualMatch::Params params = VisualMatch::make_params({}, 1, Purpose::kTest);
  const std::string routes[3] = {kToLeft, kToMiddle, kToRight};
  for (std::uint8_t target = 0; target < 3; ++target)
    for (int goal = 0; goal < 3; ++goal) {
      VisualMatch::State state = at_squares(params, target);
      const Walk to_goal = walk(params, state, routes[goal]);
      CHECK(to_goal.rewards.back() == (goal == target ? 10 : 0));
      CHECK(sum(to_goal.rewards) == to_goal.rewards.back());
      CHECK(state.squares_gone);
      CHECK(VisualMatch::success(params, state) == (goal == target));
      // On to the other squares, the right one among them.
      const Walk after = walk(params, state, goal == 0 ? "EEEEEE" : goal == 1 ? "WWWEEE" : "WWWWWW");
      CHECK(sum(after.rewards) == 0);
      CHECK(VisualMatch::success(params, state) == (goal == target));
      Canvas canvas;
      VisualMatch::draw(params, state, canvas);
      for (const board::Cell square : params.square)
        if (!board::same(square, state.board.player))
          CHECK(canvas.at(square.row, square.column) == params.board.palette.floor);
    }
}

TEST_CASE("success needs a reward") {
  Options options;
  options.final_reward = 0;
  const VisualMatch::Params params = VisualMatch::make_params(options, 1, Purpose::kTest);
  VisualMatch::State state = at_squares(params, 1);
  walk(params, state, kToMiddle);
  CHECK(state.squares_gone);
  CHECK_FALSE(VisualMatch::success(params, state));
}

TEST_CASE("phases last as long as asked for and the observation is the next phase's at once") {
  Options options;
  options.explore_steps = 3;
  options.reward_steps = 2;
  for (const int distractor_steps : {0, 1, 4}) {
    options.distractor_steps = distractor_steps;
    const VisualMatch::Params params = VisualMatch::make_params(options, 1, Purpose::kTest);
    CHECK(VisualMatch::max_episode_steps(params) == 5 + distractor_steps);
    VisualMatch::State state = fresh(params, 0);
    Rng unused;
    for (int t = 1; t <= 5 + distractor_steps; ++t) {
      const End end = VisualMatch::step(params, state, 1, unused).end;
      const std::string phase = t < 3 ? "explore" : t < 3 + distractor_steps ? "distractor" : "reward";
      CHECK(VisualMatch::phase(params, state) == phase);
      CHECK(end == (t == 5 + distractor_steps ? End::kTerminated : End::kNone));
    }
  }
}

TEST_CASE("phase 1 shows the target's colour beside a player who cannot move (passive), or in a room (active)") {
  for (const bool active : {false, true}) {
    Options options;
    options.active = active;
    const VisualMatch::Params params = VisualMatch::make_params(options, 1, Purpose::kTest);
    std::set<std::pair<int, int>> signals, starts;
    for (std::uint32_t episode = 0; episode < 2000; ++episode) {
      VisualMatch::State state = fresh(params, episode);
      Canvas canvas;
      VisualMatch::draw(params, state, canvas);
      CHECK(canvas.at(state.signal.row, state.signal.column) == params.square_colour[state.assignment][state.target]);
      signals.insert({state.signal.row, state.signal.column});
      starts.insert({state.board.player.row, state.board.player.column});
      if (active || episode > 50) continue;
      walk(params, state, "NSWENSWE");
      CHECK(board::same(state.board.player, {2, 5}));
    }
    CHECK(signals.size() == (active ? 26 : 8));
    CHECK(starts.size() == (active ? 10 : 1));
  }
}

TEST_CASE("targets and colours are drawn evenly and apart from each other") {
  const VisualMatch::Params params = VisualMatch::make_params({}, 1, Purpose::kTest);
  constexpr int kEpisodes = 18000;
  std::map<std::pair<int, int>, int> count;  // target and assignment
  for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
    const VisualMatch::State state = fresh(params, episode);
    ++count[{state.target, state.assignment}];
  }
  CHECK(count.size() == 18);
  // Five standard deviations of a binomial count.
  for (const auto& [pair, times] : count)
    CHECK(std::abs(times - kEpisodes / 18.0) < 5 * std::sqrt(kEpisodes / 18.0 * 17 / 18));
  // The six assignments are the six permutations of the colours.
  std::set<std::string> permutations;
  for (const auto& row : params.square_colour) {
    std::string text;
    for (const Rgb colour : row) text += colour.red ? 'r' : colour.green ? 'g' : 'b';
    permutations.insert(text);
  }
  CHECK(permutations == std::set<std::string>{"rgb", "rbg", "grb", "gbr", "brg", "bgr"});
}

TEST_CASE("colours: episode varies, fixed is one for the run, reference is one each, drawn apart") {
  const auto assignments = [](SquareColours colours, std::uint64_t seed, Purpose purpose) {
    Options options;
    options.colours = colours;
    const VisualMatch::Params params = VisualMatch::make_params(options, seed, purpose);
    std::set<int> seen;
    for (std::uint32_t episode = 0; episode < 100; ++episode) {
      Rng rng(seed, purpose, 0, episode);
      seen.insert(VisualMatch::reset(params, rng).assignment);
    }
    return seen;
  };
  std::set<int> fixed_seen;
  std::map<std::pair<int, int>, int> reference_seen;
  constexpr int kSeeds = 720;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    if (seed < 20) CHECK(assignments(SquareColours::kEpisode, seed, Purpose::kTraining).size() == 6);
    const auto fixed = assignments(SquareColours::kFixed, seed, Purpose::kTraining);
    CHECK(fixed.size() == 1);
    CHECK(fixed == assignments(SquareColours::kFixed, seed, Purpose::kEvaluation));
    const auto training = assignments(SquareColours::kReference, seed, Purpose::kTraining);
    const auto evaluation = assignments(SquareColours::kReference, seed, Purpose::kEvaluation);
    CHECK(training.size() == 1);
    CHECK(evaluation.size() == 1);
    fixed_seen.insert(*fixed.begin());
    ++reference_seen[{*training.begin(), *evaluation.begin()}];
  }
  CHECK(fixed_seen.size() == 6);
  // Every ordered pair with even odds, those that agree among them. Five standard deviations of a binomial count.
  CHECK(reference_seen.size() == 36);
  int agreed = 0;
  for (const auto& [pair, times] : reference_seen) {
    CHECK(std::abs(times - kSeeds / 36.0) < 5 * std::sqrt(kSeeds / 36.0 * 35 / 36));
    if (pair.first == pair.second) agreed += times;
  }
  CHECK(std::abs(agreed - kSeeds / 6.0) < 5 * std::sqrt(kSeeds / 6.0 * 5 / 6));
}

TEST_CASE("a run's facts are the colours that its squares have") {
  const auto drawn = [](const Options& options, std::uint64_t seed, Purpose purpose) {
    const VisualMatch::Params params = VisualMatch::make_params(options, seed, purpose);
    std::string text;
    for (const Rgb colour : params.square_colour[fresh(params, 0).assignment])
      text += (text.empty() ? "" : ", ") + std::string(colour.red ? "red" : colour.green ? "green" : "blue");
    return text;
  };
  Options options;
  CHECK(VisualMatch::run_facts(options, 3).empty());
  std::set<std::string> answers;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    options.colours = SquareColours::kFixed;
    CHECK((VisualMatch::run_facts(options, seed) ==
           std::vector<RunFact>{{"colours", drawn(options, seed, Purpose::kEvaluation)}}));
    options.colours = SquareColours::kReference;
    const std::string training = drawn(options, seed, Purpose::kTraining);
    const std::string evaluation = drawn(options, seed, Purpose::kEvaluation);
    const std::string agree = training == evaluation ? "yes" : "no";
    CHECK((VisualMatch::run_facts(options, seed) == std::vector<RunFact>{{"training_colours", training},
                                                                         {"evaluation_colours", evaluation},
                                                                         {"colours_agree", agree}}));
    answers.insert(agree);
  }
  CHECK(answers.size() == 2);
}

TEST_CASE("what a run draws for its squares is independent of its random actions") {
  int agreed = 0;
  constexpr int kSeeds = 720;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Options options;
    options.colours = SquareColours::kFixed;
    Rng actions(seed, Purpose::kRun, 0, 0);
    const auto params = VisualMatch::make_params(options, seed, Purpose::kTraining);
    agreed += params.run_assignment == actions.below(VisualMatch::kAssignments);
  }
  CHECK(std::abs(agreed - kSeeds / 6.0) < 5 * std::sqrt(kSeeds / 6.0 * 5 / 6));
}

TEST_CASE("options out of bounds are refused by name") {
  Options options;
  options.num_apples = 23;
  CHECK_THROWS_WITH_AS(check_options(options), "task.num_apples = '23' is not allowed; it takes integer 0..22",
                       UserError);
  options = {};
  options.explore_steps = 0;
  CHECK_THROWS_WITH_AS(check_options(options), "task.explore_steps = '0' is not allowed; it takes integer 1..1000000",
                       UserError);
}
