#include "kernels/common/cuda_support.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "tests/kernels/fast_weights/delta_rule_case.h"

using namespace engram;

TEST_CASE("a device buffer brings back what it was given, and moves") {
  if (testing::skip_without_gpu()) return;
  const std::vector<int> host{1, 2, 3};
  DeviceBuffer<int> first(host);
  DeviceBuffer<int> second(std::move(first));
  CHECK(first.data() == nullptr);
  CHECK(second.to_host() == host);
  first = std::move(second);
  CHECK(first.size() == 3);
  CHECK(first.to_host() == host);
  CHECK(DeviceBuffer<int>().to_host().empty());
}
