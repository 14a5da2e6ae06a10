// Why kernels do not take some tensors, from words and sizes.
#pragma once

#include <sstream>

#include "base/support.h"

namespace engram {

// What an output stream makes of the words, one after the other.
template <class... Words>
Support refusal(const Words&... words) {
  std::ostringstream reason;
  (reason << ... << words);
  return Support::no(reason.str());
}

}  // namespace engram
