// The heads of a GPU, layer by layer and fused, against their definition on the CPU in double precision.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/fused/heads/heads.h"
#include "tests/gpu.h"
#include "tests/rms_error.h"

using namespace engram;
using testing::rms;
using testing::rms_error;
using torch::Tensor;

namespace {

struct Case {
  std::int64_t rows, width, hidden, actions;
  torch::ScalarType dtype;
};

using Parameters = std::vector<Tensor>;  // six a head

Parameters make_parameters(const Case& c, int heads) {
  Parameters parameters;
  for (int head = 0; head < heads; ++head)
    for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
             {c.hidden, c.width}, {c.hidden}, {c.hidden, c.hidden}, {c.hidden}, {c.actions, c.hidden}, {c.actions}})
      parameters.push_back((torch::randn(shape) / std::sqrt(shape.back())).to(c.dtype).to(torch::kFloat32));
  return parameters;
}

std::vector<cuda::HeadWeights> weights_of(const Parameters& p) {
  std::vector<cuda::HeadWeights> weights;
  for (std::size_t i = 0; i < p.size(); i += 6)
    weights.push_back({p[i], p[i + 1], p[i + 2], p[i + 3], p[i + 4], p[i + 5]});
  return weights;
}

Parameters leaves(const Parameters& parameters, const torch::TensorOptions& options) {
  Parameters own;
  for (const Tensor& parameter : parameters) own.push_back(parameter.to(options).clone().requires_grad_(true));
  return own;
}

// The targets' outputs, and where one of the learning heads is used by nothing.
void check_heads(const Case& c, double output_tolerance, double gradient_tolerance, bool all_used) {
  const std::string label = std::to_string(c.rows) + " rows of " + std::to_string(c.width) + " hidden " +
                            std::to_string(c.hidden) + " " + torch::toString(c.dtype) +
                            (all_used ? "" : ", one unused");
  INFO(label);
  torch::manual_seed(4);
  constexpr std::size_t kLearning = 3, kTargets = 2;
  const Parameters all = make_parameters(c, kLearning + kTargets);
  const Parameters learning(all.begin(), all.begin() + 6 * kLearning), targets(all.begin() + 6 * kLearning, all.end());
  const Tensor x = torch::randn({c.rows, c.width}).to(c.dtype).to(torch::kFloat32);
  const Tensor d_output = torch::randn({static_cast<std::int64_t>(kLearning), c.rows, c.actions}).to(c.dtype);

  const Parameters expected_parameters = leaves(all, torch::kFloat64);
  const Tensor expected_x = x.to(torch::kFloat64).requires_grad_(true);
  std::vector<Tensor> expected;
  Tensor sum = torch::zeros({}, torch::kFloat64);
  for (const cuda::HeadWeights& w : weights_of(expected_parameters)) {
    const Tensor first = torch::relu(torch::addmm(w.bias1_I, expected_x, w.weight1_ID.t()));
    const Tensor second = torch::relu(torch::addmm(w.bias2_I, first, w.weight2_II.t()));
    expected.push_back(torch::addmm(w.bias3_A, second, w.weight3_AI.t()));
  }
  const std::size_t used = all_used ? kLearning : kLearning - 1;
  for (std::size_t i = 0; i < used; ++i)
    sum = sum + (expected[i] * d_output[static_cast<std::int64_t>(i)].to(torch::kFloat64)).sum();
  sum.backward();

  const Parameters own = leaves(learning, torch::TensorOptions(torch::kCUDA)),
                   own_targets = leaves(targets, torch::TensorOptions(torch::kCUDA));
  const Tensor own_x = x.to(torch::kCUDA).requires_grad_(true);
  const cuda::HeadOutputs outputs = cuda::heads(own_x.to(c.dtype), weights_of(own), weights_of(own_targets));
  Tensor own_sum = torch::zeros({}, torch::TensorOptions(torch::kCUDA));
  for (std::size_t i = 0; i < used; ++i)
    own_sum = own_sum + (outputs.learning[i].narrow(1, 0, c.actions) *
                         d_output[static_cast<std::int64_t>(i)].to(torch::kCUDA, torch::kFloat32))
                            .sum();
  own_sum.backward();

  for (std::size_t i = 0; i < kLearning + kTargets; ++i) {
    const Tensor& output = i < kLearning ? outputs.learning[i] : outputs.targets[i - kLearning];
    CHECK(output.requires_grad() == (i < kLearning));
    CHECK(rms_error(output.narrow(1, 0, c.actions), expected[i]) <= output_tolerance);
  }
  CHECK(rms_error(own_x.grad(), expected_x.grad()) <= gradient_tolerance);
  for (std::size_t i = 0; i < own.size(); ++i) {
    INFO("parameter ", i);
    if (i < 6 * used)
      CHECK(rms_error(own[i].grad(), expected_parameters[i].grad()) <= gradient_tolerance);
    else
      CHECK((!own[i].grad().defined() || rms(own[i].grad()) == 0));
  }
}

}  // namespace

// bfloat16 rounds an element by 0.0017 (RMS). A unit that is zero or not by this rounding has a wholly wrong gradient:
// one of about 500, the square root of which is the error.
TEST_CASE("heads and their gradients are those of the definition") {
  if (testing::skip_without_gpu()) return;
  for (const bool all_used : {true, false})
    for (const Case& c : {Case{333, 100, 256, 4, torch::kBFloat16},
                          {70, 20, 256, 9, torch::kBFloat16},
                          {704, 64, 64, 4, torch::kBFloat16},
                          {333, 100, 128, 3, torch::kBFloat16},
                          {333, 100, 96, 4, torch::kBFloat16},
                          {333, 100, 512, 4, torch::kBFloat16},
                          {70, 20, 344, 4, torch::kBFloat16},
                          {333, 100, 256, 4, torch::kFloat32},
                          {65, 20, 48, 3, torch::kFloat32},
                          {130, 20, 512, 3, torch::kFloat32}})
      if (c.dtype == torch::kFloat32)
        check_heads(c, 1e-5, 1e-4, all_used);
      else
        check_heads(c, 0.01, 0.08, all_used);
}
