// Runs gnuplot, without a shell.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace engram {

// Why there is no plot, in one line: there is no gnuplot (and how to get it), or it fails (with its own words).
class GnuplotError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs "gnuplot ARGUMENTS" in `folder` and returns what it says on both outputs. Throws GnuplotError if there is none
// or its exit status is not 0.
std::string run_gnuplot(const std::vector<std::string>& arguments, const std::filesystem::path& folder);

// A text as a string of a gnuplot script, in which nothing is special.
std::string gnuplot_string(const std::string& text);

}  // namespace engram
