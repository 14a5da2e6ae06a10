#include "base/suggest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>

namespace engram {
namespace {

constexpr std::size_t kMost = 3;
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
  if (text.size() > kLongest) return {};
  const Name typed(text);
  std::vector<std::string> best, best_of_section;
  std::vector<double> most = {0, 0, 0, 0};
  for (const std::string& name : names) {
    const Name known(name);
    const std::vector<double> found = likeness(typed, known);
    if (found < most || std::all_of(found.begin(), found.end(), [](double value) { return value == 0; })) continue;
    if (found > most) {
      best.clear();
      best_of_section.clear();
      most = found;
    }
    best.push_back(name);
    if (known.section == typed.section) best_of_section.push_back(name);
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
  std::vector<std::string> quoted;
  for (const std::string& name : similar_names(text, names)) quoted.push_back("'" + dashes + name + "'");
  return quoted.empty() ? "" : "; did you mean " + either_of(quoted) + "?";
}

std::string unknown_name(const std::string& what, const std::string& text, const std::vector<std::string>& names) {
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  return "unknown " + what + " '" + text + "'" + did_you_mean(text, names) + " (known: " + known + ")";
}

}  // namespace engram
