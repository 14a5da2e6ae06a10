// What LibTorch's operations are left on a GPU: maps as one product and norms by kernels, against the CPU in double
// precision.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "nn/device/product_check.h"
#include "nn/fused/norm.h"
#include "nn/layers/layers.h"
#include "tests/gpu.h"
#include "tests/nn/linear_maps.h"

using namespace engram;
using namespace engram::testing;
using torch::Tensor;

namespace {

std::vector<torch::nn::Linear> copies(const std::vector<torch::nn::Linear>& maps, torch::Device device,
                                      torch::ScalarType dtype) {
  std::vector<torch::nn::Linear> all;
  for (const torch::nn::Linear& map : maps) {
    all.emplace_back(std::dynamic_pointer_cast<torch::nn::LinearImpl>(map->clone()));
    all.back()->to(device, dtype);
  }
  return all;
}

// y, and the gradients of what is wanted of a loss of it.
std::vector<Tensor> learn(const Tensor& y, const std::vector<Tensor>& wanted) {
  std::vector<Tensor> all{y};
  for (const Tensor& gradient : torch::autograd::grad({y.to(torch::kFloat64).sin().sum()}, wanted))
    all.push_back(gradient);
  return all;
}

}  // namespace

// bfloat16 rounds at 4e-3; the sine's slope changes with the outputs' rounding.
TEST_CASE("on a GPU in bfloat16 the maps of an input are one product, with float32 gradients, in a graph as well") {
  if (skip_without_gpu()) return;
  torch::manual_seed(3);
  for (const std::int64_t inputs : {37, 64, 100})
    for (const auto& [rows, biases] :
         std::vector<std::pair<std::int64_t, bool>>{{1, false}, {70, true}, {3776, false}, {3776, true}}) {
      CAPTURE(inputs);
      CAPTURE(biases);
      CAPTURE(rows);
      const std::vector<torch::nn::Linear> own = make_maps(inputs, biases);
      const std::vector<torch::nn::Linear> exact = copies(own, torch::kCPU, torch::kFloat64),
                                           maps = copies(own, torch::kCUDA, torch::kFloat32);
      const Tensor x = draw({rows, 2, inputs}, torch::kCPU, torch::kFloat64);
      const Tensor on_gpu = x.detach().to(torch::kCUDA, torch::kFloat32).requires_grad_();
      std::vector<Tensor> each;
      for (torch::nn::Linear map : exact) each.push_back(map->forward(x));
      const auto learn = [&] {
        std::vector<Tensor> outputs;
        {
          const ComputeIn products(torch::kCUDA, torch::kBFloat16);
          outputs = apply_linears(maps, on_gpu);
        }
        for (const Tensor& output : outputs) CHECK((output.scalar_type() == torch::kBFloat16));
        return learnt(outputs, on_gpu, maps);
      };
      const std::vector<Tensor> expected = learnt(each, x, exact);
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
      const std::vector<Tensor> first = learn(), again = learn();
      check(first, expected, 0.02);
      for (std::size_t i = 0; i < first.size(); ++i) CHECK(torch::equal(first[i], again[i]));
      for (std::size_t i = kOutputs.size() - 1; i < first.size(); ++i)
        CHECK((first[i].scalar_type() == torch::kFloat32));
      at::cuda::CUDAGraph graph;
      graph.capture_begin();
      const std::vector<Tensor> captured = learn();
      graph.capture_end();
      graph.replay();
      c10::cuda::getCurrentCUDAStream().synchronize();
      check(captured, expected, 0.02);
    }
}

