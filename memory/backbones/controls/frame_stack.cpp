// Frame stacking: a linear map of the last inputs, with relu.
#include "memory/backbones/controls/frame_stack.h"

#include <cstdint>
#include <vector>

#include "memory/core/sequence_model.h"
#include "nn/fused/maps.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

using torch::Tensor;

class FrameStack final : public SequenceModel {
 public:
  explicit FrameStack(const FrameStackOptions& options)
      : options_(options),
        map_(register_module("map", torch::nn::Linear(options.frames * options.width, options.width))) {}

  std::int64_t width() const override { return options_.width; }

  // The last frames - 1 inputs, oldest first.
  MemoryState initial_state(std::int64_t batch) const override {
    return {{torch::zeros({batch, options_.frames - 1, options_.width}, map_->weight.options().requires_grad(false))}};
  }

  Support supports_learning(torch::ScalarType dtype, torch::Device device) const override {
    return cuda::supports_relu_layers(maps(), dtype, device);
  }
  Support supports_step(torch::ScalarType dtype, torch::Device device) const override {
    return supports_learning(dtype, device);
  }

 private:
  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows) override {
    const Tensor history_BUD = torch::cat({initial.tensors[0], input_BTD}, 1);  // U = frames - 1 + T
    const Tensor kept_BP = lengths_B.unsqueeze(1) + torch::arange(options_.frames - 1, lengths_B.options());
    const Tensor index_BPD = kept_BP.unsqueeze(2).expand({-1, -1, options_.width});
    return {torch::relu(apply_linear(map_, frames_of(history_BUD))), {{history_BUD.gather(1, index_BPD)}}};
  }
  Tensor run_on_kernels(const Tensor& input_BTD, const Tensor&) override {
    const Tensor before_BPD = input_BTD.new_zeros({input_BTD.size(0), options_.frames - 1, options_.width});
    return cuda::relu_layers(frames_of(torch::cat({before_BPD, input_BTD}, 1)), maps());
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override {
    return torch::relu(apply_linear(map_, last_frames(input_BD, state)));
  }
  Tensor run_step_on_kernels(const Tensor& input_BD, MemoryState& state, torch::ScalarType dtype) override {
    return cuda::relu_layers(last_frames(input_BD, state).to(dtype), maps());
  }

  // [B, frames - 1 + T, D] -> [B, T, frames D]
  Tensor frames_of(const Tensor& history_BUD) const {
    return history_BUD.unfold(1, options_.frames, 1).transpose(2, 3).flatten(2);
  }
  // [B, frames D] with the input, which the state has then, too.
  Tensor last_frames(const Tensor& input_BD, MemoryState& state) const {
    Tensor& past_BPD = state.tensors[0];
    const Tensor history_BFD = torch::cat({past_BPD, input_BD.to(past_BPD.scalar_type()).unsqueeze(1)}, 1);
    past_BPD.copy_(history_BFD.narrow(1, 1, options_.frames - 1));
    return history_BFD.flatten(1);
  }
  std::vector<cuda::LinearMap> maps() const { return {{map_->weight, map_->bias}}; }

  std::int64_t multiply_adds_per_step() const override { return map_->weight.numel(); }

  FrameStackOptions options_;
  torch::nn::Linear map_;
};

}  // namespace

void FrameStackOptions::list_options(OptionList& list) {
  list_width(list, width);
  list.add("frames", frames, {2, 1024}, "inputs that the output depends on, the current one included");
}

void FrameStackOptions::check() const { check_bounds(*this, kMemorySection); }

std::shared_ptr<SequenceModel> FrameStackOptions::make(std::int64_t) const {
  check();
  return std::make_shared<FrameStack>(*this);
}

}  // namespace engram
