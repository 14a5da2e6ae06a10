// Decks of cards in recorded episodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/recorded/codes.h"
#include "envs/recorded/fields.h"

namespace engram::recorded {

// `cards` cards in the order in which they are dealt, as many of each kind.
template <class Pile>
Pile read_pile(const Json& episode, const std::string& name, int cards, int kinds) {
  Pile pile{};
  std::vector<int> count(static_cast<std::size_t>(kinds));
  for (int card = 0; const int kind : get_symbols(episode, name, static_cast<std::size_t>(cards), {digits(kinds)})) {
    pile.set(card++, kind);
    ++count[static_cast<std::size_t>(kind)];
  }
  for (int kind = 0; kind < kinds; ++kind)
    if (count[static_cast<std::size_t>(kind)] != cards / kinds)
      throw UserError("'" + name + "' holds " + std::to_string(count[static_cast<std::size_t>(kind)]) + " times '" +
                      digits(kinds)[static_cast<std::size_t>(kind)] + "'; the decks hold " +
                      std::to_string(cards / kinds));
  return pile;
}

}  // namespace engram::recorded
