// The sum rule with a decay for each key channel as engram bench kernels runs it.
#pragma once

#include <functional>
#include <vector>

#include "memory/bench/kernel_row.h"

namespace engram {

std::vector<std::function<KernelRow()>> vector_decay_rows();

}  // namespace engram
