// What the sources that stand for the GPU's parts in a build without GPU support have in common: nothing is supported
// there, and what is called only where something is throws.
#pragma once

#include <stdexcept>
#include <string>

#include "base/support.h"

namespace engram {

inline Support no_support() { return Support::no("this build has no GPU support"); }

[[noreturn]] inline void not_built(const char* what) {
  throw std::logic_error(std::string(what) + " on a GPU in a build without GPU support");
}

}  // namespace engram
