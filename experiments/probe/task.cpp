#include "experiments/probe/task.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/suggest.h"
#include "base/text.h"
#include "experiments/probe/retrieval.h"
#include "experiments/probe/text.h"

namespace engram {
namespace {

// The answers of prefixes of the lengths 3, 3 + stride, ...: up to train_length in training, from there to test_length
// in testing. As published, a sequence of training has one answer, that of a prefix whose length is drawn; with
// answers=every it trains all lengths at once, from which less carries over to longer sequences
// (docs/figures/probes.md). Where a sign ends the prefix and asks for its answer, testing has one answer a sequence as
// well; a length then counts prefix, sign and answer.
class PrefixTask : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("train_length", train_length_, {kShortest, 4096}, "symbols of the longest sequence in training");
    list.add("test_length", test_length_, {kShortest, 4096}, "symbols of the longest sequence in testing");
    list.add("answers", answers_, {{Answers::kLast, "last"}, {Answers::kEvery, "every"}},
             "asked in training: of one prefix, as published, or of every one");
  }
  void check() const override {
    if (test_length_ <= train_length_)
      throw UserError("test_length " + std::to_string(test_length_) + " is not above train_length " +
                      std::to_string(train_length_));
  }
  int length(Split split) const override { return split == Split::kTraining ? train_length_ : test_length_; }
  int questions(Split split) const override { return asks_one(split) ? 1 : prefixes(split); }

 protected:
  explicit PrefixTask(int stride) : stride_(stride) {}

  // The symbol that ends a prefix, if there is one.
  virtual std::optional<std::int64_t> sign() const { return std::nullopt; }
  bool asks_every() const { return answers_ == Answers::kEvery; }

  // Draws a sequence symbol by symbol.
  class Writer {
   public:
    virtual ~Writer() = default;
    // For t = 0, 1, ...: draws the symbol and returns the answer of the prefix that it ends, if there is one.
    virtual std::int64_t write(int t, Rng& random, std::int64_t& symbol) = 0;
  };

 private:
  enum class Answers { kLast, kEvery };
  static constexpr int kShortest = 3;

  virtual std::unique_ptr<Writer> writer() const = 0;

  bool asks_one(Split split) const { return sign() || (split == Split::kTraining && !asks_every()); }
  int shortest(Split split) const {
    return split == Split::kTraining ? kShortest
                                     : kShortest + (train_length_ - kShortest + stride_ - 1) / stride_ * stride_;
  }
  int prefixes(Split split) const { return (length(split) - shortest(split)) / stride_ + 1; }

  void fill(Split split, Rng random, std::int64_t* symbol_T, std::int64_t* position_Q,
            std::int64_t* label_Q) const override {
    const int only = asks_one(split) ? static_cast<int>(random.below(static_cast<std::uint32_t>(prefixes(split)))) : -1;
    const int counted_on = sign() ? 2 : 0;
    const auto sequence = writer();
    std::int64_t* position = position_Q;
    for (int t = 0, prefix = 0; t < length(split); ++t) {
      const std::int64_t answer = sequence->write(t, random, symbol_T[t]);
      const int beyond = t + 1 + counted_on - shortest(split);
      if (beyond < 0 || beyond % stride_ != 0 || t + 1 + counted_on > length(split)) continue;
      if (only >= 0 && prefix++ != only) continue;
      *position++ = t;
      *label_Q++ = answer;
    }
    if (sign()) symbol_T[++*position_Q] = *sign();  // what follows it is not looked at
  }

  const int stride_;
  int train_length_ = 40, test_length_ = 256;
  Answers answers_ = Answers::kLast;
};

class Parity final : public PrefixTask {
 public:
  Parity() : PrefixTask(1) {}
  int symbols() const override { return 2; }
  int classes() const override { return 2; }

