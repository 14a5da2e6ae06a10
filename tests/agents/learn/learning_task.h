// A few updates of one learner, or of several ranks that learn as one: the same work for threads on CPUs and programs
// on GPUs.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agents/learn/learner.h"
#include "agents/learn/registry.h"
#include "agents/learn/sac/sac.h"
#include "agents/play/episode_store.h"
#include "storage/tensors/weights.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"

namespace engram::testing {

inline bool equal(const TensorMap& a, const TensorMap& b) {
  return a.size() == b.size() &&
         std::ranges::all_of(a, [&](const auto& item) { return torch::equal(item.second, b.at(item.first)); });
}

// What some updates came to.
struct Learnt {
  TensorMap weights;  // on the CPU
  std::vector<double> scalars;
  std::int64_t faults = 0;

  bool operator==(const Learnt& other) const { return scalars == other.scalars && equal(weights, other.weights); }
};

class LearningTask {
 public:
  explicit LearningTask(const std::string& backbone = "deltanet", torch::ScalarType type = torch::kFloat64)
      : task_(vector_task(4, 3, 9)),
        backbone_(small_backbone(backbone, 8)),
        type_(type),
        store_(EpisodeStore::of_iterations(task_, 200, torch::kCPU)) {
    Rng rng(1, Purpose::kTest, 0, 0);
    for (int i = 0; i < 7; ++i) {
      Episode episode = random_episode(task_, 1 + static_cast<int>(rng.below(9)),
                                       i % 2 == 0 ? End::kTerminated : End::kTruncated, rng);
      for (std::int64_t t = 0; t < episode.steps(); ++t) episode.log_probs.push_back(-0.5f - rng.uniform());
      store_.add(episode);
    }
    // What a learner on policy would have made of them; others do not look at it.
    const auto numbers = [&](float scale) {
      const torch::Tensor drawn = torch::empty({7, task_.max_episode_steps});
      for (float& number : std::span(drawn.data_ptr<float>(), static_cast<std::size_t>(drawn.numel())))
        number = scale * (rng.uniform() - 0.5f);
      return drawn;
    };
    store_.put_advantages({0, 1, 2, 3, 4, 5, 6}, numbers(1), numbers(4));
  }

  // Draws from LibTorch's generator, which is the program's.
  std::shared_ptr<AgentNetwork> first_network(torch::Device device = torch::kCPU,
                                              const LearnerConfig& learner = LearnerConfig("sac")) const {
    torch::manual_seed(1);
    auto network =
        std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 6, .dropout = 0}, backbone_, task_, 0, learner);
    scatter_weights(*network, 0.3);
    network->to(device, type_);
    network->train();
    return network;
  }

  // The part of a rank of seven episodes that are dealt to so many, as long as the longest of all. `spoilt`: its
  // rewards are no numbers.
  EpisodeBatch batch(int rank, int ranks, bool spoilt = false) {
    const Block own = block_of(7, rank, ranks);
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < own.count; ++i) indices.push_back(own.first + i);
    EpisodeBatch part = store_.gather(indices, task_.max_episode_steps);
    if (spoilt) part.reward_BT.fill_(std::numeric_limits<float>::quiet_NaN());
    return part;
  }

  // So many of the seven episodes from the first one on, as long as the longest of these, and two of padding.
  EpisodeBatch part(std::int64_t first, std::int64_t count) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < count; ++i) indices.push_back(first + i);
    return store_.gather_as(indices, store_.gathered_steps(indices), count + 2);
  }

 private:
  const TaskInfo task_;
  const BackboneConfig backbone_;
  const torch::ScalarType type_;
  EpisodeStore store_;
};

// So many of a learner's updates.
template <class Update>
Learnt learn(Learner& learner, const AgentNetwork& network, int updates, const Update& update) {
  Learnt learnt;
  for (int i = 0; i < updates; ++i)
    for (const auto& [name, value] : update()) learnt.scalars.push_back(value.template item<double>());
  for (const auto& [name, tensor] : copied_weights(network)) learnt.weights[name] = tensor.cpu();
  learnt.faults = learner.faults().count;
  return learnt;
}

// So many updates of one batch, as one of the ranks.
inline Learnt learn(const std::shared_ptr<Ranks>& ranks, const LearnerConfig& config,
                    const std::shared_ptr<AgentNetwork>& network, const EpisodeBatch& batch, int updates) {
  Learner learner(config, network, {}, ranks);
  return learn(learner, *network, updates, [&] { return learner.update(batch); });
}

}  // namespace engram::testing
