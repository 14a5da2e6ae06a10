// What the games of POPGym share: decks of 52 cards, one-hot codes, the scoring of answers, presets. Games with cards:
// repeat_first.h, repeat_previous.h, autoencode.h, count_recall.h, concentration.h, higher_lower.h; without:
// multiarmed_bandit.h, minesweeper.h, battleship.h. Source: Morad et al., "POPGym: Benchmarking partially observable
// reinforcement learning", ICLR 2023, in the form of the package popgym 1.0.7.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"

namespace engram {

enum class CardKind { kColours, kSuits, kRanks };

namespace cards {

inline constexpr int kDeckCards = 52;
inline constexpr int kColours = 2, kSuits = 4, kRanks = 13;  // kinds of cards; a deck has as many of each
// The suits in the order in which the reference counts them; every second is red.
inline constexpr std::array<const char*, kSuits> kSuitNames = {"spades", "diamonds", "clubs", "hearts"};
inline constexpr int kMaxDecks = 16;
inline constexpr int kNoAnswer = -1;
inline constexpr const char* kSource =
    "Morad et al., POPGym: Benchmarking partially observable reinforcement learning, ICLR 2023 (popgym 1.0.7)";

// The kinds of up to kMaxCards cards in the order in which they are dealt, kBits for each; or what there is to know of
// as many places of a board. Plain data.
template <int kBits, int kMaxCards>
class Pile {
 public:
  HOST_DEVICE constexpr int operator[](int card) const {
    return static_cast<int>(word_[word_of(card)] >> shift(card) & kMask);
  }
  HOST_DEVICE constexpr void set(int card, int kind) {
    std::uint32_t& word = word_[word_of(card)];
    word = (word & ~(kMask << shift(card))) | static_cast<std::uint32_t>(kind) << shift(card);
  }

  // `cards` of them, as many of each of `kinds` kinds, in an order drawn uniformly (Fisher and Yates, inside out).
  HOST_DEVICE static constexpr Pile shuffled(int cards, int kinds, Rng& rng) {
    Pile pile{};
    for (int i = 0; i < cards; ++i) {
      const int place = static_cast<int>(rng.below(static_cast<std::uint32_t>(i) + 1));
      pile.set(i, pile[place]);
      pile.set(place, i % kinds);
    }
    return pile;
  }

 private:
  static constexpr std::uint32_t kPerWord = 32 / kBits;
  static constexpr std::uint32_t kMask = (1u << kBits) - 1;
  // Of the unsigned number: a shift and a mask.
  HOST_DEVICE static constexpr std::uint32_t word_of(int card) { return static_cast<std::uint32_t>(card) / kPerWord; }
  HOST_DEVICE static constexpr std::uint32_t shift(int card) {
    return static_cast<std::uint32_t>(card) % kPerWord * kBits;
  }

  std::uint32_t word_[(kMaxCards + kPerWord - 1) / kPerWord];
};
using SuitPile = Pile<2, kMaxDecks * kDeckCards>;

// Steps so far, and wrong answers among them.
struct Score {
  std::int32_t t;
  std::int32_t wrong;
};

// A step in which `right` was the right answer: it pays `reward`, a wrong one costs as much; with kNoAnswer nothing was
// asked. The episode ends with step `steps`.
HOST_DEVICE constexpr Outcome answer(Score& score, int action, int right, float reward, int steps) {
  ++score.t;
  const End end = score.t < steps ? End::kNone : End::kTerminated;
  if (right == kNoAnswer) return {0.0f, end};
  score.wrong += action != right;
  return {action == right ? reward : -reward, end};
}
// Whether the episode is over and every answer was right.
HOST_DEVICE constexpr bool all_right(const Score& score, int steps) { return score.t == steps && score.wrong == 0; }

// What all games say of themselves, but for repeat_first, which can be guessed.
struct Game {
  static constexpr const char* kSource = cards::kSource;
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  using Element = float;
};

// Lists the option num_decks.
void list_num_decks(OptionList& list, int& num_decks, int most);

// The options of a game in which nothing but the number of decks is to be chosen.
template <class Task, int kMostDecks = kMaxDecks>
struct DeckOptions : TaskOptions<Task> {
  int num_decks = 1;

