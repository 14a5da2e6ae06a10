// Cart-pole, held against the equations of motion and against what its options say.
#include "envs/tasks/popgym/cartpole.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "envs/vec/vec_env.h"

using namespace engram;

namespace {

CartPole::Params params_of(const CartPole::Options& options) {
  return CartPole::make_params(options, 0, Purpose::kTest);
}

std::vector<float> seen(const CartPole::Params& params, const CartPole::State& state) {
  std::vector<float> observation(static_cast<std::size_t>(CartPole::observation_shape(params)[0]));
  CartPole::observe(params, state, observation.data());
  return observation;
}

int balance(const CartPole::State& state) {
  return 0.3 * state.x + 0.6 * state.x_speed + 8 * state.angle + 1.5 * state.angle_speed > 0 ? 1 : 0;
}

// Accelerations by Florian, "Correct equations for the dynamics of the cart-pole system", 2007, eq. 23 and 24, without
// friction, for a cart of 1 kg, a pole of 0.1 kg and 1 m.
struct Accelerations {
  double x, angle;
};
Accelerations accelerations(const CartPole::State& state, double force) {
  const double m = 0.1, M = 1.0, l = 0.5, g = 9.8, sine = std::sin(state.angle), cosine = std::cos(state.angle);
  const double centrifugal = m * l * state.angle_speed * state.angle_speed;
  const double angle =
      (g * sine + cosine * (-force - centrifugal * sine) / (M + m)) / (l * (4.0 / 3 - m * cosine * cosine / (M + m)));
  return {(force + centrifugal * sine - m * l * angle * cosine) / (M + m), angle};
}

}  // namespace

TEST_CASE(
    "cart-pole: a step is one of Euler's by the equations of motion, and its end is the pole's fall or the time's") {
  CartPole::Options options;
  options.max_steps = 300;
  const CartPole::Params params = params_of(options);
  int fallen_by_angle = 0, fallen_by_place = 0, truncated = 0;
  for (std::uint32_t episode = 0; episode < 300; ++episode) {
    Rng rng(1, Purpose::kTest, 0, episode), random(2, Purpose::kTest, 0, episode);
    CartPole::State state = CartPole::reset(params, rng);
    for (const double number : {state.x, state.x_speed, state.angle, state.angle_speed}) {
      CHECK(number >= -0.05);
      CHECK(number < 0.05);
    }
    for (int t = 1;; ++t) {
      REQUIRE_FALSE(CartPole::success(params, state));
      const CartPole::State before = state;
      // Random, balancing, and balancing on the way to a place off the track.
      CartPole::State leaving = state;
      leaving.x -= 4;
      const int action = episode % 3 == 0   ? static_cast<int>(random.below(2))
                         : episode % 3 == 1 ? balance(state)
                                            : balance(leaving);
      const Outcome outcome = CartPole::step(params, state, action, rng);
      const Accelerations gain = accelerations(before, action == 1 ? 10 : -10);
      REQUIRE(std::abs(state.x - (before.x + 0.02 * before.x_speed)) <= 1e-14);
      REQUIRE(std::abs(state.x_speed - (before.x_speed + 0.02 * gain.x)) <= 1e-14);
      REQUIRE(std::abs(state.angle - (before.angle + 0.02 * before.angle_speed)) <= 1e-14);
      REQUIRE(std::abs(state.angle_speed - (before.angle_speed + 0.02 * gain.angle)) <= 1e-14);
      REQUIRE(outcome.reward == static_cast<float>(1.0 / 300));
      const bool off = std::abs(state.x) > 2.4, down = std::abs(state.angle) > 0.20943951023931953;
      REQUIRE(outcome.end == (off || down ? End::kTerminated : t == 300 ? End::kTruncated : End::kNone));
      REQUIRE(CartPole::success(params, state) == (outcome.end == End::kTruncated));
      REQUIRE(CartPole::phase(params, state) == (off || down ? "fallen" : t < 150 ? "first half" : "second half"));
      if (outcome.end == End::kNone) continue;
      ++(off ? fallen_by_place : down ? fallen_by_angle : truncated);
      break;
    }
  }
  CHECK(fallen_by_angle >= 90);
  CHECK(fallen_by_place >= 50);
  CHECK(truncated >= 50);
}

TEST_CASE("cart-pole: a pole that falls with the last step has fallen") {
  CartPole::Options options;
  options.max_steps = 1;
  const CartPole::Params params = params_of(options);
  CartPole::State falling = CartPole::start(0, 0, 0.2, 1, {}), standing = CartPole::start(0, 0, 0.2, 0, {});
  CHECK(CartPole::step_with(params, falling, 0, {}).end == End::kTerminated);
  CHECK_FALSE(CartPole::success(params, falling));
  CHECK(CartPole::step_with(params, standing, 0, {}).end == End::kTruncated);
  CHECK(CartPole::success(params, standing));
}

