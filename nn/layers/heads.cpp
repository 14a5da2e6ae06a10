#include "nn/layers/heads.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "nn/cpu/layers.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "nn/fused/heads/heads.h"
#include "nn/fused/support.h"

namespace engram {
namespace {

void init_hidden(torch::nn::Linear& layer) {
  const double bound = 1 / std::sqrt(static_cast<double>(layer->weight.size(0)));
  torch::nn::init::uniform_(layer->weight, -bound, bound);
  torch::nn::init::constant_(layer->bias, 0.1);
}

const torch::Tensor& first_weight(const HeadGroup& group) { return group.learning.front()->layers().hidden1->weight; }

std::int64_t outputs_of(const Head& head) { return head->layers().output->weight.size(0); }

std::int64_t most_outputs(const HeadGroup& group) {
  std::int64_t most = 0;
  for (const auto* heads : {&group.learning, &group.targets})
    for (const Head& head : *heads) most = std::max(most, outputs_of(head));
  return most;
}

cuda::HeadSizes sizes_of(const HeadGroup& group) {
  const HeadImpl::Layers layers = group.learning.front()->layers();
  return {.width = layers.hidden1->weight.size(1),
          .hidden = layers.hidden1->weight.size(0),
          .actions = most_outputs(group),
          .learning = static_cast<int>(group.learning.size()),
          .targets = static_cast<int>(group.targets.size())};
}

// With `outputs` outputs each: zeros behind a head's own.
template <class Weights>
std::vector<Weights> weights_of(const std::vector<Head>& heads, std::int64_t outputs) {
  std::vector<Weights> weights;
  for (const Head& head : heads) {
    const auto [hidden1, hidden2, output] = head->layers();
    torch::Tensor weight3 = output->weight, bias3 = output->bias;
    if (const std::int64_t missing = outputs - outputs_of(head); missing > 0) {
      weight3 = torch::constant_pad_nd(weight3, {0, 0, 0, missing});
      bias3 = torch::constant_pad_nd(bias3, {0, missing});
    }
    weights.push_back({hidden1->weight, hidden1->bias, hidden2->weight, hidden2->bias, weight3, bias3});
  }
  return weights;
}

}  // namespace

HeadImpl::HeadImpl(std::int64_t width, std::int64_t hidden_width, std::int64_t outputs, double last_layer_bound)
    : hidden1_(register_module("hidden1", torch::nn::Linear(width, hidden_width))),
      hidden2_(register_module("hidden2", torch::nn::Linear(hidden_width, hidden_width))),
      output_(register_module("output", torch::nn::Linear(hidden_width, outputs))) {
  init_hidden(hidden1_);
  init_hidden(hidden2_);
  torch::nn::init::uniform_(output_->weight, -last_layer_bound, last_layer_bound);
  torch::nn::init::uniform_(output_->bias, -last_layer_bound, last_layer_bound);
}

torch::Tensor HeadImpl::forward(const torch::Tensor& hidden) {
  const torch::Tensor last = hidden2_(hidden1_(hidden).relu_()).relu_();
  const torch::ScalarType own = output_->weight.scalar_type();
  const ComputeIn products(last.device(), own);
  return output_(last.to(own));
}

Support HeadGroup::supports_kernels(torch::ScalarType dtype, torch::Device device) const {
  if (Support own = cuda::supports_parameters(first_weight(*this)); !own) return own;
  return cuda::supports_heads(sizes_of(*this), dtype, device);
}

Support HeadGroup::supports_one_kernel(torch::ScalarType dtype, torch::Device device) const {
  return cuda::supports_one_kernel_heads(sizes_of(*this), dtype, device);
}

HeadGroup::Outputs HeadGroup::outputs(const torch::Tensor& features, torch::ScalarType dtype) const {
  if (!PlainOperations::on() && supports_kernels(dtype, features.device())) {
    cuda::HeadOutputs out =
        cuda::heads(features.to(dtype), weights_of<cuda::HeadWeights>(learning, most_outputs(*this)),
                    weights_of<cuda::HeadWeights>(targets, most_outputs(*this)));
    return {std::move(out.learning), std::move(out.targets)};
  }
  const ComputeIn products(features.device(), dtype);
  const torch::Tensor input = features.to(first_weight(*this).scalar_type());
  Outputs out;
  if (cpu::takes(input)) {
    const std::int64_t most = most_outputs(*this);
    std::vector<torch::Tensor> all =
        cpu::heads(input, weights_of<cpu::HeadWeights>(learning, most), weights_of<cpu::HeadWeights>(targets, most));
    const auto first_target = all.begin() + static_cast<std::ptrdiff_t>(learning.size());
    return {{all.begin(), first_target}, {first_target, all.end()}};
  }
  for (Head head : learning) out.learning.push_back(head(input));
  const torch::NoGradGuard no_grad;
  for (Head head : targets) out.targets.push_back(head(input));
  return out;
}

}  // namespace engram
