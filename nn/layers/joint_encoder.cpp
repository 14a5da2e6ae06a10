#include "nn/layers/joint_encoder.h"

#include <iterator>
#include <utility>

#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "nn/fused/encoder.h"
#include "nn/fused/norm.h"
#include "nn/fused/support.h"
#include "nn/layers/encoder.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

// The factors of processors differ in their last bits: float64, rounded, begins alike on all of them.
torch::nn::Linear orthogonal_linear(std::int64_t from, std::int64_t to) {
  torch::nn::Linear linear(from, to);
  const torch::NoGradGuard no_grad;
  const torch::Tensor weight = torch::empty({to, from}, torch::kFloat64);
  torch::nn::init::orthogonal_(weight);
  linear->weight.copy_(weight);
  return linear;
}

std::int64_t count_numbers(const std::vector<ObservationPart>& parts) {
  std::int64_t numbers = 0;
  for (const ObservationPart& part : parts)
    numbers += part.elements() * (part.kind == PartKind::kTokens ? part.values : 1);
  return numbers;
}

void append_numbers(std::vector<torch::Tensor>& all, const std::vector<ObservationPart>& parts,
                    const torch::Tensor& x_MX, torch::ScalarType dtype) {
  for (std::int64_t first = 0; const ObservationPart& part : parts) {
    all.push_back(part_numbers(part, x_MX.narrow(1, first, part.elements()), dtype));
    first += part.elements();
  }
}

}  // namespace

JointEncoder::JointEncoder(torch::nn::Module& owner, std::vector<ObservationPart> parts,
                           std::vector<ObservationPart> beside, std::int64_t hidden, std::int64_t width)
    : parts_(std::move(parts)), beside_(std::move(beside)) {
  const std::int64_t from = count_numbers(parts_) + count_numbers(beside_);
  observation_ = owner.register_module("observation", orthogonal_linear(from, hidden));
  joined_ = owner.register_module("joined", orthogonal_linear(hidden, width));
}

Support JointEncoder::supports_kernels(torch::ScalarType dtype, torch::Device device) const {
  if (Support own = cuda::supports_parameters(observation_->weight); !own) return own;
  if (Support own = cuda::supports_encoder({std::ssize(parts_) + std::ssize(beside_), {}}, dtype, device); !own)
    return own;
  return cuda::supports_norm(observation_->weight.size(0));
}

torch::Tensor JointEncoder::encode(const torch::Tensor& observation_MX, const torch::Tensor& beside_MX,
                                   torch::ScalarType dtype) const {
  if (!PlainOperations::on() && supports_kernels(dtype, observation_MX.device()))
    return cuda::encode_jointly({observation_MX, parts_}, {beside_MX, beside_}, dtype,
                                {observation_->weight, observation_->bias}, {joined_->weight, joined_->bias});
  const ComputeIn products(observation_MX.device(), dtype);
  return encode_by_definition(observation_MX, beside_MX);
}

torch::Tensor JointEncoder::encode_by_definition(const torch::Tensor& observation_MX,
                                                 const torch::Tensor& beside_MX) const {
  const torch::ScalarType own = observation_->weight.scalar_type();
  std::vector<torch::Tensor> all;
  append_numbers(all, parts_, observation_MX, own);
  append_numbers(all, beside_, beside_MX, own);
  const torch::Tensor features = apply_linear(observation_, torch::cat(all, 1));
  const torch::Tensor normal = [&] {
    // In the features' type, which it computes in float32 and rounds: autocast would make float32 rows of all of them.
    const ComputeIn own_type(features.device(), torch::kFloat32);
    return torch::layer_norm(features, {features.size(-1)});
  }();
  return torch::leaky_relu(apply_linear(joined_, normal));
}

}  // namespace engram
