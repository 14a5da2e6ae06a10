#include "nn/layers/seeded_generator.h"

namespace engram {
namespace {

std::mutex& one_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

SeededGenerator::SeededGenerator(std::uint64_t seed)
    : turn_(one_at_a_time()), generator_(at::globalContext().defaultGenerator(torch::kCPU)) {
  const std::lock_guard lock(generator_.mutex());
  before_ = generator_.get_state();
  generator_.set_current_seed(seed);
}

SeededGenerator::~SeededGenerator() {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(before_);
}

}  // namespace engram
