// Learner: an algorithm of reinforcement learning that improves a network by batches of episodes. The rest of the
// program knows its losses by name; another algorithm is another Learner.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/play/episode.h"
#include "storage/state_archive.h"

namespace engram {

// What an update measured: scalars on the device, without gradient, in the order in which they are shown.
using NamedScalars = std::vector<std::pair<std::string, torch::Tensor>>;

// Throws std::out_of_range where none has that name.
inline const torch::Tensor& named(const NamedScalars& scalars, std::string_view name) {
  for (const auto& [own, value] : scalars)
    if (own == name) return value;
  throw std::out_of_range("an update measures no " + std::string(name));
}

// Updates whose loss or gradients were not finite, since the beginning of the run.
struct Faults {
  std::int64_t count = 0;
  std::int64_t first_update = 0;  // from 1 on
  std::string first_tensor;       // "the loss" or "the gradient of NAME"
};

class Learner {
 public:
  virtual ~Learner() = default;

  // One update of what it trains. Where the loss or a gradient is not finite, no trained weight changes, and faults()
  // will tell. Nothing in here waits for the device. What it returns has the names of scalar_names(), in their order,
  // and stays valid until the next update.
  virtual NamedScalars update(const EpisodeBatch& batch) = 0;
  virtual std::vector<std::string> scalar_names() const = 0;

  // Waits for the device. Where one of several ranks is lost, whose share the last updates lack, throws RankLost.
  virtual Faults faults() const = 0;

  // Includes the state of what it trains.
  virtual void visit_state(StateArchive& archive) = 0;
};

}  // namespace engram
