// The commands of the program. Each takes what stands behind its name on the command line and returns the exit status;
// bad input throws UserError.
#pragma once

#include <string>
#include <vector>

namespace engram {

int run_train(const std::vector<std::string>& arguments);
int run_compare(const std::vector<std::string>& arguments);
int run_evaluate(const std::vector<std::string>& arguments);
int run_render(const std::vector<std::string>& arguments);
int run_inspect(const std::vector<std::string>& arguments);
int run_list(const std::vector<std::string>& arguments);
int run_probe(const std::vector<std::string>& arguments);
int run_replay(const std::vector<std::string>& arguments);
int run_bench(const std::vector<std::string>& arguments);

}  // namespace engram
