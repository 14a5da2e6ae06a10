#include "envs/tasks/popgym/cartpole.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kAir{204, 204, 204}, kTrack{25, 25, 25}, kCart{0, 90, 220}, kPole{159, 81, 44}, kFallen{210, 0, 0};

}  // namespace

void CartPole::Options::list_options(OptionList& list) {
  list.add("sees", sees, {{Sees::kPositions, "positions"}, {Sees::kVelocities, "velocities"}},
           "of cart and pole: place and angle, or the speeds of both");
  list.add("noise", noise, {0, 10}, "standard deviation of the normal noise on each number seen");
  list.add("max_steps", max_steps, {1, 1'000'000}, "steps for which the pole has to stay up");
  list.add("shows_start", shows_start,
           "the first observation shows the positions whatever is seen, as by the original's code");
  list_full_state(list, full_state);
}

CartPole::Params CartPole::make_params(const Options& options, std::uint64_t, Purpose) {
  Params params{};
  params.noise = options.full_state ? 0 : options.noise;
  params.reward = static_cast<float>(1.0 / options.max_steps);
  params.max_steps = options.max_steps;
  params.sees = options.sees;
  params.shows_start = options.shows_start;
  params.full_state = options.full_state;
  return params;
}

void CartPole::draw(const Params&, const State& state, Canvas& canvas) {
  constexpr int kHalf = 12, kPoleCells = 8;
  canvas.resize(kPoleCells + 2, 2 * kHalf + 1, kAir);
  const auto set = [&canvas](int row, double column, Rgb colour) {
    canvas.set(row, std::clamp(static_cast<int>(std::lround(column)), 0, 2 * kHalf), colour);
  };
  const double cart = kHalf * (1 + state.x / kMostX);
  for (int i = 0; i < kPoleCells; ++i)
    set(kPoleCells - 1 - i, cart + (i + 1) * std::tan(3 * state.angle), fallen(state) ? kFallen : kPole);
  for (const int side : {-1, 0, 1}) set(kPoleCells, cart + side, kCart);
  for (int column = 0; column <= 2 * kHalf; ++column) canvas.set(kPoleCells + 1, column, kTrack);
}

std::vector<ColourMeaning> CartPole::colours(const Params&) {
  return {{'.', kAir, "air"},
          {'=', kTrack, "track"},
          {'o', kCart, "cart"},
          {'|', kPole, "pole"},
          {'!', kFallen, "pole, fallen"}};
}

std::string CartPole::phase(const Params& params, const State& state) {
  return fallen(state) ? "fallen" : 2 * state.t < params.max_steps ? "first half" : "second half";
}

std::vector<VectorPart> CartPole::vector_parts(const Params& params) {
  if (params.full_state) return {{"cart, m"}, {"its speed, m/s"}, {"angle of the pole, rad"}, {"its speed, rad/s"}};
  if (params.sees == Sees::kPositions) return {{"cart, m"}, {"angle of the pole, rad"}};
  return {{"speed of the cart, m/s"}, {"speed of the pole's angle, rad/s"}};
}

std::vector<TaskPreset> CartPole::presets() {
  struct Size {
    const char *name, *max_steps, *noise;
  };
  std::vector<TaskPreset> presets;
  for (const Size& size : {Size{"easy", "200", "0.1"}, {"medium", "400", "0.2"}, {"hard", "600", "0.3"}}) {
    const std::string name = size.name;
    presets.push_back({"position_only_cartpole_" + name, kName, {{"max_steps", size.max_steps}}, kSource});
    presets.push_back(
        {"velocity_only_cartpole_" + name, kName, {{"sees", "velocities"}, {"max_steps", size.max_steps}}, kSource});
    presets.push_back(
        {"noisy_position_only_cartpole_" + name, kName, {{"noise", size.noise}, {"max_steps", "200"}}, kSource});
  }
  return presets;
}

template TaskEntry task_entry<CartPole>();

}  // namespace engram
