#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/probe/tasks/tasks.h"

namespace engram {
namespace {

// S keys and S values. Setting 1, a test of capacity: every key is written once, every value occurs once. Setting 2, a
// test of update rules: 2 S pairs, keys and values drawn with replacement; the value that counts is the key's last. The
// key that is asked is that of one of the pairs, each as likely as any other. With model=memory, as published, a
// validation and a test ask all keys of a sequence, those that have no pair aside.
class Retrieval final : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("keys", keys_, {2, 1 << 12}, "keys, and as many values");
    list.add(
        "rewritten", rewritten_,
        "setting 2, twice as many pairs as keys, drawn with replacement; else setting 1, every key and value once");
    list.add("model", model_, {{ProbeModel::kPlaces, "block"}, {ProbeModel::kMemory, "memory"}},
             "what is trained: the backbone with all that its layer has, or, as published, its memory alone");
    list.add("loss", loss_, {{ProbeLoss::kSquared, "squared"}, {ProbeLoss::kCrossEntropy, "cross_entropy"}},
             "squared: half of the squared distance from the value as a one-hot vector, as published");
  }
  void check() const override {
    if (model_ == ProbeModel::kMemory && loss_ != ProbeLoss::kSquared)
      throw UserError("model=memory has loss=squared: what is read are values, not logits");
  }
  int symbols() const override { return keys_; }
  int second_symbols() const override { return keys_ + 1; }  // the last stands beside the key that is asked
  int classes() const override { return keys_; }
  int layers() const override { return 1; }
  int length(Split split) const override { return pairs() + questions(split); }
  int questions(Split split) const override {
    return model_ == ProbeModel::kMemory && split != Split::kTraining ? keys_ : 1;
  }
  ProbeLoss loss() const override { return loss_; }
  ProbeModel model() const override { return model_; }

 private:
  int pairs() const { return rewritten_ ? 2 * keys_ : keys_; }

  void fill(Split split, Rng random, const Sequence& out) const override {
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
    const std::int64_t one = key[random.below(static_cast<std::uint32_t>(pairs()))];
    std::vector<std::int64_t> value_of(static_cast<std::size_t>(keys_), kNotAsked);
    for (int i = 0; i < pairs(); ++i) {
      out.symbol_T[i] = key[i] + keys_ * value[i];
      value_of[static_cast<std::size_t>(key[i])] = value[i];
    }
    for (int q = 0; q < questions(split); ++q) {
      const std::int64_t asked = questions(split) == 1 ? one : q;
      out.position_Q[q] = pairs() + q;
      out.symbol_T[pairs() + q] = asked + std::int64_t{keys_} * keys_;
      out.label_Q[q] = value_of[static_cast<std::size_t>(asked)];
    }
  }

  int keys_ = 20;
  bool rewritten_ = false;
  ProbeModel model_ = ProbeModel::kPlaces;
  ProbeLoss loss_ = ProbeLoss::kSquared;
};

}  // namespace

std::unique_ptr<ProbeTask> make_retrieval_task() { return std::make_unique<Retrieval>(); }

}  // namespace engram
