#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "agents/play/episode_store.h"
#include "envs/vec/episode_store.h"
#include "nn/device/cuda_support.h"

namespace engram {

// Through pinned memory, which LibTorch gives to no one else before the copy is done.
torch::Tensor EpisodeStore::upload(const void* data, std::size_t bytes) const {
  const torch::Tensor staged =
      torch::empty({static_cast<std::int64_t>(bytes)}, torch::TensorOptions(torch::kUInt8).pinned_memory(true));
  std::memcpy(staged.data_ptr(), data, bytes);
  return staged.to(device_, /*non_blocking=*/true);
}

void EpisodeStore::keep_on_gpu(const RecordingMemory& recording, const std::vector<KeptEpisode>& kept) const {
  constexpr std::size_t kOfOneLaunch = 32'768;
  for (std::size_t first = 0; first < kept.size(); first += kOfOneLaunch) {
    const std::span part = std::span(kept).subspan(first, std::min(kOfOneLaunch, kept.size() - first));
    const torch::Tensor on_device = upload(part.data(), part.size_bytes());
    keep_episodes(recording.view(), reinterpret_cast<const KeptEpisode*>(on_device.const_data_ptr<std::uint8_t>()),
                  static_cast<int>(part.size()), std::ranges::max_element(part, {}, &KeptEpisode::steps)->steps, rows_,
                  current_stream());
  }
}

void EpisodeStore::gather_on_gpu(const EpisodeGather& batch, const std::vector<StoredEpisode>& episodes) const {
  gather_episodes(rows_, batch, episodes.data(), current_stream());
}

void EpisodeStore::put_advantages_on_gpu(const EpisodeAdvantages& advantages,
                                         const std::vector<StoredEpisode>& episodes) const {
  engram::put_advantages(rows_, advantages, episodes.data(), current_stream());
}

}  // namespace engram
