#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "experiments/probe/tasks/tasks.h"

namespace engram {
namespace {

// In-context language learning (Akyürek et al., "In-context language learning: architectures and algorithms", 2024;
// generator of berlino/seq_icl). Every sequence has a probabilistic automaton of its own: 4 to 12 states, an alphabet
// of 4 to 18 symbols, and in each state 1 to 3 of these as arcs, all as likely, to different other states. The sequence
// are 10 to 19 words of 1 to 49 symbols, each from the first state on, with a sign between words, and padding behind
// them. After each symbol the next is asked, unless that is a sign or padding; right is every one that the automaton
// may write there, in training it is the next one. Training has an automaton for each of `languages` sequences.
class RegBench final : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("languages", languages_, {1, 100'000'000}, "automata of training, a sequence of each");
    list.add("max_states", max_states_, {4, 64}, "states of an automaton, at most; 4 at least");
    list.add("alphabet", alphabet_, {4, 60}, "symbols of words; an automaton has 4 of them at least");
    list.add("words", words_, {2, 100}, "words of a sequence: from half of these to one less");
    list.add("word_length", word_length_, {2, 200}, "a word has fewer symbols, 1 at least");
  }
  int symbols() const override { return alphabet_ + 2; }
  int classes() const override { return alphabet_ + 2; }
  double chance() const override { return 0; }  // published are accuracies
  bool several_right() const override { return true; }
  int training_sequences() const override { return languages_; }
  // Of the longest: the last symbol is only asked for.
  int length(Split) const override { return (words_ - 1) * word_length_ - 2; }
  int questions(Split split) const override { return length(split); }

 private:
  static constexpr std::int64_t kFewest = 4;  // states, symbols; and more than the arcs of a state

  struct State {
    std::vector<std::int64_t> symbol, next;  // of its arcs
  };

  static std::int64_t between(Rng& random, std::int64_t low, std::int64_t high) {
    return low + random.below(static_cast<std::uint32_t>(high - low + 1));
  }
  // `count` of `from`, without replacement.
  static std::vector<std::int64_t> some(Rng& random, std::vector<std::int64_t> from, std::int64_t count) {
    const auto last = static_cast<std::int64_t>(from.size()) - 1;
    for (std::int64_t i = 0; i < count; ++i) std::swap(from[i], from[between(random, i, last)]);
    from.resize(static_cast<std::size_t>(count));
    return from;
  }
  static std::vector<std::int64_t> numbers(std::int64_t count) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  std::vector<State> automaton(Rng& random) const {
    const std::int64_t states = between(random, kFewest, max_states_);
    const std::vector<std::int64_t> symbols = some(random, numbers(alphabet_), between(random, kFewest, alphabet_));
    std::vector<State> all(static_cast<std::size_t>(states));
    for (std::int64_t s = 0; s < states; ++s) {
      const std::int64_t arcs = between(random, 1, kFewest - 1);
      std::vector<std::int64_t> others = numbers(states);
      others.erase(others.begin() + s);
      all[static_cast<std::size_t>(s)] = {some(random, symbols, arcs), some(random, std::move(others), arcs)};
    }
    return all;
  }

  void fill(Split split, Rng random, const Sequence& out) const override {
    const std::vector<State> states = automaton(random);
    const std::int64_t separator = alphabet_, padding = alphabet_ + 1;
    std::vector<std::int64_t> symbol, right;  // right: what may stand in this place; 0: it is not asked
    const std::int64_t words = between(random, words_ / 2, words_ - 1);
    for (std::int64_t word = 0; word < words; ++word) {
      if (word > 0) symbol.push_back(separator), right.push_back(0);
      std::int64_t state = 0;
      for (std::int64_t left = between(random, 1, word_length_ - 1); left > 0; --left) {
        const State& here = states[static_cast<std::size_t>(state)];
        std::int64_t allowed = 0;
        for (const std::int64_t arc : here.symbol) allowed |= std::int64_t{1} << arc;
        const auto arc = static_cast<std::size_t>(random.below(static_cast<std::uint32_t>(here.symbol.size())));
        symbol.push_back(here.symbol[arc]), right.push_back(allowed);
        state = here.next[arc];
      }
    }
    for (int t = 0; t < length(split); ++t) {
      const auto here = static_cast<std::size_t>(t);
      const bool asked = here + 1 < symbol.size() && right[here + 1] != 0;
      out.symbol_T[t] = here + 1 < symbol.size() ? symbol[here] : padding;
      out.position_Q[t] = t;
      out.label_Q[t] = asked ? symbol[here + 1] : kNotAsked;
      out.right_Q[t] = asked ? right[here + 1] : 0;
    }
  }

  int languages_ = 5000, max_states_ = 12, alphabet_ = 18, words_ = 20, word_length_ = 50;
};

}  // namespace

std::unique_ptr<ProbeTask> make_regbench_task() { return std::make_unique<RegBench>(); }

}  // namespace engram
