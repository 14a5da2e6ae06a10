#include "envs/recorded/played_episode.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>

#include "base/error.h"
#include "base/text/json_text.h"
#include "envs/recorded/base64.h"
#include "envs/recorded/play.h"
#include "envs/recorded/played.h"
#include "envs/vec/vec_env.h"

namespace engram {
namespace {

using recorded::Json;

struct NamedPurpose {
  Purpose purpose;
  const char* name;
};
constexpr NamedPurpose kPurposes[] = {
    {Purpose::kTraining, "training"}, {Purpose::kEvaluation, "evaluation"}, {Purpose::kTest, "test"}};

struct NamedEnd {
  End end;
  const char* name;
};
constexpr NamedEnd kEnds[] = {{End::kNone, "none"}, {End::kTerminated, "terminated"}, {End::kTruncated, "truncated"}};

template <class Named>
std::vector<std::string> names_of(const Named& all) {
  std::vector<std::string> names;
  for (const auto& entry : all) names.emplace_back(entry.name);
  return names;
}

std::string describe_bytes(const ObservationSpec& spec, std::span<const std::byte> observation) {
  if (spec.type == ElementType::kUint8)
    return recorded::describe_observation(reinterpret_cast<const std::uint8_t*>(observation.data()),
                                          observation.size());
  std::vector<float> elements(observation.size() / sizeof(float));
  std::memcpy(elements.data(), observation.data(), observation.size());
  return recorded::describe_observation(elements.data(), elements.size());
}

TaskConfig read_task(const Json& episode) {
  TaskConfig task(recorded::get_text(episode, "task"));
  const Json& values = recorded::field_of(episode, "options");
  if (!values.is_object()) recorded::refuse("options", values, "an object from options to their values as texts");
  OptionList options = task.options();
  for (const auto& [key, value] : values.items()) {
    if (!value.is_string()) recorded::refuse("options", value, "a text for '" + key + "'");
    options.set(std::string(kTaskSection) + "." + key, value.get<std::string>());
  }
  task.check();
  return task;
}

nlohmann::ordered_json actions_json(const ActionSpec& spec, const std::vector<std::int32_t>& actions) {
  if (!spec.continuous()) return actions;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t at = 0; at < actions.size(); ++at) {
    if (at % spec.numbers.size() == 0) rows.push_back(nlohmann::ordered_json::array());
    rows.back().push_back(number_of(actions[at]));
  }
  return rows;
}

}  // namespace

std::string played_episode_line(const PlayedEpisode& episode) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const OptionValue& option : episode.task.values())
    values[option.name.substr(std::strlen(kTaskSection) + 1)] = option.text;
  const auto* const purpose = std::ranges::find(kPurposes, episode.purpose, &NamedPurpose::purpose);
  if (purpose == std::end(kPurposes) || episode.actions.empty())
    throw std::invalid_argument("played_episode_line: an episode without a step, or of a purpose without a name");
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(episode.observations.data());
  const nlohmann::ordered_json line = {{"task", episode.task.name()},
                                       {"options", values},
                                       {"seed", episode.seed},
                                       {"purpose", purpose->name},
                                       {"environment", episode.environment},
                                       {"episode", episode.episode},
                                       {"length", episode.rewards.size()},
                                       {"actions", actions_json(episode.task.info().action, episode.actions)},
                                       {"rewards", episode.rewards},
                                       {"end", std::ranges::find(kEnds, episode.end, &NamedEnd::end)->name},
                                       {"success", episode.success},
                                       {"obs_b64", encode_base64({bytes, episode.observations.size()})}};
  return json_text(line);
}

std::optional<std::string> first_difference(const PlayedEpisode& episode) {
  using recorded::differs;
  const auto row = static_cast<std::size_t>(episode.environment);
  const auto env = make_cpu_vec_env(episode.task, episode.seed, episode.purpose, episode.environment + 1, 1);
  env->reset_row(episode.environment, episode.episode);
  const auto bytes = static_cast<std::size_t>(env->info().observation.bytes());
  const std::size_t length = episode.rewards.size(), words = static_cast<std::size_t>(env->info().action.words());
  for (std::size_t t = 0; t <= length; ++t) {
    const auto came = env->observation_N().subspan(row * bytes, bytes);
    const auto expected = std::span(episode.observations).subspan(t * bytes, bytes);
    if (!std::ranges::equal(came, expected))
      return differs("observation", t, describe_bytes(env->info().observation, expected),
                     describe_bytes(env->info().observation, came));
    if (t == length) break;
    env->step_row(episode.environment, std::span(episode.actions).subspan(t * words, words));
    const float reward = env->reward_N()[row];
    if (reward != episode.rewards[t])
      return differs("reward", t, recorded::number_text(episode.rewards[t]), recorded::number_text(reward));
    const End end = env->end_N()[row], expected_end = t + 1 == length ? episode.end : End::kNone;
    if (end != expected_end)
      return differs("end of the episode", t, recorded::end_text(expected_end), recorded::end_text(end));
  }
  const bool success = env->success_N()[row] != 0;
  if (success != episode.success)
    return differs("success", length, episode.success ? "true" : "false", success ? "true" : "false");
  return std::nullopt;
}

namespace recorded {

bool is_played(const Json& episode) { return episode.contains("task") && !episode.contains("env"); }

PlayedEpisode read_played(const Json& episode) {
  PlayedEpisode played{read_task(episode)};
  const TaskInfo info = played.task.info();
  played.seed = get_unsigned(episode, "seed", std::numeric_limits<std::uint64_t>::max());
  played.purpose = kPurposes[get_word(episode, "purpose", names_of(kPurposes))].purpose;
  played.environment = get_int(episode, "environment", 0, kMaxPlayedEnvironments - 1);
  played.episode =
      static_cast<std::uint32_t>(get_unsigned(episode, "episode", std::numeric_limits<std::uint32_t>::max()));
  const auto length = static_cast<std::size_t>(get_int(episode, "length", 1, info.max_episode_steps));
  played.actions = get_action_rows(episode, length, info.action);
  for (const Json& reward : get_array(episode, "rewards", length))
    played.rewards.push_back(as_float("rewards", reward));
  played.end = kEnds[get_word(episode, "end", names_of(kEnds))].end;
  played.success = get_bool(episode, "success");
  const std::vector<std::uint8_t> bytes = decode_base64(get_text(episode, "obs_b64"));
  const std::size_t expected = (length + 1) * static_cast<std::size_t>(info.observation.bytes());
  if (bytes.size() != expected)
    throw UserError("'obs_b64' holds " + std::to_string(bytes.size()) + " bytes; " + std::to_string(length + 1) +
                    " observations take " + std::to_string(expected));
  played.observations.resize(bytes.size());
  std::memcpy(played.observations.data(), bytes.data(), bytes.size());
  return played;
}

std::optional<std::string> replay_played(const Json& episode) { return first_difference(read_played(episode)); }

}  // namespace recorded
}  // namespace engram
