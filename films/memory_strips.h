// MemoryStrips: what a backbone shows of its memory over an episode, as strips for films.
#pragma once

#include <string>
#include <vector>

#include "memory/core/sequence_model.h"
#include "video/memory_panel.h"

namespace engram {

class MemoryStrips {
 public:
  // Throws UserError if the backbone, called `name`, has no memory.
  MemoryStrips(SequenceModel& model, const std::string& name);

  // How many rows each strip has.
  const std::vector<int>& rows() const { return rows_; }

  void begin_episode();
  // Takes the view of the episode's next step, of one row.
  void add(const MemoryView& view);
  // Of the episode as far as it has come, with attention as it was in step `step`: each strip's shades span what the
  // strip holds.
  std::vector<MemoryStrip> at(int step) const;

 private:
  // A strip; of attention a row of weights by age for each step and head, else a row a head or channel.
  struct Track {
    MemoryStrip strip;
    std::vector<std::vector<std::vector<float>>> attention_THA = {};
  };

  std::vector<int> rows_;
  std::vector<Track> tracks_;
  int steps_ = 0;  // of the episode so far
};

}  // namespace engram
