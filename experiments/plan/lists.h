// Lists as a file or a command line has them: seeds, labels.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace engram {

std::string without_blanks_around(const std::string& text);

// Parts between separators, without the blanks around them.
std::vector<std::string> trimmed_parts(const std::string& text, char separator);

// "0-4,8" as ascending numbers. Throws UserError for anything else, and for more than 10,000.
std::vector<std::uint64_t> parse_seeds(const std::string& text);
std::string seeds_text(const std::vector<std::uint64_t>& seeds);

// "a,b" as labels. Throws UserError for an empty one.
std::vector<std::string> parse_labels(const std::string& text);

// The first line of each text that the other does not have in its place, "nothing in its place" of a shorter one; equal
// where the texts are.
std::pair<std::string, std::string> first_difference(const std::string& before, const std::string& now);

}  // namespace engram
