// KeptEpisodes: whole episodes of a run to look into, with environments in which their actions can be played again:
// ones that an agent plays afresh, or ones that it learnt from.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/play/episode_store.h"
#include "agents/play/evaluator.h"
#include "agents/run/config/config.h"
#include "envs/vec/vec_env.h"
#include "storage/run/run_directory.h"

namespace engram {

struct KeptEpisodes {
  using Name = EpisodeStore::Name;  // the environment is one of `environments`

  std::unique_ptr<EpisodeStore> store;
  std::vector<Name> names;               // of the store's episodes, in its order
  std::unique_ptr<VecEnv> environments;  // of the CPU

  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
};

// The same episodes that an evaluation plays (play_episodes()), kept on `device`, which is the network's.
KeptEpisodes play_and_keep(const Config& config, const std::shared_ptr<AgentNetwork>& network, torch::Device device,
                           int threads, int episodes, ActionChoice choice, std::uint32_t first_episode);

// Episodes of the replay in the run's newest checkpoint, at most `most`, spread evenly over it: those that had ended
// when the run had taken `weights_steps` steps, so that weights of that time may have learnt from them. Empty where the
// run has no checkpoint, or its replay no such episode. A damaged checkpoint is passed over for the one before it, and
// `warn` is told so in one line. Throws UserError if all are damaged, or the episodes do not fit the rules.
KeptEpisodes keep_replayed(const RunDirectory& run, const Config& config, std::int64_t weights_steps, int most,
                           torch::Device device, const std::function<void(const std::string&)>& warn);

}  // namespace engram
