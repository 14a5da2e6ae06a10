// Options of every backbone. Defaults are those of the RL experiments of the HQLT paper (Irie et al. 2025).
//
// Each struct has its name, what it is in a few words, where it was published, its list of options, check(), which
// throws UserError if values are out of bounds or contradict each other, and make(), which checks and builds: weights
// are drawn from torch's default generator, and max_steps is the longest sequence that one row will ever see. layer()
// is one layer of those whose layers may stand in a stack (stack.h), unchecked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/options.h"

namespace engram {

class SequenceModel;
struct FastWeightsOptions;
struct LayerSpec;

// What a memory's mixers begin with: each the first values that it was published with; or these with the maps of their
// outputs multiplied so that every mixer adds as much to the residual stream (memory/core/first_scale.h).
enum class FirstValues { kPublished, kCommon };

// GPT-2 block (Radford et al. 2019): pre-LayerNorm, causal attention over the whole episode, GELU MLP.
struct TransformerOptions {
  static constexpr const char* kName = "transformer";
  static constexpr const char* kSummary = "causal attention over the episode";
  static constexpr const char* kSource =
      "Vaswani et al., Attention is all you need, 2017; its block is GPT-2's (Radford et al., Language models are "
      "unsupervised multitask learners, 2019)";
  int width = 100;
  int layers = 2;
  int heads = 2;
  int mlp_width = 0;  // 0: 4 times the width
  double dropout = 0.1;
  FirstValues first_values = FirstValues::kPublished;

  int inner_width() const { return mlp_width > 0 ? mlp_width : 4 * width; }
  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// Hidden units of a published SwiGLU: 8/3 of the width (Shazeer 2020), rounded down, then up to a multiple of 256.
inline constexpr const char* kSwiGluWidth = "8/3 of the width, rounded up to a multiple of 256";
constexpr int swiglu_width(int width) { return (width * 8 / 3 + 255) / 256 * 256; }

// The standard deviation of the first weights of linear maps, as in GPT-2 (Radford et al. 2019).
inline constexpr double kWeightStd = 0.02;

// First weights of the maps whose output is added to the residual stream, the mixer's and the MLP's, both divided by
// sqrt(2 layers): N(0, weight_std) as those of all other maps, or Kaiming's uniform ones, U(+-1 / sqrt(inputs)), as in
// the HQLT authors' public code.
enum class OutputWeights { kNormal, kKaiming };

// What the backbones of DeltaNet's and HQLT's block (memory/core/block_stack.h) have in common besides its mixer.
struct BlockOptions {
  int width = 100;
  int mlp_width = 0;  // 0: swiglu_width(width)
  double dropout = 0.1;
  double weight_std = kWeightStd;
  OutputWeights output_weights = OutputWeights::kNormal;
  FirstValues first_values = FirstValues::kPublished;

  int inner_width() const { return mlp_width > 0 ? mlp_width : swiglu_width(width); }
  // Dropout and the first weights, which come behind the options of the mixer.
  void list_training(OptionList& list);
};

// How fast weights and window are mixed: a gate per channel, two gates per head, or none.
enum class Mixing { kVector, kScalar, kSum };
enum class PositionCode { kRope, kNone };

// What the synchronous HQLT and its delayed variants share: fast weights beside attention over a window.
struct HqltSharedOptions : BlockOptions {
  int layers = 3;
  int heads = 2;
  int window = 64;  // steps, the current one included
  Mixing mixing = Mixing::kVector;
  bool branch_norm = false;  // fast weights and window are divided by their root mean squares before they are mixed
  PositionCode positions = PositionCode::kRope;
  int beta_factor = 2;       // 1 or 2; 2 admits negative eigenvalues
  bool convolution = false;  // over the last FastWeightsOptions::kConvolutionWidth steps of queries, keys and values
  bool output_gate = false;  // silu of a map of the input

  void list_options(OptionList& list);
  void check() const;
  // The delta rule of deltanet, behind the same convolution.
  FastWeightsOptions fast_weight_options() const;
};

// Synchronous hybrid quadratic-linear Transformer (Irie et al. 2025), with deltanet's fast weights as published, or
// any.
struct HqltOptions : HqltSharedOptions {
  static constexpr const char* kName = "hqlt";
  static constexpr const char* kSummary = "fast weights, windowed attention";
  static constexpr const char* kSource =
      "Irie et al., Blending complementary memory systems in hybrid quadratic-linear Transformers, 2025";
  static constexpr const char* kDeltaNet = "deltanet";
  std::string fast_weights = kDeltaNet;  // an entry of the family, "gla" or "fast_weights:rule=sum:decay=fixed"

