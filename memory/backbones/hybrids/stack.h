// Hybrids by a list of layers, each of a kind and with settings of its own, in the block of block_stack.h: DeltaNet
// with layers of attention in between (Yang et al. 2024, section 3.4), Transformer++, and whatever else is to be tried.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "memory/core/backbone_options.h"

namespace engram {

// Causal softmax attention over the last `window` steps as a layer: q = Wq x, k = Wk x, v = Wv x, then Wo; RoPE.
struct WindowLayerOptions : BlockOptions {
  static constexpr const char* kName = "window";
  int layers = 1;  // of the whole stack
  int heads = 2;
  int window = 64;  // steps, the current one included
  PositionCode positions = PositionCode::kRope;

  void list_options(OptionList& list);
  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
};

// Shifted sparse attention (S2-Attn of LongLoRA, Chen et al. 2024, section 3.2), causal: time is cut into groups of
// `window` steps, and a step sees those of its group so far. The groups of the second half of the heads begin half a
// group earlier.
struct ShiftedSparseLayerOptions : WindowLayerOptions {
  static constexpr const char* kName = "shifted_sparse";

  void list_options(OptionList& list);
  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
};

// WindowLayerOptions over the whole episode; `window` is max_steps.
struct AttentionLayerOptions : WindowLayerOptions {
  static constexpr const char* kName = "attention";

  void list_options(OptionList& list);
  LayerSpec layer(std::int64_t max_steps) const;
};

// `stack` names the layers from the input on: "deltanet,window:window=32:heads=1,hqlt:mixing=sum". Each takes the
// options of the backbone of its name, or of the structs above; what it does not set is as here.
struct StackOptions : BlockOptions {
  static constexpr const char* kName = "stack";
  static constexpr const char* kSummary = "a hybrid by a list of layers";
  static constexpr const char* kSource =
      "Yang et al., Parallelizing linear Transformers with the delta rule over sequence length, 2024, section 3.4 "
      "(DeltaNet with layers of attention)";
  std::string stack = "deltanet,window,deltanet";
  int heads = 2;

  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// Transformer++ (Touvron et al. 2023's block): attention over the whole episode with RoPE, RMSNorm and SwiGLU.
struct TransformerPlusPlusOptions : StackOptions {
  static constexpr const char* kName = "transformer++";
  static constexpr const char* kSummary = "attention, RoPE and SwiGLU";
  static constexpr const char* kSource =
      "Touvron et al., LLaMA: open and efficient foundation language models, 2023; the name is Gu and Dao's, Mamba: "
      "linear-time sequence modeling with selective state spaces, 2023";
  TransformerPlusPlusOptions() { stack = of_layers(2); }
  // The stack of so many layers.
  static std::string of_layers(int layers);
};

}  // namespace engram
