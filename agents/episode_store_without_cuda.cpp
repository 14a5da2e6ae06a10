// In a build without GPU support.
#include <stdexcept>

#include "agents/episode_store.h"

namespace engram {

void EpisodeStore::keep_on_gpu(const RecordingMemory&, const std::vector<KeptEpisode>&) const {
  throw std::logic_error("episodes on a GPU in a build without GPU support");
}
void EpisodeStore::gather_on_gpu(EpisodeGather, const std::vector<StoredEpisode>&) const {
  throw std::logic_error("episodes on a GPU in a build without GPU support");
}

}  // namespace engram
