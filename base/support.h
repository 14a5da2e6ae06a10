// Support: whether something does what is asked of it and, if not, why. Every choice between a fast and a general way
// of computing goes by one; the reasons are what people are shown.
#pragma once

#include <string>
#include <utility>

namespace engram {

class Support {
 public:
  Support() = default;  // it does
  static Support no(std::string reason) {
    Support support;
    support.reason_ = std::move(reason);
    return support;
  }

  explicit operator bool() const { return reason_.empty(); }
  // Half a sentence, "width 1030 is more than 1024"; empty where it does.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// Which road a part of an agent takes.
struct Road {
  std::string part;    // "backbone", "heads", "encoder", "loss", "update", "acting"
  std::string road;    // what computes it, "fused kernels in bfloat16"
  std::string reason;  // why not what is faster; empty for the fastest
  bool fast = false;   // computed by the project's own kernels, be it not in their fastest form
};

}  // namespace engram
