// Recorded episodes of POPGym's cart-poles.
#include "envs/tasks/popgym/cartpole.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"

namespace engram::recorded {
std::optional<std::string> replay_cartpole(const Json& episode) {
  CartPole::Options options;
  options.sees = get_word(episode, "sees", {"positions", "velocities"}) == 0 ? CartPole::Sees::kPositions
                                                                             : CartPole::Sees::kVelocities;
  options.max_steps = get_int(episode, "max_steps", 1, 1'000'000);
  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, options.max_steps));

  double start[4];
  for (std::size_t i = 0; const Json& number : get_array(episode, "start", 4)) {
    if (!number.is_number() || !(std::abs(number.get<double>()) <= 1)) refuse("start", number, "numbers -1..1");
    start[i++] = number.get<double>();
  }
  std::vector<CartPole::Noise> noise(length + 1);
  if (get_float(episode, "noise") != 0)
    for (std::size_t i = 0; const float number : get_pairs(episode, "drawn", length + 1)) {
      (i % 2 == 0 ? noise[i / 2].cart : noise[i / 2].pole) = number;
      ++i;
    }

  Recording<float> recording;
  recording.actions = get_symbols(episode, "actions", length, {"01"});
  recording.rewards.assign(length, get_float(episode, "reward"));
  recording.observations = get_pairs(episode, "obs", length + 1);
  recording.success = get_bool(episode, "success");
  recording.end = get_word(episode, "end", {"terminated", "truncated"}) == 0 ? End::kTerminated : End::kTruncated;

  const CartPole::Params params = CartPole::make_params(options, 0, Purpose::kTest);
  return play<CartPole>(params, CartPole::start(start[0], start[1], start[2], start[3], noise[0]), recording,
                        std::nullopt, [&noise](const auto& rules, auto& state, int action, std::size_t t) {
                          return CartPole::step_with(rules, state, action, noise[t + 1]);
                        });
}

}  // namespace engram::recorded
