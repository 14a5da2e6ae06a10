// Small networks and recorded episodes for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/play/episode.h"
#include "base/rng.h"
#include "envs/vec/vec_env.h"
#include "memory/core/registry.h"

namespace engram {

// The backbone at the given width, one layer, without dropout; heads, where it has them, of half the width.
inline BackboneConfig small_backbone(const std::string& name, int width, int layers = 1) {
  BackboneConfig config(name);
  OptionList options = config.options();
  for (const Option& option : options.options()) {
    if (option.name == "memory.width") option.set(std::to_string(width));
    if (option.name == "memory.layers") option.set(std::to_string(layers));
    if (option.name == "memory.heads") option.set("2");
    if (option.name == "memory.dropout") option.set("0");
  }
  return config;
}

inline TaskInfo vector_task(int elements, int num_actions, int max_steps) {
  TaskInfo task;
  task.name = "vector";
  task.observation = {ElementType::kFloat32, single_part({elements})};
  task.max_episode_steps = max_steps;
  for (int action = 0; action < num_actions; ++action) task.action.names.push_back(std::to_string(action));
  return task;
}

// An action of two numbers, whose bounds are not alike.
inline TaskInfo continuous_task(int elements, int max_steps) {
  TaskInfo task = vector_task(elements, 0, max_steps);
  task.action.numbers = {{"push", -1, 1}, {"lift", 0, 5}};
  return task;
}

inline TaskInfo image_task(int num_actions, int max_steps) {
  TaskInfo task = vector_task(1, num_actions, max_steps);
  task.name = "image";
  task.observation = {ElementType::kUint8, single_part({3, 5, 4})};
  return task;
}

// An episode of random observations, actions and rewards.
inline Episode random_episode(const TaskInfo& task, int steps, End end, Rng& rng) {
  Episode episode;
  if (task.observation.type == ElementType::kUint8) {
    for (std::int64_t i = 0; i < (steps + 1) * task.observation.bytes(); ++i)
      episode.observations.push_back(static_cast<std::byte>(rng.below(256)));
  } else {
    std::vector<float> values((steps + 1) * task.observation.elements());
    for (float& value : values) value = 2 * rng.uniform() - 1;
    const auto bytes = std::as_bytes(std::span(values));
    episode.observations.assign(bytes.begin(), bytes.end());
  }
  for (int t = 0; t < steps; ++t) {
    episode.actions.resize(episode.actions.size() + task.action.words());
    draw_action(task.action, rng, &episode.actions[episode.actions.size() - task.action.words()]);
    episode.rewards.push_back(2 * rng.uniform() - 1);
  }
  episode.end = end;
  return episode;
}

// Copies all parameters, targets included.
inline void copy_weights(const AgentNetwork& from, AgentNetwork& to) {
  const torch::NoGradGuard no_grad;
  const auto source = from.parameters(), target = to.parameters();
  for (std::size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
}

// The heads start with outputs near 0; this moves all weights away, so that a wrong formula shows.
inline void scatter_weights(AgentNetwork& network, double scale) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : network.parameters()) parameter.add_(scale * torch::randn_like(parameter));
}

inline const std::vector<std::string> kMemoryBackbones{"transformer",        "deltanet", "hqlt", "hqlt_delayed_stream",
                                                       "hqlt_delayed_chunk", "lstm",     "gru"};

}  // namespace engram
