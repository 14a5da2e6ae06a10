// DeviceSum: sums over ranks that have a GPU each, by NCCL, which comes with LibTorch. They are work on the current
// stream like any other, so that a CUDA graph can hold them.
//
// A sum waits on the GPU for the other ranks, and who waits for the GPU waits with it. Where a rank is lost a watch
// gives up all sums, those under way and later ones: waits end, what was summed means nothing, and check() says so.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

#include "ranks/ranks.h"

namespace engram {

class DeviceSum {
 public:
  // Of all ranks together, an exchange; no two of them have the same GPU. NVLink's multicast stays off unless the
  // environment's NCCL_NVLS_ENABLE is set. Throws UserError in a build without NCCL, RankLost, and std::runtime_error
  // with NCCL's own words.
  DeviceSum(std::shared_ptr<Ranks> ranks, torch::Device device);
  // Graphs that hold sums must be gone.
  ~DeviceSum();
  DeviceSum(const DeviceSum&) = delete;
  DeviceSum& operator=(const DeviceSum&) = delete;

  // Adds up what the ranks have, in place, on the current stream; afterwards all have the same bits, which depend on
  // the number of ranks and the machine. float32 or float64, contiguous, on the device, of one size. All ranks launch
  // the same sums in the same order, and each of them either all record in a graph or none does. Throws as check()
  // does.
  void add_up(torch::Tensor& values);

  // After a wait for the device, before its results are believed: throws RankLost, or std::runtime_error with NCCL's
  // words, where sums were given up.
  void check();
  // Does work that uses sums or waits for them. Where it fails because a rank is lost, or in the seconds after which
  // that is known, throws what check() does.
  void explaining(const std::function<void()>& work);

 private:
  class Communicator;
  DeviceSum(std::shared_ptr<Ranks> ranks, std::shared_ptr<Communicator> communicator);
  void check_after_failure();

  std::shared_ptr<Ranks> ranks_;
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace engram
