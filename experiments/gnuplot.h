// Runs gnuplot, without a shell.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace engram {

// Runs "gnuplot ARGUMENTS" in `folder` and returns what it says on both outputs. Throws UserError if there is none,
// std::runtime_error, with the first line that it says, if its exit status is not 0.
std::string run_gnuplot(const std::vector<std::string>& arguments, const std::filesystem::path& folder);

// A text as a string of a gnuplot script, in which nothing is special.
std::string gnuplot_string(const std::string& text);

}  // namespace engram
