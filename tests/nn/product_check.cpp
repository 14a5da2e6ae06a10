#include "nn/device/product_check.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>

using namespace engram;

namespace {

// The library's, but for what `damage` does to those of 136 columns and more than 100 rows.
ProductOut damaged(const std::function<void(torch::Tensor&)>& damage) {
  return [damage](torch::Tensor& out_MN, const torch::Tensor& x_MK, const torch::Tensor& w_KN) {
    library_product(out_MN, x_MK, w_KN);
    if (out_MN.size(1) == 136 && out_MN.size(0) > 100) damage(out_MN);
  };
}

}  // namespace

TEST_CASE("the library's products are right, and asking draws no random number of the program's") {
  torch::manual_seed(3);
  const torch::Tensor next = torch::rand({2});
  torch::manual_seed(3);
  CHECK(!find_wrong_product(torch::kCPU));
  CHECK(torch::equal(torch::rand({2}), next));
}

TEST_CASE("a product with one wrong element, one not finite, or one that was not written is found, with its shape") {
  const auto last = [](torch::Tensor& out) { return out.view(-1)[-1]; };
  const auto found = [](const std::function<void(torch::Tensor&)>& damage) {
    const auto wrong = find_wrong_product(torch::kCPU, damaged(damage));
    REQUIRE(wrong);
    CHECK(wrong->columns == 136);
    CHECK(wrong->rows > 100);
    return wrong->error;
  };
  CHECK(found([&](torch::Tensor& out) { last(out).add_(4); }) > 0.02);
  CHECK(found([&](torch::Tensor& out) { last(out).fill_(1e37); }) > 1e30);
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(found([&](torch::Tensor& out) { last(out).fill_(infinite); }) == infinite);

  const auto leaves_a_row = [](torch::Tensor& out, const torch::Tensor& x, const torch::Tensor& w) {
    torch::Tensor most = out.narrow(0, 0, out.size(0) - 1);
    torch::mm_out(most, x.narrow(0, 0, out.size(0) - 1), w);
  };
  const auto unwritten = find_wrong_product(torch::kCPU, leaves_a_row);
  REQUIRE(unwritten);
  CHECK(unwritten->error == infinite);
}

TEST_CASE("a CPU has no share to check") { CHECK_NOTHROW(check_products_of_share(torch::kCPU)); }
