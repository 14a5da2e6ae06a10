#include "nn/device/autocast.h"

#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>

using namespace engram;

namespace {

constexpr torch::DeviceType kGpu = torch::kCUDA;

bool casts() { return at::autocast::is_autocast_enabled(kGpu); }
torch::ScalarType cast_type() { return at::autocast::get_autocast_dtype(kGpu); }

}  // namespace

TEST_CASE("products are cast while a scope lives, and not where an inner one asks for the tensors' own type") {
  const torch::ScalarType before = cast_type();
  {
    const ComputeIn outer(kGpu, torch::kBFloat16);
    CHECK(casts());
    CHECK((cast_type() == torch::kBFloat16));
    {
      const ComputeIn inner(kGpu, torch::kFloat32);
      CHECK_FALSE(casts());
      const ComputeIn innermost(kGpu, torch::kHalf);
      CHECK((cast_type() == torch::kHalf));
    }
    CHECK(casts());
    CHECK((cast_type() == torch::kBFloat16));
  }
  CHECK_FALSE(casts());
  CHECK((cast_type() == before));
}

TEST_CASE("nothing is cast on the CPU, nor in float32 and float64") {
  const ComputeIn on_cpu(torch::kCPU, torch::kBFloat16), wide(kGpu, torch::kFloat32), wider(kGpu, torch::kFloat64);
  CHECK_FALSE(casts());
  CHECK((torch::mm(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type() == torch::kFloat32));
}
