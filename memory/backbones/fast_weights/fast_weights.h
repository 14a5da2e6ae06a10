// fast_weights: one family of fast-weight memories, of which linear Transformers, DeltaNets, gated linear attention and
// state-space models of the matrix kind are settings; and the published ones by name. docs/backbones/fast_weights.md
// has the equations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "base/options.h"
#include "memory/core/backbone_options.h"

namespace engram {

// What a step writes to the fast weights S, with a = the decay, b = the write strength:
//   sum:        S_t = a_t S_{t-1} + b_t k_t v_t^T
//   delta:      S_t = a_t S_{t-1} + b_t k_t (v_t - k_t^T a_t S_{t-1})^T  (Schlag et al. 2021, equation 24, for a = 1;
//               Yang et al. 2025 for a decay per head)
//   gated_sum:  S_t = (1 - b_t) S_{t-1} + b_t k_t v_t^T                  (Peng et al. 2021; Schlag et al., equation 52)
// A gated delta rule is no rule of its own: it is delta with a decay.
enum class FastRule { kSum, kDelta, kGatedSum };

// a_t: 1; RetNet's constants 1 - 2^(-5-h) of head h; one number a head, exp(-exp(A) softplus(w x + c)) (Mamba-2, gated
// DeltaNet); one a key channel, sigmoid(U W x + c)^(1/16) (GLA) or exp(-exp(A) softplus(U W x + c)) with one A a head
// (Kimi delta attention).
enum class Decay { kNone, kFixed, kScalar, kVector, kVectorStep };

// b_t of a head: 1; beta_factor sigmoid(w x); softplus(w x + c), the step size of a scalar decay (Mamba-2); exp(w x)
// (mLSTM).
enum class WriteStrength { kOne, kSigmoid, kStep, kExponential };

// First values of a scalar decay's A, w and c: steps softplus(c) of 0.001 .. 0.1, their logarithm uniform, beside rates
// e^A uniform in 1 .. 16 (Mamba-2) or in 0 .. 16 (gated DeltaNet); or A = 0, w = 0 and forget gates sigmoid(-c) that go
// from sigmoid(3) to sigmoid(6) over the heads (mLSTM).
enum class FirstDecay { kMamba2, kGatedDeltaNet, kMLstm };

// What queries and keys pass: silu(x), max(x, 0), 1 + elu(x) (Katharopoulos et al. 2020), DPFP (Schlag et al. 2021,
// equation 37), FAVOR+ (Choromanski et al. 2021; Schlag et al., equations 31 and 32), or nothing.
enum class FeatureMap { kSilu, kRelu, kElu, kDpfp, kFavor, kIdentity };

// What features of queries and keys are divided by: their length, their sum (Schlag et al. 2021, equation 29), nothing.
enum class KeyNorm { kL2, kSum, kNone };

// What is read is divided by: nothing; z_t . q_t, where z sums up the keys as S does (Schlag et al. 2021, equations 26
// to 28); max(|z_t . q_t| / sqrt(K), 1) (mLSTM).
enum class AttentionNorm { kNone, kSum, kAtLeastOne };

// What the normalised outputs of the heads are multiplied by: nothing, silu(W x), sigmoid(W x), or sigmoid(U W x + c)
// of a rank of width / heads (Kimi delta attention).
enum class OutputGate { kNone, kSilu, kSigmoid, kLowRankSigmoid };

// With the defaults it is deltanet.
struct FastWeightsOptions : BlockOptions {
  static constexpr const char* kName = "fast_weights";
  static constexpr const char* kSummary = "fast weights, any rule and decay";
  static constexpr const char* kSource =
      "a family; its rules: Schlag et al., Linear Transformers are secretly fast weight programmers, 2021; its decays: "
      "Sun et al., Retentive network, 2023; Yang et al., Gated delta networks, 2025, and Gated linear attention "
      "Transformers, 2024";
  int layers = 3;
  int heads = 2;
  FastRule rule = FastRule::kDelta;
  Decay decay = Decay::kNone;
  FirstDecay first_decay = FirstDecay::kMamba2;  // of Decay::kScalar
  // Of FastRule::kDelta: how often a step writes, one after the other, with keys, values and write strengths of their
  // own; it decays before the first (DeltaProduct). Each is a generalised Householder reflection, I - b k k^T.
  int householder_steps = 1;
  WriteStrength write_strength = WriteStrength::kSigmoid;
  bool write_bias = false;  // of WriteStrength::kSigmoid and kExponential; then w = 0 and bias N(0, 0.1) at first
  int beta_factor = 2;      // 1 or 2, of WriteStrength::kSigmoid; 2 admits negative eigenvalues
  FeatureMap feature_map = FeatureMap::kSilu;
  int dpfp_nu = 1;          // of FeatureMap::kDpfp, below 2 width / heads
  int favor_features = 64;  // random directions of FeatureMap::kFavor, two features each
  KeyNorm key_norm = KeyNorm::kL2;
  AttentionNorm attention_norm = AttentionNorm::kNone;
  bool convolution = false;       // over the last kConvolutionWidth steps of queries, keys and values before their maps
  bool convolution_bias = false;  // with a bias
  bool value_silu = true;
  bool skip = false;  // what is read is S^T q + D v, D one number a head, 1 at first (Mamba-2); with no attention norm
  OutputGate output_gate = OutputGate::kNone;

  static constexpr int kConvolutionWidth = 4;
  static constexpr int kVectorDecayRank = 16;  // of the map to Decay::kVector

