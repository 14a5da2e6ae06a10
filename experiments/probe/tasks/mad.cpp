// The six tasks of mechanistic architecture design (Poli et al., "Mechanistic design and scaling of hybrid
// architectures", 2024), after the definitions of their public suite, athms/mad-lab. A sequence's labels are, in
// training, the next symbols of all places in the three tasks of recall, and in validation and test the values of keys
// that the sequence has shown before; in the others the answers alone.
//
// The sizes of a task are options; those by default are the suite's baseline, with 12,800 training sequences
// (memorize: 256).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/probe/tasks/tasks.h"

namespace engram {
namespace {

class MadTask : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("vocabulary", vocabulary_, {4, 1 << 15}, "symbols");
    list.add("length", length_, {4, 1 << 14}, "symbols of a sequence");
    list_training_sequences(list, training_sequences_);
  }
  void check() const override {
    if (length_ % 2 != 0) throw UserError("length " + std::to_string(length_) + " is not even");
  }
  int symbols() const override { return vocabulary_; }
  int classes() const override { return vocabulary_; }
  double chance() const override { return 0; }  // published are accuracies
  int training_sequences() const override { return training_sequences_; }
  int questions(Split split) const override { return length(split); }

 protected:
  MadTask(int vocabulary, int length, int training_sequences)
      : vocabulary_(vocabulary), length_(length), training_sequences_(training_sequences) {}

  static std::int64_t below(Rng& random, std::int64_t count) { return random.below(static_cast<std::uint32_t>(count)); }

  // Throws UserError where fewer than `least` keys or values are left of the vocabulary beside `others`.
  void check_vocabulary(int others, int least = 1) const {
    if ((vocabulary_ - others) / 2 < least)
      throw UserError("vocabulary " + std::to_string(vocabulary_) + " leaves " +
                      std::to_string(std::max(0, (vocabulary_ - others) / 2)) + " keys; it takes " +
                      std::to_string(least));
  }

  // Of a sequence and its successor: T symbols and what comes after each; of every label of `asked`, which belongs to
  // the symbol of its place, the question stands one place before. In training all places are asked.
  static void write_shifted(Split split, const std::vector<std::int64_t>& symbol, const std::vector<bool>& asked,
                            const Sequence& out) {
    for (std::size_t t = 0; t + 1 < symbol.size(); ++t) {
      out.symbol_T[t] = symbol[t];
      out.position_Q[t] = static_cast<std::int64_t>(t);
      out.label_Q[t] = split == Split::kTraining || asked[t + 1] ? symbol[t + 1] : kNotAsked;
    }
  }

  int vocabulary_, length_, training_sequences_;
};

// Random symbols and, last, a sign; all of them are to be said from the output at the sign.
class Compress final : public MadTask {
 public:
  Compress() : MadTask(16, 32, 12'800) {}
  int length(Split) const override { return length_; }
  ProbeModel model() const override { return ProbeModel::kLast; }

 private:
  void fill(Split, Rng random, const Sequence& out) const override {
    for (int t = 0; t < length_; ++t) {
      out.position_Q[t] = t;
      out.label_Q[t] = out.symbol_T[t] = t + 1 < length_ ? below(random, vocabulary_ - 1) : vocabulary_ - 1;
    }
  }
};

// Pairs of a key and a value, drawn with replacement, a key's value the same all through the sequence, which ends with
// the pair of a key that was shown before. Of the vocabulary the first half are keys, the second values; with noise the
// last `noise_vocabulary` symbols are noise, of which pairs are made with probability `noise`, but for one place.
class MadRecall final : public MadTask {
 public:
  explicit MadRecall(bool noisy) : MadTask(noisy ? 32 : 16, 128, 12'800), noisy_(noisy) {
    if (noisy) noise_vocabulary_ = 16, noise_ = 0.2;
  }
  void list_options(OptionList& list) override {
    MadTask::list_options(list);
    if (!noisy_) return;
    list.add("noise_vocabulary", noise_vocabulary_, {1, 1 << 14}, "of the vocabulary: symbols of noise");
    list.add("noise", noise_, {0, 0.99}, "probability that a pair is noise");
  }
  void check() const override {
    MadTask::check();
    check_vocabulary(noise_vocabulary_);
  }
  int length(Split) const override { return length_ - 1; }

