#include "video/film.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <opencv2/videoio.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "envs/shown_observation.h"
#include "tests/storage/temporary_folder.h"
#include "tests/video/pictures.h"
#include "video/drawing.h"
#include "video/video_writer.h"

namespace engram {
namespace {

TaskConfig short_task() {
  TaskConfig task("visual_match");
  OptionList options = task.options();
  options.set("task.explore_steps", "3");
  options.set("task.distractor_steps", "20");
  options.set("task.reward_steps", "10");
  return task;
}

std::unique_ptr<VecEnv> short_visual_match(std::uint64_t seed, int num_envs = 1) {
  auto environment = make_cpu_vec_env(short_task(), seed, Purpose::kTest, num_envs, 1);
  environment->reset_all();
  return environment;
}

// Everything that is shown of one episode.
std::vector<FrameContents> filmed(VecEnv& environment, const Decide& decide) {
  std::vector<FrameContents> moments;
  film_episode(short_task(), environment, decide, 1, 1,
               [&](const FrameContents& contents) { moments.push_back(contents); });
  return moments;
}

bool same(const Canvas& a, const Canvas& b) {
  if (a.rows() != b.rows() || a.columns() != b.columns()) return false;
  for (int row = 0; row < a.rows(); ++row) {
    for (int column = 0; column < a.columns(); ++column) {
      if (!(a.at(row, column) == b.at(row, column))) return false;
    }
  }
  return true;
}

TEST_CASE("an episode can be left, and then has no outcome") {
  const auto environment = short_visual_match(5);
  std::vector<FrameContents> moments;
  const Decide by_hand = [](const VecEnv&) { return Decision{2, {}, {}}; };
  const FilmedEpisode episode = film_episode(
      short_task(), *environment, by_hand, 1, 1, [&](const FrameContents& contents) { moments.push_back(contents); },
      7);
  CHECK(episode.steps == 7);
  REQUIRE(moments.size() == 8);
  CHECK_FALSE(moments.back().outcome);
  CHECK_FALSE(moments.back().decision);
  CHECK(moments.back().last_action == 2);
  for (const FrameContents& moment : moments) CHECK_FALSE(moment.has_policy);
  CHECK(filmed(*environment, random_policy(1)).front().has_policy);
}

TEST_CASE("a continuous action is shown by its numbers") {
  const TaskConfig task("pendulum");
  const auto environment = make_cpu_vec_env(task, 1, Purpose::kTest, 1, 1);
  std::vector<FrameContents> moments;
  const auto keep = [&](const FrameContents& contents) { moments.push_back(contents); };
  film_episode(
      task, *environment, [](const VecEnv&) { return Decision{.numbers = {1.5f}}; }, 1, 1, keep, 3);
  REQUIRE(moments.size() == 4);
  CHECK(moments.front().last_numbers.empty());
  CHECK(moments.back().last_numbers == std::vector<float>{1.5f});
  CHECK_FALSE(moments.back().last_action);
  const FramePainter painter(environment->info(), "by hand", moments[1].board.rows(), moments[1].board.columns(), 1);
  const Box track = painter.probability_track(0);
  const auto pixel = [&](double share) {
    const RgbImage image = painter.paint(moments[1]);
    const int x = track.x + static_cast<int>(share * track.width), y = track.y + track.height / 2;
    const std::uint8_t* const at = image.pixels.data() + 3 * (static_cast<std::size_t>(y) * image.width + x);
    return Rgb{at[0], at[1], at[2]};
  };
  // From the middle, 0, three quarters of the way to the right, 2.
  CHECK(pixel(0.6) == palette::kAccent);
  CHECK(pixel(0.85) == palette::kAccent);
  CHECK(pixel(0.4) == palette::kTrack);
  CHECK(pixel(0.95) == palette::kTrack);

  const Decide first = random_policy(4), second = random_policy(4);
  for (int i = 0; i < 20; ++i) {
    const Decision decision = first(*environment);
    REQUIRE(decision.numbers.size() == 1);
    CHECK(std::abs(decision.numbers[0]) <= 2);
    CHECK(decision.numbers == second(*environment).numbers);
  }
  FrameContents wrong = moments[1];
  wrong.decision->numbers = {1, 2};
  CHECK_THROWS_AS(painter.paint(wrong), std::invalid_argument);
}

TEST_CASE("every moment is shown as the environment has it, with the decision that is then taken") {
  const auto environment = short_visual_match(5);
  const std::vector<FrameContents> moments = filmed(*environment, random_policy(2));
  REQUIRE(moments.size() == 34);

  // The same episode played by hand.
  const auto again = short_visual_match(5);
  double total = 0;
  for (int t = 0; t <= 33; ++t) {
    CAPTURE(t);
    const FrameContents& moment = moments[static_cast<std::size_t>(t)];
    Canvas board;
    again->draw(0, board);
    CHECK(same(moment.board, board));
    CHECK(moment.phase == again->phase(0));
    REQUIRE(moment.cue.has_value() == (t >= 3));  // the explore phase shows it
    if (moment.cue) CHECK(moment.cue->colour == again->cue(0)->colour);
    CHECK(moment.step == t);
    CHECK(std::ranges::equal(moment.observation, again->observation_N()));
    REQUIRE(moment.seen.picture);
    CHECK(same(*moment.seen.picture, *first_image(again->info().observation, again->observation_N())));
    CHECK(moment.last_reward == again->reward_N()[0]);
    CHECK(moment.total_reward == total);
    CHECK(moment.decision.has_value() == (t < 33));
    CHECK(moment.outcome.has_value() == (t == 33));
    CHECK(moment.last_action.has_value() == (t > 0));
    if (t == 33) break;
    if (t > 0) CHECK(*moment.last_action == moments[static_cast<std::size_t>(t - 1)].decision->action);
    const std::int32_t action = moment.decision->action;
    again->step({&action, 1});
    total += again->reward_N()[0];
  }
  CHECK(moments.back().outcome->success == (again->success_N()[0] != 0));
  CHECK(moments.back().outcome->total_reward == total);
}

TEST_CASE("a policy decides what happens") {
  TaskConfig task("tmaze");
  OptionList options = task.options();
  options.set("task.corridor_length", "5");
  const auto environment = make_cpu_vec_env(task, 1, Purpose::kTest, 1, 1);
  environment->reset_all();
  // Along the corridor, then where the sign at the start pointed.
  int turn = 0;
  const auto expert = [&turn](const VecEnv& current) {
    float seen[2];
    std::memcpy(seen, current.observation_N().data(), sizeof seen);
    if (turn == 0) turn = seen[1] > 0 ? 1 : 3;
    return Decision{seen[0] > 0 ? turn : 0, {}, {}};
  };
  const FilmedEpisode episode = film_episode(task, *environment, expert, 1, 1, [](const FrameContents&) {});
  CHECK(episode.success);
  CHECK(episode.steps == 6);
  CHECK(episode.total_reward == doctest::Approx(1));
}

TEST_CASE("an episode can be played first and filmed afterwards, from its decisions") {
  const auto environment = short_visual_match(5);
  const std::vector<FrameContents> direct = filmed(*environment, random_policy(2));
  environment->reset_all();
  const PlayedDecisions played = play_decisions(*environment, random_policy(2));
  CHECK(played.ended);
  CHECK(played.success == direct.back().outcome->success);
  REQUIRE(played.decisions.size() + 1 == direct.size());
  for (std::size_t t = 0; t < played.decisions.size(); ++t)
    CHECK(played.decisions[t].action == direct[t].decision->action);
  environment->reset_all();
  const PlayedDecisions left = play_decisions(*environment, random_policy(2), 7);
  CHECK(left.decisions.size() == 7);
  CHECK_FALSE(left.ended);
}

TEST_CASE("an episode turns with its decision, else with its first reward, else never") {
  const auto turning_point = [](const char* name, const std::vector<std::pair<std::string, std::string>>& settings,
                                const std::vector<int>& actions) {
    TaskConfig task(name);
    OptionList options = task.options();
    for (const auto& [key, value] : settings) options.set("task." + key, value);
    const auto environment = make_cpu_vec_env(task, 1, Purpose::kTest, 1, 1);
    environment->reset_all();
    const Decide decide = [&, t = std::size_t{0}](const VecEnv&) mutable {
      Decision decision;
      decision.action = actions[t++ % actions.size()];
      return decision;
    };
    const PlayedDecisions played = play_decisions(*environment, decide);
    return std::pair(played.turning_point, static_cast<int>(played.decisions.size()));
  };
  // The corridor of five steps, and then a goal: the right one or not, that is the decision.
  for (const int side : {1, 3})
    CHECK(turning_point("tmaze", {{"corridor_length", "5"}}, {0, 0, 0, 0, 0, side}) == std::pair(6, 6));
  // It stays at the start, and so never decides; what it loses on the way is no turn.
  CHECK(turning_point("tmaze", {{"corridor_length", "5"}, {"goal_reward", "2"}}, {2}) == std::pair(6, 6));
  // The first arm that pays, and none that does.
  const auto bandit = turning_point("multiarmed_bandit", {}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(bandit.first < bandit.second);
  CHECK(turning_point("dark_room", {{"size", "9"}, {"max_steps", "20"}}, {4}) == std::pair(20, 20));
}

TEST_CASE("a cut shows every so many moments and the last, no more than it may") {
  for (const int first : {0, 7})
    for (const int last : {7, 8, 20, 97, 750})
      for (const int most : {2, 3, 10, 186, 1000}) {
        const FilmCut cut = film_cut(first, last, most);
        int shown = 0;
        for (int step = 0; step <= last; ++step) shown += cut.shows(step, last);
        CAPTURE(first);
        CAPTURE(last);
        CAPTURE(most);
        CHECK(shown <= most);
        CHECK(shown >= std::min(most, last - first + 1) / 2);  // and not far fewer
        CHECK(cut.shows(first, last));
        CHECK(cut.shows(last, last));
        CHECK((cut.stride == 1) == (last - first < most));
      }
}

TEST_CASE("random actions are uniform and follow from the seed") {
  const auto environment = short_visual_match(5);
  const Decide decide = random_policy(3), again = random_policy(3), other = random_policy(4);
  int counts[4] = {};
  int equal_to_other = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Decision decision = decide(*environment);
    CHECK(decision.probabilities == std::vector<float>(4, 0.25f));
    CHECK(decision.action == again(*environment).action);
    equal_to_other += decision.action == other(*environment).action;
    ++counts[decision.action];
  }
  for (const int count : counts) CHECK(std::abs(count - kDraws / 4) < 137);  // 5 standard deviations
  CHECK(equal_to_other < kDraws / 2);
}

TEST_CASE("only a single environment is filmed") {
  const auto environment = short_visual_match(5, 2);
  CHECK_THROWS_AS(film_episode(short_task(), *environment, random_policy(1), 1, 1, [](const FrameContents&) {}),
                  std::invalid_argument);
}

TEST_CASE("a written film shows the player where the environment has it, frame by frame") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "film.mp4";
  const auto environment = short_visual_match(9);
  Canvas board;
  environment->draw(0, board);
  const FramePainter painter(environment->info(), "random policy", board.rows(), board.columns(), 1);
  std::vector<FrameContents> moments;
  VideoWriter writer(file, painter.width(), painter.height(), 10);
  film_episode(short_task(), *environment, random_policy(6), 1, 1, [&](const FrameContents& contents) {
    moments.push_back(contents);
    writer.write(painter.paint(contents));
  });
  writer.finish();

