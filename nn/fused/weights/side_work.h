// SideWork: kernels that do not depend on each other run at the same time, and small ones that end a pass as one.
#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/block/gradient_sums.h"
#include "nn/device/device_stream.h"

namespace engram::cuda {

// One stream each, of every stream that has work beside it.
enum class SideStreamOf { kWeights, kLayerWeights, kDeltaRule };

// While it lives, gradients of weights may be returned from a backward pass before they are computed: join() waits for
// them once, at the end, so that their products run beside all that follows. For a backward pass whose gradients are
// not read before. At most one lives at a time.
class LateWeightGradients {
 public:
  LateWeightGradients() { current() = this; }
  ~LateWeightGradients() { current() = nullptr; }
  LateWeightGradients(const LateWeightGradients&) = delete;
  LateWeightGradients& operator=(const LateWeightGradients&) = delete;

  static LateWeightGradients*& current() {
    static LateWeightGradients* late = nullptr;  // for all threads: autograd runs backward passes in threads of its own
    return late;
  }

  // Called by a backward pass: `end` comes after the work that writes `gradients` and reads `kept`.
  void add(at::cuda::CUDAEvent end, const std::vector<torch::Tensor>& gradients,
           const std::vector<torch::Tensor>& kept) {
    ends_.push_back(std::move(end));
    for (const torch::Tensor& gradient : gradients) promised_.push_back(gradient.data_ptr());
    kept_.insert(kept_.end(), kept.begin(), kept.end());
  }

  // The current stream waits. `gradients`: those of all weights, as the pass has left them.
  void join(const std::vector<torch::Tensor>& gradients) {
    for (const void* const promised : promised_)
      TORCH_CHECK(std::ranges::any_of(gradients,
                                      [&](const torch::Tensor& gradient) { return gradient.data_ptr() == promised; }),
                  "a weight's gradient did not arrive as it was returned");
    for (at::cuda::CUDAEvent& end : ends_) end.block(c10::cuda::getCurrentCUDAStream());
    ends_.clear();
    promised_.clear();
    kept_.clear();
  }

 private:
  std::vector<at::cuda::CUDAEvent> ends_;
  std::vector<const void*> promised_;
  std::vector<torch::Tensor> kept_;
};

// Work on a stream of its own, beside what the current stream is given between run() and join(). Memory is safe between
// the two as long as what either is given to read lives until join(), by keep() or otherwise: run() waits for all that
// the current stream was given before, so that what was freed by then is free.
class SideWork {
 public:
  explicit SideWork(SideStreamOf purpose) : main_(c10::cuda::getCurrentCUDAStream()), side_(side_of(main_, purpose)) {}

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

  // A gradient that is to be made of what the current stream and the side were given before, by finish() at the latest:
  // with all others by one kernel. `source` holds the parts, and lives until then.
  void add(const GradientSum& sum, const torch::Tensor& source) {
    sums_.push_back(sum);
    sources_.push_back(source);
  }
  // Makes those that were added.
  void make_sums() {
    if (sums_.empty()) return;
    run([&] { add_up(sums_, side_.stream()); });
    keep(sources_);
    sums_.clear();
    sources_.clear();
  }

  // make_sums() and join(), or later where that is allowed: `gradients` are written by the side, and nothing but the
  // learner reads them where they are those of leaves.
  void finish(const std::vector<torch::Tensor>& gradients, bool of_leaves) {
    make_sums();
    LateWeightGradients* const late = LateWeightGradients::current();
    if (late == nullptr || !of_leaves) return join();
    at::cuda::CUDAEvent end;
    end.record(side_);
    for (const Earlier& earlier : earlier_) kept_.insert(kept_.end(), earlier.kept.begin(), earlier.kept.end());
    late->add(std::move(end), gradients, kept_);
  }

  // Tensors live until they are joined, or until *this ends.
  void keep(const std::vector<torch::Tensor>& tensors) { kept_.insert(kept_.end(), tensors.begin(), tensors.end()); }
  // Joins what the side was given before the kLag-th call back, which ended long ago, and makes sums that fill a
  // launch: so that what is kept does not grow with the number of calls.
  void join_earlier() {
    if (sums_.size() >= kGradientSumsOfLaunch) make_sums();
    at::cuda::CUDAEvent end;
    end.record(side_);
    earlier_.push_back({std::move(end), std::exchange(kept_, {})});
    if (earlier_.size() <= kLag) return;
    earlier_.front().end.block(main_);
    earlier_.pop_front();
  }

 private:
  // Those of `main` alone: while one thread records what it and its side are given, another, with a stream of its own,
  // may be launching.
  static const c10::cuda::CUDAStream& side_of(const c10::cuda::CUDAStream& main, SideStreamOf purpose) {
    struct Streams {
      DeviceStream weights{kWeightsPriority}, layer_weights{kWeightsPriority}, delta_rule{kDeltaRulePriority};
    };
    static std::mutex mutex;
    static auto* const streams_of_main = new std::unordered_map<c10::cuda::CUDAStream, Streams>;
    const std::lock_guard lock(mutex);
    const Streams& own = streams_of_main->try_emplace(main).first->second;
    switch (purpose) {
      case SideStreamOf::kWeights:
        return own.weights.stream();
      case SideStreamOf::kLayerWeights:
        return own.layer_weights.stream();
      case SideStreamOf::kDeltaRule:
        return own.delta_rule.stream();
    }
    throw std::logic_error("no side stream");
  }

  static constexpr std::size_t kLag = 4;
  struct Earlier {
    at::cuda::CUDAEvent end;
    std::vector<torch::Tensor> kept;
  };

  c10::cuda::CUDAStream main_, side_;
  std::deque<Earlier> earlier_;
  std::vector<torch::Tensor> kept_;
  std::vector<GradientSum> sums_;
  std::vector<torch::Tensor> sources_;  // of the sums
};

// work(0) .. work(count - 1), which do not depend on each other, on as many streams as there are but for kWeights's.
// What they allocate may be used by the current stream afterwards.
template <class Work>
void side_by_side(std::size_t count, Work work) {
  const std::array others{SideWork(SideStreamOf::kDeltaRule), SideWork(SideStreamOf::kLayerWeights)};
  constexpr std::size_t kStreams = others.size() + 1;
  for (std::size_t i = 0; i < count; ++i)
    if (i % kStreams > 0) others[i % kStreams - 1].run([&] { work(i); });
  for (std::size_t i = 0; i < count; i += kStreams) work(i);
  // Of a stream that was given nothing a graph under capture knows nothing.
  for (std::size_t i = 1; i < std::min(count, kStreams); ++i) others[i - 1].join();
}

}  // namespace engram::cuda