 private:
  void fill(Split split, Rng random, const Sequence& out) const override {
    const int keys = (vocabulary_ - noise_vocabulary_) / 2, values = vocabulary_ - noise_vocabulary_ - keys;
    const int pairs = length_ / 2;
    std::vector<std::int64_t> symbol, shown, value(static_cast<std::size_t>(keys), kNotAsked);
    std::vector<bool> asked;
    const std::int64_t never_noise = below(random, pairs - 1);
    const auto write = [&](std::int64_t key) {
      std::int64_t& of_key = value[static_cast<std::size_t>(key)];
      const bool known = of_key != kNotAsked;
      if (!known) of_key = keys + below(random, values), shown.push_back(key);
      symbol.insert(symbol.end(), {key, of_key});
      asked.insert(asked.end(), {false, known});
    };
    for (int i = 0; i + 1 < pairs; ++i) {
      if (i != never_noise && random.uniform() < noise_) {
        for (int j = 0; j < 2; ++j) symbol.push_back(keys + values + below(random, noise_vocabulary_));
        asked.insert(asked.end(), {false, false});
      } else {
        write(below(random, keys));
      }
    }
    write(shown[static_cast<std::size_t>(below(random, static_cast<std::int64_t>(shown.size())))]);
    write_shifted(split, symbol, asked, out);
  }

  const bool noisy_;
  int noise_vocabulary_ = 0;
  double noise_ = 0;
};

// The same with keys and values of several symbols, all different within one. In training keys have 1 to 3 symbols, in
// validation and test 3; values always 1 to 3. A sequence ends with a pair that was shown before, and begins with as
// many signs as it is too short.
class FuzzyRecall final : public MadTask {
 public:
  FuzzyRecall() : MadTask(16, 128, 12'800) {}
  void list_options(OptionList& list) override {
    MadTask::list_options(list);
    list.add("key_length", key_length_, {1, 8}, "symbols of a key, at most");
    list.add("value_length", value_length_, {1, 8}, "symbols of a value, at most");
  }
  void check() const override {
    MadTask::check();
    check_vocabulary(1, std::max(key_length_, value_length_));
    if (const int needed = 4 * (key_length_ + value_length_); length_ < needed)
      throw UserError("length " + std::to_string(length_) + " is too short: keys and values take " +
                      std::to_string(needed));
  }
  int length(Split) const override { return length_; }

 private:
  using Motif = std::vector<std::int64_t>;

  // `size` different symbols of `count` from `first` on.
  static Motif draw(Rng& random, std::int64_t first, int count, std::int64_t size) {
    Motif symbols(static_cast<std::size_t>(count));
    std::iota(symbols.begin(), symbols.end(), first);
    for (std::int64_t i = 0; i < size; ++i) std::swap(symbols[i], symbols[i + below(random, count - i)]);
    symbols.resize(static_cast<std::size_t>(size));
    return symbols;
  }

  void fill(Split split, Rng random, const Sequence& out) const override {
    const int keys = (vocabulary_ - 1) / 2, values = vocabulary_ - 1 - keys;
    const auto draw_key = [&] {
      const std::int64_t size = split == Split::kTraining ? 1 + below(random, key_length_) : key_length_;
      return draw(random, 0, keys, size);
    };
    const auto draw_value = [&] { return draw(random, keys, values, 1 + below(random, value_length_)); };

    std::map<Motif, Motif> value_of;
    std::vector<std::int64_t> symbol;
    std::vector<bool> asked;
    const Motif last_key = draw_key(), last_value = draw_value();
    const auto write = [&](const Motif& key, bool known) {
      const Motif& value = value_of.at(key);
      symbol.insert(symbol.end(), key.begin(), key.end());
      symbol.insert(symbol.end(), value.begin(), value.end());
      asked.insert(asked.end(), key.size(), false);
      asked.insert(asked.end(), value.size(), known);
    };
    const std::size_t pair = last_key.size() + last_value.size();
    const auto longest = static_cast<std::size_t>(key_length_ + value_length_);
    const std::size_t end = static_cast<std::size_t>(length_) - pair - longest;
    // From here on the last key is shown, unless it was drawn before. The public generator takes places behind these as
    // well, so that a few of its sequences ask for what they have not shown.
    const auto place = static_cast<std::size_t>(below(random, static_cast<std::int64_t>(end - longest + 1)));
    bool shown = false;
    while (symbol.size() < end) {
      const Motif key = !shown && symbol.size() >= place ? last_key : draw_key();
      shown = shown || key == last_key;
      const bool known = value_of.contains(key);
      if (!known) value_of[key] = key == last_key ? last_value : draw_value();
      write(key, known);
    }
    write(last_key, /*known=*/true);
    const auto missing = static_cast<std::ptrdiff_t>(length_ + 1) - static_cast<std::ptrdiff_t>(symbol.size());
    symbol.insert(symbol.begin(), static_cast<std::size_t>(missing), vocabulary_ - 1);
    asked.insert(asked.begin(), static_cast<std::size_t>(missing), false);
    write_shifted(split, symbol, asked, out);
  }

  int key_length_ = 3, value_length_ = 3;
};

// Keys, each followed by a sign at which its value is asked: one that no sequence shows, the same in all of them.
class Memorize final : public MadTask {
 public:
  Memorize() : MadTask(256, 32, 256) {}
  void check() const override {
    MadTask::check();
    check_vocabulary(1);
  }
  void load() override {
    // One map for all seeds, as published.
    Rng random(/*seed=*/12345, Purpose::kRunTask, 0, 0);
    const int keys = (vocabulary_ - 1) / 2;
    value_.resize(static_cast<std::size_t>(vocabulary_ - 1 - keys));
    std::iota(value_.begin(), value_.end(), std::int64_t{keys});
    for (std::size_t i = 0; i < value_.size(); ++i)
      std::swap(value_[i], value_[i + below(random, static_cast<std::int64_t>(value_.size() - i))]);
  }
  int length(Split) const override { return length_; }
  int questions(Split) const override { return length_ / 2; }

