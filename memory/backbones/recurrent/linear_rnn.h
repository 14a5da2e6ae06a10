// Options of the linear recurrent networks: stacks of the block of DeltaNet and HQLT (memory/core/block_stack.h) whose
// mixer is an elementwise linear recurrence (memory/ops/recurrences/linear_recurrence.h), so that a comparison with
// those differs in the mixer and its first weights.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

struct LinearRnnOptions : BlockOptions {
  int layers = 3;
  int state_width = 0;  // channels of the recurrence; 0: the width

  int recurrent_width() const { return state_width > 0 ? state_width : width; }
  void list_options(OptionList& list);
};

// minGRU (Feng et al. 2024, arXiv:2410.01201, section 3.1): gates that see the input alone.
struct MinGruOptions : LinearRnnOptions {
  static constexpr const char* kName = "min_gru";
  static constexpr const char* kSummary = "a GRU gated by the input alone";
  static constexpr const char* kSource = "Feng et al., Were RNNs all we needed?, 2024";

  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// Linear recurrent unit (Orvieto et al. 2023, arXiv:2303.06349, table 1 and section 3): complex, with factors that do
// not depend on the input.
struct LruOptions : LinearRnnOptions {
  static constexpr const char* kName = "lru";
  static constexpr const char* kSummary = "linear recurrent unit, complex";
  static constexpr const char* kSource =
      "Orvieto et al., Resurrecting recurrent neural networks for long sequences, 2023";
  // Absolute values and angles of the factors at first, evenly over that part of the unit disc.
  double r_min = 0.9;
  double r_max = 0.999;
  double max_phase = 6.283;

  void list_options(OptionList& list);
  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// S5 (Smith et al. 2023, arXiv:2208.04933): a diagonal state space with many inputs and outputs, discretised by
// zero-order hold.
struct S5Options : LinearRnnOptions {
  static constexpr const char* kName = "s5";
  static constexpr const char* kSummary = "a diagonal state space, complex";
  static constexpr const char* kSource = "Smith et al., Simplified state space layers for sequence modeling, 2023";
  // First step sizes, evenly over their logarithms.
  double step_min = 0.001;
  double step_max = 0.1;

  void list_options(OptionList& list);
  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// What of the first factors is spread over 0.9 .. 0.999: sigmoid(Lambda), evenly over that ring, as the authors' code
// has it (github.com/google-deepmind/recurrentgemma), or sigmoid(Lambda)^8, evenly, as their paper says.
enum class RgLruFactors { kBase, kPower };

// Real-gated linear recurrent unit in Griffin's recurrent block (De et al. 2024, arXiv:2402.19427, section 2.4).
struct RgLruOptions : LinearRnnOptions {
  static constexpr const char* kName = "rg_lru";
  static constexpr const char* kSummary = "Griffin's gated linear unit";
  static constexpr const char* kSource =
      "De et al., Griffin: mixing gated linear recurrences with local attention for efficient language models, 2024";
  RgLruFactors first_factors = RgLruFactors::kBase;
  // Whether the first step of an episode, too, is written times sqrt(1 - a^2); not so in the authors' code.
  bool scale_first_step = false;

  void list_options(OptionList& list);
  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
