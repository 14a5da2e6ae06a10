// Recorded episodes of POPGym's pendulums.
#include "envs/tasks/popgym/pendulum.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"

namespace engram::recorded {

std::optional<std::string> replay_pendulum(const Json& episode) {
  Pendulum::Options options;
  options.max_steps = get_int(episode, "max_steps", 1, 1'000'000);
  const Pendulum::Params params = Pendulum::make_params(options, 0, Purpose::kTest);
  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, options.max_steps));

  double start[2];
  for (std::size_t i = 0; const Json& number : get_array(episode, "start", 2)) {
    if (!number.is_number() || !(std::abs(number.get<double>()) <= 4)) refuse("start", number, "numbers -4..4");
    start[i++] = number.get<double>();
  }
  std::vector<Pendulum::Noise> noise(length + 1);
  if (get_float(episode, "noise") != 0)
    for (std::size_t i = 0; const float number : get_pairs(episode, "drawn", length + 1)) {
      (i % 2 == 0 ? noise[i / 2].cosine : noise[i / 2].sine) = number;
      ++i;
    }

  Recording<float> recording = read_common<float>(episode, length);
  recording.actions = get_action_rows(episode, length, {.names = {}, .numbers = {Pendulum::kActionNumbers[0]}});
  recording.observations = get_pairs(episode, "obs", length + 1);
  recording.end = End::kTruncated;
  return play<Pendulum>(params, Pendulum::start(start[0], start[1], noise[0]), recording, std::nullopt,
                        [&noise](const auto& rules, auto& state, std::int32_t word, std::size_t t) {
                          return Pendulum::step_with(rules, state, bounded_number<Pendulum, 0>(&word), noise[t + 1]);
                        });
}

}  // namespace engram::recorded
