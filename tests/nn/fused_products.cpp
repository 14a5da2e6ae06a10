// Products of the fused passes against LibTorch's in double precision, whichever kernel computes them.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "nn/fused/linear.h"
#include "nn/fused/rows.h"
#include "nn/fused/small_product.h"
#include "tests/gpu.h"

using namespace engram;
using torch::Tensor;

namespace {

Tensor draw(const std::vector<std::int64_t>& shape, torch::ScalarType dtype) {
  return torch::randn(shape, torch::kCUDA).to(dtype);
}

// RMS(error) / RMS(expected) of a sum in float32 that is rounded once.
void check(const Tensor& actual, const Tensor& expected, torch::ScalarType dtype) {
  REQUIRE(actual.sizes() == expected.sizes());
  CHECK((actual.scalar_type() == dtype));
  const Tensor error = actual.to(torch::kFloat64) - expected;
  CHECK((error.norm() / expected.norm()).item<double>() <= (dtype == torch::kFloat32 ? 1e-5 : 1.0 / 256));
}

Tensor exact(const Tensor& x) { return x.to(torch::kFloat64); }

}  // namespace

TEST_CASE("products of few and of many rows, in both types and of any layout, are LibTorch's") {
  if (testing::skip_without_gpu()) return;
  torch::manual_seed(9);
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16})
    for (const auto& [rows, inner, columns] :
         std::vector<std::array<std::int64_t, 3>>{{1, 64, 64}, {704, 112, 320}, {20000, 64, 64}, {70, 600, 48}}) {
      CAPTURE(rows);
      CAPTURE(inner);
      CAPTURE(torch::toString(dtype));
      const Tensor a = draw({rows, inner}, dtype), b = draw({inner, columns}, dtype),
                   weight = draw({columns, inner}, dtype), bias = draw({columns}, dtype);
      check(cuda::product(a, b), exact(a).mm(exact(b)), dtype);
      check(cuda::product(a, weight.t()), exact(a).mm(exact(weight).t()), dtype);
      const Tensor affine = torch::linear(exact(a), exact(weight), exact(bias));
      check(cuda::affine(a, weight, bias, false), affine, dtype);
      check(cuda::affine(a, weight, bias, true), affine.relu(), dtype);
      check(cuda::affine_float(a, weight, bias.to(torch::kFloat32)), affine, torch::kFloat32);
      const Tensor wide_a = draw({rows, inner + 16}, dtype).narrow(1, 8, inner),
                   wide_b = draw({inner, columns + 16}, dtype).narrow(1, 8, columns);
      check(cuda::product(wide_a, wide_b), exact(wide_a).mm(exact(wide_b)), dtype);
      const Tensor columns_of_a = draw({inner, rows}, dtype).t();
      check(cuda::product(columns_of_a, b), exact(columns_of_a).mm(exact(b)), dtype);
      const Tensor shifted = draw({rows, inner + 8}, dtype).narrow(1, 1, inner);
      check(cuda::product(shifted, b), exact(shifted).mm(exact(b)), dtype);
    }
}

TEST_CASE("few rows in bfloat16 whose layout allows it are the small kernel's, others are not") {
  if (testing::skip_without_gpu()) return;
  const auto taken = [](const Tensor& a, const Tensor& b, const Tensor& bias = {}) {
    return cuda::small_product(a, b, bias).has_value();
  };
  const Tensor a = draw({70, 64}, torch::kBFloat16), b = draw({64, 48}, torch::kBFloat16),
               bias = draw({48}, torch::kBFloat16);
  CHECK(taken(a, b));
  CHECK(taken(a, b.t().contiguous().t(), bias));
  CHECK(taken(a.narrow(1, 16, 48), b.narrow(0, 0, 48)));
  CHECK_FALSE(taken(a.narrow(1, 1, 48), b.narrow(0, 0, 48)));
  CHECK_FALSE(taken(a.t().contiguous().t(), b));
  CHECK_FALSE(taken(a, b, bias.to(torch::kFloat32)));
  CHECK_FALSE(taken(a.to(torch::kFloat32), b.to(torch::kFloat32)));
  CHECK_FALSE(taken(draw({20000, 64}, torch::kBFloat16), b));
  CHECK_FALSE(taken(draw({0, 64}, torch::kBFloat16), b));
  CHECK_FALSE(taken(a.to(torch::kCPU), b.to(torch::kCPU)));
}
