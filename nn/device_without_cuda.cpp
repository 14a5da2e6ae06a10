// A build without GPU support.
#include "nn/device.h"

namespace engram {

bool built_with_cuda() { return false; }

std::string built_device_architectures() { return ""; }

std::string device_name(c10::Device device) { return device.str(); }

std::int64_t peak_device_memory_bytes() { return 0; }

void check_device_architecture(int) {}

}  // namespace engram
