// SeededGenerator: first weights by a seed, without a trace in the program's own draws.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <mutex>

namespace engram {

// While it lives, torch's default generator of the CPU, which all first weights are drawn from, draws what
// torch::manual_seed(seed) makes it draw; then it goes on as if nothing had been drawn. That of a GPU is not touched.
// The generator is the program's: others who want it seeded wait, so a thread must not make a second one.
class SeededGenerator {
 public:
  explicit SeededGenerator(std::uint64_t seed);
  ~SeededGenerator();
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;

 private:
  std::unique_lock<std::mutex> turn_;
  torch::Generator generator_;
  torch::Tensor before_;  // its state
};

}  // namespace engram
