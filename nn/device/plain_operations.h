// A scope whose operations are LibTorch's own: what loops on a CPU and kernels on a GPU are measured against.
#pragma once

namespace engram {

// While it lives and `plain` is true, this thread's networks take neither the loops of nn/cpu nor, where LibTorch
// defines a part of them, maps and norms of a GPU (nn/fused/maps.h, nn/fused/norm.h) and gradients derived by hand
// (memory/ops/ops.cpp). A backward pass takes the way of its forward pass. Scopes nest: one inside of a plain one is
// plain.
class PlainOperations {
 public:
  explicit PlainOperations(bool plain);
  ~PlainOperations();
  PlainOperations(const PlainOperations&) = delete;
  PlainOperations& operator=(const PlainOperations&) = delete;

  static bool on();

 private:
  bool before_;
};

}  // namespace engram
