#include "apps/gpu_sharing.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/storage/temporary_folder.h"

using namespace engram;

TEST_CASE("what runs of one GPU could gain is said, and nothing where they gain nothing") {
  CHECK(sharing_advice(1, false, false).empty());
  CHECK(mentions(sharing_advice(2, false, false), "nvidia-cuda-mps-control -d"));
  CHECK(mentions(sharing_advice(32, false, true), "nvidia-cuda-mps-control -d"));
  CHECK(sharing_advice(kRunsWithShares - 1, true, false).empty());
  CHECK(mentions(sharing_advice(kRunsWithShares, true, false), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"));
  CHECK(sharing_advice(kRunsWithShares, true, true).empty());
}

TEST_CASE("the service is known by its control pipe, a share by its variable") {
  const TemporaryFolder folder;
  setenv("CUDA_MPS_PIPE_DIRECTORY", folder.path().c_str(), 1);
  CHECK(!has_multi_process_service());
  write_text(folder / "control", "");
  CHECK(has_multi_process_service());
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  CHECK(!has_gpu_share());
  setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25", 1);
  CHECK(has_gpu_share());
  unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
}
