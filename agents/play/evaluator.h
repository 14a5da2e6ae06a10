// Evaluator: plays whole episodes and reports each of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "agents/play/rollout.h"
#include "agents/run/training/train_status.h"
#include "envs/vec/vec_env.h"

namespace engram {

struct EpisodeResult {
  double total_reward = 0;
  bool success = false;
  std::int64_t steps = 0;
  std::optional<bool> decided = {};  // whether it took the task's decision; none where nobody asked
};

EpisodeResult result_of(const RecordedEpisode& episode);

int count_solved(const std::vector<EpisodeResult>& episodes);
// Of at least one episode.
PlayedEpisodes summarize(const std::vector<EpisodeResult>& episodes);
// None unless all of them tell.
std::optional<DecisionRates> decision_rates(const std::vector<EpisodeResult>& episodes);

// The streams that actions are drawn from (Policy): collecting has one for the whole run, every evaluation one that the
// episode names at which it begins. An evaluation therefore depends on nothing that was drawn before.
inline constexpr std::uint32_t kTrainingActions = 0;
constexpr std::uint32_t evaluation_actions(std::uint32_t first_episode) { return kTrainingActions + 1 + first_episode; }

// Puts a network into evaluation mode, or with `dropout` into training mode, and back.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module, bool dropout = false)
      : module_(module), was_training_(module.is_training()) {
    module_.train(dropout);
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

// The same for the network of a rollout, as it evaluates: dropout has draws of its own, which the episode names at
// which the evaluation begins.
class ModeOfPlay {
 public:
  ModeOfPlay(Rollout& rollout, std::uint32_t first_episode);
  ~ModeOfPlay();
  ModeOfPlay(const ModeOfPlay&) = delete;
  ModeOfPlay& operator=(const ModeOfPlay&) = delete;

 private:
  Rollout& rollout_;
  AgentNetwork& network_;
  EvaluationMode mode_;
  torch::Tensor training_draws_;  // seed and tick
};

// Environments of an evaluation of so many episodes: training's own evaluations and engram evaluate play the same
// episodes in the same order.
inline constexpr int kEvaluationEnvs = 64;
constexpr int evaluation_envs(int episodes) { return std::min(episodes, kEvaluationEnvs); }

// Where an evaluation, of however many episodes, plays its episode number `index`, from 0 on: an environment, and the
// episode's number there, counted from the first.
struct EvaluationEpisode {
  std::uint32_t environment, number;
};
constexpr EvaluationEpisode evaluation_episode(std::uint32_t index) {
  return {index % kEvaluationEnvs, index / kEvaluationEnvs};
}

// Plays exactly `episodes` episodes and passes them to `take` as they end, while they are still recorded. Each
// environment has a quota fixed beforehand: taking the first to finish instead would favour short episodes. The
// environments start at episode `first_episode` of their streams and sampled actions at the beginning of theirs
// (evaluation_actions()), so that the same call plays the same episodes. The policy's network is in evaluation mode
// meanwhile, or drops channels as in training where the rollout evaluates so, by draws that the first episode names; it
// is put back, its own draws included. Leaves off, with fewer episodes that say nothing, once `interrupted` returns
// true. Throws std::invalid_argument if episodes < 1.
void play_episodes(Rollout& rollout, int episodes, ActionChoice choice, std::uint32_t first_episode,
                   const std::function<bool()>& interrupted,
                   const std::function<void(const std::vector<RecordedEpisode>&)>& take);

// The results of play_episodes(), in the order environment 0's, environment 1's, ... `decisions`: environments of the
// CPU that are those of the rollout, in which every episode is played again to tell whether it was decided, alike
// wherever the rollout plays; null, or of a task that does not say what its decision is: nobody asks.
std::vector<EpisodeResult> evaluate(
    Rollout& rollout, int episodes, ActionChoice choice, std::uint32_t first_episode = 0,
    const std::function<bool()>& interrupted = [] { return false; }, VecEnv* decisions = nullptr);

// The results of evaluate() in the order of evaluation_episode().
std::vector<EpisodeResult> by_number(const std::vector<EpisodeResult>& results);

}  // namespace engram
