// The pendulum, held against its equation of motion and against what its options say.
#include "envs/tasks/popgym/pendulum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "envs/vec/vec_env.h"

using namespace engram;

namespace {

constexpr double kPi = std::numbers::pi;

Pendulum::Params params_of(const Pendulum::Options& options) {
  return Pendulum::make_params(options, 0, Purpose::kTest);
}

std::vector<float> seen(const Pendulum::Params& params, const Pendulum::State& state) {
  std::vector<float> observation(static_cast<std::size_t>(Pendulum::observation_shape(params)[0]));
  Pendulum::observe(params, state, observation.data());
  return observation;
}

}  // namespace

TEST_CASE("pendulum: a step is one of Euler's by the equation of motion, and costs what is left of upright and rest") {
  Pendulum::Options options;
  options.max_steps = 150;
  const Pendulum::Params params = params_of(options);
  int fastest = 0;
  for (std::uint32_t episode = 0; episode < 100; ++episode) {
    Rng rng(1, Purpose::kTest, 0, episode), random(2, Purpose::kTest, 0, episode);
    Pendulum::State state = Pendulum::reset(params, rng);
    CHECK(std::abs(state.angle) <= kPi);
    CHECK(std::abs(state.speed) <= 1);
    for (int t = 1; t <= 150; ++t) {
      const Pendulum::State before = state;
      // At random, or with the speed, which turns it round and round.
      const float torque = episode % 2 == 0 ? 4 * random.uniform() - 2 : state.speed > 0 ? 2.0f : -2.0f;
      const Outcome outcome = Pendulum::step(params, state, &torque, rng);
      // m l^2 / 3 angle'' = m g l / 2 sin(angle) + torque with m = l = 1, g = 10.
      const double free = before.speed + 0.05 * 3 * (5 * std::sin(before.angle) + torque);
      fastest += std::abs(free) > 8;
      REQUIRE(std::abs(state.speed - std::min(8.0, std::max(-8.0, free))) <= 1e-6);  // the torque's part is float32
      REQUIRE(state.angle == before.angle + 0.05 * state.speed);
      const double off = std::remainder(before.angle, 2 * kPi);
      const double cost = off * off + 0.1 * before.speed * before.speed + 0.001 * torque * torque;
      REQUIRE(std::abs(outcome.reward - (1 - cost / 8.1368022) / 150) <= 1e-8);
      REQUIRE(outcome.end == (t == 150 ? End::kTruncated : End::kNone));
      const bool stands = std::cos(state.angle) >= 0.95;
      REQUIRE(Pendulum::phase(params, state) == (stands ? "upright" : "swinging"));
      REQUIRE(Pendulum::success(params, state) == (t == 150 && stands));
    }
  }
  CHECK(fastest > 100);
}

TEST_CASE("pendulum: what is seen is what the options say") {
  Pendulum::State state = Pendulum::start(0.5 + 20 * kPi, -3, {0.25f, -0.5f});
  Pendulum::Options options;
  const std::vector<float> noisy = seen(params_of(options), state);
  CHECK(noisy[0] == 1);  // cut
  CHECK(noisy[1] == doctest::Approx(std::sin(0.5) - 0.5).epsilon(1e-6));
  state.noise = {};
  CHECK(seen(params_of(options), state)[0] == doctest::Approx(std::cos(0.5)).epsilon(1e-6));
  options.full_state = true;
  options.noise = 0.3;
  state.noise = {0.25f, -0.5f};
  const std::vector<float> full = seen(params_of(options), state);
  CHECK(full[0] == doctest::Approx(std::cos(0.5)).epsilon(1e-6));
  CHECK(full[1] == doctest::Approx(std::sin(0.5)).epsilon(1e-6));
  CHECK(full[2] == -3);
}

