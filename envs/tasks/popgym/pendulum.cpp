#include "envs/tasks/popgym/pendulum.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kAir{204, 204, 204}, kPivot{25, 25, 25}, kRod{204, 77, 77}, kStanding{0, 140, 60}, kTorque{0, 90, 220};

}  // namespace

void Pendulum::Options::list_options(OptionList& list) {
  list.add("noise", noise, {0, 10}, "standard deviation of the normal noise on each number seen");
  list.add("max_steps", max_steps, {1, 1'000'000}, "steps of an episode");
  list_full_state(list, full_state);
}

Pendulum::Params Pendulum::make_params(const Options& options, std::uint64_t, Purpose) {
  return {.noise = options.full_state ? 0 : options.noise,
          .max_steps = options.max_steps,
          .full_state = options.full_state};
}

void Pendulum::draw(const Params&, const State& state, Canvas& canvas) {
  constexpr int kHalf = 6, kSize = 2 * kHalf + 1;
  canvas.resize(kSize + 2, kSize, kAir);
  const double sine = std::sin(state.angle), cosine = std::cos(state.angle);
  for (int length = 1; length <= kHalf; ++length)
    canvas.set(kHalf - static_cast<int>(std::lround(length * cosine)),
               kHalf - static_cast<int>(std::lround(length * sine)), upright(state) ? kStanding : kRod);
  canvas.set(kHalf, kHalf, kPivot);
  // To the left it turns the rod to the left, as a larger angle lies there.
  const int torque = static_cast<int>(std::lround(kHalf * state.torque / kActionNumbers[0].most));
  canvas.set(kSize + 1, kHalf, kPivot);
  for (int cell = 1; cell <= std::abs(torque); ++cell)
    canvas.set(kSize + 1, kHalf - (torque > 0 ? cell : -cell), kTorque);
}

std::vector<ColourMeaning> Pendulum::colours(const Params&) {
  return {{'.', kAir, "air"},
          {'o', kPivot, "pivot, and no torque"},
          {'|', kRod, "rod"},
          {'!', kStanding, "rod, upright"},
          {'=', kTorque, "last torque"}};
}

std::string Pendulum::phase(const Params&, const State& state) { return upright(state) ? "upright" : "swinging"; }

std::vector<VectorPart> Pendulum::vector_parts(const Params& params) {
  return with_full_state(params.full_state, {{"cosine of the angle from upright"}, {"its sine"}},
                         {{"speed of the angle, rad/s"}});
}

std::vector<TaskPreset> Pendulum::presets() {
  struct Size {
    const char *name, *max_steps, *noise;
  };
  std::vector<TaskPreset> presets;
  for (const Size& size : {Size{"easy", "200", "0.1"}, {"medium", "150", "0.2"}, {"hard", "100", "0.3"}}) {
    const std::string name = size.name;
    presets.push_back({"position_only_pendulum_" + name, kName, {{"max_steps", size.max_steps}}, kSource});
    presets.push_back({"noisy_position_only_pendulum_" + name, kName, {{"noise", size.noise}}, kSource});
  }
  return presets;
}

template TaskEntry task_entry<Pendulum>();

}  // namespace engram
