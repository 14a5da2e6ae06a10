// The loop of a block, written once for the GPU and for the tests without one, is a template over its threads:
//   threads.any()        one of them, for what is the same in all
//   threads.each(work)   every thread does work(walk, shared), of its own walk and what the block shares
//   threads.meet()       all wait for all; meet_warp(): for those of their warp
// Between two meetings a thread does all of its work before or after the others do theirs, in any order. `work` is kept
// until the next meeting: it captures by value.
//
// On a GPU every thread runs the loop as OneThread. Without one, tests let the threads of a block take turns
// (tests/kernels/common/threads_in_turns.h).
#pragma once

#include "base/host_device.h"

namespace engram {

template <class Walk, class Shared>
class OneThread {
 public:
  HOST_DEVICE OneThread(Walk& walk, Shared& shared) : walk_(walk), shared_(shared) {}

  HOST_DEVICE const Walk& any() const { return walk_; }
  template <class Work>
  [[gnu::always_inline]] HOST_DEVICE void each(const Work& work) {
    work(walk_, shared_);
  }
  [[gnu::always_inline]] HOST_DEVICE void meet() {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  [[gnu::always_inline]] HOST_DEVICE void meet_warp() {
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
  }

 private:
  Walk& walk_;
  Shared& shared_;
};

}  // namespace engram
