// Every backbone on a GPU against the CPU, in double precision.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "memory/core/sequence_model.h"
#include "tests/gpu.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

TEST_CASE("a GPU computes what the CPU computes") {
  if (testing::skip_without_gpu()) return;
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    torch::manual_seed(10);
    auto cpu_model = make_model(variant, 170, torch::kFloat64);
    enlarge_weights(*cpu_model);
    auto gpu_model = make_model(variant, 170, torch::kFloat64);
    {
      const torch::NoGradGuard no_grad;
      const auto from = cpu_model->parameters(), to = gpu_model->parameters();
      for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
    }
    gpu_model->to(torch::kCUDA);
    const Tensor lengths_B = lengths({150, 0, 70});
    const Tensor valid = (torch::arange(150) < lengths_B.unsqueeze(1)).unsqueeze(2);
    const Tensor input_BTD = torch::randn({3, 150, cpu_model->width()}, torch::kFloat64);
    // Outputs and final state of a fresh call, of a carried call and of a step, and all gradients.
    const auto results = [&](SequenceModel& model, torch::Device device) {
      const Tensor input = input_BTD.to(device).detach().requires_grad_();
      const auto fresh = model.forward(input, lengths_B.to(device));
      const auto carried = model.forward(input.narrow(1, 0, 10), fresh.final_state, lengths({10, 10, 0}).to(device));
      (fresh.output_BTD * valid.to(device)).square().sum().backward({}, true);
      carried.output_BTD[0].square().sum().backward();
      MemoryState state = carried.final_state.detach().clone();
      state.reset_rows(torch::tensor({false, true, false}).to(device));
      std::vector<Tensor> all = {fresh.output_BTD * valid.to(device), carried.output_BTD[0],
                                 model.step(input.select(1, 0).detach(), state), input.grad()};
      for (const Tensor& tensor : state.tensors) all.push_back(tensor.to(torch::kFloat64));
      for (const Tensor& parameter : model.parameters())
        if (parameter.requires_grad()) all.push_back(parameter.grad());
      return all;
    };
    const auto expected = results(*cpu_model, torch::kCPU), computed = results(*gpu_model, torch::kCUDA);
    // An absolute floor: the gradient of a key's bias is zero but for rounding.
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Tensor& reference = expected[i].detach();
      const double scale = std::max(reference.abs().max().item<double>(), 1e-4);
      CHECK((computed[i].detach().cpu() - reference).abs().max().item<double>() < 1e-9 * scale);
    }
  }
}
