// RunFact: something that a run's seed decided once, for people: a run keeps it in its about.json and prints it.
#pragma once

#include <string>

namespace engram {

struct RunFact {
  std::string name;  // "evaluation_colours"
  std::string text;  // "green, red, blue"
  friend bool operator==(const RunFact&, const RunFact&) = default;
};

}  // namespace engram
