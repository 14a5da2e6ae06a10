// RecordedStep: a step of learning on a GPU, launched a few times, then recorded as a graph and replayed: the same
// kernels on the same numbers, without the host's share of the work.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

namespace engram {

class RecordedStep {
 public:
  using Tensors = std::vector<torch::Tensor>;
  // What a step does with its inputs. It must do the same each time, and may not wait for the device: a recording of it
  // is replayed in its place, with the settings that the host had when it was recorded.
  using Work = std::function<Tensors(const Tensors& inputs)>;

  // On the CPU every step is launched.
  explicit RecordedStep(torch::Device device);
  ~RecordedStep();

  // Does the work on inputs on the device. A recording reads its inputs at fixed addresses: inputs of the same shapes at
  // the same addresses as before are used directly, at other addresses they are copied. Inputs of other shapes get a
  // recording of their own; those of the last few shapes are kept, so that batches of a few lengths may alternate. What
  // it returns stays valid until the next step.
  Tensors run(const Tensors& inputs, const Work& work);

  // From now on no step is recorded or replayed; recorded steps are measured against such ones.
  void launch_every_step();

 private:
  class Recordings;
  std::unique_ptr<Recordings> recordings_;  // none where every step is launched
};

}  // namespace engram
