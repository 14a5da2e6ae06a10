// Counts, durations and commands as the program writes them for people.
#pragma once

#include <concepts>
#include <string>
#include <vector>

namespace engram {

// "1 task", "3 tasks"; `many` where the plural is not formed by "s".
template <std::integral Count>
std::string counted(Count count, const std::string& one, const std::string& many = "") {
  return std::to_string(count) + " " + (count == 1 ? one : many.empty() ? one + "s" : many);
}

// Seconds as "7s", "12m05s", "3h20m" or "145d07h"; "for ever" of a million days and more, and of what is not a number.
std::string duration_text(double seconds);

// A word of a command for a shell, as it is where a shell takes it so, else in quotes: one line without control
// characters, which stand in $'...' as bash and zsh read it.
std::string shell_word(const std::string& word);
// The words with blanks between them.
std::string shell_command(const std::vector<std::string>& words);

}  // namespace engram
