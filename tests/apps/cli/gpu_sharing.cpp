#include "apps/cli/gpu_sharing.h"

#include <doctest/doctest.h>

#include "tests/storage/temporary_folder.h"

using namespace engram;

TEST_CASE("what runs of one GPU could gain is said, and nothing where they gain nothing") {
  CHECK(sharing_advice(1, false, {}).empty());
  CHECK(mentions(sharing_advice(2, false, {}), "nvidia-cuda-mps-control -d"));
  CHECK(mentions(sharing_advice(32, false, "25"), "nvidia-cuda-mps-control -d"));
  CHECK(sharing_advice(kRunsWithShares - 1, true, {}).empty());
  CHECK(mentions(sharing_advice(kRunsWithShares, true, {}), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"));
  CHECK(sharing_advice(kRunsWithShares, true, "25").empty());
}

TEST_CASE("a share with which products are wrong, or that was never tried, is named, be it for one run") {
  CHECK(mentions(sharing_advice(1, true, "17"), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=17 is not proven"));
  CHECK(mentions(sharing_advice(32, true, ""), "is not proven"));
  for (const char* const proven : {"12", "25", "100"}) CHECK(sharing_advice(32, true, proven).empty());
  CHECK(!mentions(sharing_advice(32, false, "17"), "is not proven"));  // without the service it is not read
}
