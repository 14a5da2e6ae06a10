// What stands for the GPU's parts in a build without GPU support: no fused form is supported there, and what is called
// only where one is throws.
#include "base/without_cuda.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/device/device.h"
#include "nn/fused/autograd_branch.h"
#include "nn/fused/dropout.h"
#include "nn/fused/encoder.h"
#include "nn/fused/gelu_mlp.h"
#include "nn/fused/heads/heads.h"
#include "nn/fused/maps.h"
#include "nn/fused/norm.h"
#include "nn/fused/residual_blocks.h"
#include "nn/fused/support.h"
#include "nn/fused/swiglu.h"
#include "nn/fused/weights/late_gradients.h"
#include "nn/fused/weights/prepared_weights.h"

namespace engram {

void sleep_while_waiting(c10::Device) {}

struct OwnStream::Guard {};
OwnStream::OwnStream(c10::Device) {}
OwnStream::~OwnStream() = default;

}  // namespace engram

namespace engram::cuda {

using torch::Tensor;

Support supports_device(torch::ScalarType, torch::Device) { return no_support(); }

Support supports_encoder(const EncoderSizes&, torch::ScalarType, torch::Device) { return no_support(); }
Tensor encode_image(const Tensor&, torch::ScalarType, const std::vector<std::int64_t>&,
                    const std::vector<LayerWeights>&, const LayerWeights&) {
  not_built("an encoder");
}
Tensor encode_parts(const Tensor&, torch::ScalarType, const std::vector<EncodedPart>&, const LayerWeights&) {
  not_built("an encoder");
}
Tensor encode_jointly(const SeenParts&, const SeenParts&, torch::ScalarType, const LayerWeights&, const LayerWeights&) {
  not_built("an encoder");
}

Support supports_heads(const HeadSizes&, torch::ScalarType, torch::Device) { return no_support(); }
Support supports_one_kernel_heads_sizes(const HeadSizes&, torch::ScalarType) { return no_support(); }
Support supports_one_kernel_heads(const HeadSizes&, torch::ScalarType, torch::Device) { return no_support(); }
HeadOutputs heads(const Tensor&, const std::vector<HeadWeights>&, const std::vector<HeadWeights>&) {
  not_built("heads");
}

std::vector<Tensor> linear_maps(const Tensor&, const std::vector<LinearMap>&) { not_built("linear maps"); }
Tensor add_scaled(const Tensor&, const Tensor&, const Tensor&) { not_built("a sum"); }
Support supports_relu_layers(const std::vector<LinearMap>&, torch::ScalarType, torch::Device) { return no_support(); }
Tensor relu_layers(const Tensor&, const std::vector<LinearMap>&) { not_built("linear layers"); }

struct PreparedWeights::Kept {};
PreparedWeights::PreparedWeights(const std::vector<Tensor>&) { not_built("prepared weights"); }
PreparedWeights::~PreparedWeights() = default;
void PreparedWeights::refresh() const {}
std::vector<Tensor> PreparedWeights::made(const std::vector<Tensor>&,
                                          const std::function<std::vector<Tensor>()>& make) {
  return make();
}
PreparedWeights::InUse::InUse(const PreparedWeights*) : before_(nullptr) {}
PreparedWeights::InUse::~InUse() = default;

Support supports_norm(std::int64_t) { return no_support(); }
bool takes_rows(const Tensor&) { return false; }
bool takes_norm(const Tensor&, const Norm&) { return false; }
Tensor normed(const Tensor&, const Norm&) { not_built("a norm"); }
Tensor layer_normed(const Tensor&) { not_built("a norm"); }
Tensor l2_normed(const Tensor&, double) { not_built("a norm"); }

Support supports_one_kernel_swiglu_sizes(std::int64_t, std::int64_t, torch::ScalarType) { return no_support(); }
Support supports_one_kernel_swiglu(std::int64_t, std::int64_t, torch::ScalarType, torch::Device) {
  return no_support();
}
std::unique_ptr<Branch> swiglu_branch(const SwiGluWeights&, torch::ScalarType) { not_built("SwiGLU"); }
std::unique_ptr<Branch> gelu_mlp_branch(const GeluMlpWeights&) { not_built("an MLP"); }
std::unique_ptr<Branch> autograd_branch(std::vector<Tensor>, std::vector<std::int64_t>,
                                        std::function<Tensor(const Tensor&)>) {
  not_built("a branch");
}
std::unique_ptr<ForwardBranch> operations_branch(std::int64_t, std::function<Tensor(const Tensor&)>) {
  not_built("a branch");
}
Tensor residual_blocks(const Tensor&, const DropoutKey&, std::vector<Residual>, Norm) {
  not_built("a stack of blocks");
}
Tensor forward_residual_blocks(const Tensor&, torch::ScalarType, const DropoutKey&, const std::vector<ForwardResidual>&,
                               const Norm&) {
  not_built("a step of a stack of blocks");
}

Tensor dropout(const Tensor&, const Tensor&, const DropoutKey&) { not_built("dropout"); }

}  // namespace engram::cuda

namespace engram {

bool built_with_cuda() { return false; }
std::string device_count_error() { return ""; }
std::string built_device_architectures() { return ""; }
std::string device_name(c10::Device device) { return device.str(); }
std::string device_identity(c10::Device device) { return device.str(); }
std::int64_t peak_device_memory_bytes() { return 0; }
std::optional<std::int64_t> device_memory_bytes(c10::Device) { return std::nullopt; }
void check_device_architecture(int) {}

// No kernel of the backward pass runs beside others.
std::vector<torch::Tensor> late_gradients(torch::Device, const std::function<void()>& backward,
                                          const std::function<std::vector<torch::Tensor>()>& gradients) {
  backward();
  return gradients();
}

}  // namespace engram