  // Of a head's key: what the feature map makes of width / heads channels.
  std::int64_t key_width() const;
  bool decays_by_channel() const { return decay == Decay::kVector || decay == Decay::kVectorStep; }
  // Whether its mixer is deltanet's, for which there are kernels.
  bool is_deltanet() const;
  void list_options(OptionList& list);
  // Of these the ones of the memory alone, which FastWeightMemory takes.
  void list_memory(OptionList& list);
  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;

 protected:
  // The settings that linear attention and its descendants share: values as they are, a write strength of 1, write
  // strengths of at most 1 where they are learnt.
  void as_linear_attention(FeatureMap map, KeyNorm norm);
};

// The published ones: the same options, all but deltanet with other defaults.
struct DeltaNetOptions : FastWeightsOptions {
  static constexpr const char* kName = "deltanet";
  static constexpr const char* kSummary = "fast weights, by the delta rule";
  static constexpr const char* kSource =
      "Schlag et al., Linear Transformers are secretly fast weight programmers, 2021; Yang et al., Parallelizing "
      "linear Transformers with the delta rule over sequence length, 2024";
};

struct LinearTransformerOptions : FastWeightsOptions {
  static constexpr const char* kName = "linear_transformer";
  static constexpr const char* kSummary = "linear attention, 1 + elu";
  static constexpr const char* kSource =
      "Katharopoulos et al., Transformers are RNNs: fast autoregressive Transformers with linear attention, 2020";
  LinearTransformerOptions();
};

struct PerformerOptions : FastWeightsOptions {
  static constexpr const char* kName = "performer";
  static constexpr const char* kSummary = "linear attention, random features";
  static constexpr const char* kSource = "Choromanski et al., Rethinking attention with Performers, 2021";
  PerformerOptions();
};

struct DpfpOptions : FastWeightsOptions {
  static constexpr const char* kName = "dpfp";
  static constexpr const char* kSummary = "linear attention, DPFP features";
  static constexpr const char* kSource =
      "Schlag et al., Linear Transformers are secretly fast weight programmers, 2021, section 5.4";
  DpfpOptions();
};

struct Delta2021Options : FastWeightsOptions {
  static constexpr const char* kName = "delta_2021";
  static constexpr const char* kSummary = "delta rule as first published";
  static constexpr const char* kSource =
      "Schlag et al., Linear Transformers are secretly fast weight programmers, 2021, section 4.2";
  Delta2021Options();
};

struct GatedDeltaNetOptions : FastWeightsOptions {
  static constexpr const char* kName = "gated_deltanet";
  static constexpr const char* kSummary = "delta rule with a decay";
  static constexpr const char* kSource = "Yang et al., Gated delta networks: improving Mamba2 with delta rule, 2025";
  GatedDeltaNetOptions();
};

struct DeltaProductOptions : FastWeightsOptions {
  static constexpr const char* kName = "delta_product";
  static constexpr const char* kSummary = "delta rule, several times a step";
  static constexpr const char* kSource =
      "Siems et al., DeltaProduct: improving state-tracking in linear RNNs via Householder products, 2025";
  DeltaProductOptions();
};

struct KdaOptions : FastWeightsOptions {
  static constexpr const char* kName = "kda";
  static constexpr const char* kSummary = "delta rule, a decay per channel";
  static constexpr const char* kSource =
      "Kimi Team, Kimi Linear: an expressive, efficient attention architecture, 2025 (Kimi delta attention)";
  KdaOptions();
};

struct RetNetOptions : FastWeightsOptions {
  static constexpr const char* kName = "retnet";
  static constexpr const char* kSummary = "linear attention, fixed decays";
  static constexpr const char* kSource =
      "Sun et al., Retentive network: a successor to Transformer for large language models, 2023";
  RetNetOptions();
};

struct GlaOptions : FastWeightsOptions {
  static constexpr const char* kName = "gla";
  static constexpr const char* kSummary = "linear attention, channel gates";
  static constexpr const char* kSource =
      "Yang et al., Gated linear attention Transformers with hardware-efficient training, 2024";
  GlaOptions();
};

struct Mamba2Options : FastWeightsOptions {
  static constexpr const char* kName = "mamba2";
  static constexpr const char* kSummary = "state space, a decay per head";
  static constexpr const char* kSource =
      "Dao and Gu, Transformers are SSMs: generalized models and efficient algorithms through structured state space "
      "duality, 2024";
  Mamba2Options();
};

struct MLstmOptions : FastWeightsOptions {
  static constexpr const char* kName = "mlstm";
  static constexpr const char* kSummary = "matrix LSTM, exponential gate";
  static constexpr const char* kSource = "Beck et al., xLSTM: extended long short-term memory, 2024";
  MLstmOptions();
};

using FastWeightFamily = std::tuple<FastWeightsOptions, DeltaNetOptions, LinearTransformerOptions, PerformerOptions,
                                    DpfpOptions, Delta2021Options, GatedDeltaNetOptions, DeltaProductOptions,
                                    KdaOptions, RetNetOptions, GlaOptions, Mamba2Options, MLstmOptions>;

// The defaults of one of the family and, from settings after its name, options of the memory: "gla",
// "fast_weights:rule=sum:decay=fixed". Throws UserError for an unknown name, or an option or value that is none of the
// memory's.
FastWeightsOptions parse_fast_weights(const std::string& entry);
// Such an entry from a config of an earlier format in today's words (Option::renewed). Throws as parse_fast_weights()
// does for an unknown name.
std::string renewed_fast_weights(const std::string& entry, int format);

}  // namespace engram
