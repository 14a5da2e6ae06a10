// How long what is queued on a stream takes on the GPU.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/cuda_support.h"

namespace engram::testing {

// Median milliseconds of what `work` queues, `inner` times in one graph so that the graph's launch does not show.
inline double median_ms(int inner, const std::function<void(cudaStream_t)>& work) {
  constexpr int kWarmups = 3, kReplays = 21;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check_cuda(cudaStreamCreate(&stream), "stream");
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < inner; ++i) work(stream);
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
    if (i >= kWarmups) times.push_back(ms / inner);
  }
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return times[kReplays / 2];
}

}  // namespace engram::testing
