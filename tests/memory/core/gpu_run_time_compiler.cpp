// What LibTorch compiles while the program runs, as some complex operations and, in bfloat16, cuDNN's attention, takes
// seconds in each process and has corrupted the process's heap (2.11). So no memory uses it.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "memory/core/sequence_model.h"
#include "nn/device/autocast.h"
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
  std::vector<Variant> variants = small_variants();
  // Heads as wide as cuDNN's attention takes them.
  variants.push_back({"stack", {{"width", "64"}, {"stack", "shifted_sparse:group=6,expansion_span:chunk=4:block=4"}}});
  for (const Variant& variant : variants)
    for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16}) {
      CAPTURE(variant.label());
      CAPTURE(dtype);
      auto model = make_model(variant, 51, torch::kFloat32);
      model->to(torch::kCUDA);
      const Tensor input_BTD = torch::randn({3, 50, model->width()}, torch::kCUDA).requires_grad_();
      const auto made = [&] {
        const ComputeIn products(torch::kCUDA, dtype);
        return model->forward(input_BTD, lengths({50, 0, 7}).to(torch::kCUDA));
      }();
      made.output_BTD[0].square().sum().backward();
      MemoryState state = made.final_state.detach().clone();
      {
        const torch::NoGradGuard no_grad;
        const ComputeIn products(torch::kCUDA, dtype);
        model->step(input_BTD.detach().select(1, 0), state);
      }
      CHECK_FALSE(loaded_compiler());
    }
}
