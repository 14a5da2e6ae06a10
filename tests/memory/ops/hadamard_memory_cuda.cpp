// Stable Hadamard Memory on a GPU against a loop in double precision on the CPU.
#include "memory/ops/hadamard_memory_cuda.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "memory/core/sequence_model.h"
#include "tests/gpu.h"
#include "tests/memory/support.h"

using namespace engram;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

struct Inputs {
  HadamardMemoryVectors vectors;
  Tensor first_BHH;
  std::vector<Tensor> all() const {
    return {vectors.theta_BTH, vectors.c_BTH, vectors.value_BTH, vectors.key_BTH, vectors.query_BTH, first_BHH};
  }
  Inputs mapped(const auto& function) const {
    return {{function(vectors.theta_BTH), function(vectors.c_BTH), function(vectors.value_BTH),
             function(vectors.key_BTH), function(vectors.query_BTH)},
            function(first_BHH)};
  }
};

Inputs draw(std::int64_t batch, std::int64_t steps, std::int64_t width) {
  const auto vectors = [&](double scale) { return scale * torch::randn({batch, steps, width}); };
  return {{vectors(0.7), vectors(0.7), vectors(1), vectors(1), vectors(1)}, torch::randn({batch, width, width})};
}

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

HadamardMemoryResult loop(const Inputs& x, const Tensor& lengths_B, double limit) {
  std::vector<Tensor> h;
  Tensor m_BHH = x.first_BHH;
  for (std::int64_t t = 0; t < x.vectors.query_BTH.size(1); ++t) {
    const auto outer = [&](const Tensor& rows, const Tensor& columns) {
      return rows.select(1, t).unsqueeze(2) * columns.select(1, t).unsqueeze(1);
    };
    const Tensor is_read_B11 = (t < lengths_B).unsqueeze(1).unsqueeze(2);
    const Tensor next = m_BHH * (1 + torch::tanh(outer(x.vectors.theta_BTH, x.vectors.c_BTH))) +
                        outer(x.vectors.value_BTH, x.vectors.key_BTH);
    m_BHH = torch::where(is_read_B11, next.clamp(-limit, limit), m_BHH);
    h.push_back((is_read_B11 * m_BHH).matmul(x.vectors.query_BTH.select(1, t).unsqueeze(2)).squeeze(2));
  }
  return {torch::stack(h, 1), m_BHH};
}

Tensor in_double(const Tensor& x) { return x.detach().to(torch::kCPU, torch::kFloat64); }
double error_of(const Tensor& actual, const Tensor& expected) {
  return ((in_double(actual) - in_double(expected)).norm() / (in_double(expected).norm() + 1e-30)).item<double>();
}
Inputs on_gpu(const Inputs& x) {
  return x.mapped([](const Tensor& tensor) { return tensor.to(torch::kCUDA); });
}
std::vector<Tensor> leaves(Inputs& x) {
  x = x.mapped([](const Tensor& tensor) { return tensor.detach().requires_grad_(); });
  return x.all();
}

std::string reason(const HadamardMemoryVectors& vectors, const Tensor& first_BHH) {
  const std::string text = cuda::supports_hadamard_memory(vectors, first_BHH).reason();
  const Tensor lengths_B = torch::zeros({vectors.query_BTH.size(0)}, torch::kInt64).to(vectors.query_BTH.device());
  if (!text.empty()) CHECK_THROWS_AS(cuda::hadamard_memory(vectors, first_BHH, lengths_B, kNoLimit), c10::Error);
  return text;
}

}  // namespace

TEST_CASE("Hadamard memory on a GPU and its gradients equal a loop in double precision") {
  if (skip_without_gpu()) return;
  torch::manual_seed(1);
  // Bounded ones are small: of many elements one would be so near to the limit that rounding decides.
  const std::vector<std::pair<std::vector<std::int64_t>, double>> cases = {
      {{3, 1, 48}, kNoLimit}, {{3, 40, 48}, kNoLimit}, {{3, 25, 5}, 1.5}, {{3, 40, 9}, 2}, {{3, 70, 100}, kNoLimit}};
  for (const auto& [sizes, limit] : cases)
    for (const bool reads_last : {false, true}) {
      CAPTURE(sizes);
      CAPTURE(reads_last);
      Inputs given = draw(sizes[0], sizes[1], sizes[2]), definition = given.mapped(in_double), computed = on_gpu(given);
      const Tensor lengths_B = lengths({sizes[1], 0, (sizes[1] + 1) / 2});
      const Tensor h_weight = torch::randn({sizes[0], sizes[1], sizes[2]}, torch::kFloat64);
      const Tensor last_weight = torch::randn({sizes[0], sizes[2], sizes[2]}, torch::kFloat64);
      const auto loss = [&](const HadamardMemoryResult& result) {
        const Tensor of_h = (result.h_BTH * h_weight.to(result.h_BTH)).sum();
        return reads_last ? of_h + (result.last_BHH * last_weight.to(result.last_BHH)).sum() : of_h;
      };
      const std::vector<Tensor> expected_leaves = leaves(definition), leaves_on_gpu = leaves(computed);
      const HadamardMemoryResult expected = loop(definition, lengths_B, limit);
      const HadamardMemoryResult actual =
          cuda::hadamard_memory(computed.vectors, computed.first_BHH, lengths_B.to(torch::kCUDA), limit);
      CHECK(error_of(actual.h_BTH, expected.h_BTH) < 1e-5);
      CHECK(error_of(actual.last_BHH, expected.last_BHH) < 1e-5);
      const std::vector<Tensor> wanted = torch::autograd::grad({loss(expected)}, expected_leaves);
      const std::vector<Tensor> gradients = torch::autograd::grad({loss(actual)}, leaves_on_gpu);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        CAPTURE(i);
        CHECK(error_of(gradients[i], wanted[i]) < 1e-4);
      }
      const torch::NoGradGuard no_grad;  // without checkpoints
      const HadamardMemoryResult again =
          cuda::hadamard_memory(computed.vectors, computed.first_BHH, lengths_B.to(torch::kCUDA), limit);
      CHECK(again.h_BTH.equal(actual.h_BTH));
      CHECK(again.last_BHH.equal(actual.last_BHH));
    }
}

