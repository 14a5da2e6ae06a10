// Elman network, GRU and LSTM as engram bench kernels runs them.
#pragma once

#include <functional>
#include <vector>

#include "memory/bench/kernel_row.h"

namespace engram {

std::vector<std::function<KernelRow()>> gated_rnn_rows();

}  // namespace engram
