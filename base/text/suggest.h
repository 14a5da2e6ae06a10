// What a wrong name may have been meant to be.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace engram {

// Of the known names (words, or section.key) those that `text` may stand for, at most three that are equally good; none
// if nothing is like it. In this order: names with the same key, of whatever section; with a key of few edits; with a
// key of these initials ("lr": learner.learning_rate); with words in common ("batch_size": replay.batch_episodes).
// Upper and lower case, "-" and "_" count as the same; a name of the section that `text` has goes before others.
std::vector<std::string> similar_names(const std::string& text, const std::vector<std::string>& names);

// "; did you mean 'a'?", "; did you mean 'a', 'b' or 'c'?" of these names, `dashes` before each; empty where there are
// none.
std::string did_you_mean(const std::string& text, const std::vector<std::string>& names,
                         const std::string& dashes = "");

// Follows `text`, which is none of the names: the nearest of them, at most three, as a question; where nothing is like
// it, what there is (listed()). `shown_by`: a command that shows them all.
std::string names_hint(const std::string& text, const std::vector<std::string>& names,
                       const std::string& shown_by = "");

// "unknown preset 'x'; did you mean 'y' or 'z'?", the end by names_hint().
std::string unknown_name(const std::string& what, const std::string& text, const std::vector<std::string>& names,
                         const std::string& shown_by = "");

// "a, b, c"; of more than kMostListed names "a, b, c and 17 more".
inline constexpr std::size_t kMostListed = 12;
std::string listed(const std::vector<std::string>& names);

// Edits (characters put in, left out or replaced) that make one text the other.
std::size_t edit_distance(const std::string& a, const std::string& b);

// "a", "a or b", "a, b or c".
std::string either_of(const std::vector<std::string>& texts);

}  // namespace engram
