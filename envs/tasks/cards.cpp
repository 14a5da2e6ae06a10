#include "envs/tasks/cards.h"

namespace engram::cards {

// The four-colour deck.
Rgb suit_colour(int suit) {
  constexpr Rgb kColour[kSuits] = {{25, 25, 25}, {0, 90, 220}, {0, 140, 0}, {210, 0, 0}};
  return kColour[suit];
}

void draw_suits(std::initializer_list<int> rows, Canvas& canvas) {
  canvas.resize(static_cast<int>(rows.size()), kSuits, kTable);
  for (int row = 0; const int suit : rows) {
    if (suit != kNoAnswer) canvas.set(row, suit, suit_colour(suit));
    ++row;
  }
}

void list_num_decks(OptionList& list, int& num_decks, int most) {
  list.add("num_decks", num_decks, {1, most}, "decks of 52 cards that are shuffled together");
}

}  // namespace engram::cards
