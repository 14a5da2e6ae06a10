#include "agents/learn/optimizer/parameter_lists.h"

#include "agents/learn/optimizer/fused_lists.h"

namespace engram {

using torch::Tensor;

Tensor list_norms(const std::vector<Tensor>& tensors) {
  if (supports_fused_lists(tensors.at(0))) return fused_list_norms(tensors);
  return torch::stack(torch::_foreach_norm(tensors));
}

WatchedUpdate watch_update(const Tensor& loss, const Tensor& norms, const Tensor& watch) {
  const torch::NoGradGuard no_grad;
  if (supports_fused_lists(norms)) return fused_watch_update(loss, norms, watch);
  const Tensor bad = torch::cat({loss.detach().reshape({1}).to(norms.dtype()), norms}).isfinite().logical_not();
  const Tensor any = bad.any(), first = any.logical_and(watch[1] == 0), updates = watch[0] + 1;
  watch.copy_(torch::stack({updates, watch[1] + any, torch::where(first, updates, watch[2]),
                            torch::where(first, bad.to(torch::kUInt8).argmax(), watch[3])}));
  return {any.to(torch::kFloat32), norms.norm()};
}

void move_towards(const std::vector<Tensor>& x, const std::vector<Tensor>& target, double rate) {
  const torch::NoGradGuard no_grad;
  if (supports_fused_lists(x.at(0))) return fused_move_towards(x, target, rate);
  torch::_foreach_lerp_(x, target, rate);
}

}  // namespace engram
