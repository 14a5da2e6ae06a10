#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/probe/tasks/tasks.h"

namespace engram {
namespace {

// Multi-query associative recall (Arora et al. 2024): first keys and values, k v k v ..., then, among blanks, keys
// whose values are asked. In testing their number is `pairs`; in training it is drawn from 1 .. pairs, or, with
// train_pairs=all as published, the same. The places of the questions are as likely as each other, or, as published,
// every second one at most, the g-th of them, from 1, in proportion to g^(a - 1) with a = 0.01.
class Recall : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("pairs", pairs_, {1, 4096}, "keys written with a value, at most, and asked");
    list.add("length", length_, {3, 1 << 15}, "symbols of a sequence");
    list.add("alphabet", alphabet_, {2, 1 << 14}, "keys, and as many values");
    list.add("train_pairs", train_pairs_, {{Pairs::kUpTo, "up_to"}, {Pairs::kAll, "all"}},
             "keys in training: up to pairs, so that easy sequences come first, or, as published, all");
    list.add("queries", queries_, {{Queries::kUniform, "uniform"}, {Queries::kPowerLaw, "power_law"}},
             "places of the questions: any, or, as published, likelier the sooner");
    list_training_sequences(list, training_sequences_);
  }
  void check() const override {
    if (pairs_ > alphabet_)
      throw UserError("pairs " + std::to_string(pairs_) + " are more than the keys of alphabet " +
                      std::to_string(alphabet_));
    const int needed = 2 * writes(pairs_) + (queries_ == Queries::kPowerLaw ? 2 : 1) * questions(Split::kTest);
    if (length_ < needed)
      throw UserError("length " + std::to_string(length_) + " is too short: the pairs and questions take " +
                      std::to_string(needed));
  }
  int symbols() const override { return 2 * alphabet_ + 1; }
  int classes() const override { return alphabet_; }
  std::optional<int> first_class_symbol() const override { return alphabet_; }
  int length(Split) const override { return length_; }
  int questions(Split) const override { return pairs_; }
  int training_sequences() const override { return training_sequences_; }

 protected:
  // Of so many keys.
  virtual int writes(int keys) const { return keys; }
  // The place among `keys` of the key that is written.
  virtual int written(int write, int keys, Rng& random) const {
    (void)keys, (void)random;
    return write;
  }

 private:
  enum class Pairs { kUpTo, kAll };
  enum class Queries { kUniform, kPowerLaw };

  // The places of `count` questions from `first` on, in the order in which they were drawn.
  std::vector<int> places_by_power_law(int first, int count, Rng& random) const {
    constexpr double kExponent = 0.01;
    // Without replacement in proportion to weights: those first in a race of exponential waiting times.
    std::vector<std::pair<double, int>> arrivals;
    for (int gap = 0; gap < (length_ - first) / 2; ++gap) {
      const double weight = std::pow(gap + 1, kExponent - 1), draw = 1 - static_cast<double>(random.uniform());
      arrivals.emplace_back(-std::log(draw) / weight, first + 2 * gap);
    }
    std::partial_sort(arrivals.begin(), arrivals.begin() + count, arrivals.end());
    std::vector<int> places;
    for (int i = 0; i < count; ++i) places.push_back(arrivals[static_cast<std::size_t>(i)].second);
    return places;
  }

  void fill(Split split, Rng random, const Sequence& out) const override {
    const auto below = [&random](int count) {
      return static_cast<int>(random.below(static_cast<std::uint32_t>(count)));
    };
    const auto draw = [&](std::vector<int>& from, int count) {  // without replacement, to the front
      for (int i = 0; i < count; ++i) std::swap(from[i], from[i + below(static_cast<int>(from.size()) - i)]);
    };
    const bool fewer = split == Split::kTraining && train_pairs_ == Pairs::kUpTo;
    const int keys = fewer ? 1 + below(pairs_) : pairs_, pairs = writes(keys);
    std::vector<int> key(static_cast<std::size_t>(alphabet_)), value(key.size(), -1), asked_key;
    std::iota(key.begin(), key.end(), 0);
    draw(key, keys);
    std::fill(out.symbol_T, out.symbol_T + length_, 2 * alphabet_);
    for (int i = 0; i < pairs; ++i) {
      const int k = key[written(i, keys, random)];
      value[k] = below(alphabet_);
      out.symbol_T[2 * i] = k;
      out.symbol_T[2 * i + 1] = alphabet_ + value[k];
      asked_key.push_back(k);
    }
    std::vector<int> place;
    if (queries_ == Queries::kPowerLaw) {
      place = places_by_power_law(2 * pairs, pairs_, random);
    } else {
      place.resize(static_cast<std::size_t>(length_ - 2 * pairs));
      std::iota(place.begin(), place.end(), 2 * pairs);
      draw(place, pairs_);
    }
    for (int q = 0; q < pairs_; ++q) {
      // Every pair is asked once, unless there may be fewer pairs than questions.
      const int k = fewer ? asked_key[below(pairs)] : asked_key[q * pairs / pairs_];
      out.symbol_T[place[q]] = k;
      out.position_Q[q] = place[q];
      out.label_Q[q] = value[k];
    }
  }

  int pairs_ = 64, length_ = 512, alphabet_ = 128, training_sequences_ = 0;
  Pairs train_pairs_ = Pairs::kUpTo;
  Queries queries_ = Queries::kUniform;
};

// The same with keys that are rewritten (Schlag et al. 2021, section 6.1.2): twice as many writes as keys, the keys
// drawn with replacement; the value that counts is the last.
class RewrittenRecall final : public Recall {
 private:
  int writes(int keys) const override { return 2 * keys; }
  int written(int, int keys, Rng& random) const override {
    return static_cast<int>(random.below(static_cast<std::uint32_t>(keys)));
  }
};

}  // namespace

std::unique_ptr<ProbeTask> make_recall_task() { return std::make_unique<Recall>(); }
std::unique_ptr<ProbeTask> make_rewritten_task() { return std::make_unique<RewrittenRecall>(); }

}  // namespace engram
