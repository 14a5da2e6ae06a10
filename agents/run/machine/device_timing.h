// How long work takes on a GPU: what is queued on a stream (median_ms, median_graph_ms), and what LibTorch queues.
#pragma once

#include <functional>

#include "kernels/common/median_ms.h"

namespace engram {

// Median milliseconds of what `work` queues on the current stream through LibTorch, replayed from a CUDA graph of
// `launches` times the work, for `seconds` at least. `work` is called twice before.
double torch_graph_ms(int launches, const std::function<void()>& work, double seconds = 0);

}  // namespace engram
