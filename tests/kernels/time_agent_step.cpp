// Times the step of N agents: medians of replays of a CUDA graph of 50 steps.
#include <cstdlib>

#include "tests/kernels/agent_step_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

double median_us(DeviceAgents& agents) {
  constexpr int kSteps = 50, kWarmups = 3, kReplays = 21;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check_cuda(cudaStreamCreate(&stream), "stream");
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < kSteps; ++i) agents.step(stream);
  check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
  check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin), "event");
  check_cuda(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < kWarmups + kReplays; ++i) {
    check_cuda(cudaEventRecord(begin, stream), "record");
    check_cuda(cudaGraphLaunch(executable, stream), "replay");
    check_cuda(cudaEventRecord(end, stream), "record");
    check_cuda(cudaEventSynchronize(end), "replay");
    float ms;
    check_cuda(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i >= kWarmups) times.push_back(1000 * ms / kSteps);
  }
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return times[kReplays / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const int only = argc > 1 ? std::atoi(argv[1]) : 0;  // a number of rows
  for (const int window : {64, 0})
    for (const Dtype operands : {Dtype::kBfloat16, Dtype::kFloat32}) {
      AgentStepShape shape;
      shape.channels = 3, shape.height = 5, shape.columns = 5;
      shape.width = 100, shape.layers = 3, shape.heads = 2, shape.window = window;
      shape.hidden_width = 256, shape.actions = 4;
      Rng rng(1, Purpose::kTest, 0, 0);
      const AgentStepHostWeights weights = random_weights(shape, rng);
      for (const int rows : {1, 64, 1024, 4096}) {
        if (only > 0 && (rows != only || operands != Dtype::kBfloat16)) continue;
        DeviceAgents agents(shape, operands, weights, rows);
        agents.observe(rng);
        for (int i = 0; i < 70; ++i) agents.step();  // fills the window
        const double us = median_us(agents);
        std::printf("%s, %s products, N %d: %.2f us a step, %.3g steps/s\n", window > 0 ? "hqlt" : "deltanet",
                    operands == Dtype::kFloat32 ? "float" : "bfloat16", rows, us, rows / us * 1e6);
      }
    }
}
