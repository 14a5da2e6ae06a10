// Steps of learning in a build without GPU support: every one is launched.
#include "agents/recorded_step.h"

namespace engram {

class RecordedStep::Recordings {};

RecordedStep::RecordedStep(torch::Device) {}
RecordedStep::~RecordedStep() = default;

RecordedStep::Tensors RecordedStep::run(const Tensors& inputs, const Work& work) { return work(inputs); }

void RecordedStep::launch_every_step() {}

}  // namespace engram
