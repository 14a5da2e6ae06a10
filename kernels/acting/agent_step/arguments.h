// The arguments of agent_step's kernel.
#pragma once

#include "kernels/acting/agent_step/agent_step.h"
#include "kernels/acting/agent_step/layout.h"
#include "kernels/common/tensor_core.cuh"

namespace engram {

struct StepArguments {
  AgentStepShape shape;
  AgentStepLayout layout;
  AgentStepShared shared;
  AgentStepRows rows;
  AgentStepDropout dropout;
  bool drops;  // anywhere
  int rows_per_cluster;
  const bf16* tiles;
  const float* vectors;
  const double* rope_frequencies;  // turns a step
  unsigned* finished;              // clusters of this call; 0 between calls
};

using StepKernel = void (*)(StepArguments);
// For few environments, with a cluster for each.
StepKernel alone_kernel_of(const AgentStepShape& shape, Dtype operands);

constexpr int kStaticSharedBytes = 1024;  // kept for what the kernel declares itself, and the runtime

// What the current device offers the kernel.
struct StepDevice {
  int cluster;       // blocks
  int clusters;      // that run at a time
  int shared_bytes;  // of a block
};
// Allows the kernel that much shared memory.
StepDevice prepare_step_kernel(const AgentStepShape& shape, Dtype operands);

struct StepLaunch {
  int cluster;
  bool alone;            // one row a cluster, by alone.cu
  int rows_per_cluster;  // 0: not even one row fits
  AgentStepShared shared;
};
StepLaunch plan_step(const AgentStepShape& shape, Dtype operands, const StepDevice& device, int rows);
void launch_step(const StepLaunch& launch, Dtype operands, const StepArguments& arguments, cudaStream_t stream);

}  // namespace engram
