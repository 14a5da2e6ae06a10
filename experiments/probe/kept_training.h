// KeptTraining: the state of a cell's training in a file beside its result, written once a minute, so that a probe that
// is ended in a cell of hours goes on there and comes to the same bytes.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "experiments/probe/learner.h"

namespace engram {

class KeptTraining {
 public:
  // Of the cell with this identity.
  KeptTraining(std::filesystem::path file, std::string identity);

  // What a process that was ended has kept, if there is a file. Throws UserError, naming it, if it is damaged or of
  // another cell.
  void restore(ProbeLearner& learner);
  // Replaces the file, unless that was done less than `every` ago. Throws as replace_file().
  void keep(ProbeLearner& learner, std::chrono::seconds every = std::chrono::minutes(1));
  // The result is there.
  void remove() const;

  // Of this training so far, in earlier processes as well.
  double seconds() const;

 private:
  void visit(StateArchive& archive, ProbeLearner& learner);

  const std::filesystem::path file_;
  const std::string identity_;
  double earlier_seconds_ = 0;
  std::chrono::steady_clock::time_point begin_, kept_;
};

}  // namespace engram
