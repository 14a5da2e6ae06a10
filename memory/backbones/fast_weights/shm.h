// Stable Hadamard Memory, the options.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

// Which row of the calibration matrix a step takes: one that is drawn anew in every forward pass of training (outside
// of training the step's number says which); the one that the step's number says; or the first, as in the authors' code
// for POPGym.
enum class CalibrationRows { kDrawn, kByStep, kFirst };

// Stable Hadamard Memory (Le et al. 2024, arXiv:2410.10132): a matrix that is calibrated element by element, then
// written as fast weights are.
struct ShmOptions {
  static constexpr const char* kName = "shm";
  static constexpr const char* kSummary = "stable Hadamard memory, a matrix";
  static constexpr const char* kSource =
      "Le et al., Stable Hadamard memory: revitalizing memory-augmented agents for reinforcement learning, 2024";
  int width = 100;
  int memory_width = 48;   // H in the paper: the matrix is H x H
  int calibrations = 128;  // L in the paper: rows that each step takes one of
  CalibrationRows rows = CalibrationRows::kDrawn;
  double state_limit = 100;  // of the absolute values of the matrix, after every write; 0: none

  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
