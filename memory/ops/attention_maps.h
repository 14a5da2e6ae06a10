// Marks the modules of attention, for what adapts their linear maps to another task (agents/learn/low_rank_adapters.h).
#pragma once

namespace engram {

// A base beside torch::nn::Module of a module whose children "query", "key", "value" and "output" are the linear maps
// of attention.
class AttentionMaps {
 public:
  virtual ~AttentionMaps() = default;
  // False for linear attention, whose memory is fast weights.
  virtual bool by_softmax() const { return true; }
};

inline constexpr const char* kAttentionMapNames[] = {"query", "key", "value", "output"};

}  // namespace engram