 private:
  void fill(Split, Rng random, const Sequence& out) const override {
    for (int i = 0; i < length_ / 2; ++i) {
      const std::int64_t key = below(random, (vocabulary_ - 1) / 2);
      out.symbol_T[2 * i] = key;
      out.symbol_T[2 * i + 1] = vocabulary_ - 1;
      out.position_Q[i] = 2 * i + 1;
      out.label_Q[i] = value_[static_cast<std::size_t>(key)];
    }
  }

  std::vector<std::int64_t> value_;  // of key k
};

// Symbols, each after any number of blanks, then a sign, and from the next step on they are to be said in their order,
// while blanks come in.
class MadSelectiveCopy final : public MadTask {
 public:
  MadSelectiveCopy() : MadTask(16, 256, 12'800) {}
  void list_options(OptionList& list) override {
    MadTask::list_options(list);
    list.add("items", items_, {1, 1 << 12}, "symbols to be copied");
  }
  void check() const override {
    MadTask::check();
    if (length_ <= 2 * items_ + 1)
      throw UserError("length " + std::to_string(length_) + " is too short for items " + std::to_string(items_) +
                      ": they take more than " + std::to_string(2 * items_ + 1));
  }
  int length(Split) const override { return length_; }
  int questions(Split) const override { return items_; }

 private:
  void fill(Split, Rng random, const Sequence& out) const override {
    const std::int64_t blank = vocabulary_ - 2, go = vocabulary_ - 1;
    std::vector<int> blanks_before(static_cast<std::size_t>(items_));
    for (int i = 0; i < length_ - 2 * items_ - 1; ++i) ++blanks_before[static_cast<std::size_t>(below(random, items_))];
    std::int64_t* symbol = out.symbol_T;
    for (int item = 0; item < items_; ++item) {
      symbol = std::fill_n(symbol, blanks_before[static_cast<std::size_t>(item)], blank);
      *symbol++ = out.label_Q[item] = below(random, vocabulary_ - 2);
    }
    *symbol++ = go;
    std::fill_n(symbol, items_, blank);
    for (int item = 0; item < items_; ++item) out.position_Q[item] = length_ - items_ + item;
  }

  int items_ = 16;
};

}  // namespace

std::unique_ptr<ProbeTask> make_mad_compress_task() { return std::make_unique<Compress>(); }
std::unique_ptr<ProbeTask> make_mad_fuzzy_recall_task() { return std::make_unique<FuzzyRecall>(); }
std::unique_ptr<ProbeTask> make_mad_recall_task() { return std::make_unique<MadRecall>(false); }
std::unique_ptr<ProbeTask> make_mad_memorize_task() { return std::make_unique<Memorize>(); }
std::unique_ptr<ProbeTask> make_mad_noisy_recall_task() { return std::make_unique<MadRecall>(true); }
std::unique_ptr<ProbeTask> make_mad_selective_copy_task() { return std::make_unique<MadSelectiveCopy>(); }

}  // namespace engram
