// The encoder of a GPU against its definition on the CPU in double precision.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "nn/device/autocast.h"
#include "nn/fused/encoder.h"
#include "nn/fused/weights/late_gradients.h"
#include "tests/gpu.h"
#include "tests/rms_error.h"

using namespace engram;
using testing::rms_error;
using torch::Tensor;

namespace {

// Numbers that `dtype` holds, so that products of it round activations and gradients alone.
Tensor draw(const std::vector<std::int64_t>& shape, double scale, torch::ScalarType dtype) {
  return (torch::randn(shape) * scale).to(dtype).to(torch::kFloat64);
}

// weights: of all layers, each with its bias.
using Encode = std::function<Tensor(const std::vector<Tensor>& weights)>;

// bfloat16 rounds an element by 0.0017 (RMS), and a unit that is zero or not by this rounding has a wholly wrong
// gradient. With every activation and gradient rounded, but for the sums, the definition's own gradients are off by up
// to 0.075, those of a convolution, to which few units contribute.
constexpr double kOutputError = 0.01, kGradientError = 0.15;  // of float32: 1e-5 and 1e-4

// The gradients of sum(output * d_output), on the GPU read at once, or after a learner's pass.
void check(const Encode& definition, const Encode& encode, std::vector<Tensor> weights, torch::ScalarType dtype) {
  const bool exact = dtype == torch::kFloat32;
  for (Tensor& weight : weights) weight.requires_grad_(true);
  const Tensor expected = definition(weights);
  const Tensor d_output = draw(expected.sizes().vec(), 1, dtype);
  (expected * d_output).sum().backward();
  for (const bool late : {false, true}) {
    CAPTURE(late);
    std::vector<Tensor> own;
    for (const Tensor& weight : weights)
      own.push_back(weight.detach().to(torch::kCUDA, torch::kFloat32).requires_grad_(true));
    const Tensor output = encode(own);
    const auto backward = [&] { (output * d_output.to(output.device(), output.scalar_type())).sum().backward(); };
    const auto gradients = [&] {
      std::vector<Tensor> all;
      for (const Tensor& weight : own) all.push_back(weight.grad());
      return all;
    };
    std::vector<Tensor> actual;
    if (late) {
      actual = late_gradients(output.device(), backward, gradients);
    } else {
      backward();
      actual = gradients();
    }
    CHECK((output.scalar_type() == dtype));
    CHECK(rms_error(output, expected) <= (exact ? 1e-5 : kOutputError));
    for (std::size_t i = 0; i < own.size(); ++i) {
      CAPTURE(i);
      REQUIRE(actual[i].sizes() == weights[i].sizes());
      CHECK(rms_error(actual[i], weights[i].grad()) <= (exact ? 1e-4 : kGradientError));
    }
  }
}

}  // namespace

TEST_CASE("a GPU's image encoder and its gradients are those of LibTorch's convolutions") {
  if (testing::skip_without_gpu()) return;
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16})
    for (const auto& [rows, channels, height, columns, width] :
         std::vector<std::array<std::int64_t, 5>>{{333, 3, 5, 5, 100}, {130, 1, 3, 7, 33}, {1001, 4, 6, 3, 64}}) {
      torch::manual_seed(7);
      CAPTURE(rows);
      CAPTURE(torch::toString(dtype));
      const std::int64_t features = 16 * (height - 2) * (columns - 2);
      const std::vector<std::int64_t> shape{channels, height, columns};
      const Tensor image = torch::randint(256, {rows, channels * height * columns}, torch::kUInt8);
      check(
          [&](const std::vector<Tensor>& w) {
            const Tensor x = (image.to(torch::kFloat64) / 255).reshape({-1, channels, height, columns});
            const Tensor first = torch::conv2d(x, w[0], w[1]).relu();
            return torch::linear(torch::conv2d(first, w[2], w[3]).relu().flatten(1), w[4], w[5]);
          },
          [&](const std::vector<Tensor>& w) {
            const ComputeIn as_a_network(torch::kCUDA, dtype);
            return cuda::encode_image(image.to(torch::kCUDA), dtype, shape, {{w[0], w[1]}, {w[2], w[3]}}, {w[4], w[5]});
          },
          {draw({8, channels, 2, 2}, 1 / std::sqrt(4.0 * static_cast<double>(channels)), dtype), draw({8}, 0.3, dtype),
           draw({16, 8, 2, 2}, 1 / std::sqrt(32.0), dtype), draw({16}, 0.3, dtype),
           draw({width, features}, 1 / std::sqrt(static_cast<double>(features)), dtype), draw({width}, 0.3, dtype)},
          dtype);
    }
}

TEST_CASE("a GPU's vector encoder and its gradients are those of a linear layer with relu") {
  if (testing::skip_without_gpu()) return;
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16})
    for (const auto& [rows, inputs, width] :
         std::vector<std::array<std::int64_t, 3>>{{2, 3, 8}, {333, 17, 100}, {70, 64, 1200}}) {
      torch::manual_seed(8);
      CAPTURE(rows);
      CAPTURE(torch::toString(dtype));
      const Tensor x = draw({rows, inputs}, 1, dtype);
      check([&](const std::vector<Tensor>& w) { return torch::linear(x, w[0], w[1]).relu(); },
            [&](const std::vector<Tensor>& w) {
              const ComputeIn as_a_network(torch::kCUDA, dtype);
              return cuda::encode_parts(x.to(torch::kCUDA, torch::kFloat32), dtype, {{inputs, {}}}, {w[0], w[1]});
            },
            {draw({width, inputs}, 1 / std::sqrt(static_cast<double>(inputs)), dtype), draw({width}, 0.3, dtype)},
            dtype);
    }
}

