#include "agents/learn/optimizer/fused_lists.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/learner/adam/adam.h"
#include "kernels/learner/tensor_list/tensor_list.h"
#include "nn/device/cuda_support.h"

namespace engram {

using torch::Tensor;

Support supports_fused_lists(const Tensor& like) {
  if (!like.is_cuda()) return Support::no("the parameters are on the " + like.device().str());
  if (like.scalar_type() != torch::kFloat32)
    return Support::no(std::string("the parameters are ") + c10::toString(like.scalar_type()) + ", not Float");
  return {};
}

Tensor fused_list_norms(const std::vector<Tensor>& tensors) {
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

WatchedUpdate fused_watch_update(const Tensor& loss, const Tensor& norms, const Tensor& watch) {
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

void fused_move_towards(const std::vector<Tensor>& x, const std::vector<Tensor>& target, double rate) {
  std::vector<TensorPair> pairs;
  for (std::size_t i = 0; i < x.size(); ++i) {
    TORCH_CHECK(x[i].is_contiguous() && target.at(i).is_contiguous(), "a parameter that is not contiguous");
    pairs.push_back({x[i].data_ptr<float>(), target[i].data_ptr<float>(), x[i].numel()});
  }
  move_towards(pairs, static_cast<float>(rate), current_stream());
}

void fused_adam_step(const AdamLists& lists, const Tensor& learning_rate, double weight_decay, const Tensor& step,
                     const Tensor& skip) {
  std::vector<AdamTensor> tensors;
  std::vector<Tensor> contiguous;
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    TORCH_CHECK(lists.parameters[i].is_contiguous(), "a parameter that is not contiguous");
    contiguous.push_back(lists.gradients[i].contiguous());
    tensors.push_back({.parameter = lists.parameters[i].data_ptr<float>(),
                       .gradient = contiguous[i].data_ptr<float>(),
                       .mean = lists.means[i].data_ptr<float>(),
                       .mean_square = lists.mean_squares[i].data_ptr<float>(),
                       .size = lists.parameters[i].numel()});
  }
  adam_step(tensors, learning_rate.data_ptr<float>(), static_cast<float>(weight_decay), step.data_ptr<float>(),
            skip.defined() ? skip.data_ptr<float>() : nullptr, current_stream());
}

}  // namespace engram
