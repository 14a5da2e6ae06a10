// How long what is queued on a stream takes on the GPU: medians, after calls that do not count.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/common/cuda_support.h"

namespace engram {

// Median milliseconds of what a call of `work` queues on `stream`, over 21 calls or more, `seconds` together.
inline double median_ms(cudaStream_t stream, const std::function<void()>& work, double seconds = 0) {
  constexpr std::size_t kWarmups = 3, kCalls = 21;
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin), "event");
  check_cuda(cudaEventCreate(&end), "event");
  std::vector<float> times;
  double total = 0;
  for (std::size_t i = 0; times.size() < kCalls || total < 1e3 * seconds; ++i) {
    check_cuda(cudaEventRecord(begin, stream), "record");
    work();
    check_cuda(cudaEventRecord(end, stream), "record");
    check_cuda(cudaEventSynchronize(end), "timed work");
    float ms;
    check_cuda(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i < kWarmups) continue;
    times.push_back(ms);
    total += ms;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// The same of what `work` queues on a stream of its own, `launches` times in one graph so that the graph's launch does
// not show.
inline double median_graph_ms(int launches, const std::function<void(cudaStream_t)>& work, double seconds = 0) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check_cuda(cudaStreamCreate(&stream), "stream");
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < launches; ++i) work(stream);
  check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
  check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  const double ms = median_ms(
                        stream, [&] { check_cuda(cudaGraphLaunch(executable, stream), "replay"); }, seconds) /
                    launches;
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return ms;
}

}  // namespace engram
