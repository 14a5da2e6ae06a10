#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "experiments/probe/tasks/tasks.h"

namespace engram {
namespace {

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
  void fill(Split split, Rng random, const Sequence& out) const override {
    const std::int64_t blank = alphabet_, go = alphabet_ + 1;
    std::fill(out.symbol_T, out.symbol_T + length(split), blank);
    const int delay =
        split == Split::kTraining ? static_cast<int>(random.below(static_cast<std::uint32_t>(delay_) + 1)) : delay_;
    for (int i = 0; i < items_; ++i) {
      out.label_Q[i] = out.symbol_T[i] = random.below(static_cast<std::uint32_t>(alphabet_));
      out.position_Q[i] = items_ + delay + i;
      out.symbol_T[out.position_Q[i]] = go;
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
  void fill(Split, Rng random, const Sequence& out) const override {
    const std::int64_t blank = alphabet_, go = alphabet_ + 1;
    for (int t = 0, item = 0; t < length_; ++t) {
      out.symbol_T[t] = blank;
      // So that every choice of places is as likely as any other.
      if (random.below(static_cast<std::uint32_t>(length_ - t)) >= static_cast<std::uint32_t>(items_ - item)) continue;
      out.symbol_T[t] = out.label_Q[item++] = random.below(static_cast<std::uint32_t>(alphabet_));
    }
    for (int i = 0; i < items_; ++i) {
      out.position_Q[i] = length_ + i;
      out.symbol_T[length_ + i] = go;
    }
  }

  int items_ = 16, alphabet_ = 14, length_ = 256;
};

}  // namespace

std::unique_ptr<ProbeTask> make_copy_task() { return std::make_unique<Copying>(); }
std::unique_ptr<ProbeTask> make_selective_copy_task() { return std::make_unique<SelectiveCopying>(); }

}  // namespace engram
