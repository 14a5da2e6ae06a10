// What decides, outside of a program, which GPUs it sees and how much of one it has: the driver, CUDA_VISIBLE_DEVICES
// and NVIDIA's multi-process service.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace engram {

// Of the GPU's multiprocessors, in percent.
inline constexpr const char* kShareVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

// The variable's value where it is set; without the service it is not read by anything.
std::optional<std::string> gpu_share();
// Whether the service's control pipe is there.
bool has_multi_process_service();

// Why no GPU may be seen, for messages: "no usable GPU was found (CUDA_VISIBLE_DEVICES is ''; driver 580.159.04 is
// loaded; CUDA says: no CUDA-capable device is detected)". `cuda_error`: CUDA's own words, empty for none.
// `driver_file` is where Linux shows the driver's version.
std::string no_gpu_text(const std::string& cuda_error,
                        const std::filesystem::path& driver_file = "/proc/driver/nvidia/version");

}  // namespace engram
