#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "experiments/probe/tasks/tasks.h"

namespace engram {
namespace {

// The answers of prefixes of the lengths 3, 3 + stride, ...: up to train_length in training, from there to test_length
// in testing. As published, a sequence of training has one answer, that of a prefix whose length is drawn; with
// answers=every it trains all lengths at once, from which less carries over to longer sequences
// (docs/figures/published_probes.md). Where a sign ends the prefix and asks for its answer, testing has one answer a
// sequence as well; a length then counts prefix, sign and answer.
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

  void fill(Split split, Rng random, const Sequence& out) const override {
    const int only = asks_one(split) ? static_cast<int>(random.below(static_cast<std::uint32_t>(prefixes(split)))) : -1;
    const int counted_on = sign() ? 2 : 0;
    const auto sequence = writer();
    std::int64_t *position = out.position_Q, *label = out.label_Q;
    for (int t = 0, prefix = 0; t < length(split); ++t) {
      const std::int64_t answer = sequence->write(t, random, out.symbol_T[t]);
      const int beyond = t + 1 + counted_on - shortest(split);
      if (beyond < 0 || beyond % stride_ != 0 || t + 1 + counted_on > length(split)) continue;
      if (only >= 0 && prefix++ != only) continue;
      *position++ = t;
      *label++ = answer;
    }
    if (sign()) out.symbol_T[++*out.position_Q] = *sign();  // what follows it is not looked at
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

}  // namespace

std::unique_ptr<ProbeTask> make_parity_task() { return std::make_unique<Parity>(); }
std::unique_ptr<ProbeTask> make_modular_task() { return std::make_unique<ModularArithmetic>(); }

}  // namespace engram
