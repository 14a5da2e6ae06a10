// Span-expanded attention, the options.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

// Span-expanded attention (SE-Attn; Nunez et al. 2024, arXiv:2412.13328, section 3.3) in the block of DeltaNet and
// HQLT: attention over the current chunk and over whole blocks of earlier steps, retrieved by how well a summary of
// each answers the chunk's queries so far. docs/backbones/expansion_span.md has the equations.
struct ExpansionSpanOptions : BlockOptions {
  static constexpr const char* kName = "expansion_span";
  static constexpr const char* kSummary = "a chunk and retrieved blocks";
  static constexpr const char* kSource =
      "Nunez et al., Expansion span: combining fading memory and retrieval in hybrid state space models, 2024, "
      "section 3.3";
  int layers = 2;
  int heads = 2;
  int chunk = 64;     // steps, divisible by `block`
  int block = 32;     // steps
  int retrieved = 8;  // blocks; 0: none (the paper's section 3.2)
  PositionCode positions = PositionCode::kRope;
  std::int64_t max_steps = 1;  // no option: set by layer()

  // Of a whole episode.
  std::int64_t blocks() const { return (max_steps + block - 1) / block; }
  void list_options(OptionList& list);
  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
