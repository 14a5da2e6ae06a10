// The options of an agent and its learning: the sections network, adapters, learner and replay of a Config. Without
// LibTorch, so that what reads configs alone compiles without it.
#pragma once

#include <cstdint>

#include "base/options.h"
#include "envs/vec/vec_env.h"

namespace engram {

// How what the agent sees becomes the backbone's input.
enum class Encoder { kParts, kJoint };

struct NetworkOptions {
  Encoder encoder = Encoder::kParts;
  // Embeddings of a_{t-1} and r_{t-1}; 0: the agent does not see it. Of the joint encoder 1 is a one-hot vector and a
  // number.
  int previous_action_width = 0;
  int previous_reward_width = 0;
  bool first_step_mark = false;  // 1 at the first step of an episode, then 0, as POPGym's agents see it
  int token_width = 8;           // embedding of each token of an observation
  int hidden_width = 256;        // of each head's two hidden layers, and of the joint encoder's
  double dropout = 0.1;          // after the encoder

  void list_options(OptionList& list);
  // Throws UserError for options that contradict each other.
  void check() const;
};

struct AdapterOptions {
  int rank = 0;               // r; 0: no adapters, all weights are trained
  double alpha = 16;          // the product of the two factors counts alpha / rank
  bool fast_weights = false;  // maps of fast weights, which are linear attention, are adapted as well
  bool convolutions = true;   // weights of short convolutions are trained beside the adapters

  void list_options(OptionList& list);
};

struct ReplayOptions {
  std::int64_t capacity_steps = 1'000'000;  // environment steps kept ...
  std::int64_t minimum_episodes = 1'000;    // ... but never fewer episodes than this
  int batch_episodes = 64;                  // B

  void list_options(OptionList& list);
  // The most rows that a replay of this task keeps in a run of no more than `most_steps` steps; beyond them the oldest
  // episodes go, as beyond capacity_steps.
  std::int64_t rows(const TaskInfo& task, std::int64_t most_steps) const;
};

}  // namespace engram
