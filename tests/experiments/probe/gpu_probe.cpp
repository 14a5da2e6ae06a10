// Trainings of probes on a GPU. With no parameters in one of the two groups LibTorch's fused AdamW ended the process.
#include <doctest/doctest.h>

#include "tests/experiments/probe/ended_training.h"
#include "tests/gpu.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("on a GPU every parameter decays or the matrices do, and a training goes on from what was kept") {
  if (skip_without_gpu()) return;
  for (const char* backbone : {"gru", "shm:memory_width=6", "hqlt"})
    for (const Decayed decayed : {Decayed::kMatrices, Decayed::kAll}) check_goes_on(backbone, decayed, torch::kCUDA);
}
