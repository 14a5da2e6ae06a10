#include "agents/learn/recorded_step.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <mutex>
#include <utility>

#include "agents/play/device_graph.h"
#include "nn/fused/weights/side_work.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr int kWarmUp = 3;          // steps of a shape before its recording, in which libraries make their plans
constexpr std::size_t kShapes = 8;  // whose recordings are kept: those of the lengths that an EpisodeStore gives

bool same_kind(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

bool same_place(const Tensor& a, const Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.strides() == b.strides();
}

}  // namespace

class RecordedStep::Recordings {
 public:
  explicit Recordings(torch::Device device) : stream_(kLearnerPriority, device.index()) {}

  Tensors run(const Tensors& inputs, const Work& work) {
    Tensors outputs;
    stream_.run([&] { outputs = step(recording_of(inputs), inputs, work); });
    return outputs;
  }

 private:
  struct Recording {
    bool matches(const Tensors& given) const { return std::ranges::equal(inputs, given, same_kind); }

    // `inputs` with the contents of `given`. An input that has moved gets memory that never does.
    void take(const Tensors& given) {
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (same_place(inputs[i], given[i])) continue;
        if (copied[i]) {
          inputs[i].copy_(given[i]);
        } else {
          inputs[i] = given[i].clone();
          copied[i] = true;
          graph.reset();
        }
      }
    }

    Tensors inputs;            // what the graph reads; they live as long as it does
    std::vector<bool> copied;  // into memory of its own, by input
    int launched = 0;
    std::unique_ptr<DeviceGraph> graph;
    Tensors outputs;  // of the graph
  };

  // Of the inputs' shapes, from now on the first: a new one takes the place of the one that was not used for longest.
  Recording& recording_of(const Tensors& inputs) {
    const auto found = std::ranges::find_if(recordings_, [&](const Recording& r) { return r.matches(inputs); });
    if (found != recordings_.end()) {
      recordings_.splice(recordings_.begin(), recordings_, found);
    } else {
      if (recordings_.size() == kShapes) recordings_.pop_back();
      recordings_.emplace_front();
      recordings_.front().inputs = inputs;
      recordings_.front().copied.assign(inputs.size(), false);
    }
    return recordings_.front();
  }

  Tensors step(Recording& recording, const Tensors& inputs, const Work& work) {
    recording.take(inputs);
    // What is launched or recorded may use what the program has once, such as the side streams of backward passes: runs
    // in threads beside each other take turns. A replay needs nothing of the kind.
    static std::mutex launching;
    std::unique_lock lock(launching, std::defer_lock);
    if (!recording.graph) lock.lock();
    if (recording.launched < kWarmUp) {
      ++recording.launched;
      return work(recording.inputs);
    }
    if (!recording.graph) {
      recording.outputs.clear();
      auto graph = std::make_unique<DeviceGraph>();
      graph->capture([&] { recording.outputs = work(recording.inputs); }, shared_pool());
      recording.graph = std::move(graph);
    }
    recording.graph->replay();
    return recording.outputs;
  }

  // All graphs work in the same memory, because they run one after the other. It is that of any of them: LibTorch frees
  // a pool with its last graph.
  c10::MempoolId_t shared_pool() const {
    for (const Recording& recording : recordings_)
      if (recording.graph) return recording.graph->pool();
    return {0, 0};
  }

  SideStream stream_;
  std::list<Recording> recordings_;  // the last used first
};

RecordedStep::RecordedStep(torch::Device device) {
  if (device.is_cuda()) recordings_ = std::make_unique<Recordings>(device);
}

RecordedStep::~RecordedStep() = default;

RecordedStep::Tensors RecordedStep::run(const Tensors& inputs, const Work& work) {
  return recordings_ ? recordings_->run(inputs, work) : work(inputs);
}

void RecordedStep::launch_every_step() { recordings_.reset(); }

}  // namespace engram
