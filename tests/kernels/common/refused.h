// Whether a kernel's launcher refuses what it is given, before it launches anything.
#pragma once

#include <exception>
#include <string>

namespace engram::testing {

// Whether the call throws for what it was given. A failure of CUDA does not count: without a GPU every launch fails.
template <typename Call>
bool refused(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return std::string(error.what()).find("cudaError") == std::string::npos;
  }
  return false;
}

}  // namespace engram::testing
