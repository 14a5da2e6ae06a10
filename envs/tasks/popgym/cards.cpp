#include "envs/tasks/popgym/cards.h"

#include <cctype>
#include <utility>

namespace engram::cards {

// The four-colour deck.
Rgb suit_colour(int suit) {
  constexpr Rgb kColour[kSuits] = {{25, 25, 25}, {0, 90, 220}, {0, 140, 0}, {210, 0, 0}};
  return kColour[suit];
}

Rgb black_or_red(int kind) { return suit_colour(kind == 0 ? 0 : kSuits - 1); }

Rgb hue(int index, int count) {
  // Two of the three channels at a time, one falling as the next rises; five of the circle's six sixths are used.
  const int at = 5 * 256 * index / count, sixth = at / 256;
  const auto up = static_cast<std::uint8_t>(at % 256), down = static_cast<std::uint8_t>(255 - at % 256);
  switch (sixth) {
    case 0:
      return {255, up, 0};
    case 1:
      return {down, 255, 0};
    case 2:
      return {0, 255, up};
    case 3:
      return {0, down, 255};
    default:
      return {up, 0, 255};
  }
}

std::vector<ColourMeaning> colours(int kinds, Rgb (*colour_of)(int kind)) {
  std::vector<ColourMeaning> colours = {{'.', kTable, "table"}};
  for (int kind = 0; const std::string& name : kind_names(kinds)) {
    const char letter = name == "10" ? 'T' : static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
    colours.push_back({letter, colour_of(kind++), name});
  }
  return colours;
}

void draw_suits(std::initializer_list<int> rows, Canvas& canvas) {
  canvas.resize(static_cast<int>(rows.size()), kSuits, kTable);
  for (int row = 0; const int suit : rows) {
    if (suit != kNoAnswer) canvas.set(row, suit, suit_colour(suit));
    ++row;
  }
}

VectorPart suit_part(const std::string& name) { return one_hot_part(name, kind_names(kSuits)); }

std::vector<std::string> kind_names(int kinds) {
  if (kinds == kColours) return {"black", "red"};
  if (kinds == kSuits) return {kSuitNames.begin(), kSuitNames.end()};
  return {"ace", "2", "3", "4", "5", "6", "7", "8", "9", "10", "jack", "queen", "king"};
}

std::vector<TaskPreset> three_sizes(const std::string& task, PresetValues easy, PresetValues medium,
                                    PresetValues hard) {
  return {{task + "_easy", task, std::move(easy), kSource},
          {task + "_medium", task, std::move(medium), kSource},
          {task + "_hard", task, std::move(hard), kSource}};
}

void list_num_decks(OptionList& list, int& num_decks, int most) {
  list.add("num_decks", num_decks, {1, most}, "decks of 52 cards that are shuffled together");
}

int kinds_of(CardKind kind) {
  return kind == CardKind::kColours ? kColours : kind == CardKind::kSuits ? kSuits : kRanks;
}

}  // namespace engram::cards
