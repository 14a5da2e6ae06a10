// In a build without GPU support.
#include <stdexcept>

#include "agents/recorded_env.h"

namespace engram {

std::unique_ptr<RecordedEnv> make_recorded_cuda_env(const TaskConfig&, std::uint64_t, Purpose, int, int) {
  throw std::logic_error("environments of a GPU in a build without GPU support");
}

}  // namespace engram
