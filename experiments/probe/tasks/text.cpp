#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/text/words.h"
#include "experiments/probe/tasks/tasks.h"
#include "storage/tensors/digest.h"

namespace engram {
namespace {

// A sequence is a passage from any place of its part of the file; after each of its bytes the next one is asked. The
// first 90% of the file are for training, 5% each for validation and test, which thereby follow each other in time.
class Text final : public ProbeTask {
 public:
  void list_options(OptionList& list) override {
    list.add("file", file_, "the text; --text FILE says the same");
    list.add("length", length_, {1, 1 << 15}, "bytes of a passage, after each of which the next is asked");
  }

  void load() override {
    if (file_.empty()) throw UserError("no file is given; --text FILE names it");
    const std::string where = "file '" + file_ + "'";
    std::error_code error;
    const bool regular = std::filesystem::is_regular_file(file_, error);
    const std::uintmax_t bytes = regular ? std::filesystem::file_size(file_, error) : 0;
    if (bytes > kLargest)
      throw UserError(where + " has " + std::to_string(bytes) + " bytes; at most " + std::to_string(kLargest) +
                      " are taken");
    std::ifstream stream(file_, std::ios::binary);
    text_.resize(bytes);
    if (!regular || error || !stream.read(text_.data(), static_cast<std::streamsize>(bytes)))
      throw UserError(where + " cannot be read");
    Digest digest;
    digest.update(text_.data(), text_.size());
    digest_ = digest.hex();
    const Part smallest = part(Split::kTest);
    if (smallest.end - smallest.begin <= length_)
      throw UserError(where + " has " + counted(bytes, "byte") + "; a test on the last 5% with passages of " +
                      std::to_string(length_) + " needs " + std::to_string(20 * (std::int64_t{length_} + 1)));
  }

  int symbols() const override { return kBytes; }
  int classes() const override { return kBytes; }
  std::optional<int> first_class_symbol() const override { return 0; }
  ProbeLoss loss() const override { return ProbeLoss::kBits; }
  int length(Split) const override { return length_; }
  int questions(Split) const override { return length_; }
  std::string content() const override { return digest_; }

 private:
  static constexpr int kBytes = 256;
  static constexpr std::size_t kLargest = std::size_t{1} << 31;

  struct Part {
    std::int64_t begin, end;
  };
  Part part(Split split) const {
    const auto bytes = static_cast<std::int64_t>(text_.size()), training = bytes - bytes / 20 * 2;
    if (split == Split::kTraining) return {0, training};
    return split == Split::kValidation ? Part{training, training + bytes / 20} : Part{training + bytes / 20, bytes};
  }

  void fill(Split split, Rng random, const Sequence& out) const override {
    const Part from = part(split);
    const std::int64_t first = from.begin + random.below(static_cast<std::uint32_t>(from.end - from.begin - length_));
    const auto byte = [&](std::int64_t i) {
      return static_cast<unsigned char>(text_[static_cast<std::size_t>(first + i)]);
    };
    for (std::int64_t t = 0; t < length_; ++t) {
      out.symbol_T[t] = byte(t);
      out.position_Q[t] = t;
      out.label_Q[t] = byte(t + 1);
    }
  }

  std::string file_;
  int length_ = 256;
  std::string text_, digest_;
};

}  // namespace

std::unique_ptr<ProbeTask> make_text_task() { return std::make_unique<Text>(); }

}  // namespace engram
