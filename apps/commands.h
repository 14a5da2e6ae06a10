// The commands of the program: each takes the arguments after its name and returns the exit status. Bad input is thrown
// as UserError.
#pragma once

#include <string>
#include <vector>

namespace engram {

int run_bench(const std::vector<std::string>& arguments);
int run_replay(const std::vector<std::string>& arguments);

}  // namespace engram
