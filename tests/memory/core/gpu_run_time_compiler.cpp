// What of LibTorch compiles kernels while the program runs, such as those of some complex operations, takes seconds in
// each process and has corrupted the process's heap (2.11). So no memory uses it.
#include <fstream>
#include <iterator>
#include <string>

#include "memory/core/sequence_model.h"
#include "tests/gpu.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

// LibTorch loads it before it first compiles.
bool loaded_compiler() {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find("libnvrtc") != std::string::npos;
}

}  // namespace

TEST_CASE("on a GPU no memory learns or acts by what is compiled at run time") {
  if (testing::skip_without_gpu()) return;
  REQUIRE_FALSE(loaded_compiler());
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    auto model = make_model(variant, 51, torch::kFloat32);
    model->to(torch::kCUDA);
    const Tensor input_BTD = torch::randn({3, 50, model->width()}, torch::kCUDA).requires_grad_();
    const auto made = model->forward(input_BTD, lengths({50, 0, 7}).to(torch::kCUDA));
    made.output_BTD[0].square().sum().backward();
    MemoryState state = made.final_state.detach().clone();
    model->step(input_BTD.detach().select(1, 0), state);
    CHECK_FALSE(loaded_compiler());
  }
}
