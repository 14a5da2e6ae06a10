// DeviceStream: a CUDA stream that nobody else has.
#pragma once

#include <c10/cuda/CUDAStream.h>

namespace engram {

// Priorities of streams, the less the more urgent: what the learner waits for at once goes before what it needs at the
// end. Acting goes before all: it is a chain of small kernels that take next to nothing of a GPU, each of which would
// wait behind what the learners of other runs have queued there.
constexpr int kWeightsPriority = 0, kLearnerPriority = -1, kDeltaRulePriority = -2, kActingPriority = -3;

// LibTorch's pool has 32 streams of a priority and hands them out by turns: the 33rd that is asked for is the first's,
// too. What is recorded on a stream must be its recorder's alone. A stream is given back when its owner ends and serves
// the next one; it is never destroyed, because LibTorch's allocator may still know memory by it.
class DeviceStream {
 public:
  // device: -1 is the current one. Throws std::runtime_error.
  explicit DeviceStream(int priority = 0, c10::DeviceIndex device = -1);
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  const c10::cuda::CUDAStream& stream() const { return stream_; }

 private:
  int priority_;
  c10::cuda::CUDAStream stream_;
};

}  // namespace engram