  cv::VideoCapture capture(file.string());
  cv::Mat frame;
  int moves = 0;
  CellPosition before{-1, -1};
  for (const FrameContents& moment : moments) {
    REQUIRE(capture.read(frame));
    const auto pixel = [&frame](const Box& box) {
      const auto bgr = frame.at<cv::Vec3b>(box.y + box.height / 2, box.x + box.width / 2);
      return Rgb{bgr[2], bgr[1], bgr[0]};
    };
    const auto near = [](Rgb a, Rgb b) {  // lossy coding; the tasks' colours are at least 40 apart in some channel
      return std::abs(a.red - b.red) < 16 && std::abs(a.green - b.green) < 16 && std::abs(a.blue - b.blue) < 16;
    };
    const auto player = find_view_centre(moment.board, environment->info().observation, moment.observation);
    REQUIRE(player);
    for (int row = 0; row < board.rows(); ++row) {
      for (int column = 0; column < board.columns(); ++column) {
        CHECK(near(pixel(painter.board_cell(row, column)), moment.board.at(row, column)));
      }
    }
    CHECK(near(pixel(painter.board_cell(player->row, player->column)), test::kPlayer));
    CHECK(near(pixel(painter.observation(moment.seen)), test::kPlayer));
    CHECK(near(Rgb{frame.at<cv::Vec3b>(painter.footer().y + 4, painter.footer().x + 40)[2],
                   frame.at<cv::Vec3b>(painter.footer().y + 4, painter.footer().x + 40)[1],
                   frame.at<cv::Vec3b>(painter.footer().y + 4, painter.footer().x + 40)[0]},
               !moment.outcome           ? palette::kBackground
               : moment.outcome->success ? palette::kSuccess
                                         : palette::kFailure));
    moves += before.row >= 0 && (before.row != player->row || before.column != player->column);
    before = *player;
  }
  CHECK_FALSE(capture.read(frame));
  CHECK(moves > 10);
}

}  // namespace
}  // namespace engram