 private:
  class Bits final : public Writer {
    std::int64_t write(int, Rng& random, std::int64_t& symbol) override {
      symbol = random.below(2);
      return parity_ ^= symbol;
    }
    std::int64_t parity_ = 0;
  };
  std::unique_ptr<Writer> writer() const override { return std::make_unique<Bits>(); }
};

// Numbers 0 .. 4 and the signs + - * between them, * before + and -; the value modulo 5, as published after a sign =.
class ModularArithmetic final : public PrefixTask {
 public:
  ModularArithmetic() : PrefixTask(2) {}
  void list_options(OptionList& list) override {
    PrefixTask::list_options(list);
    list.add("equals", equals_,
             "the value is asked at a sign = after the expression, as published; else at the last number");
  }
  void check() const override {
    PrefixTask::check();
    if (equals_ && asks_every()) throw UserError("answers=every needs equals=false: a sign = ends the expression");
  }
  int symbols() const override { return kModulus + (equals_ ? 4 : 3); }
  int classes() const override { return kModulus; }
  int layers() const override { return 3; }

 private:
  static constexpr std::int64_t kModulus = 5, kPlus = 5, kTimes = 7, kEquals = 8;  // - is 6

  std::optional<std::int64_t> sign() const override { return equals_ ? std::optional(kEquals) : std::nullopt; }

  class Expression final : public Writer {
    std::int64_t write(int t, Rng& random, std::int64_t& symbol) override {
      if (t % 2 == 1) {
        sign_ = symbol = kPlus + random.below(3);
        return 0;
      }
      symbol = random.below(kModulus);
      if (sign_ == kTimes) {
        product_ = product_ * symbol % kModulus;
      } else {
        sum_ = (sum_ + product_) % kModulus;
        product_ = sign_ == kPlus ? symbol : (kModulus - symbol) % kModulus;
      }
      return (sum_ + product_) % kModulus;
    }
    std::int64_t sign_ = kPlus, sum_ = 0, product_ = 0;  // product: of the last signs *
  };
  std::unique_ptr<Writer> writer() const override { return std::make_unique<Expression>(); }

  bool equals_ = true;
};

// Multi-query associative recall (Arora et al. 2024): first keys and values, k v k v ..., then, among blanks, keys
// whose values are asked. In training their number is drawn from 1 .. pairs, in testing it is `pairs`.
class Recall : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("pairs", pairs_, {1, 4096}, "keys written with a value, at most, and asked");
    list.add("length", length_, {3, 1 << 15}, "symbols of a sequence");
    list.add("alphabet", alphabet_, {2, 1 << 14}, "keys, and as many values");
  }
  void check() const override {
    if (pairs_ > alphabet_)
      throw UserError("pairs " + std::to_string(pairs_) + " are more than the keys of alphabet " +
                      std::to_string(alphabet_));
    const int needed = 2 * writes(pairs_) + questions(Split::kTest);
    if (length_ < needed)
      throw UserError("length " + std::to_string(length_) + " is too short: the pairs and questions take " +
                      std::to_string(needed));
  }
  int symbols() const override { return 2 * alphabet_ + 1; }
  int classes() const override { return alphabet_; }
  int length(Split) const override { return length_; }
  int questions(Split) const override { return pairs_; }

 protected:
  // Of so many keys.
  virtual int writes(int keys) const { return keys; }
  // The place among `keys` of the key that is written.
  virtual int written(int write, int keys, Rng& random) const {
    (void)keys, (void)random;
    return write;
  }

 private:
  void fill(Split split, Rng random, std::int64_t* symbol_T, std::int64_t* position_Q,
            std::int64_t* label_Q) const override {
    const auto below = [&random](int count) {
      return static_cast<int>(random.below(static_cast<std::uint32_t>(count)));
    };
    const auto draw = [&](std::vector<int>& from, int count) {  // without replacement, to the front
      for (int i = 0; i < count; ++i) std::swap(from[i], from[i + below(static_cast<int>(from.size()) - i)]);
    };
    const int keys = split == Split::kTraining ? 1 + below(pairs_) : pairs_, pairs = writes(keys);
    std::vector<int> key(static_cast<std::size_t>(alphabet_)), value(key.size(), -1), asked_key;
    std::iota(key.begin(), key.end(), 0);
    draw(key, keys);
    std::fill(symbol_T, symbol_T + length_, 2 * alphabet_);
    for (int i = 0; i < pairs; ++i) {
      const int k = key[written(i, keys, random)];
      value[k] = below(alphabet_);
      symbol_T[2 * i] = k;
      symbol_T[2 * i + 1] = alphabet_ + value[k];
      asked_key.push_back(k);
    }
    std::vector<int> place(static_cast<std::size_t>(length_ - 2 * pairs));
    std::iota(place.begin(), place.end(), 2 * pairs);
    draw(place, pairs_);
    for (int q = 0; q < pairs_; ++q) {
      // In testing every pair is asked once; in training there may be fewer pairs than questions.
      const int k = split == Split::kTraining ? asked_key[below(pairs)] : asked_key[q * pairs / pairs_];
      symbol_T[place[q]] = k;
      position_Q[q] = place[q];
      label_Q[q] = value[k];
    }
  }

  int pairs_ = 64, length_ = 512, alphabet_ = 128;
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

