#include "agents/run/machine/device_timing.h"

#include "agents/play/device_graph.h"
#include "nn/device/cuda_support.h"

namespace engram {

double torch_graph_ms(int launches, const std::function<void()>& work, double seconds) {
  double ms = 0;
  const SideStream stream(kLearnerPriority);
  stream.run([&] {
    for (int i = 0; i < 2; ++i) work();
    DeviceGraph graph;
    graph.capture([&] {
      for (int i = 0; i < launches; ++i) work();
    });
    ms = median_ms(
             current_stream(), [&] { graph.replay(); }, seconds) /
         launches;
  });
  return ms;
}

}  // namespace engram
