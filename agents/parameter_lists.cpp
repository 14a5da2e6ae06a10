#include "agents/parameter_lists.h"

#ifdef ENGRAM_WITH_CUDA
#include "kernels/tensor_list/tensor_list.h"
#include "nn/cuda_support.h"
#endif

namespace engram {

using torch::Tensor;

Tensor list_norms(const std::vector<Tensor>& tensors) {
#ifdef ENGRAM_WITH_CUDA
  if (tensors.at(0).is_cuda() && tensors[0].scalar_type() == torch::kFloat32) {
    std::vector<Tensor> contiguous;
    std::vector<TensorView> views;
    for (const Tensor& tensor : tensors) {
      contiguous.push_back(tensor.contiguous());
      views.push_back({contiguous.back().data_ptr<float>(), tensor.numel()});
    }
    const Tensor norms =
        torch::empty({static_cast<std::int64_t>(tensors.size())}, tensors[0].options().requires_grad(false));
    const Tensor scratch = scratch_bytes(tensor_norms_scratch_bytes(views), tensors[0]);
    tensor_norms(views, norms.data_ptr<float>(), scratch.data_ptr(), current_stream());
    return norms;
  }
#endif
  return torch::stack(torch::_foreach_norm(tensors));
}

WatchedUpdate watch_update(const Tensor& loss, const Tensor& norms, const Tensor& watch) {
  const torch::NoGradGuard no_grad;
#ifdef ENGRAM_WITH_CUDA
  if (norms.is_cuda() && norms.scalar_type() == torch::kFloat32) {
    const WatchedUpdate out{torch::empty({}, norms.options()), torch::empty({}, norms.options())};
    const Tensor value = loss.detach().to(torch::kFloat32).contiguous();
    watch_update({.loss = value.data_ptr<float>(),
                  .norms = norms.data_ptr<float>(),
                  .count = static_cast<int>(norms.numel()),
                  .watch = watch.data_ptr<std::int64_t>(),
                  .bad = out.bad.data_ptr<float>(),
                  .norm = out.norm.data_ptr<float>()},
                 current_stream());
    return out;
  }
#endif
  const Tensor bad = torch::cat({loss.detach().reshape({1}).to(norms.dtype()), norms}).isfinite().logical_not();
  const Tensor any = bad.any(), first = any.logical_and(watch[1] == 0), updates = watch[0] + 1;
  watch.copy_(torch::stack({updates, watch[1] + any, torch::where(first, updates, watch[2]),
                            torch::where(first, bad.to(torch::kUInt8).argmax(), watch[3])}));
  return {any.to(torch::kFloat32), norms.norm()};
}

void move_towards(const std::vector<Tensor>& x, const std::vector<Tensor>& target, double rate) {
  const torch::NoGradGuard no_grad;
#ifdef ENGRAM_WITH_CUDA
  if (x.at(0).is_cuda() && x[0].scalar_type() == torch::kFloat32) {
    std::vector<TensorPair> pairs;
    for (std::size_t i = 0; i < x.size(); ++i) {
      TORCH_CHECK(x[i].is_contiguous() && target.at(i).is_contiguous(), "a parameter that is not contiguous");
      pairs.push_back({x[i].data_ptr<float>(), target[i].data_ptr<float>(), x[i].numel()});
    }
    move_towards(pairs, static_cast<float>(rate), current_stream());
    return;
  }
#endif
  torch::_foreach_lerp_(x, target, rate);
}

}  // namespace engram
