#include "experiments/probe/retrieval.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace engram {
namespace {

// S keys and S values. Setting 1, a test of capacity: every key is written once, every value occurs once. Setting 2, a
// test of update rules: 2 S pairs, keys and values drawn with replacement; the value that counts is the key's last. The
// key that is asked is that of one of the pairs, each as likely as any other.
class Retrieval final : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("keys", keys_, {2, 1 << 12}, "keys, and as many values");
    list.add(
        "rewritten", rewritten_,
        "setting 2, twice as many pairs as keys, drawn with replacement; else setting 1, every key and value once");
    list.add("loss", loss_, {{ProbeLoss::kSquared, "squared"}, {ProbeLoss::kCrossEntropy, "cross_entropy"}},
             "squared: half of the squared distance from the value as a one-hot vector, as published");
  }
  int symbols() const override { return keys_; }
  int second_symbols() const override { return keys_ + 1; }  // the last stands beside the key that is asked
  int classes() const override { return keys_; }
  int layers() const override { return 1; }
  int length(Split) const override { return pairs() + 1; }
  int questions(Split) const override { return 1; }
  ProbeLoss loss() const override { return loss_; }

 private:
  int pairs() const { return rewritten_ ? 2 * keys_ : keys_; }

  void fill(Split, Rng random, std::int64_t* symbol_T, std::int64_t* position_Q, std::int64_t* label_Q) const override {
    const auto keys = static_cast<std::uint32_t>(keys_);
    const auto draw = [&] {  // of a key or a value for each pair
      std::vector<std::int64_t> drawn(static_cast<std::size_t>(pairs()));
      std::iota(drawn.begin(), drawn.end(), 0);
      for (std::uint32_t i = 0; i < drawn.size(); ++i)
        if (rewritten_)
          drawn[i] = random.below(keys);
        else
          std::swap(drawn[i], drawn[i + random.below(keys - i)]);
      return drawn;
    };
    const std::vector<std::int64_t> key = draw(), value = draw();
    const std::int64_t asked = key[random.below(static_cast<std::uint32_t>(pairs()))];
    for (int i = 0; i < pairs(); ++i) {
      symbol_T[i] = key[i] + keys_ * value[i];
      if (key[i] == asked) *label_Q = value[i];
    }
    symbol_T[pairs()] = asked + std::int64_t{keys_} * keys_;
    *position_Q = pairs();
  }

  int keys_ = 20;
  bool rewritten_ = false;
  ProbeLoss loss_ = ProbeLoss::kSquared;
};

}  // namespace

std::unique_ptr<ProbeTask> make_retrieval_task() { return std::make_unique<Retrieval>(); }

}  // namespace engram
