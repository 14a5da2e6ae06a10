// minGRU's gates on a GPU against LibTorch's operations in double precision on the CPU.
#include "memory/ops/recurrences/min_gru_gates_cuda.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu.h"
#include "tests/memory/support.h"

using namespace engram;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

Tensor in_double(const Tensor& x) { return x.detach().to(torch::kCPU, torch::kFloat64); }

// Of gates and candidates that are parts of one matrix, or tensors of their own: both results, and the gradients of a
// loss of both by gates, candidates and the bias.
std::vector<Tensor> computed(torch::Device device, torch::ScalarType type, bool beside) {
  torch::manual_seed(2);
  constexpr std::int64_t kWidth = 24;
  const torch::ScalarType wide = device.is_cuda() ? torch::kFloat32 : torch::kFloat64;
  // Rounded to bfloat16 in all of them, so that all begin from the same numbers.
  const auto drawn = [&](torch::IntArrayRef sizes, torch::ScalarType of) {
    return torch::randn(sizes).to(torch::kBFloat16).to(torch::kFloat64).to(device, of);
  };
  const Tensor both = drawn({3, 70, 2 * kWidth}, type).requires_grad_(),
               bias_D = drawn({kWidth}, wide).requires_grad_(), of_keep = drawn({3, 70, kWidth}, wide),
               of_write = drawn({3, 70, kWidth}, wide);
  const auto part = [&](std::int64_t first) {
    const Tensor own = both.narrow(2, first, kWidth);
    return beside ? own : own.contiguous();
  };
  const MinGruUpdate update = min_gru_gates(part(0), part(kWidth), bias_D);
  std::vector<Tensor> all =
      torch::autograd::grad({(update.keep * of_keep).sum() + (update.write * of_write).sum()}, {both, bias_D});
  all.push_back(update.keep), all.push_back(update.write);
  return all;
}

}  // namespace

TEST_CASE("minGRU's gates on a GPU and their gradients are those in double precision") {
  if (skip_without_gpu()) return;
  for (const bool beside : {false, true})
    for (const torch::ScalarType type : {torch::kFloat32, torch::kBFloat16}) {
      CAPTURE(beside);
      CAPTURE(type);
      const std::vector<Tensor> expected = computed(torch::kCPU, torch::kFloat64, beside),
                                actual = computed(torch::kCUDA, type, beside);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        const bool rounds = type == torch::kBFloat16 && i == 0;  // their gradients have their type
        CHECK(relative_error(in_double(actual[i]), expected[i]) < (rounds ? std::ldexp(1, -8) : 1e-5));
      }
    }
}

TEST_CASE("minGRU's gates on a GPU say what they do not take") {
  if (skip_without_gpu()) return;
  const Tensor gate = torch::zeros({2, 5, 4}, torch::kCUDA), bias_D = torch::zeros({4}, torch::kCUDA);
  const auto reason = [](const Tensor& g, const Tensor& c, const Tensor& bias) {
    const std::string text = cuda::supports_min_gru_gates(g, c, bias).reason();
    if (!text.empty()) CHECK_THROWS_AS(cuda::min_gru_gates(g, c, bias), c10::Error);
    return text;
  };
  CHECK(reason(gate, gate, bias_D) == "");
  CHECK(reason(gate.cpu(), gate, bias_D) == "the gate is not in float32 or bfloat16 on a GPU");
  CHECK(reason(gate, gate.to(torch::kBFloat16), bias_D) == "the candidate is not in the gate's type on its GPU");
  CHECK(reason(gate, gate, bias_D.to(torch::kFloat64)) == "the bias is not in float32 on the gate's GPU");
  CHECK(reason(gate, gate, torch::zeros({3}, torch::kCUDA)) ==
        "gate [2, 5, 4], candidate [2, 5, 4] and bias [3] are not [..., D], [..., D] and [D], or they are empty");
}
