#include "apps/play/keys.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace engram {
namespace {

constexpr std::size_t kMostLetters = 20;

struct Direction {
  const char* arrow;
  char letter;  // as in vi
  std::array<const char*, 4> names;
};
constexpr std::array<Direction, 4> kDirections = {{{"left", 'h', {"west", "left", "-x", ""}},
                                                   {"down", 'j', {"south", "down", "-y", "backward"}},
                                                   {"up", 'k', {"north", "up", "+y", "forward"}},
                                                   {"right", 'l', {"east", "right", "+x", ""}}}};

// The direction that an action's name means, as its place among them.
std::optional<std::size_t> direction_of(const std::string& name) {
  for (std::size_t i = 0; i < kDirections.size(); ++i)
    if (!name.empty() && std::ranges::find(kDirections[i].names, name) != kDirections[i].names.end()) return i;
  return {};
}

bool is_digit(char character) { return character >= '0' && character <= '9'; }
bool is_letter(char character) { return character >= 'a' && character <= 'z'; }
char lower(char character) { return static_cast<char>(std::tolower(static_cast<unsigned char>(character))); }

std::string padded(int number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

}  // namespace

std::optional<Key> KeyReader::take(char byte) {
  constexpr char kEscape = '\033';
  if (sequence_.empty() && byte != kEscape) return Key(1, byte);
  if (byte == kEscape) {
    sequence_ = byte;
    return {};
  }
  if (sequence_.size() == 1 && byte != '[' && byte != 'O') {  // the Escape key, and then another one
    sequence_.clear();
    return Key(1, byte);
  }
  sequence_ += byte;
  if (sequence_.size() == 2 || byte < '@' || byte > '~') {
    if (sequence_.size() > 32) sequence_.clear();
    return {};
  }
  sequence_.clear();
  switch (byte) {
    case 'A':
      return "up";
    case 'B':
      return "down";
    case 'C':
      return "right";
    case 'D':
      return "left";
    default:
      return "";
  }
}

ActionKeys::ActionKeys(const std::vector<std::string>& action_names) : names_(action_names) {
  std::string taken{kQuitKey, kNextKey};
  std::array<int, kDirections.size()> action_of;
  action_of.fill(-1);
  bool twice = false;
  for (std::size_t action = 0; action < names_.size(); ++action)
    if (const auto direction = direction_of(names_[action])) {
      twice = twice || action_of[*direction] >= 0;
      action_of[*direction] = static_cast<int>(action);
    }
  const bool directed = !twice && action_of[0] >= 0 && action_of[3] >= 0;
  if (directed)
    for (std::size_t i = 0; i < kDirections.size(); ++i) {
      if (action_of[i] < 0) continue;
      words_.push_back({kDirections[i].arrow, action_of[i]});
      words_.push_back({std::string(1, kDirections[i].letter), action_of[i]});
      taken += kDirections[i].letter;
    }

  std::vector<int> others;
  for (int action = 0; action < static_cast<int>(names_.size()); ++action)
    if (!directed || std::ranges::find(action_of, action) == action_of.end()) others.push_back(action);
  const auto begins_with_letter = [&](int action) {
    const std::string& name = names_[static_cast<std::size_t>(action)];
    return !name.empty() && is_letter(lower(name[0]));
  };
  if (others.size() > kMostLetters - (directed ? 4 : 0) || !std::ranges::all_of(others, begins_with_letter)) {
    number(others);
    return;
  }
  for (const int action : others) {
    std::string wanted;
    for (const char character : names_[static_cast<std::size_t>(action)] + "abcdefghijklmnopqrstuvwxyz")
      if (is_letter(lower(character))) wanted += lower(character);
    const char letter = wanted[wanted.find_first_not_of(taken)];
    taken += letter;
    words_.push_back({std::string(1, letter), action});
  }
}

void ActionKeys::number(const std::vector<int>& actions) {
  digits_ = std::to_string(names_.size() - 1).size();
  for (const int action : actions) words_.push_back({padded(action, digits_), action});
}

std::optional<int> ActionKeys::take(const Key& key) {
  problem_.clear();
  const bool is_part = digits_ > 0 && key.size() == 1 && is_digit(key[0]);
  pending_ = is_part ? pending_ + key : "";
  if (is_part && pending_.size() < digits_) return {};
  const std::string word = is_part ? pending_ : key;
  pending_.clear();
  const auto found = std::ranges::find(words_, word, &Word::keys);
  if (found != words_.end()) return found->action;
  const bool printable = std::ranges::all_of(word, [](char c) { return c > ' ' && c <= '~'; });
  problem_ = word.empty() || !printable ? "that key does nothing" : "'" + word + "' does nothing";
  return {};
}

std::vector<std::string> ActionKeys::words_of(int action) const {
  std::vector<std::string> words;
  for (const Word& word : words_)
    if (word.action == action) words.push_back(word.keys);
  return words;
}

std::vector<std::string> ActionKeys::legend() const {
  std::vector<std::string> lines;
  std::string first, last;  // of numbers that are their own names
  for (int action = 0; action < static_cast<int>(names_.size()); ++action) {
    const std::string& name = names_[static_cast<std::size_t>(action)];
    std::string keys;
    for (const std::string& word : words_of(action)) keys += (keys.empty() ? "" : "/") + word;
    if (name != std::to_string(action)) {
      lines.push_back(keys + ": " + name);
      continue;
    }
    if (first.empty()) first = keys;
    last = keys;
  }
  if (!first.empty()) lines.push_back(first + " to " + last + ": that number");
  return lines;
}

}  // namespace engram
