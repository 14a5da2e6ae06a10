#include "agents/learn/low_rank_adapters.h"

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "memory/ops/attention_maps.h"
#include "memory/ops/short_convolution.h"

namespace engram {

using torch::Tensor;

LowRankAdapters::LowRankAdapters(const AdapterOptions& options, AgentNetwork& network)
    : scale_(options.alpha / options.rank), network_parameters_(network.trainable_parameters()) {
  if (options.rank < 1) throw std::logic_error("adapters of rank " + std::to_string(options.rank));
  bool has_fast_weights = false;
  for (const auto& item : network.named_modules()) {
    const auto* const attention = dynamic_cast<const AttentionMaps*>(item.value().get());
    if (attention == nullptr) continue;
    if (!attention->by_softmax() && !options.fast_weights) {
      has_fast_weights = true;
      continue;
    }
    const auto children = item.value()->named_children();
    for (const std::string map : kAttentionMapNames)
      maps_.push_back({item.key() + "." + map, children[map]->named_parameters()["weight"], {}, {}, {}});
  }
  if (maps_.empty())
    throw UserError(std::string("the agent's memory has no linear maps of attention to adapt; ") +
                    (has_fast_weights ? "those of its fast weights take adapters with adapters.fast_weights true"
                                      : "with adapters.rank 0 all of its weights are trained"));
  for (Map& map : maps_) {
    const std::int64_t outputs = map.weight.size(0), inputs = map.weight.size(1);
    const auto like = map.weight.options().requires_grad(false);
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    map.base = map.weight.detach().clone();
    map.down =
        torch::empty({options.rank, inputs}, torch::dtype(map.weight.scalar_type())).uniform_(-bound, bound).to(like);
    map.up = torch::zeros({outputs, options.rank}, like);
    for (const auto& [part, tensor] : {std::pair("A", &map.down), std::pair("B", &map.up)}) {
      tensor->requires_grad_(true);
      parameters_.push_back(*tensor);
      names_.push_back(map.name + "." + part);
    }
  }
  if (!options.convolutions) return;
  for (const auto& item : network.named_modules())
    if (dynamic_cast<const ShortConvolution*>(item.value().get()) != nullptr)
      for (const auto& own : item.value()->named_parameters()) {
        parameters_.push_back(own.value());
        names_.push_back(item.key() + "." + own.key());
      }
}

void LowRankAdapters::zero_gradients() {
  for (Tensor& parameter : network_parameters_) parameter.mutable_grad().reset();
}

std::vector<Tensor> LowRankAdapters::network_gradients() const {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : network_parameters_)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  return gradients;
}

void LowRankAdapters::set_gradients() {
  const torch::NoGradGuard no_grad;
  for (Map& map : maps_) {
    const Tensor& gradient = map.weight.grad();
    if (!gradient.defined()) throw std::logic_error("the adapted weight " + map.name + " has no gradient");
    map.down.mutable_grad() = torch::matmul(map.up.t(), gradient).mul_(scale_);
    map.up.mutable_grad() = torch::matmul(gradient, map.down.t()).mul_(scale_);
  }
}

void LowRankAdapters::merge() {
  const torch::NoGradGuard no_grad;
  for (Map& map : maps_) torch::addmm_out(map.weight, map.base, map.up, map.down, /*beta=*/1, /*alpha=*/scale_);
}

void LowRankAdapters::visit_state(StateArchive& archive) {
  for (Map& map : maps_) {
    archive.tensor(map.name + ".base", map.base);
    archive.tensor(map.name + ".A", map.down);
    archive.tensor(map.name + ".B", map.up);
  }
}

}  // namespace engram
