#include "nn/gpu_share.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/storage/temporary_folder.h"

using namespace engram;

TEST_CASE("the service is known by its control pipe, a share by its variable") {
  const TemporaryFolder folder;
  setenv("CUDA_MPS_PIPE_DIRECTORY", folder.path().c_str(), 1);
  CHECK(!has_multi_process_service());
  write_text(folder / "control", "");
  CHECK(has_multi_process_service());
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  unsetenv(kShareVariable);
  CHECK(!gpu_share());
  setenv(kShareVariable, "25", 1);
  CHECK(gpu_share() == "25");
  unsetenv(kShareVariable);
}
