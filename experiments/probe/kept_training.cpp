#include "experiments/probe/kept_training.h"

#include <cmath>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace engram {

using Clock = std::chrono::steady_clock;

KeptTraining::KeptTraining(std::filesystem::path file, std::string identity)
    : file_(std::move(file)), identity_(std::move(identity)), begin_(Clock::now()), kept_(begin_) {}

void KeptTraining::visit(StateArchive& archive, ProbeLearner& learner) {
  std::string identity = identity_;
  archive.value("cell", identity);
  if (identity != identity_) archive.refuse("cell", "it is another training");
  double seconds = this->seconds();
  archive.value("seconds", seconds);
  if (!(std::isfinite(seconds) && seconds >= 0)) archive.refuse("seconds", "it is not a time");
  learner.visit_state(archive);
  if (archive.restoring()) earlier_seconds_ = seconds;
}

void KeptTraining::restore(ProbeLearner& learner) {
  std::error_code error;
  if (!std::filesystem::exists(file_, error)) return;
  const std::string what = "kept training";
  StateArchive archive(load_safetensors(file_, what), what + " '" + file_.string() + "'");
  visit(archive, learner);
  archive.check_all_restored();
}

void KeptTraining::keep(ProbeLearner& learner, std::chrono::seconds every) {
  if (Clock::now() - kept_ < every) return;
  StateArchive archive;
  visit(archive, learner);
  save_safetensors(file_, archive.saved_tensors(), archive.saved_metadata());
  kept_ = Clock::now();
}

void KeptTraining::remove() const {
  std::error_code error;
  std::filesystem::remove(file_, error);
}

double KeptTraining::seconds() const {
  return earlier_seconds_ + std::chrono::duration<double>(Clock::now() - begin_).count();
}

}  // namespace engram
