#include "memory/ops/hadamard_memory_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"
#include "memory/core/refusal.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// theta, c, v, k and q, the first M, and the lengths.
using Inputs = std::array<Tensor, 7>;

HadamardMemory problem_of(const Inputs& x, double limit) {
  const Tensor &theta_BTH = x[0], &length_B = x[6];
  return {.batch = static_cast<int>(theta_BTH.size(0)),
          .time = static_cast<int>(theta_BTH.size(1)),
          .width = static_cast<int>(theta_BTH.size(2)),
          .theta_BTH = theta_BTH.const_data_ptr<float>(),
          .c_BTH = x[1].const_data_ptr<float>(),
          .value_BTH = x[2].const_data_ptr<float>(),
          .key_BTH = x[3].const_data_ptr<float>(),
          .query_BTH = x[4].const_data_ptr<float>(),
          .first_BHH = x[5].const_data_ptr<float>(),
          .length_B = length_B.const_data_ptr<std::int64_t>(),
          .limit = static_cast<float>(limit)};
}

Inputs contiguous(Inputs x) {
  for (Tensor& tensor : x) tensor = tensor.contiguous();
  return x;
}

// checkpoints: undefined where no backward pass follows.
HadamardMemoryResult run_forward(const Inputs& x, double limit, const Tensor& checkpoints) {
  HadamardMemoryResult result{torch::empty_like(x[4]), torch::empty_like(x[5])};
  hadamard_memory_forward(problem_of(x, limit), result.h_BTH.data_ptr<float>(), result.last_BHH.data_ptr<float>(),
                          checkpoints.defined() ? checkpoints.data_ptr() : nullptr, current_stream());
  return result;
}

class HadamardMemoryFunction : public torch::autograd::Function<HadamardMemoryFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& theta_BTH, const Tensor& c_BTH,
                               const Tensor& value_BTH, const Tensor& key_BTH, const Tensor& query_BTH,
                               const Tensor& first_BHH, const Tensor& length_B, double limit) {
    const c10::cuda::CUDAGuard guard(query_BTH.device());
    const Inputs x = contiguous({theta_BTH, c_BTH, value_BTH, key_BTH, query_BTH, first_BHH, length_B});
    const Tensor checkpoints = scratch_bytes(hadamard_memory_checkpoint_bytes(problem_of(x, limit)), query_BTH);
    const HadamardMemoryResult result = run_forward(x, limit, checkpoints);
    variable_list kept(x.begin(), x.end());
    kept.push_back(checkpoints);
    context->save_for_backward(kept);
    context->saved_data["limit"] = limit;
    context->set_materialize_grads(false);
    return {result.h_BTH, result.last_BHH};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "Hadamard memory on a GPU has no second derivative");
    const variable_list saved = context->get_saved_variables();
    Inputs x;
    std::copy_n(saved.begin(), x.size(), x.begin());
    const Tensor &query_BTH = x[4], &first_BHH = x[5], &checkpoints = saved[7];
    const c10::cuda::CUDAGuard guard(query_BTH.device());
    const Tensor d_h_BTH = gradients[0].defined() ? gradients[0].contiguous() : torch::zeros_like(query_BTH);
    const Tensor d_last_BHH = gradients[1].defined() ? gradients[1].contiguous() : Tensor();
    variable_list d_x(5);
    for (Tensor& d_BTH : d_x) d_BTH = torch::empty_like(query_BTH);
    d_x.push_back(torch::empty_like(first_BHH));
    const auto written = [&](int i) { return d_x[static_cast<std::size_t>(i)].data_ptr<float>(); };
    const HadamardMemory problem = problem_of(x, context->saved_data["limit"].toDouble());
    const Tensor scratch = scratch_bytes(hadamard_memory_scratch_bytes(problem), query_BTH);
    hadamard_memory_backward(problem,
                             {checkpoints.const_data_ptr(), d_h_BTH.const_data_ptr<float>(),
                              d_last_BHH.defined() ? d_last_BHH.const_data_ptr<float>() : nullptr},
                             {written(0), written(1), written(2), written(3), written(4), written(5)},
                             static_cast<float*>(scratch.data_ptr()), current_stream());
    d_x.resize(8);  // none of lengths and limit
    return d_x;
  }
};

}  // namespace

Support supports_hadamard_memory(const HadamardMemoryVectors& vectors, const Tensor& first_BHH) {
  const Tensor& query_BTH = vectors.query_BTH;
  const std::array others = {&vectors.theta_BTH, &vectors.c_BTH, &vectors.value_BTH, &vectors.key_BTH};
  const auto each = [&](const auto& holds) {
    return holds(first_BHH) && std::ranges::all_of(others, [&](const Tensor* x) { return holds(*x); });
  };
  if (!query_BTH.is_cuda() || !each([&](const Tensor& x) { return x.device() == query_BTH.device(); }))
    return refusal("the tensors are not on one GPU");
  if (query_BTH.scalar_type() != torch::kFloat32 ||
      !each([](const Tensor& x) { return x.scalar_type() == torch::kFloat32; }))
    return refusal("the tensors are not all float32");
  if (query_BTH.dim() != 3 || std::ranges::any_of(others, [&](auto* x) { return x->sizes() != query_BTH.sizes(); }) ||
      first_BHH.sizes() != torch::IntArrayRef({query_BTH.size(0), query_BTH.size(2), query_BTH.size(2)}))
    return refusal("vectors like ", query_BTH.sizes(), " and a first M ", first_BHH.sizes(),
                   " are not all [B, T, H] and [B, H, H]");
  if (query_BTH.numel() == 0) return refusal("vectors ", query_BTH.sizes(), " are empty");
  if (query_BTH.size(2) > kMaxHadamardMemoryWidth)
    return refusal("a matrix of ", query_BTH.size(2), " rows, more than ", kMaxHadamardMemoryWidth);
  if (query_BTH.numel() > std::numeric_limits<int>::max() / 2)
    return refusal("vectors ", query_BTH.sizes(), " are too long");
  return {};
}

HadamardMemoryResult hadamard_memory(const HadamardMemoryVectors& vectors, const Tensor& first_BHH,
                                     const Tensor& lengths_B, double limit) {
  const Support support = supports_hadamard_memory(vectors, first_BHH);
  TORCH_CHECK(support, "Hadamard memory: ", support.reason());
  const Inputs x = {vectors.theta_BTH, vectors.c_BTH, vectors.value_BTH, vectors.key_BTH,
                    vectors.query_BTH, first_BHH,     lengths_B};
  if (torch::GradMode::is_enabled() && std::ranges::any_of(x, [](const Tensor& t) { return t.requires_grad(); })) {
    const variable_list outputs = HadamardMemoryFunction::apply(x[0], x[1], x[2], x[3], x[4], x[5], x[6], limit);
    return {outputs[0], outputs[1]};
  }
  const c10::cuda::CUDAGuard guard(vectors.query_BTH.device());
  return run_forward(contiguous(x), limit, /*checkpoints=*/Tensor());
}

}  // namespace engram::cuda