// One token of the first row is none of the values.
TEST_CASE("a GPU's encoder of tokens beside quantities and its gradients are those of tables and a linear layer") {
  if (testing::skip_without_gpu()) return;
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16})
    for (const auto& [rows, tokens, values, embedded, quantities, width] : std::vector<std::array<std::int64_t, 6>>{
             {333, 49, 11, 16, 3, 64}, {70, 4, 5, 3, 1, 100}, {2, 1, 2, 8, 9, 8}}) {
      torch::manual_seed(9);
      CAPTURE(rows);
      CAPTURE(torch::toString(dtype));
      Tensor token = torch::randint(values, {rows, tokens}, torch::kUInt8);
      token[0][0] = values;
      const Tensor other = torch::randint(3, {rows, 2}, torch::kUInt8);
      const Tensor quantity = torch::randint(256, {rows, quantities}, torch::kUInt8);
      const Tensor observation = torch::cat({token, quantity, other}, 1).to(torch::kCUDA);
      const auto read = [](const Tensor& of, const Tensor& table) {
        const Tensor with_none = torch::cat({table, torch::zeros({1, table.size(1)}, table.options())});
        return with_none.index_select(0, of.flatten().to(torch::kInt64)).reshape({of.size(0), -1});
      };
      const std::int64_t features = tokens * embedded + quantities + 2 * embedded;
      check(
          [&](const std::vector<Tensor>& w) {
            const Tensor all =
                torch::cat({read(token, w[2]), quantity.to(torch::kFloat64) / 255, read(other, w[3])}, 1);
            return torch::linear(all, w[0], w[1]).relu();
          },
          [&](const std::vector<Tensor>& w) {
            const ComputeIn as_a_network(torch::kCUDA, dtype);
            return cuda::encode_parts(observation, dtype, {{tokens, w[2]}, {quantities, {}}, {2, w[3]}}, {w[0], w[1]});
          },
          {draw({width, features}, 1 / std::sqrt(static_cast<double>(features)), dtype), draw({width}, 0.3, dtype),
           draw({values, embedded}, 1, dtype), draw({3, embedded}, 1, dtype)},
          dtype);
    }
}

// One token of the first row is none of the values, as a previous action that there is not.
TEST_CASE("a GPU's joint encoder and its gradients are those of linear layers around a norm") {
  if (testing::skip_without_gpu()) return;
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16})
    for (const auto& [rows, values, actions, hidden, width] :
         std::vector<std::array<std::int64_t, 5>>{{333, 4, 3, 24, 100}, {70, 13, 27, 128, 256}, {2, 2, 2, 8, 7}}) {
      torch::manual_seed(10);
      CAPTURE(rows);
      CAPTURE(torch::toString(dtype));
      const std::int64_t features = 2 * values + 3 + actions + 1;
      const Tensor token = torch::randint(values, {rows, 2}, torch::kUInt8),
                   quantity = torch::randint(256, {rows, 3}, torch::kUInt8),
                   action = torch::randint(actions, {rows, 1}), reward = draw({rows, 1}, 1, dtype);
      action[0][0] = actions;
      const cuda::SeenParts observation{torch::cat({token, quantity}, 1).to(torch::kCUDA),
                                        {{"card", PartKind::kTokens, {2}, values}, {"number", PartKind::kVector, {3}}}};
      const cuda::SeenParts beside{
          torch::cat({action.to(torch::kFloat64), reward}, 1).to(torch::kCUDA, torch::kFloat32),
          {{"action", PartKind::kTokens, {1}, actions}, {"reward", PartKind::kVector, {1}}}};
      const auto one_hot = [](const Tensor& of, std::int64_t count) {
        return torch::one_hot(of.to(torch::kInt64), count + 1).narrow(-1, 0, count).flatten(1).to(torch::kFloat64);
      };
      check(
          [&](const std::vector<Tensor>& w) {
            const Tensor all = torch::cat(
                {one_hot(token, values), quantity.to(torch::kFloat64) / 255, one_hot(action, actions), reward}, 1);
            const Tensor normal = torch::layer_norm(torch::linear(all, w[0], w[1]), {hidden}, {}, {}, 1e-5);
            return torch::leaky_relu(torch::linear(normal, w[2], w[3]), 0.01);
          },
          [&](const std::vector<Tensor>& w) {
            const ComputeIn as_a_network(torch::kCUDA, dtype);
            return cuda::encode_jointly(observation, beside, dtype, {w[0], w[1]}, {w[2], w[3]});
          },
          {draw({hidden, features}, 1 / std::sqrt(4.0), dtype), draw({hidden}, 0.3, dtype),
           draw({width, hidden}, 1 / std::sqrt(static_cast<double>(hidden)), dtype), draw({width}, 0.3, dtype)},
          dtype);
    }
}
