// The recurrences of single channels as engram bench kernels runs it.
#pragma once

#include <functional>
#include <vector>

#include "memory/bench/kernel_row.h"

namespace engram {

std::vector<std::function<KernelRow()>> recurrence_rows();

}  // namespace engram
