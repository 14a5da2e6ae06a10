// What the passes over lists of tensors promise for a kind of tensor: a dtype on a device.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agents/learn/optimizer/adam.h"
#include "agents/learn/optimizer/parameter_lists.h"

namespace engram::testing {

// Adam beside torch::optim::AdamW: 20 steps of 75 tensors of the kind.
inline void check_adam(const torch::TensorOptions& kind, double weight_decay) {
  torch::manual_seed(1);
  CAPTURE(kind.device().str());
  CAPTURE(weight_decay);
  std::vector<torch::Tensor> ours, theirs;
  std::vector<std::vector<std::int64_t>> shapes(70, {3});  // more than one launch takes
  shapes.insert(shapes.end(), {{7, 3}, {5}, {}, {61, 100}, {1024}});
  for (const std::vector<std::int64_t>& shape : shapes) {
    ours.push_back(torch::randn(shape, kind).requires_grad_());
    theirs.push_back(ours.back().detach().clone().requires_grad_());
  }
  Adam optimizer(ours, 3e-3, weight_decay);
  torch::optim::AdamW reference(theirs, torch::optim::AdamWOptions(3e-3).weight_decay(weight_decay));
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_gradients();
    reference.zero_grad();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      (ours[i].square() * (i + step)).sum().backward();
      (theirs[i].square() * (i + step)).sum().backward();
    }
    optimizer.step();
    reference.step();
  }
  // Each rounds x (1 - rate decay) - rate m / ... in an order of its own, 20 times: in float32 they end up to 7.3e-7 of
  // max(1, |x|) apart. Where |x| is 4 that is more than a fixed 1e-6.
  const double tolerance = kind.dtype() == torch::kFloat64 ? 1e-14 : 1e-6;
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(torch::allclose(ours[i], theirs[i], tolerance, tolerance));
}

// A learning rate that changes before each step, beside the definition (kernels/learner/adam) in float64. One of the
// steps is skipped, and at a rate of 0 weights stay.
inline void check_changed_rate(const torch::TensorOptions& kind) {
  torch::manual_seed(1);
  CAPTURE(kind.device().str());
  constexpr double kDecay = 0.1;
  std::vector<torch::Tensor> parameters, expected, means, squares;
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{{7, 3}, {}, {61, 100}}) {
    parameters.push_back(torch::randn(shape, kind).requires_grad_());
    expected.push_back(parameters.back().detach().to(torch::kCPU, torch::kFloat64));
    means.push_back(torch::zeros_like(expected.back()));
    squares.push_back(torch::zeros_like(expected.back()));
  }
  Adam optimizer(parameters, /*learning_rate=*/0.5, kDecay);
  int taken = 0;
  for (const double rate : {3e-3, 2e-3, 0.0, 1e-4, 2.5e-2}) {
    optimizer.set_learning_rate(rate);
    const bool skipped = rate == 2e-3;
    if (!skipped) ++taken;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const torch::Tensor gradient = torch::randn(parameters[i].sizes(), kind);
      parameters[i].mutable_grad() = gradient;
      if (skipped) continue;
      const torch::Tensor g = gradient.to(torch::kCPU, torch::kFloat64);
      means[i] = 0.9 * means[i] + 0.1 * g;
      squares[i] = 0.999 * squares[i] + 0.001 * g.square();
      expected[i] = (1 - rate * kDecay) * expected[i] - rate / (1 - std::pow(0.9, taken)) * means[i] /
                                                            ((squares[i] / (1 - std::pow(0.999, taken))).sqrt() + 1e-8);
    }
    optimizer.step(torch::full({}, skipped ? 1.0 : 0.0, kind.dtype(torch::kFloat32)));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i)
    CHECK(torch::allclose(parameters[i].detach().to(torch::kCPU, torch::kFloat64), expected[i], 0,
                          kind.dtype() == torch::kFloat64 ? 1e-14 : 1e-6));
}

// Norms of a list, the watch over an update, and a list that moves towards another, beside LibTorch's operations.
inline void check_parameter_lists(const torch::TensorOptions& kind) {
  torch::manual_seed(1);
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

}  // namespace engram::testing
