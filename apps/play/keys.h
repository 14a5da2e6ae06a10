// The keys that a person plays a task with.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace engram {

// A key: its character, "up", "down", "left" or "right" of an arrow key, or "" of another key that sends several bytes.
using Key = std::string;

inline constexpr char kQuitKey = 'q', kNextKey = 'r';

// Makes keys of the bytes that a terminal sends.
class KeyReader {
 public:
  // The key that the byte ends, if it ends one.
  std::optional<Key> take(char byte);

 private:
  std::string sequence_;  // of an escape sequence, what has come
};

// Which keys do what:
// - actions that are four directions, or left and right with or without forward: the arrow keys, or h j k l;
// - up to twenty others whose names begin with letters: the first letter of the name that is free, else of the
// alphabet;
// - all others their number, in as many digits as the highest action's.
// No keys of an action begin those of another one.
class ActionKeys {
 public:
  explicit ActionKeys(const std::vector<std::string>& action_names);

  // Takes a key. Once it, with the digits before it, is an action: that one.
  std::optional<int> take(const Key& key);
  // Takes the digits of a number back.
  void forget() { pending_.clear(); }
  // Digits taken so far of a number.
  const std::string& pending() const { return pending_; }
  // Why the last key was none of an action; "" if it was, or if more digits are to come.
  const std::string& problem() const { return problem_; }

  // The keys of an action, in one text: "left", "h", "07".
  std::vector<std::string> words_of(int action) const;
  // "left/h: west", "p: pickup", and "00 to 26: that number" of actions that are called by their numbers.
  std::vector<std::string> legend() const;

 private:
  struct Word {
    std::string keys;
    int action;
  };
  void number(const std::vector<int>& actions);

  std::vector<std::string> names_;
  std::vector<Word> words_;
  std::size_t digits_ = 0;  // of a number; 0: no action has one
  std::string pending_, problem_;
};

}  // namespace engram
