// Attention on a GPU: what it computes, and that its gradients are the same bits each time.
#include "memory/ops/reproducible_attention.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "nn/device/autocast.h"
#include "tests/gpu.h"
#include "tests/rms_error.h"

using namespace engram;
using engram::testing::rms_error;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

struct Shape {
  std::int64_t sequences, queries, keys, channels, value_channels;
};

enum class Mask { kCausal, kBias, kBool };

struct Case {
  Tensor query, key, value, mask, d_output;
  bool causal;
};

// Every query sees a key.
Case draw(const Shape& shape, Mask mask) {
  constexpr std::int64_t kHeads = 4;
  const auto rows = [&](std::int64_t steps, std::int64_t channels) {
    return torch::randn({shape.sequences, kHeads, steps, channels}, torch::kFloat64);
  };
  Case made{rows(shape.queries, shape.channels),       rows(shape.keys, shape.channels),
            rows(shape.keys, shape.value_channels),    {},
            rows(shape.queries, shape.value_channels), mask == Mask::kCausal};
  if (mask == Mask::kBias) made.mask = torch::randn({kHeads, shape.queries, shape.keys}, torch::kFloat64);
  if (mask == Mask::kBool) {
    made.mask = torch::rand({shape.sequences, 1, shape.queries, shape.keys}) < 0.3;
    made.mask.select(3, 0).fill_(true);
  }
  return made;
}

// Output and the gradients of query, key and value.
std::vector<Tensor> results(const Case& c, torch::Device device, torch::ScalarType dtype) {
  std::vector<Tensor> inputs;
  // Parameters stay float32, as in learning.
  const torch::ScalarType own = dtype == torch::kBFloat16 ? torch::kFloat32 : dtype;
  for (const Tensor& x : {c.query, c.key, c.value})
    inputs.push_back(x.transpose(1, 2).contiguous().to(device, own).transpose(1, 2).detach().requires_grad_());
  Tensor mask = c.mask;
  if (mask.defined()) mask = mask.scalar_type() == torch::kBool ? mask.to(device) : mask.to(device, own);
  const Tensor output = [&] {
    const ComputeIn products(device, dtype);
    return device.is_cuda() ? cuda::reproducible_attention(inputs[0], inputs[1], inputs[2], mask, c.causal)
                            : std::get<0>(at::_scaled_dot_product_attention_math(
                                  inputs[0], inputs[1], inputs[2],
                                  mask.defined() ? std::optional<Tensor>(mask) : std::nullopt, 0, c.causal));
  }();
  output.backward(c.d_output.to(device, output.scalar_type()));
  std::vector<Tensor> all{output.detach()};
  for (const Tensor& x : inputs) all.push_back(x.grad());
  return all;
}

}  // namespace

TEST_CASE("attention on a GPU is softmax attention, with the same gradients each time") {
  if (skip_without_gpu()) return;
  // Such of which LibTorch by itself splits the keys, channels that no kernel takes, and one query.
  const std::vector<Shape> shapes = {
      {32, 67, 67, 16, 16}, {32, 267, 267, 16, 16}, {4, 1000, 1000, 64, 64}, {3, 50, 77, 12, 20}, {200, 1, 52, 16, 16}};
  for (const Shape& shape : shapes)
    for (const Mask mask : {Mask::kCausal, Mask::kBias, Mask::kBool}) {
      if (mask == Mask::kCausal && shape.queries != shape.keys) continue;
      torch::manual_seed(3);
      const Case c = draw(shape, mask);
      const std::vector<Tensor> expected = results(c, torch::kCPU, torch::kFloat64);
      for (const auto& [dtype, tolerance] :
           {std::pair{torch::kFloat64, 1e-12}, {torch::kFloat32, 2e-3}, {torch::kBFloat16, 2e-2}}) {
        CAPTURE(shape.queries);
        CAPTURE(static_cast<int>(mask));
        CAPTURE(dtype);
        const std::vector<Tensor> first = results(c, torch::kCUDA, dtype);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CAPTURE(i);
          CHECK(rms_error(first[i], expected[i]) < tolerance);
        }
        for (int again = 0; again < 10; ++again) {
          const std::vector<Tensor> other = results(c, torch::kCUDA, dtype);
          for (std::size_t i = 0; i < first.size(); ++i) CHECK(torch::equal(first[i], other[i]));
        }
      }
    }
}

TEST_CASE("attention on a GPU takes more sequences than a grid has blocks") {
  if (skip_without_gpu()) return;
  torch::manual_seed(4);
  const Case c = draw({65600, 4, 4, 8, 8}, Mask::kCausal);
  const std::vector<Tensor> expected = results(c, torch::kCPU, torch::kFloat64),
                            actual = results(c, torch::kCUDA, torch::kFloat32);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(rms_error(actual[i], expected[i]) < 2e-3);
}
