// DeviceGraph: work on a GPU that is recorded once and then replayed without the host's share of it.
#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <mutex>

#include "nn/device/device_stream.h"

namespace engram {

// Runs work on a stream of its own, between what the current stream was given before and what it gets afterwards: work
// can only be recorded away from the default stream, and libraries keep a workspace for each stream.
class SideStream {
 public:
  // device: -1 is the current one.
  explicit SideStream(int priority, c10::DeviceIndex device = -1) : own_(priority, device) {}

  template <class Work>
  void run(Work work) const {
    const c10::cuda::CUDAStream own = own_.stream();
    const c10::cuda::CUDAStream before = c10::cuda::getCurrentCUDAStream(own.device_index());
    at::cuda::CUDAEvent begin, end;
    begin.record(before);
    begin.block(own);
    {
      const c10::cuda::CUDAStreamGuard guard(own);
      work();
    }
    end.record(own);
    end.block(before);
  }

 private:
  DeviceStream own_;
};

class DeviceGraph {
 public:
  // Records what `work` launches on the current stream, which is not the default one; nothing runs yet. Tensors that
  // `work` makes stay where they are in every replay. `work` may not wait for the device; other threads of the program
  // may meanwhile, as those do in which NCCL serves other ranks. `pool`: another graph's memory, from which this one's
  // is taken as well where the two never run at once; {0, 0}: memory of its own.
  template <class Work>
  void capture(Work work, c10::MempoolId_t pool = {0, 0}) {
    // LibTorch notes in its generators that a recording is under way, and they are the program's: one at a time.
    static std::mutex recording;
    const std::lock_guard lock(recording);
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph_.capture_end();
      } catch (const std::exception&) {  // a broken recording: what broke it is thrown below
      }
      graph_.reset();
      throw;
    }
    graph_.capture_end();
    captured_ = true;
  }
  bool captured() const { return captured_; }
  void replay() { graph_.replay(); }
  // Of a captured graph.
  c10::MempoolId_t pool() { return graph_.pool(); }

 private:
  at::cuda::CUDAGraph graph_;
  bool captured_ = false;
};

}  // namespace engram
