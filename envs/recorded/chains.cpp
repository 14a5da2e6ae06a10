// Recorded episodes of bsuite's memory chain and umbrella chain.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"
#include "envs/tasks/bsuite/memory_chain.h"
#include "envs/tasks/bsuite/umbrella_chain.h"

namespace engram::recorded {
namespace {

constexpr int kMostSteps = 1'000'000;

// Of both: length, actions, success.
Recording<float> read_chain(const Json& episode) {
  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, kMostSteps + 1));
  Recording<float> recording;
  recording.actions = get_symbols(episode, "actions", length, {"01"});
  recording.success = get_bool(episode, "success");
  recording.end = End::kTerminated;
  return recording;
}

// Bits as a text of '0' and '1', as numbers.
std::vector<int> read_bits(const std::string& name, const Json& value, int count) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text.size() != static_cast<std::size_t>(count) || text.find_first_not_of("01") != std::string::npos)
    refuse(name, value, "a text of " + std::to_string(count) + " characters 0 and 1");
  std::vector<int> bits;
  for (const char bit : text) bits.push_back(bit - '0');
  return bits;
}

}  // namespace

std::optional<std::string> replay_memory_chain(const Json& episode) {
  MemoryChain::Options options;
  options.memory_length = get_int(episode, "memory_length", 1, kMostSteps);
  options.bits = get_int(episode, "bits", 1, MemoryChain::kMaxBits);
  const int query = get_int(episode, "query", 0, options.bits - 1);
  std::uint64_t context = 0;
  for (int i = 0; const int bit : read_bits("context", field_of(episode, "context"), options.bits))
    context |= static_cast<std::uint64_t>(bit) << i++;

  Recording<float> recording = read_chain(episode);
  const std::size_t length = recording.actions.size();
  recording.rewards.assign(length, 0);
  recording.rewards.back() = get_float(episode, "last_reward");
  for (const Json& row : get_array(episode, "obs", length + 1)) {
    if (!row.is_array() || row.size() != 2 + static_cast<std::size_t>(options.bits))
      refuse("obs", row, std::to_string(2 + options.bits) + " numbers a row");
    for (const Json& number : row) recording.observations.push_back(as_float("obs", number) + 0.0f);  // -0 becomes 0
  }
  const MemoryChain::Params params = MemoryChain::make_params(options, 0, Purpose::kTest);
  return play<MemoryChain>(params, MemoryChain::start(params, context, query), recording);
}

std::optional<std::string> replay_umbrella_chain(const Json& episode) {
  UmbrellaChain::Options options;
  options.chain_length = get_int(episode, "chain_length", 1, kMostSteps);
  options.distractors = get_int(episode, "distractors", 0, UmbrellaChain::kMaxDistractors);

  Recording<float> recording = read_chain(episode);
  const std::size_t length = recording.actions.size();
  // What was drawn: noise[t] with the observation that step t begins with; rewards on the way with the step before it.
  std::vector<UmbrellaChain::Noise> noise;
  for (const Json& row : get_array(episode, "obs", length + 1)) {
    if (!row.is_array() || row.size() != 3) refuse("obs", row, "two bits, a number and the random bits");
    for (const int bit : read_bits("obs", row[0], 2)) recording.observations.push_back(static_cast<float>(bit));
    recording.observations.push_back(as_float("obs", row[1]));
    noise.emplace_back();
    for (int i = 0; const int bit : read_bits("obs", row[2], options.distractors)) {
      recording.observations.push_back(static_cast<float>(bit));
      noise.back().word[i / 32] |= static_cast<std::uint32_t>(bit) << i % 32;
      ++i;
    }
  }
  for (std::size_t t = 0; const int sign : get_symbols(episode, "rewards", length, {"-+"})) {
    recording.rewards.push_back(sign == 1 ? 1.0f : -1.0f);
    noise[++t].word[options.distractors / 32] |= static_cast<std::uint32_t>(sign) << options.distractors % 32;
  }
  const UmbrellaChain::Params params = UmbrellaChain::make_params(options, 0, Purpose::kTest);
  return play<UmbrellaChain>(
      params, UmbrellaChain::start(recording.observations[0] == 1, recording.observations[1] == 1, noise[0]), recording,
      std::nullopt, [&noise](const auto& rules, auto& state, int action, std::size_t t) {
        return UmbrellaChain::step_with(rules, state, action, noise[t + 1]);
      });
}

}  // namespace engram::recorded
