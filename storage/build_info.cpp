#include "storage/build_info.h"

#include <torch/version.h>

#include "engram_commit.h"  // generated at every build
#include "nn/device/device.h"

namespace engram {

const BuildInfo& build_info() {
  static const BuildInfo info = {
      .version = ENGRAM_VERSION,
      .commit = ENGRAM_COMMIT,
      .build_type = ENGRAM_BUILD_TYPE,
      .compiler = ENGRAM_COMPILER,
      .torch_version = TORCH_VERSION,
      .cuda = built_with_cuda(),
      .cuda_architectures = built_device_architectures(),
  };
  return info;
}

}  // namespace engram