  void list_options(OptionList& list) {
    list_num_decks(list, num_decks, kMostDecks);
    list_full_state(list, this->full_state);
  }
};

// What the games share in which cards are dealt one by one, and answers are suits. A game has
//   num_steps(params)       steps of an episode
//   right(params, state)    the right answer, or kNoAnswer
template <class Task>
struct SuitGame : Game {
  static constexpr int kNumActions = kSuits;
  static constexpr auto kActionNames = kSuitNames;

  using Options = DeckOptions<Task>;

  struct Params {
    int cards;
    float answer_reward;
    bool full_state;
  };

  struct State {
    Score score;
    SuitPile suits;
  };

  template <class OwnParams>
  static int max_episode_steps(const OwnParams& params) {
    return Task::num_steps(params);
  }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    return start(SuitPile::shuffled(params.cards, kSuits, rng));
  }
  // The state in which an episode with these cards begins.
  HOST_DEVICE static constexpr State start(const SuitPile& suits) { return {{}, suits}; }

  template <class OwnParams>
  HOST_DEVICE static constexpr Outcome step(const OwnParams& params, State& state, int action, Rng&) {
    return answer(state.score, action, Task::right(params, state), params.answer_reward, Task::num_steps(params));
  }

  template <class OwnParams>
  HOST_DEVICE static constexpr bool success(const OwnParams& params, const State& state) {
    return all_right(state.score, Task::num_steps(params));
  }

  static std::vector<ColourMeaning> colours(const Params&);
};

// `out`, of `size` elements, is 1 at `index` and 0 elsewhere; all 0 for kNoAnswer. Returns what comes after it.
HOST_DEVICE constexpr float* one_hot(int index, int size, float* out) {
  for (int i = 0; i < size; ++i) out[i] = i == index ? 1.0f : 0.0f;
  return out + size;
}
// `out`, of `size` elements, shows one bit of each place. Returns what comes after it.
template <class Bits>
HOST_DEVICE constexpr float* show_bits(const Bits& bits, int size, float* out) {
  for (int i = 0; i < size; ++i) out[i] = static_cast<float>(bits[i]);
  return out + size;
}

// Reward of each of `answers` answers: they sum to 1 if all are right. Rounded once, from the reference's double.
constexpr float answer_reward(int answers) { return static_cast<float>(1.0 / answers); }

// ---- For people.

inline constexpr Rgb kTable{204, 204, 204}, kCard{25, 25, 25};

Rgb suit_colour(int suit);
// As the first and the last suit.
Rgb black_or_red(int kind);
// From red (0) over green to violet, without returning to red: number `index` of `count`.
Rgb hue(int index, int count);
// The table, and a card of each of `kinds` kinds by its name, with its first letter; ten is T.
std::vector<ColourMeaning> colours(int kinds, Rgb (*colour_of)(int kind));
template <class Task>
std::vector<ColourMeaning> SuitGame<Task>::colours(const Params&) {
  return cards::colours(kSuits, suit_colour);
}
// One row of as many cells as there are suits, those of each entry lit in the colour of its suit; kNoAnswer: none.
void draw_suits(std::initializer_list<int> rows, Canvas& canvas);

// "0", "1", ... below kCount <= 1000.
template <int kCount>
struct NumberTexts {
  char text[kCount][4];
};
template <int kCount>
inline constexpr NumberTexts<kCount> kNumberTexts = [] {
  NumberTexts<kCount> numbers{};
  for (int number = 0; number < kCount; ++number) {
    char* digit = numbers.text[number];
    for (int unit = 100; unit > 0; unit /= 10)
      if (number >= unit || unit == 1) *digit++ = static_cast<char>('0' + number / unit % 10);
  }
  return numbers;
}();
template <int kCount>
inline constexpr std::array<const char*, kCount> kNumberNames = [] {
  std::array<const char*, kCount> names{};
  for (int number = 0; number < kCount; ++number)
    names[static_cast<std::size_t>(number)] = kNumberTexts<kCount>.text[number];
  return names;
}();

// For people: a one-hot code of a suit, and what kinds of cards are called, where there are so many.
VectorPart suit_part(const std::string& name);
std::vector<std::string> kind_names(int kinds);

// The presets TASK_easy, TASK_medium and TASK_hard.
using PresetValues = decltype(TaskPreset::values);
std::vector<TaskPreset> three_sizes(const std::string& task, PresetValues easy, PresetValues medium, PresetValues hard);

// How many kinds of cards there are.
int kinds_of(CardKind kind);

}  // namespace cards
}  // namespace engram