TEST_CASE("pendulum: noise of the standard deviation asked for is drawn anew at every moment, and moves nothing") {
  Pendulum::Options options;
  options.max_steps = 1'000'000;
  const Pendulum::Params plain = params_of(options);
  options.noise = 0.3;
  const Pendulum::Params noisy = params_of(options);
  double sum = 0, squares = 0, across = 0;
  int count = 0;
  for (std::uint32_t episode = 0; episode < 10; ++episode) {
    Rng rngs[2];
    for (Rng& rng : rngs) rng = Rng(1, Purpose::kTest, 0, episode);
    Pendulum::State with = Pendulum::reset(noisy, rngs[0]), without = Pendulum::reset(plain, rngs[1]);
    for (int t = 0; t < 500; ++t) {
      REQUIRE(with.angle == without.angle);
      REQUIRE(without.noise.sine == 0);
      for (const float drawn : {with.noise.cosine, with.noise.sine}) {
        sum += drawn;
        squares += drawn * drawn;
        ++count;
      }
      across += with.noise.cosine * with.noise.sine;
      const float torque = t % 3 - 1.0f;
      Pendulum::step(noisy, with, &torque, rngs[0]);
      Pendulum::step(plain, without, &torque, rngs[1]);
    }
  }
  CHECK(std::abs(sum / count) <= 0.015);  // 10,000: five standard errors
  CHECK(std::abs(std::sqrt(squares / count) / 0.3 - 1) <= 0.036);
  CHECK(std::abs(across / count) <= 0.3 * 0.3 * 0.05);
}

TEST_CASE("pendulum: torques beyond the bounds count as the bounds, and what is no number is refused") {
  const TaskConfig task = TaskConfig::from_preset("noisy_position_only_pendulum_hard");
  const auto strong = make_cpu_vec_env(task, 1, Purpose::kTest, 2, 1),
             most = make_cpu_vec_env(task, 1, Purpose::kTest, 2, 1);
  strong->step(std::vector<std::int32_t>{word_of(7), word_of(-2.5f)});
  most->step(std::vector<std::int32_t>{word_of(2), word_of(-2)});
  CHECK(std::memcmp(strong->observation_N().data(), most->observation_N().data(), strong->observation_N().size()) == 0);
  CHECK(strong->reward_N()[0] == most->reward_N()[0]);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<std::int32_t> rows{word_of(1), word_of(bad)};
    CHECK_THROWS_WITH_AS(strong->step(rows), "the action of environment 1 has a number that is not finite",
                         std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(strong->step(std::vector<std::int32_t>{0}), "1 actions for 2 environments",
                       std::invalid_argument);
}

TEST_CASE("pendulum: the rod is drawn where it is, and the torque below it") {
  const Pendulum::Params params = params_of({});
  const Rgb pivot{25, 25, 25}, rod{204, 77, 77}, standing{0, 140, 60}, blue{0, 90, 220};
  const auto drawn = [&](double angle, float torque) {
    Pendulum::State state = Pendulum::start(angle, 0, {});
    state.torque = torque;
    Canvas canvas;
    Pendulum::draw(params, state, canvas);
    return canvas;
  };
  const Canvas upright = drawn(0, 0), hanging = drawn(kPi, 2), left = drawn(kPi / 2, -1);
  CHECK(upright.rows() == 15);
  CHECK(upright.columns() == 13);
  CHECK(upright.at(6, 6) == pivot);
  for (int length = 1; length <= 6; ++length) {
    CHECK(upright.at(6 - length, 6) == standing);
    CHECK(hanging.at(6 + length, 6) == rod);
    CHECK(left.at(6, 6 - length) == rod);
    CHECK(hanging.at(14, 6 - length) == blue);
    CHECK((left.at(14, 6 + length) == blue) == (length <= 3));
  }
  CHECK(upright.at(14, 6) == pivot);
  CHECK_FALSE(upright.at(14, 5) == blue);
}

TEST_CASE("pendulum: torques drawn uniformly give the return that is said of them") {
  TaskConfig task("pendulum");
  const auto environment = make_cpu_vec_env(task, 1, Purpose::kTest, 1, 1);
  Rng random(1, Purpose::kTest, 0, 0);
  double total = 0;
  int solved = 0;
  constexpr int kEpisodes = 4'000;
  std::int32_t row = 0;
  for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
    for (environment->reset_all(episode); environment->end_N()[0] == End::kNone;) {
      draw_action(environment->info().action, random, &row);
      REQUIRE(std::abs(number_of(row)) <= 2);
      environment->step_row(0, row);
      total += environment->reward_N()[0];
    }
    solved += environment->success_N()[0];
  }
  CHECK(std::abs(total / kEpisodes - 0.25) <= 0.02);
  CHECK(solved <= kEpisodes / 10);
}