TEST_CASE("on a GPU norms of rows by a kernel have LibTorch's values and gradients, in the input's type") {
  if (skip_without_gpu()) return;
  torch::manual_seed(4);
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16})
    for (const std::int64_t width : {8, 32, 64, 1000})
      for (const bool centred : {false, true}) {
        CAPTURE(width);
        CAPTURE(centred);
        CAPTURE(torch::toString(dtype));
        const Tensor x = draw({70, 3, width}, torch::kCPU, torch::kFloat64),
                     weight = draw({width}, torch::kCPU, torch::kFloat64),
                     bias = draw({width}, torch::kCPU, torch::kFloat64);
        // Rows that do not stand one behind the other.
        const auto rows_of = [](const Tensor& all) { return all.transpose(0, 1); };
        const auto leaf = [](const Tensor& all, torch::ScalarType type) {
          return all.detach().to(torch::kCUDA, type).requires_grad_();
        };
        const Tensor own_x = leaf(x, dtype), own_weight = leaf(weight, torch::kFloat32),
                     own_bias = leaf(bias, torch::kFloat32);
        const cuda::Norm norm = centred ? cuda::Norm(own_weight, own_bias) : cuda::Norm(own_weight);
        REQUIRE(cuda::takes_norm(own_x, norm));
        const Tensor y = cuda::normed(rows_of(own_x), norm);
        CHECK((y.scalar_type() == dtype));
        const std::vector<Tensor> expected =
            centred ? learn(torch::layer_norm(rows_of(x), {width}, weight, bias, kLayerNormEpsilon), {x, weight, bias})
                    : learn(torch::rms_norm(rows_of(x), {width}, weight, kRmsNormEpsilon), {x, weight});
        check(learn(y, centred ? std::vector<Tensor>{own_x, own_weight, own_bias}
                               : std::vector<Tensor>{own_x, own_weight}),
              expected, dtype == torch::kFloat32 ? 1e-5 : 0.02);
      }
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16}) {
    const Tensor x = draw({70, 3, 32}, torch::kCPU, torch::kFloat64);
    const Tensor own_x = x.detach().to(torch::kCUDA, dtype).requires_grad_();
    const auto check_norm = [&](const Tensor& y, const Tensor& expected) {
      const double bound = dtype == torch::kFloat32 ? 1e-5 : 0.02;
      check(learn(y, {own_x}), learn(expected, {x}), bound);
    };
    check_norm(cuda::l2_normed(own_x, 0.5), x / (x.square().sum(-1, true) + 0.5).sqrt());
    check_norm(cuda::layer_normed(own_x), torch::layer_norm(x, {32}, {}, {}, kLayerNormEpsilon));
  }
  {
    const PlainOperations plain(true);
    CHECK_FALSE(cuda::takes_norm(torch::ones({4, 8}, torch::kCUDA), torch::ones({8}, torch::kCUDA)));
    torch::nn::Linear map(8, 8);
    map->to(torch::kCUDA);
    const ComputeIn products(torch::kCUDA, torch::kBFloat16);
    const std::string made_by = apply_linear(map, torch::ones({4, 8}, torch::kCUDA)).grad_fn()->name();
    CHECK(made_by.find("MapsFunction") == std::string::npos);
  }
  CHECK_FALSE(cuda::takes_norm(torch::ones({4, 12}, torch::kCUDA), torch::ones({12}, torch::kCUDA)));
  CHECK_FALSE(cuda::takes_norm(torch::ones({4, 1032}, torch::kCUDA), torch::ones({1032}, torch::kCUDA)));
  CHECK_FALSE(cuda::takes_norm(torch::ones({4, 8}), torch::ones({8})));
}

TEST_CASE("on a GPU a scaled sum by a kernel has the formula's value and gradients, in the input's type") {
  if (skip_without_gpu()) return;
  torch::manual_seed(5);
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16}) {
    std::vector<Tensor> exact{draw({70, 3, 40}, torch::kCPU, torch::kFloat64), draw({40}, torch::kCPU, torch::kFloat64),
                              draw({70, 3, 40}, torch::kCPU, torch::kFloat64)},
        own;
    for (std::size_t i = 0; i < exact.size(); ++i)
      own.push_back(exact[i].detach().to(torch::kCUDA, i == 1 ? torch::kFloat32 : dtype).requires_grad_());
    const Tensor y = add_scaled(own[0], own[1], own[2]);
    CHECK((y.scalar_type() == dtype));
    check(learn(y, own), learn(exact[0] + exact[1] * exact[2], exact), dtype == torch::kFloat32 ? 1e-5 : 0.02);
  }
}

TEST_CASE("on a GPU the library's products are right, with the share of it that this program has") {
  if (skip_without_gpu()) return;
  CHECK(!find_wrong_product(torch::kCUDA));
}