// Symbols, blanks, and then as often as there were symbols a sign on which they are to be said again (Hochreiter and
// Schmidhuber 1997; Arjovsky et al. 2016). In training the delay is drawn from 0 .. delay.
class Copying final : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("items", items_, {1, 1024}, "symbols to be copied");
    list.add("alphabet", alphabet_, {2, 1024}, "different ones");
    list.add("delay", delay_, {0, 1 << 14}, "blanks between them and the copy");
  }
  int symbols() const override { return alphabet_ + 2; }
  int classes() const override { return alphabet_; }
  int length(Split) const override { return 2 * items_ + delay_; }
  int questions(Split) const override { return items_; }

 private:
  void fill(Split split, Rng random, std::int64_t* symbol_T, std::int64_t* position_Q,
            std::int64_t* label_Q) const override {
    const std::int64_t blank = alphabet_, go = alphabet_ + 1;
    std::fill(symbol_T, symbol_T + length(split), blank);
    const int delay =
        split == Split::kTraining ? static_cast<int>(random.below(static_cast<std::uint32_t>(delay_) + 1)) : delay_;
    for (int i = 0; i < items_; ++i) {
      label_Q[i] = symbol_T[i] = random.below(static_cast<std::uint32_t>(alphabet_));
      position_Q[i] = items_ + delay + i;
      symbol_T[position_Q[i]] = go;
    }
  }

  int items_ = 10, alphabet_ = 8, delay_ = 100;
};

// Selective copying (Gu and Dao 2023, section 4.1.1; Jing et al. 2019): the items stand at random places among blanks,
// so that it is the input, and not the clock, that says what is to be kept; then as often as there were items a sign on
// which they are to be said in their order.
class SelectiveCopying final : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("items", items_, {1, 1024}, "symbols to be copied");
    list.add("alphabet", alphabet_, {2, 1024}, "different ones");
    list.add("length", length_, {1, 1 << 15}, "steps among which they are scattered; published: 4096");
  }
  void check() const override {
    if (length_ < items_)
      throw UserError("length " + std::to_string(length_) + " is too short for items " + std::to_string(items_));
  }
  int symbols() const override { return alphabet_ + 2; }
  int classes() const override { return alphabet_; }
  int length(Split) const override { return length_ + items_; }
  int questions(Split) const override { return items_; }

 private:
  void fill(Split, Rng random, std::int64_t* symbol_T, std::int64_t* position_Q, std::int64_t* label_Q) const override {
    const std::int64_t blank = alphabet_, go = alphabet_ + 1;
    for (int t = 0, item = 0; t < length_; ++t) {
      symbol_T[t] = blank;
      // So that every choice of places is as likely as any other.
      if (random.below(static_cast<std::uint32_t>(length_ - t)) >= static_cast<std::uint32_t>(items_ - item)) continue;
      symbol_T[t] = label_Q[item++] = random.below(static_cast<std::uint32_t>(alphabet_));
    }
    for (int i = 0; i < items_; ++i) {
      position_Q[i] = length_ + i;
      symbol_T[length_ + i] = go;
    }
  }

  int items_ = 16, alphabet_ = 14, length_ = 256;
};

