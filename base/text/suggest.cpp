#include "base/text/suggest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace engram {
namespace {

constexpr std::size_t kMost = 3;       // names suggested, or listed of many
constexpr std::size_t kLongest = 100;  // characters of a text that is worth looking at: a file's key can be megabytes

// A name in lower case with "_" for "-", in its two parts.
struct Name {
  std::string section, key;

  explicit Name(const std::string& text) {
    std::string plain = text;
    for (char& c : plain) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::size_t dot = plain.rfind('.');
    key = dot == std::string::npos ? plain : plain.substr(dot + 1);
    section = dot == std::string::npos ? "" : plain.substr(0, dot);
  }
};

std::vector<std::string> words_of(const std::string& key) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('_', begin), key.size());
    if (end > begin) words.push_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// As one typed them: "learn" for "learning", "layer" for "layers".
bool same_word(const std::string& a, const std::string& b) {
  constexpr std::size_t kShortestPart = 4;
  return a == b || (std::min(a.size(), b.size()) >= kShortestPart && (a.starts_with(b) || b.starts_with(a)));
}

// The share of all their words that two keys have in common.
double common_words(const std::string& a, const std::string& b) {
  const std::vector<std::string> words = words_of(a), others = words_of(b);
  const auto common = std::count_if(words.begin(), words.end(), [&](const std::string& word) {
    return std::any_of(others.begin(), others.end(), [&](const std::string& other) { return same_word(word, other); });
  });
  const double all = static_cast<double>(words.size() + others.size()) - static_cast<double>(common);
  return all > 0 ? static_cast<double>(common) / all : 0;
}

bool has_initials(const std::string& key, const std::string& initials) {
  const std::vector<std::string> words = words_of(key);
  return words.size() > 1 && words.size() == initials.size() &&
         std::equal(words.begin(), words.end(), initials.begin(),
                    [](const std::string& word, char initial) { return word[0] == initial; });
}

// Edits as a part of those that a word of this length may need; above 1: it is another word.
double edits(const std::string& typed, const std::string& known) {
  const std::size_t most = typed.size() / 3 + 1, longer = std::max(typed.size(), known.size());
  if (longer - std::min(typed.size(), known.size()) > most) return 2;
  const std::size_t distance = edit_distance(typed, known);
  return distance > most || distance >= longer ? 2 : static_cast<double>(distance) / static_cast<double>(most);
}

// The likeness by each rule, the best rule first; 0: none.
std::vector<double> likeness(const Name& typed, const Name& known) {
  const bool section_fits = typed.section.empty() || edits(typed.section, known.section) <= 1;
  const double key_edits = edits(typed.key, known.key);
  const double section_edits = typed.section.empty() ? 0 : edits(typed.section, known.section);
  const double words = common_words(typed.key, known.key);
  constexpr double kFewestCommonWords = 0.3;
  // A section alone stands for what its name chooses: "memory" for memory.name.
  const bool chooses = typed.section.empty() && typed.key == known.section && known.key == "name";
  return {typed.key == known.key || chooses ? 1.0 : 0.0,
          section_fits && key_edits <= 1 ? 3 - key_edits - section_edits : 0.0,
          has_initials(known.key, typed.key) ? 1.0 : 0.0, words >= kFewestCommonWords ? words : 0.0};
}

struct Alike {
  std::string name;
  std::vector<double> likeness;
};

// The names that `text` may stand for by any rule, the likest first.
std::vector<Alike> alike(const std::string& text, const std::vector<std::string>& names) {
  if (text.size() > kLongest) return {};
  const Name typed(text);
  std::vector<Alike> all;
  for (const std::string& name : names) {
    std::vector<double> found = likeness(typed, Name(name));
    if (std::ranges::any_of(found, [](double value) { return value > 0; })) all.push_back({name, std::move(found)});
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Alike::likeness);
  return all;
}

// "; did you mean 'a' or 'b'?", `dashes` before each; empty where there are none.
std::string question(const std::vector<std::string>& names, const std::string& dashes) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back("'" + dashes + name + "'");
  return quoted.empty() ? "" : "; did you mean " + either_of(quoted) + "?";
}

}  // namespace

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row.back();
}

std::vector<std::string> similar_names(const std::string& text, const std::vector<std::string>& names) {
  const std::vector<Alike> all = alike(text, names);
  std::vector<std::string> best, best_of_section;
  for (const Alike& one : all) {
    if (one.likeness < all.front().likeness) break;
    best.push_back(one.name);
    if (Name(one.name).section == Name(text).section) best_of_section.push_back(one.name);
  }
  if (!best_of_section.empty()) best = best_of_section;
  best.resize(std::min(best.size(), kMost));
  return best;
}

std::string either_of(const std::vector<std::string>& texts) {
  std::string result;
  for (std::size_t i = 0; i < texts.size(); ++i)
    result += (i == 0 ? "" : i + 1 == texts.size() ? " or " : ", ") + texts[i];
  return result;
}

std::string did_you_mean(const std::string& text, const std::vector<std::string>& names, const std::string& dashes) {
  return question(similar_names(text, names), dashes);
}

std::string names_hint(const std::string& text, const std::vector<std::string>& names, const std::string& shown_by) {
  std::vector<std::string> near;
  for (const Alike& one : alike(text, names))
    if (near.size() < kMost) near.push_back(one.name);
  if (!near.empty()) return question(near, "");
  return "; there are " + listed(names) +
         (names.size() > kMostListed && !shown_by.empty() ? "; " + shown_by + " shows them" : "");
}

std::string unknown_name(const std::string& what, const std::string& text, const std::vector<std::string>& names,
                         const std::string& shown_by) {
  return "unknown " + what + " '" + text + "'" + names_hint(text, names, shown_by);
}

std::string listed(const std::vector<std::string>& names) {
  const std::size_t shown = names.size() > kMostListed ? kMost : names.size();
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return shown == names.size() ? text : text + " and " + std::to_string(names.size() - shown) + " more";
}

}  // namespace engram
