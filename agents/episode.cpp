#include "agents/episode.h"

namespace engram {

double Episode::total_reward() const {
  double total = 0;
  for (const float reward : rewards) total += reward;
  return total;
}

}  // namespace engram
