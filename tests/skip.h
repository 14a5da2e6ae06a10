// A test case that cannot run here is skipped, never passed over in silence: tests/main.cpp counts.
#pragma once

#include <string>

namespace engram::testing {

// Exit status of a test program whose cases were all skipped: what ctest knows as "skipped", for tests of which
// engram_gpu_tests says that this may be.
constexpr int kSkippedStatus = 77;

// Marks the running case as skipped; `reason` is printed. The case returns at once, before it has checked anything.
void skip_case(const std::string& reason);

}  // namespace engram::testing
