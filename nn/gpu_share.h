// A program's share of a GPU under NVIDIA's multi-process service, as its environment has it.
#pragma once

#include <optional>
#include <string>

namespace engram {

// Of the GPU's multiprocessors, in percent.
inline constexpr const char* kShareVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

// The variable's value where it is set; without the service it is not read by anything.
std::optional<std::string> gpu_share();
// Whether the service's control pipe is there.
bool has_multi_process_service();

}  // namespace engram
