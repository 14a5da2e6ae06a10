#include "storage/build_info.h"

#include <torch/version.h>

#include "engram_commit.h"  // generated at every build
#ifdef ENGRAM_WITH_CUDA
#include "kernels/architecture.h"
#endif

namespace engram {

const BuildInfo& build_info() {
  static const BuildInfo info = {
      .version = ENGRAM_VERSION,
      .commit = ENGRAM_COMMIT,
      .build_type = ENGRAM_BUILD_TYPE,
      .compiler = ENGRAM_COMPILER,
      .torch_version = TORCH_VERSION,
#ifdef ENGRAM_WITH_CUDA
      .cuda = true,
      .cuda_architectures = built_architectures(),
#else
      .cuda = false,
      .cuda_architectures = "",
#endif
  };
  return info;
}

}  // namespace engram
