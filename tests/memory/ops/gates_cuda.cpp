// The gates of minGRU and RG-LRU on a GPU against LibTorch's operations in double precision on the CPU.
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory/ops/recurrences/min_gru_gates_cuda.h"
#include "memory/ops/recurrences/rg_lru_gates_cuda.h"
#include "tests/gpu.h"
#include "tests/memory/support.h"

using namespace engram;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

constexpr std::int64_t kWidth = 24;

Tensor in_double(const Tensor& x) { return x.detach().to(torch::kCPU, torch::kFloat64); }

// Two maps of one input, as parts of one matrix or as tensors of their own; what else the gates read, and what a loss
// weighs their results with. Rounded to bfloat16 in all of them, so that all begin from the same numbers.
struct Drawn {
  Tensor both, of_channel_D, u, of_keep, of_write, is_first;
  bool beside;

  Drawn(torch::Device device, torch::ScalarType type, bool of_one_matrix) : beside(of_one_matrix) {
    torch::manual_seed(2);
    const torch::ScalarType wide = device.is_cuda() ? torch::kFloat32 : torch::kFloat64;
    const auto drawn = [&](torch::IntArrayRef sizes, torch::ScalarType of) {
      return torch::randn(sizes).to(torch::kBFloat16).to(torch::kFloat64).to(device, of);
    };
    both = drawn({3, 70, 2 * kWidth}, type).requires_grad_();
    of_channel_D = drawn({kWidth}, wide).requires_grad_(), u = drawn({3, 70, kWidth}, wide).requires_grad_();
    of_keep = drawn({3, 70, kWidth}, wide), of_write = drawn({3, 70, kWidth}, wide);
    is_first = (torch::arange(70) % 30 == 0).view({1, 70, 1}).expand({3, 70, 1}).to(device);
  }
  Tensor part(std::int64_t index) const {
    const Tensor own = both.narrow(2, index * kWidth, kWidth);
    return beside ? own : own.contiguous();
  }
  // The gradients of a loss of both results by `inputs`, then the results.
  std::vector<Tensor> learnt(const RecurrenceUpdate& update, const std::vector<Tensor>& inputs) const {
    std::vector<Tensor> all =
        torch::autograd::grad({(update.keep * of_keep).sum() + (update.write * of_write).sum()}, inputs);
    all.push_back(update.keep), all.push_back(update.write);
    return all;
  }
};

// learnt(what was drawn): the gradient of both maps first.
template <class Learnt>
void check(const Learnt& learnt) {
  for (const bool beside : {false, true})
    for (const torch::ScalarType type : {torch::kFloat32, torch::kBFloat16}) {
      CAPTURE(beside);
      CAPTURE(type);
      const std::vector<Tensor> expected = learnt(Drawn(torch::kCPU, torch::kFloat64, beside)),
                                actual = learnt(Drawn(torch::kCUDA, type, beside));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        const bool rounds = type == torch::kBFloat16 && i == 0;  // it has the maps' type
        CHECK(relative_error(in_double(actual[i]), expected[i]) < (rounds ? std::ldexp(1, -8) : 1e-5));
      }
    }
}

}  // namespace

TEST_CASE("minGRU's gates on a GPU and their gradients are those in double precision") {
  if (skip_without_gpu()) return;
  check([](const Drawn& of) {
    return of.learnt(min_gru_gates(of.part(0), of.part(1), of.of_channel_D), {of.both, of.of_channel_D});
  });
}

TEST_CASE("RG-LRU's gates on a GPU and their gradients are those in double precision") {
  if (skip_without_gpu()) return;
  for (const bool some_are_first : {false, true}) {
    CAPTURE(some_are_first);
    check([&](const Drawn& of) {
      return of.learnt(
          rg_lru_gates({of.part(0), of.part(1), of.u, of.of_channel_D, some_are_first ? of.is_first : Tensor()}),
          {of.both, of.u, of.of_channel_D});
    });
  }
}

TEST_CASE("gates on a GPU say what they do not take") {
  if (skip_without_gpu()) return;
  const Tensor gate = torch::zeros({2, 5, 4}, torch::kCUDA), bias_D = torch::zeros({4}, torch::kCUDA);
  const auto of_min_gru = [](const Tensor& g, const Tensor& c, const Tensor& bias) {
    const std::string text = cuda::supports_min_gru_gates(g, c, bias).reason();
    if (!text.empty()) CHECK_THROWS_AS(cuda::min_gru_gates(g, c, bias), c10::Error);
    return text;
  };
  CHECK(of_min_gru(gate, gate, bias_D) == "");
  CHECK(of_min_gru(gate.cpu(), gate, bias_D) == "the gate is not in float32 or bfloat16 on a GPU");
  CHECK(of_min_gru(gate, gate.to(torch::kBFloat16), bias_D) == "the candidate is not in the gate's type on its GPU");
  CHECK(of_min_gru(gate, gate, bias_D.to(torch::kFloat64)) == "the bias is not in float32 on the gate's GPU");
  CHECK(of_min_gru(gate, gate, torch::zeros({3}, torch::kCUDA)) ==
        "gate [2, 5, 4], candidate [2, 5, 4] and bias [3] are not [..., D], [..., D] and [D], or they are empty");

  const auto of_rg_lru = [](const RgLruInput& in) {
    const std::string text = cuda::supports_rg_lru_gates(in).reason();
    if (!text.empty()) CHECK_THROWS_AS(cuda::rg_lru_gates(in), c10::Error);
    return text;
  };
  CHECK(of_rg_lru({gate, gate, gate, bias_D, {}}) == "");
  CHECK(of_rg_lru({gate, gate, gate.to(torch::kBFloat16), bias_D, {}}) ==
        "u and the decay are not in float32 on one GPU");
  CHECK(of_rg_lru({gate, gate.to(torch::kBFloat16), gate, bias_D, {}}) ==
        "the logits are not of one type, float32 or bfloat16, on the GPU of u");
  CHECK(
      of_rg_lru({gate, gate, gate, torch::zeros({3}, torch::kCUDA), {}}) ==
      "logits [2, 5, 4] and [2, 5, 4], u [2, 5, 4] and decay [3] are not [..., D], thrice, and [D], or they are empty");
  CHECK(of_rg_lru({gate, gate, gate, bias_D, torch::zeros({2, 4, 1}, torch::kBool).cuda()}) ==
        "first rows [2, 4, 1] are not bool, [..., 1], on the GPU of u");
}
