// ProbeTask: what a memory can do, asked without reinforcement learning. Sequences of symbols with questions in them;
// every sequence is a pure function of (seed, split, batch, row), or of its number in a training set, so that training,
// validation and test never share one and all backbones see the same.
//
// Shapes: B sequences, T symbols, Q questions of a sequence.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
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

// What stands between the sequence and the outputs of a question.
enum class ProbeModel {
  kPlaces,  // the backbone's output at the place of the question, and a linear map
  kLast,    // that at the last symbol and a code of the place, through an MLP (Poli et al. 2024)
  kMemory,  // the backbone's memory alone (experiments/probe/bare_memory.h)
};

// Of a question that is not asked: it counts neither in the loss nor in the accuracy.
inline constexpr std::int64_t kNotAsked = -1;

// int64, on the CPU. At position p of a sequence, which is the last symbol that may be used, the answer is a class, or
// kNotAsked.
struct ProbeBatch {
  torch::Tensor symbol_BT;
  torch::Tensor position_BQ;
  torch::Tensor label_BQ;
  // Where several answers are right: bit c says that class c is. Undefined where the label alone is.
  torch::Tensor right_BQ;
};

class ProbeTask {
 public:
  virtual ~ProbeTask() = default;

  // The task's own options, without a section.
  virtual void list_options(OptionList& list) = 0;
  // Throws UserError if values contradict each other.
  virtual void check() const {}
  // Reads or makes what the task needs besides its options. Throws UserError if it cannot be read or does not do.
  virtual void load() {}

  virtual int symbols() const = 0;  // of the alphabet
  // Of a second alphabet; 0: there is none. Where there is one a step is a pair, symbol + symbols() * second, and each
  // of the two is embedded in half of the width.
  virtual int second_symbols() const { return 0; }
  virtual ProbeLoss loss() const { return ProbeLoss::kCrossEntropy; }
  virtual ProbeModel model() const { return ProbeModel::kPlaces; }
  virtual int classes() const = 0;
  // Class c is the symbol first + c; nothing where classes are no symbols.
  virtual std::optional<int> first_class_symbol() const { return std::nullopt; }
  // Accuracy of a guess, which normalised accuracies call 0; 0 where the published figures are plain accuracies.
  virtual double chance() const { return 1.0 / classes(); }
  // Whether batches have right_BQ; then there are at most 63 classes.
  virtual bool several_right() const { return false; }
  virtual int layers() const { return 2; }  // of the published models
  virtual int length(Split split) const = 0;
  virtual int questions(Split split) const = 0;
  // Different sequences of training, which come again in an order of their own in every pass over them; 0: all are new.
  virtual int training_sequences() const { return 0; }
  // What else the sequences depend on: the digest of a file, say.
  virtual std::string content() const { return ""; }

  // `batches` batches from number `first` on, [batches, B, .] each.
  ProbeBatch draw(Split split, std::uint64_t seed, std::uint32_t first, std::int64_t batches, std::int64_t rows) const;

 protected:
  // Of one sequence: T = length(split), Q = questions(split).
  struct Sequence {
    std::int64_t* symbol_T;
    std::int64_t* position_Q;
    std::int64_t* label_Q;
    std::int64_t* right_Q;  // null unless several_right()
  };
  virtual void fill(Split split, Rng random, const Sequence& out) const = 0;
};

// "training_sequences" of a task that has a training set.
void list_training_sequences(OptionList& list, int& training_sequences);

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