TEST_CASE("cart-pole: what is seen is what the options say") {
  const CartPole::State state = [] {
    CartPole::State moving = CartPole::start(0.5, -1.5, 0.125, 2.5, {});
    moving.t = 1;
    return moving;
  }();
  CartPole::State noisy = state, first = state;
  noisy.noise = {0.25f, -0.5f};
  first.t = 0;
  CartPole::Options options;
  using Numbers = std::vector<float>;
  CHECK(seen(params_of(options), state) == Numbers{0.5f, 0.125f});
  CHECK(seen(params_of(options), noisy) == Numbers{0.75f, -0.375f});
  noisy.noise = {100, -100};
  CHECK(seen(params_of(options), noisy) == Numbers{4.8f, -0.41887903f});
  noisy.noise = {-100, 100};
  CHECK(seen(params_of(options), noisy) == Numbers{-4.8f, 0.41887903f});
  options.sees = CartPole::Sees::kVelocities;
  CHECK(seen(params_of(options), state) == Numbers{-1.5f, 2.5f});
  CHECK(seen(params_of(options), noisy) == Numbers{-101.5f, 102.5f});
  CHECK(seen(params_of(options), first) == Numbers{0.5f, 0.125f});
  options.shows_start = false;
  CHECK(seen(params_of(options), first) == Numbers{-1.5f, 2.5f});
  options.full_state = true;
  CHECK(seen(params_of(options), noisy) == Numbers{0.5f, -1.5f, 0.125f, 2.5f});
  CHECK(seen(params_of(options), first) == Numbers{0.5f, -1.5f, 0.125f, 2.5f});
}

TEST_CASE("cart-pole: noise of the standard deviation asked for is drawn anew at every moment, and moves nothing") {
  CartPole::Options options;
  options.max_steps = 1'000'000;
  const CartPole::Params plain = params_of(options);
  options.noise = 0.3;
  const CartPole::Params noisy = params_of(options);
  options.full_state = true;
  const CartPole::Params full = params_of(options);
  std::vector<double> noise[2];
  for (std::uint32_t episode = 0; episode < 20; ++episode) {
    Rng rngs[3];
    for (Rng& rng : rngs) rng = Rng(1, Purpose::kTest, 0, episode);
    CartPole::State with = CartPole::reset(noisy, rngs[0]), without = CartPole::reset(plain, rngs[1]),
                    shown = CartPole::reset(full, rngs[2]);
    for (int t = 0; t < 500; ++t) {
      REQUIRE(with.x == without.x);
      REQUIRE(with.angle_speed == without.angle_speed);
      REQUIRE(shown.angle_speed == without.angle_speed);
      REQUIRE(seen(plain, without)[0] == static_cast<float>(without.x));
      noise[0].push_back(with.noise.cart);
      noise[1].push_back(with.noise.pole);
      const int action = balance(with);
      CartPole::step(noisy, with, action, rngs[0]);
      CartPole::step(plain, without, action, rngs[1]);
      CartPole::step(full, shown, action, rngs[2]);
    }
  }
  for (const std::vector<double>& drawn : noise) {
    double sum = 0, squares = 0, lagged = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      sum += drawn[i];
      squares += drawn[i] * drawn[i];
      if (i > 0) lagged += drawn[i] * drawn[i - 1];
    }
    const auto n = static_cast<double>(drawn.size());  // 10,000: five standard errors
    CHECK(std::abs(sum / n) <= 0.015);
    CHECK(std::abs(std::sqrt(squares / n) / 0.3 - 1) <= 0.036);
    CHECK(std::abs(lagged / n) <= 0.3 * 0.3 * 0.05);
    CHECK(std::set<double>(drawn.begin(), drawn.end()).size() > 9'900);
  }
}

TEST_CASE("cart-pole: the cart and the pole are drawn where they are") {
  const CartPole::Params params = params_of({});
  const Rgb cart{0, 90, 220}, pole{159, 81, 44}, red{210, 0, 0};
  const auto drawn = [&](double x, double angle) {
    Canvas canvas;
    CartPole::draw(params, CartPole::start(x, 0, angle, 0, {}), canvas);
    return canvas;
  };
  const auto column_of = [](const Canvas& canvas, int row, Rgb colour) {
    for (int column = 0; column < canvas.columns(); ++column)
      if (canvas.at(row, column) == colour) return column;
    return -1;
  };
  const Canvas upright = drawn(0, 0);
  CHECK(column_of(upright, 8, cart) == 11);  // three cells, its middle in column 12
  for (int row = 0; row < 8; ++row) CHECK(column_of(upright, row, pole) == 12);
  CHECK(column_of(drawn(1.2, 0), 8, cart) == 17);
  CHECK(column_of(drawn(0, 0.15), 0, pole) > 14);
  CHECK(column_of(drawn(0, -0.15), 0, pole) < 10);
  CHECK(column_of(drawn(2.5, 0.3), 0, red) == 24);
  CHECK(column_of(drawn(-30, -0.3), 0, red) == 0);  // beyond the track
}

TEST_CASE("cart-pole: pushed at random, the pole falls after some 22 steps") {
  TaskConfig task("cartpole");
  const auto environment = make_cpu_vec_env(task, 1, Purpose::kTest, 1, 1);
  Rng random(1, Purpose::kTest, 0, 0);
  int steps = 0;
  constexpr int kEpisodes = 2'000;
  for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
    for (environment->reset_all(episode); environment->end_N()[0] == End::kNone; ++steps)
      environment->step(std::vector<std::int32_t>{static_cast<std::int32_t>(random.below(2))});
    CHECK(environment->end_N()[0] == End::kTerminated);
    CHECK(environment->success_N()[0] == 0);
  }
  CHECK(std::abs(steps / static_cast<double>(kEpisodes) - 22.2) <= 1.5);
}
