#include "kernels/common/architecture.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "kernels/common/cuda_support.h"

namespace engram {
namespace {

constexpr int kLeastMajor = 8;  // what the kernels need: tensor cores' bfloat16, asynchronous copies

// As CMAKE_CUDA_ARCHITECTURES names it. Of 9.0 with its own instructions, which some kernels are written in.
std::string architecture_of(int major, int minor) {
  return std::to_string(10 * major + minor) + (major == 9 && minor == 0 ? "a" : "");
}

}  // namespace

const char* built_architectures() { return ENGRAM_CUDA_ARCHITECTURES; }

bool has_code_for(const std::string& architectures, int major, int minor) {
  bool found = false;
  std::size_t begin = 0;
  while (begin <= architectures.size()) {
    const std::size_t end = std::min(architectures.find(", ", begin), architectures.size());
    const std::string entry = architectures.substr(begin, end - begin);
    begin = end + 2;
    int number = 0;
    const auto parsed = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    std::string_view form(parsed.ptr, entry.data() + entry.size());
    const char feature = form.starts_with('a') || form.starts_with('f') ? form.front() : '\0';
    if (feature != '\0') form.remove_prefix(1);
    if (parsed.ec != std::errc{} || number < 10 || (form != "" && form != "-real" && form != "-virtual"))
      throw std::invalid_argument("'" + entry + "' is no architecture of a GPU, such as 86 or 90a");
    const bool same_family = major == number / 10 && minor >= number % 10;
    if (feature == 'a')
      found |= 10 * major + minor == number;
    else if (feature == 'f' || form == "-real")
      found |= same_family;
    else
      found |= same_family || major > number / 10;
  }
  return found;
}

std::string no_code_message(const std::string& gpu_name, int major, int minor, const std::string& architectures) {
  const std::string gpu = "the GPU (" + gpu_name + ", compute capability " + std::to_string(major) + "." +
                          std::to_string(minor) + ") cannot run this program";
  if (major < kLeastMajor)
    return gpu + ": its kernels need compute capability " + std::to_string(kLeastMajor) +
           ".0 or later; use --device cpu";
  return gpu + ", whose kernels were built for " + architectures +
         "; configure with -DCMAKE_CUDA_ARCHITECTURES=" + architecture_of(major, minor) +
         " and build again, or use --device cpu";
}

void check_architecture(int device) {
  int major = 0, minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "the GPU's compute capability");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "the GPU's compute capability");
  if (has_code_for(built_architectures(), major, minor)) return;
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "the GPU's name");
  throw std::runtime_error(no_code_message(properties.name, major, minor, built_architectures()));
}

Support supports_hopper() {
  const int major = cuda_device_attribute(cudaDevAttrComputeCapabilityMajor);
  const int minor = cuda_device_attribute(cudaDevAttrComputeCapabilityMinor);
  if (major == 9 && minor == 0) return {};
  return Support::no("the GPU's compute capability is " + std::to_string(major) + "." + std::to_string(minor) +
                     ", not 9.0");
}

}  // namespace engram
