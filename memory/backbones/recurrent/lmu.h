// Legendre memory unit, the options.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

// LMU (Voelker et al. 2019) as POPGym's baselines have it (github.com/proroklab/popgym,
// popgym/baselines/models/lmu.py): a window of one learnt signal, kept as its coefficients of Legendre polynomials,
// beside a recurrent cell.
struct LmuOptions {
  static constexpr const char* kName = "lmu";
  static constexpr const char* kSummary = "Legendre memory unit: a window";
  static constexpr const char* kSource =
      "Voelker et al., Legendre memory units: continuous-time representation in recurrent neural networks, 2019; as in "
      "POPGym's baselines (Morad et al. 2023)";
  int width = 100;
  int memory_width = 0;  // Legendre polynomials, d in the paper; 0: as many as the width
  int window = 64;       // steps, theta in the paper

  int coefficients() const { return memory_width > 0 ? memory_width : width; }
  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
