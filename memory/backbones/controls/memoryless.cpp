// The memoryless control: an MLP whose output at t depends on the input at t alone.
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/core/backbone_options.h"
#include "memory/core/sequence_model.h"
#include "nn/fused/maps.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

class Memoryless final : public SequenceModel {
 public:
  explicit Memoryless(const NoneOptions& options) : options_(options) {
    const auto layers = register_module("layers", torch::nn::ModuleList());
    for (int layer = 0; layer < options.layers; ++layer) {
      layers_.emplace_back(options.width, options.width);
      layers->push_back(layers_.back());
    }
  }

  std::int64_t width() const override { return options_.width; }
  MemoryState initial_state(std::int64_t) const override { return {}; }

  Support supports_learning(torch::ScalarType dtype, torch::Device device) const override {
    return cuda::supports_relu_layers(maps(), dtype, device);
  }
  Support supports_step(torch::ScalarType dtype, torch::Device device) const override {
    return supports_learning(dtype, device);
  }

 private:
  Output run(const torch::Tensor& input_BTD, const MemoryState&, const torch::Tensor&, Rows) override {
    return {hidden(input_BTD), {}};
  }
  torch::Tensor run_on_kernels(const torch::Tensor& input_BTD, const torch::Tensor&) override {
    return cuda::relu_layers(input_BTD, maps());
  }
  torch::Tensor run_step(const torch::Tensor& input_BD, MemoryState&) override { return hidden(input_BD); }
  torch::Tensor run_step_on_kernels(const torch::Tensor& input_BD, MemoryState&, torch::ScalarType dtype) override {
    return cuda::relu_layers(input_BD.to(dtype), maps());
  }
  std::int64_t multiply_adds_per_step() const override { return multiply_adds_of(mlp_parameters()); }
  std::vector<torch::Tensor> mlp_parameters() const override { return parameters(); }

  std::vector<cuda::LinearMap> maps() const {
    std::vector<cuda::LinearMap> all;
    for (const torch::nn::Linear& layer : layers_) all.push_back({layer->weight, layer->bias});
    return all;
  }
  torch::Tensor hidden(torch::Tensor x) {
    for (const torch::nn::Linear& layer : layers_) x = torch::relu(apply_linear(layer, x));
    return x;
  }

  NoneOptions options_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace

void NoneOptions::list_options(OptionList& list) {
  list_width(list, width);
  list_layers(list, layers);
}

void NoneOptions::check() const { check_bounds(*this, kMemorySection); }

std::shared_ptr<SequenceModel> NoneOptions::make(std::int64_t) const {
  check();
  return std::make_shared<Memoryless>(*this);
}

}  // namespace engram