// Batches of different splits have different numbers or purposes.
Rng random_of(Split split, std::uint64_t seed, std::uint32_t row, std::uint32_t batch) {
  constexpr std::uint32_t kFirstTestBatch = 1u << 31;
  if (split == Split::kTraining) return Rng(seed, Purpose::kTraining, row, batch);
  return Rng(seed, Purpose::kEvaluation, row, split == Split::kTest ? kFirstTestBatch + batch : batch);
}

}  // namespace

const std::vector<ProbeTaskInfo>& probe_tasks() {
  static const std::vector<ProbeTaskInfo> tasks = {{"parity", "whether the number of ones so far is odd"},
                                                   {"modular", "value modulo 5 of numbers joined by + - *"},
                                                   {"recall", "values of keys that were written once (MQAR)"},
                                                   {"rewritten", "last values of keys that were written several times"},
                                                   {"copy", "symbols said again after a delay"},
                                                   {"selective_copy", "the same, scattered among blanks"},
                                                   {"retrieval", "value of one of many keys, a pair a step"},
                                                   {"text", "the next byte of a text file, in bits a byte"}};
  return tasks;
}

std::unique_ptr<ProbeTask> probe_task_by_name(const std::string& name) {
  if (name == "parity") return std::make_unique<Parity>();
  if (name == "modular") return std::make_unique<ModularArithmetic>();
  if (name == "recall") return std::make_unique<Recall>();
  if (name == "rewritten") return std::make_unique<RewrittenRecall>();
  if (name == "copy") return std::make_unique<Copying>();
  if (name == "selective_copy") return std::make_unique<SelectiveCopying>();
  if (name == "retrieval") return make_retrieval_task();
  if (name == "text") return make_text_task();
  std::vector<std::string> names;
  for (const ProbeTaskInfo& task : probe_tasks()) names.push_back(task.name);
  throw UserError(unknown_name("probe task", name, names));
}

std::unique_ptr<ProbeTask> make_probe_task(const std::string& entry) {
  const NamedSettings parsed = parse_named_settings(entry);
  auto task = probe_task_by_name(parsed.name);
  OptionList options("");
  task->list_options(options);
  try {
    for (const auto& [key, value] : parsed.settings) options.set(key, value);
    task->check();
    task->load();
  } catch (const UserError& error) {
    throw UserError("probe task '" + entry + "': " + error.what());
  }
  return task;
}

ProbeBatch ProbeTask::draw(Split split, std::uint64_t seed, std::uint32_t first, std::int64_t batches,
                           std::int64_t rows) const {
  const std::int64_t steps = length(split), asked = questions(split);
  const auto empty = [&](std::int64_t size) { return torch::empty({batches, rows, size}, torch::kInt64); };
  ProbeBatch batch{empty(steps), empty(asked), empty(asked)};
  std::int64_t* const symbol = batch.symbol_BT.data_ptr<std::int64_t>();
  std::int64_t* const position = batch.position_BQ.data_ptr<std::int64_t>();
  std::int64_t* const label = batch.label_BQ.data_ptr<std::int64_t>();
  at::parallel_for(0, batches * rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      fill(split,
           random_of(split, seed, static_cast<std::uint32_t>(i % rows), first + static_cast<std::uint32_t>(i / rows)),
           symbol + i * steps, position + i * asked, label + i * asked);
  });
  return batch;
}

}  // namespace engram
