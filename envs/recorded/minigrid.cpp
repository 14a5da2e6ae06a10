// Recorded episodes of MiniGrid's tasks.
#include <array>

#include "base/error.h"
#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"
#include "envs/tasks/minigrid_memory.h"

namespace engram::recorded {
namespace {

constexpr int kCells = minigrid::kView * minigrid::kView;

// What the character of a cell stands for: the reference's three codes.
std::optional<std::array<std::uint8_t, 3>> codes_of(char symbol) {
  switch (symbol) {
    case '?':
      return {{0, 0, 0}};
    case '.':
      return {{1, 0, 0}};
    case '#':
      return {{2, 5, 0}};
    case 'k':
      return {{5, 1, 0}};
    case 'b':
      return {{6, 1, 0}};
    default:
      return std::nullopt;
  }
}

std::vector<std::uint8_t> read_view(const Json& view) {
  const std::string text = view.is_string() ? view.get<std::string>() : "";
  std::vector<std::uint8_t> codes(minigrid::kObservationBytes);
  bool well_formed = text.size() == kCells;
  for (std::size_t cell = 0; well_formed && cell < kCells; ++cell) {
    const auto triple = codes_of(text[cell]);
    well_formed = triple.has_value();
    for (std::size_t channel = 0; triple && channel < 3; ++channel) codes[channel * kCells + cell] = (*triple)[channel];
  }
  if (!well_formed) refuse("views", view, "a text of 49 characters, each a cell's");
  return codes;
}

// max_steps: of the task.
Recording<std::uint8_t> read_recording(const Json& episode, int max_steps) {
  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, max_steps));
  Recording<std::uint8_t> recording;
  recording.actions = get_symbols(episode, "actions", length, {"0123456"});
  recording.rewards.assign(length, 0);
  recording.rewards.back() = get_float(episode, "last_reward");
  recording.end = get_word(episode, "end", {"terminated", "truncated"}) == 0 ? End::kTerminated : End::kTruncated;
  recording.success = get_bool(episode, "success");

  const Json& texts = field_of(episode, "views");
  if (!texts.is_array() || texts.empty()) refuse("views", texts, "an array of texts");
  std::vector<std::vector<std::uint8_t>> views;
  for (const Json& text : texts) views.push_back(read_view(text));
  for (const Json& number : get_array(episode, "obs", length + 1)) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= views.size())
      refuse("obs", number, "integers 0.." + std::to_string(views.size() - 1));
    const std::vector<std::uint8_t>& view = views[number.get<std::size_t>()];
    recording.observations.insert(recording.observations.end(), view.begin(), view.end());
  }
  return recording;
}

}  // namespace

std::optional<std::string> replay_minigrid_memory(const Json& episode) {
  MiniGridMemory::Options options;
  options.codes = minigrid::CodeBytes::kOriginal;
  options.size = get_int(episode, "size", MiniGridMemory::kMinSize, MiniGridMemory::kMaxSize);
  if (options.size % 2 == 0) refuse("size", options.size, "an odd number");
  const int hall_end = get_int(episode, "hall_end", MiniGridMemory::kFirstHallEnd, options.size - 3);
  const int x = get_int(episode, "x", 1, hall_end);
  const std::vector<std::string> kinds = {"key", "ball"};
  const bool is_key = get_word(episode, "object", kinds) == 0, upper_is_key = get_word(episode, "upper", kinds) == 0;
  const MiniGridMemory::Params params = MiniGridMemory::make_params(options, 0, Purpose::kTest);
  return play<MiniGridMemory>(params, MiniGridMemory::start(params, hall_end, x, is_key, upper_is_key),
                              read_recording(episode, params.max_steps));
}

}  // namespace engram::recorded
