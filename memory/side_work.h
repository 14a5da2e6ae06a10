// SideWork: kernels that do not depend on each other run at the same time.
#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <optional>
#include <utility>
#include <vector>

namespace engram::fused {

// One stream each.
enum class SideStreamOf { kAttention, kWeights };

// Work on a stream of its own, beside what the current stream is given between run() and join(). Memory is safe between
// the two as long as what either is given to read lives until join(), by keep() or otherwise: run() waits for all that
// the current stream was given before, so that what was freed by then is free.
class SideWork {
 public:
  explicit SideWork(SideStreamOf purpose)
      : main_(c10::cuda::getCurrentCUDAStream()), side_(stream(static_cast<int>(purpose))) {}

  template <class Work>
  void run(Work work) const {
    at::cuda::CUDAEvent begin;
    begin.record(main_);
    begin.block(side_);
    const c10::cuda::CUDAStreamGuard guard(side_);
    work();
  }
  void join() const {
    at::cuda::CUDAEvent end;
    end.record(side_);
    end.block(main_);
  }

  // Tensors live until they are joined, or until *this ends.
  void keep(const std::vector<torch::Tensor>& tensors) { kept_.insert(kept_.end(), tensors.begin(), tensors.end()); }
  // Joins what the side was given before the last call of this function, which ended long ago: so that what is kept
  // does not grow with the number of calls.
  void join_earlier() {
    if (earlier_) earlier_->block(main_);
    earlier_.emplace();
    earlier_->record(side_);
    kept_earlier_ = std::exchange(kept_, {});
  }

 private:
  static const c10::cuda::CUDAStream& stream(int index) {
    static const c10::cuda::CUDAStream streams[] = {c10::cuda::getStreamFromPool(), c10::cuda::getStreamFromPool()};
    return streams[index];
  }

  c10::cuda::CUDAStream main_, side_;
  std::optional<at::cuda::CUDAEvent> earlier_;
  std::vector<torch::Tensor> kept_, kept_earlier_;
};

}  // namespace engram::fused