TEST_CASE("shm on a GPU in float32 takes its memory's kernels, fresh and carried, and is the definition") {
  if (skip_without_gpu()) return;
  torch::manual_seed(2);
  // A limit that the memory of 60 steps reaches.
  const Variant variant{
      "shm",
      {{"width", "37"}, {"memory_width", "48"}, {"calibrations", "5"}, {"rows", "by_step"}, {"state_limit", "3"}}};
  const auto reference = make_model(variant, 60, torch::kFloat64), model = make_model(variant, 60, torch::kFloat32);
  enlarge_weights(*reference);
  {
    const torch::NoGradGuard no_grad;
    const auto from = reference->parameters(), to = model->parameters();
    for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }
  model->to(torch::kCUDA);
  const Tensor input_BTD = torch::randn({3, 60, 37}, torch::kFloat64), lengths_B = lengths({60, 0, 29});
  const auto results = [&](SequenceModel& of, torch::Device device, torch::ScalarType dtype) {
    const Tensor input = input_BTD.to(device, dtype).detach().requires_grad_();
    const Tensor row_lengths = lengths_B.to(device);
    const Tensor valid = (torch::arange(60, row_lengths.options()) < row_lengths.unsqueeze(1)).unsqueeze(2);
    const auto fresh = of.forward(input, row_lengths);
    const auto carried = of.forward(input.narrow(1, 0, 20), fresh.final_state, lengths({20, 20, 20}).to(device));
    ((fresh.output_BTD * valid).square().sum() + carried.output_BTD.square().sum()).backward();
    std::vector<Tensor> all = {fresh.output_BTD * valid, carried.output_BTD, carried.final_state.tensors[1],
                               input.grad()};
    for (const Tensor& parameter : of.parameters()) all.push_back(parameter.grad());
    return all;
  };
  const std::vector<Tensor> expected = results(*reference, torch::kCPU, torch::kFloat64);
  const std::vector<Tensor> actual = results(*model, torch::kCUDA, torch::kFloat32);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(error_of(actual[i], expected[i]) < 1e-3);
  }
}

TEST_CASE("Hadamard memory on a GPU says what it does not take") {
  if (skip_without_gpu()) return;
  const auto vectors = [](torch::IntArrayRef sizes, torch::ScalarType type) {
    const Tensor x = torch::zeros(sizes, torch::TensorOptions(torch::kCUDA).dtype(type));
    return HadamardMemoryVectors{x, x, x, x, x};
  };
  const HadamardMemoryVectors taken = vectors({2, 5, 4}, torch::kFloat32);
  const Tensor first = torch::zeros({2, 4, 4}, torch::kCUDA);
  CHECK(reason(taken, first) == "");
  CHECK(reason(taken, first.cpu()) == "the tensors are not on one GPU");
  CHECK(reason(taken, first.to(torch::kFloat64)) == "the tensors are not all float32");
  CHECK(reason(vectors({2, 5, 4}, torch::kFloat64), first.to(torch::kFloat64)) == "the tensors are not all float32");
  CHECK(reason(taken, first.narrow(1, 0, 3)) ==
        "vectors like [2, 5, 4] and a first M [2, 3, 4] are not all [B, T, H] and [B, H, H]");
  CHECK(reason(vectors({2, 0, 4}, torch::kFloat32), first) == "vectors [2, 0, 4] are empty");
  CHECK(reason(vectors({1, 1, 129}, torch::kFloat32), torch::zeros({1, 129, 129}, torch::kCUDA)) ==
        "a matrix of 129 rows, more than 128");
}

TEST_CASE("Hadamard memory on a GPU refuses a second derivative") {
  if (skip_without_gpu()) return;
  Inputs x = on_gpu(draw(1, 3, 4));
  const std::vector<Tensor> inputs = leaves(x);
  const Tensor h_BTH = cuda::hadamard_memory(x.vectors, x.first_BHH, lengths({3}).to(torch::kCUDA), kNoLimit).h_BTH;
  CHECK_THROWS_AS(torch::autograd::grad({h_BTH.sum()}, inputs, {}, /*retain_graph=*/true, /*create_graph=*/true),
                  c10::Error);
}
