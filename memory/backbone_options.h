// Options of every backbone. Defaults are those of the RL experiments of the HQLT paper.
#pragma once

#include <cstdint>
#include <variant>

#include "base/options.h"

namespace engram {

// GPT-2 block: pre-LayerNorm, causal attention over the whole episode, GELU MLP.
struct TransformerOptions {
  static constexpr const char* kName = "transformer";
  int width = 100;
  int layers = 2;
  int heads = 2;
  double dropout = 0.1;

  void list_options(OptionList& list);
  void check() const;
};

// Delta-rule fast weights (Yang et al. 2024; Schlag et al. 2021).
struct DeltaNetOptions {
  static constexpr const char* kName = "deltanet";
  int width = 100;
  int layers = 3;
  int heads = 2;
  double beta_factor = 2;  // 1 or 2; 2 admits negative eigenvalues
  double dropout = 0.1;

  void list_options(OptionList& list);
  void check() const;
};

enum class Mixing { kVector, kScalar, kSum };
enum class PositionCode { kRope, kNone };

// Synchronous hybrid quadratic-linear Transformer (Irie et al. 2025).
struct HqltOptions {
  static constexpr const char* kName = "hqlt";
  int width = 100;
  int layers = 3;
  int heads = 2;
  int window = 64;  // steps, the current one included
  Mixing mixing = Mixing::kVector;
  PositionCode positions = PositionCode::kRope;
  double beta_factor = 2;  // 1 or 2
  double dropout = 0.1;

  void list_options(OptionList& list);
  void check() const;
};

struct LstmOptions {
  static constexpr const char* kName = "lstm";
  int width = 100;
  int layers = 1;

  void list_options(OptionList& list);
  void check() const;
};

struct GruOptions {
  static constexpr const char* kName = "gru";
  int width = 100;
  int layers = 1;

  void list_options(OptionList& list);
  void check() const;
};

// Memoryless control: the output at t depends on the input at t alone.
struct NoneOptions {
  static constexpr const char* kName = "none";
  int width = 100;
  int layers = 1;

  void list_options(OptionList& list);
  void check() const;
};

using BackboneOptions =
    std::variant<TransformerOptions, DeltaNetOptions, HqltOptions, LstmOptions, GruOptions, NoneOptions>;

}  // namespace engram