  void list_options(OptionList& list);
  void check() const;
  bool has_deltanet() const { return fast_weights == kDeltaNet; }
  // Throws UserError for a malformed entry.
  FastWeightsOptions fast_weight_options() const;
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// HQLT whose fast weights take what leaves the window: (k_{t-S}, v_{t-S}) with beta_t (the paper's section 3.1).
struct HqltDelayedStreamOptions : HqltSharedOptions {
  static constexpr const char* kName = "hqlt_delayed_stream";
  static constexpr const char* kSummary = "HQLT: writes what left the window";
  static constexpr const char* kSource =
      "Irie et al., Blending complementary memory systems in hybrid quadratic-linear Transformers, 2025, section 3.1";
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// HQLT by chunks of `window` steps: attention inside the current chunk, fast weights as they were at its start (the
// paper's section 3.2).
struct HqltDelayedChunkOptions : HqltSharedOptions {
  static constexpr const char* kName = "hqlt_delayed_chunk";
  static constexpr const char* kSummary = "HQLT by chunks of the window";
  static constexpr const char* kSource =
      "Irie et al., Blending complementary memory systems in hybrid quadratic-linear Transformers, 2025, section 3.2";
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// First weights of RNN, LSTM and GRU: LibTorch's, U(+-1 / sqrt(width)), biases as well; or orthogonal ones over all
// gates together (Saxe et al. 2014) and biases of zero, as Memory-RL (Ni et al. 2023) has them.
enum class RecurrentWeights { kUniform, kOrthogonal };

// What RNN, LSTM and GRU have in common.
struct RecurrentOptions {
  int width = 100;
  int layers = 1;
  RecurrentWeights first_weights = RecurrentWeights::kUniform;

  void list_options(OptionList& list);
  void check() const;
};

struct LstmOptions : RecurrentOptions {
  static constexpr const char* kName = "lstm";
  static constexpr const char* kSummary = "long short-term memory";
  static constexpr const char* kSource =
      "Hochreiter and Schmidhuber, Long short-term memory, 1997, with the forget gate of Gers et al., 2000";
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

struct GruOptions : RecurrentOptions {
  static constexpr const char* kName = "gru";
  static constexpr const char* kSummary = "gated recurrent unit";
  static constexpr const char* kSource =
      "Cho et al., Learning phrase representations using RNN encoder-decoder for statistical machine translation, 2014";
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// Elman network, from LibTorch's own module: h_t = tanh(W x_t + U h_{t-1} + b). The control for what gates do.
struct RnnOptions : RecurrentOptions {
  static constexpr const char* kName = "rnn";
  static constexpr const char* kSummary = "Elman network, without gates";
  static constexpr const char* kSource = "Elman, Finding structure in time, 1990";
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// Memoryless control, an MLP: the output at t depends on the input at t alone.
struct NoneOptions {
  static constexpr const char* kName = "none";
  static constexpr const char* kSummary = "no memory, an MLP: the control";
  static constexpr const char* kSource = "none: a control, for how far an agent gets without memory";
  int width = 100;
  int layers = 1;

  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// Helpers of the structs above, each of which lists its options the same way.
void list_width(OptionList& list, int& width);
void list_layers(OptionList& list, int& layers);
void list_heads(OptionList& list, int& heads);
void list_mlp_width(OptionList& list, int& mlp_width, const char* published);
// Width, layers, heads and the width of the MLPs; published_width: what mlp_width is by default, in words.
template <class Options>
void list_sizes(OptionList& list, Options& options, const char* published_width) {
  list_width(list, options.width);
  list_layers(list, options.layers);
  list_heads(list, options.heads);
  list_mlp_width(list, options.mlp_width, published_width);
}
void list_dropout(OptionList& list, double& dropout);
void list_first_values(OptionList& list, FirstValues& first_values);
void list_beta_factor(OptionList& list, int& beta_factor);
void list_convolution(OptionList& list, bool& convolution);
void list_window(OptionList& list, int& window);
void list_positions(OptionList& list, PositionCode& positions);
void check_heads(int width, int heads);
void check_positions(PositionCode positions, int width, int heads);

// The section that all options of a backbone stand under.
inline constexpr const char* kMemorySection = "memory";

}  // namespace engram
