// ProbeTask: what a memory can do, asked without reinforcement learning. Sequences of symbols with questions in them;
// every sequence is a pure function of (seed, split, batch, row), so that training, validation and test never share one
// and all backbones see the same.
//
// Shapes: B sequences, T symbols, Q questions of a sequence.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/rng.h"

namespace engram {

enum class Split { kTraining, kValidation, kTest };

// Of an answer: what training minimises, and what is measured beside the accuracy.
enum class ProbeLoss {
  kCrossEntropy,  // nats
  kSquared,       // half of the squared distance of the outputs from a one at the right class and zeros elsewhere
  kBits,          // cross-entropy in bits
};

// int64, on the CPU. At position p of a sequence, which is the last symbol that may be used, the answer is a class.
struct ProbeBatch {
  torch::Tensor symbol_BT;
  torch::Tensor position_BQ;
  torch::Tensor label_BQ;
};

class ProbeTask {
 public:
  virtual ~ProbeTask() = default;

  // The task's own options, without a section.
  virtual void list_options(OptionList& list) = 0;
  // Throws UserError if values contradict each other.
  virtual void check() const {}
  // Reads what the task needs besides its options. Throws UserError if it cannot be read or does not do.
  virtual void load() {}

  virtual int symbols() const = 0;  // of the alphabet
  // Of a second alphabet; 0: there is none. Where there is one a step is a pair, symbol + symbols() * second, and each
  // of the two is embedded in half of the width.
  virtual int second_symbols() const { return 0; }
  virtual ProbeLoss loss() const { return ProbeLoss::kCrossEntropy; }
  virtual int classes() const = 0;          // equally likely
  virtual int layers() const { return 2; }  // of the published models
  virtual int length(Split split) const = 0;
  virtual int questions(Split split) const = 0;
  // What else the sequences depend on: the digest of a file, say.
  virtual std::string content() const { return ""; }

  // `batches` batches from number `first` on, [batches, B, .] each.
  ProbeBatch draw(Split split, std::uint64_t seed, std::uint32_t first, std::int64_t batches, std::int64_t rows) const;

 protected:
  // One sequence: symbol_T of length(split), position_Q and label_Q of questions(split).
  virtual void fill(Split split, Rng random, std::int64_t* symbol_T, std::int64_t* position_Q,
                    std::int64_t* label_Q) const = 0;
};

struct ProbeTaskInfo {
  std::string name, description;
};
const std::vector<ProbeTaskInfo>& probe_tasks();

// With its defaults, neither checked nor loaded. Throws UserError for an unknown name.
std::unique_ptr<ProbeTask> probe_task_by_name(const std::string& name);

// "parity", or "recall:pairs=8:length=32": name and options. Throws UserError for an unknown name or option, or a value
// that is out of bounds.
std::unique_ptr<ProbeTask> make_probe_task(const std::string& entry);

}  // namespace engram
