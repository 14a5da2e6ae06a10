// Cart-pole whose state is seen in part: push a cart left or right so that the pole on it stays up, and remember what
// is not seen.
//
// Source: Morad et al., "POPGym: Benchmarking partially observable reinforcement learning", ICLR 2023, in the form of
// the package popgym 1.0.7 (PositionOnlyCartPole, VelocityOnlyCartPole, NoisyPositionOnlyCartPole), on the dynamics of
// gymnasium 1.4.0. Observation: [2] float: place of the cart in metres and angle of the pole in radians, or the speeds
// of both; with full_state [4]: place, speed, angle, speed of the angle, without noise.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "base/exact.h"
#include "envs/tasks/popgym/cards.h"

namespace engram {

struct CartPole : cards::Game {
  static constexpr const char* kName = "cartpole";
  static constexpr const char* kDescription = "balance a pole on a cart, seeing only places, only speeds, or noise";
  static constexpr const char* kMemoryDemand = "recent places or speeds";
  static constexpr int kNumActions = 2;
  static constexpr const char* kActionNames[] = {"left", "right"};
  static constexpr const char* kChanceSource =
      "nothing is guessed: pushed at random, the pole falls after some 22 steps";

  enum class Sees { kPositions, kVelocities };

  struct Options : TaskOptions<CartPole> {
    Sees sees = Sees::kPositions;
    double noise = 0;
    int max_steps = 200;
    bool shows_start = true;

    void list_options(OptionList& list);
  };

  struct Params {
    double noise;  // 0 with full_state, which shows none
    float reward;
    std::int32_t max_steps;
    Sees sees;
    bool shows_start;
    bool full_state;
  };

  // What is added to an observation.
  struct Noise {
    float cart, pole;
  };

  struct State {
    double x, x_speed;  // of the cart, metres and seconds
    double angle, angle_speed;
    Noise noise;     // of this moment
    std::int32_t t;  // steps so far
  };

  // Beyond these the pole has fallen.
  static constexpr double kMostX = 2.4, kMostAngle = 12 * 2 * std::numbers::pi / 360;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) { return {params.full_state ? 4 : 2}; }
  static int max_episode_steps(const Params& params) { return params.max_steps; }

  HOST_DEVICE static Noise draw_noise(const Params& params, Rng& rng) {
    if (params.noise == 0) return {};
    const exact::NormalPair drawn = exact::normal_pair(rng);
    return {static_cast<float>(exact::product(params.noise, drawn.first)),
            static_cast<float>(exact::product(params.noise, drawn.second))};
  }

  HOST_DEVICE static State reset(const Params& params, Rng& rng) {
    double drawn[4] = {};
    for (double& number : drawn) number = exact::sum(exact::product(0.1, exact::product(rng.next(), 0x1p-32)), -0.05);
    return start(drawn[0], drawn[1], drawn[2], drawn[3], draw_noise(params, rng));
  }
  // The state in which an episode begins.
  HOST_DEVICE static State start(double x, double x_speed, double angle, double angle_speed, const Noise& noise) {
    return {x, x_speed, angle, angle_speed, noise, 0};
  }

  HOST_DEVICE static Outcome step(const Params& params, State& state, int action, Rng& rng) {
    const Outcome outcome = step_with(params, state, action, {});
    state.noise = draw_noise(params, rng);
    return outcome;
  }
  // The step after which this noise was drawn. The arithmetic is gymnasium's, operation by operation.
  HOST_DEVICE static Outcome step_with(const Params& params, State& state, int action, const Noise& noise) {
    using exact::difference, exact::product, exact::sum;
    constexpr double kGravity = 9.8, kPoleMass = 0.1, kMass = 1.0 + kPoleMass, kHalfLength = 0.5;
    constexpr double kPoleMoment = kPoleMass * kHalfLength, kForce = 10, kSeconds = 0.02;
    const auto [sine, cosine] = exact::sine_cosine(state.angle);
    const double force = action == 1 ? kForce : -kForce;
    const double turning = product(product(kPoleMoment, product(state.angle_speed, state.angle_speed)), sine);
    const double push = sum(force, turning) / kMass;
    const double inertia =
        product(kHalfLength, difference(4.0 / 3, product(kPoleMass, product(cosine, cosine)) / kMass));
    const double angle_gain = difference(product(kGravity, sine), product(cosine, push)) / inertia;
    const double x_gain = difference(push, product(product(kPoleMoment, angle_gain), cosine) / kMass);
    state.x = sum(state.x, product(kSeconds, state.x_speed));
    state.x_speed = sum(state.x_speed, product(kSeconds, x_gain));
    state.angle = sum(state.angle, product(kSeconds, state.angle_speed));
    state.angle_speed = sum(state.angle_speed, product(kSeconds, angle_gain));
    state.noise = noise;
    ++state.t;
    return {params.reward, fallen(state)                 ? End::kTerminated
                           : state.t >= params.max_steps ? End::kTruncated
                                                         : End::kNone};
  }

  HOST_DEVICE static bool fallen(const State& state) {
    return state.x < -kMostX || state.x > kMostX || state.angle < -kMostAngle || state.angle > kMostAngle;
  }
  // The pole is still up when the time is over.
  HOST_DEVICE static bool success(const Params& params, const State& state) {
    return state.t >= params.max_steps && !fallen(state);
  }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    const auto x = static_cast<float>(state.x), angle = static_cast<float>(state.angle);
    if (params.full_state) {
      out[0] = x;
      out[1] = static_cast<float>(state.x_speed);
      out[2] = angle;
      out[3] = static_cast<float>(state.angle_speed);
    } else if (params.sees == Sees::kPositions || (params.shows_start && state.t == 0)) {
      out[0] = clipped(x + state.noise.cart, static_cast<float>(2 * kMostX));
      out[1] = clipped(angle + state.noise.pole, static_cast<float>(2 * kMostAngle));
    } else {
      out[0] = static_cast<float>(state.x_speed) + state.noise.cart;
      out[1] = static_cast<float>(state.angle_speed) + state.noise.pole;
    }
  }

  // The cart on its track, and the pole with its angle three times as large.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();

 private:
  HOST_DEVICE static float clipped(float number, float most) {
    return number < -most ? -most : number > most ? most : number;
  }
};

static_assert(GridTask<CartPole>);

}  // namespace engram
