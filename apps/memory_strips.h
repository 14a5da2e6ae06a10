// MemoryStrips: what a backbone shows of its memory, step by step of an episode, as strips for films.
#pragma once

#include <vector>

#include "memory/sequence_model.h"
#include "video/memory_panel.h"

namespace engram {

class MemoryStrips {
 public:
  // Throws UserError, naming the backbones that do, if this one (called `name`) does not show its memory.
  MemoryStrips(SequenceModel& model, const std::string& name);

  int count() const { return count_; }
  void begin_episode() { strips_.clear(), step_ = 0; }
  // Takes the view of the episode's next step, of one row; returns the strips up to it.
  const std::vector<MemoryStrip>& add(const MemoryView& view);

 private:
  int count_;
  std::int64_t step_ = 0;  // of the episode, that add() takes next
  std::vector<MemoryStrip> strips_;
};

}  // namespace engram
