// A pendulum that is to be swung up and held upright by a torque that alone is too weak for it, seen without its speed.
//
// Source: Morad et al., "POPGym: Benchmarking partially observable reinforcement learning", ICLR 2023, in the form of
// the package popgym 1.0.7 (PositionOnlyPendulum, NoisyPositionOnlyPendulum), on the dynamics of gymnasium 1.4.0's
// Pendulum-v1. Observation: [2] float: cosine and sine of the angle from upright; with full_state [3]: the speed of the
// angle in radians a second as well, without noise. Action: the torque in newton metres.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "base/exact.h"
#include "envs/tasks/popgym/cards.h"

namespace engram {

struct Pendulum : cards::Game {
  static constexpr const char* kName = "pendulum";
  static constexpr const char* kDescription =
      "swing a pendulum up and hold it there, seeing where it is, not its speed";
  static constexpr const char* kMemoryDemand = "recent angles";
  static constexpr ActionNumber kActionNumbers[] = {{"torque", -2, 2}};
  static constexpr const char* kChanceSource =
      "nothing is guessed: random torques have a mean return of 0.24, and 4% of their episodes end upright";

  struct Options : TaskOptions<Pendulum> {
    double noise = 0;
    int max_steps = 200;

    void list_options(OptionList& list);
  };

  struct Params {
    double noise;  // 0 with full_state, which shows none
    std::int32_t max_steps;
    bool full_state;
  };

  // What is added to an observation.
  struct Noise {
    float cosine, sine;
  };

  struct State {
    double angle, speed;  // radians from upright, which turns are not taken off, and radians a second
    float torque;         // the last one
    Noise noise;          // of this moment
    std::int32_t t;       // steps so far
  };

  static constexpr double kMostSpeed = 8;
  // The pendulum is upright while the cosine of its angle is as large as this, within 18 degrees.
  static constexpr double kUpright = 0.95;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) { return {params.full_state ? 3 : 2}; }
  static int max_episode_steps(const Params& params) { return params.max_steps; }

  HOST_DEVICE static Noise draw_noise(const Params& params, Rng& rng) {
    if (params.noise == 0) return {};
    const exact::NormalPair drawn = exact::normal_pair(rng);
    return {static_cast<float>(exact::product(params.noise, drawn.first)),
            static_cast<float>(exact::product(params.noise, drawn.second))};
  }

  HOST_DEVICE static State reset(const Params& params, Rng& rng) {
    // Of [-most, most).
    const auto draw = [&rng](double most) {
      return exact::sum(exact::product(2 * most, exact::product(rng.next(), 0x1p-32)), -most);
    };
    const double angle = draw(std::numbers::pi), speed = draw(1);
    return start(angle, speed, draw_noise(params, rng));
  }
  // The state in which an episode begins.
  HOST_DEVICE static State start(double angle, double speed, const Noise& noise) { return {angle, speed, 0, noise, 0}; }

  HOST_DEVICE static Outcome step(const Params& params, State& state, const float* action, Rng& rng) {
    const Outcome outcome = step_with(params, state, *action, {});
    state.noise = draw_noise(params, rng);
    return outcome;
  }
  // The step after which this noise was drawn; |torque| <= 2. The arithmetic is gymnasium's, operation by operation: of
  // a torque in float32 its share of the cost and of the acceleration are, too.
  HOST_DEVICE static Outcome step_with(const Params& params, State& state, float torque, const Noise& noise) {
    using exact::product, exact::sum;
    constexpr double kSeconds = 0.05;
    const double from_upright = nearest_turn(state.angle);
    const float effort = float_product(0.001f, float_product(torque, torque));
    const double cost = sum(sum(product(from_upright, from_upright), product(0.1, product(state.speed, state.speed))),
                            static_cast<double>(effort));
    const double gain =
        sum(product(15, exact::sine_cosine_of_any(state.angle).sine), static_cast<double>(float_product(3.0f, torque)));
    const double speed = sum(state.speed, product(gain, kSeconds));
    state.speed = speed < -kMostSpeed ? -kMostSpeed : speed > kMostSpeed ? kMostSpeed : speed;
    state.angle = sum(state.angle, product(state.speed, kSeconds));
    state.torque = torque;
    state.noise = noise;
    ++state.t;
    return {reward(params, cost), state.t >= params.max_steps ? End::kTruncated : End::kNone};
  }

  HOST_DEVICE static bool upright(const State& state) {
    return exact::sine_cosine_of_any(state.angle).cosine >= kUpright;
  }
  // It stands when the time is over.
  HOST_DEVICE static bool success(const Params& params, const State& state) {
    return state.t >= params.max_steps && upright(state);
  }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    const auto [sine, cosine] = exact::sine_cosine_of_any(state.angle);
    out[0] = static_cast<float>(cosine);
    out[1] = static_cast<float>(sine);
    if (params.full_state) {
      out[2] = static_cast<float>(state.speed);
    } else {
      out[0] = within_one(out[0] + state.noise.cosine);
      out[1] = within_one(out[1] + state.noise.sine);
    }
  }

  // The rod about its pivot, and below them the last torque.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();

 private:
  HOST_DEVICE static float float_product(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
  }
  // The angle within half a turn of upright, in Python's arithmetic: ((angle + pi) % (2 pi)) - pi.
  HOST_DEVICE static double nearest_turn(double angle) {
    constexpr double kTurn = 2 * std::numbers::pi;
    const double rest = std::fmod(exact::sum(angle, std::numbers::pi), kTurn);  // exact
    return exact::difference(rest < 0 ? exact::sum(rest, kTurn) : rest, std::numbers::pi);
  }
  // The cost of a step, at most some 16.27, as a share of an episode's return, which lies between -1 and 1.
  HOST_DEVICE static float reward(const Params& params, double cost) {
    constexpr double kHalfOfMost = 16.2736044 / 2;
    return static_cast<float>(exact::sum(-cost, kHalfOfMost) / kHalfOfMost / params.max_steps);
  }
  HOST_DEVICE static float within_one(float number) { return number < -1 ? -1.0f : number > 1 ? 1.0f : number; }
};

static_assert(GridTask<Pendulum>);

}  // namespace engram
