#include "agents/parameter_lists.h"

#include <doctest/doctest.h>

using namespace engram;

TEST_CASE("norms of a list are those of its tensors, and a list moves towards another") {
  torch::manual_seed(1);
  std::vector<torch::TensorOptions> kinds{torch::kFloat64, torch::kFloat32};
  if (torch::cuda::is_available()) kinds.push_back(torch::dtype(torch::kFloat32).device(torch::kCUDA));
  for (const torch::TensorOptions& kind : kinds) {
    CAPTURE(kind.device().str());
    std::vector<torch::Tensor> x, target, expected;
    for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{{7, 3}, {5}, {}, {61, 100}}) {
      x.push_back(torch::randn(shape, kind));
      target.push_back(torch::randn(shape, kind));
    }
    const torch::Tensor norms = list_norms(x);
    // The order of a sum of 6,100 squares is another: a few roundings.
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(torch::allclose(norms[i], x[i].norm(), 1e-6, 0));
    CHECK(torch::allclose(list_norms({x[3].t()}), norms.slice(0, 3), 1e-6, 0));  // not contiguous
    const torch::Tensor watch = torch::zeros({4}, torch::dtype(torch::kInt64).device(kind.device()));
    const auto watched = [&](const torch::Tensor& loss, const torch::Tensor& own) {
      const WatchedUpdate out = watch_update(loss, own, watch);
      CHECK(torch::allclose(out.norm, own.norm(), 1e-6, 0, /*equal_nan=*/true));
      return out.bad.item<double>();
    };
    const torch::Tensor fine = torch::ones({}, kind), bad_norms = norms.clone();
    bad_norms[2] = INFINITY, bad_norms[3] = NAN;
    CHECK(watched(fine, norms) == 0);
    CHECK(watched(fine, bad_norms) == 1);
    CHECK(watched(fine * NAN, norms) == 1);
    CHECK(torch::equal(watch.cpu(), torch::tensor({3, 2, 2, 3}, torch::kInt64)));
    for (const double rate : {0.005, 0.7, 1.0}) {
      std::vector<torch::Tensor> moved;
      for (const torch::Tensor& tensor : x) moved.push_back(tensor.clone());
      move_towards(moved, target, rate);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (rate == 1.0) CHECK(torch::equal(moved[i], target[i]));
        CHECK(torch::allclose(moved[i], x[i] + rate * (target[i] - x[i]), 1e-6, 1e-6));
      }
    }
  }
}
