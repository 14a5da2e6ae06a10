// The subjects of engram bench, one source file each. Each takes its own command line and returns the exit status.
#pragma once

#include <string>
#include <vector>

namespace engram {

int bench_update(const std::vector<std::string>& arguments);

}  // namespace engram
