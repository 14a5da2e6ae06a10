// Frame stacking: a linear map of the last inputs, with relu.
#include "memory/backbones/controls/frame_stack.h"

#include <cstdint>

#include "memory/core/sequence_model.h"
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

 private:
  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows) override {
    const std::int64_t past = options_.frames - 1;
    const Tensor history_BUD = torch::cat({initial.tensors[0], input_BTD}, 1);  // U = past + T
    const Tensor frames_BTX = history_BUD.unfold(1, options_.frames, 1).transpose(2, 3).flatten(2);
    const Tensor kept_BP = lengths_B.unsqueeze(1) + torch::arange(past, lengths_B.options());
    const Tensor index_BPD = kept_BP.unsqueeze(2).expand({-1, -1, options_.width});
    return {torch::relu(apply_linear(map_, frames_BTX)), {{history_BUD.gather(1, index_BPD)}}};
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override {
    const Tensor history_BFD = torch::cat({state.tensors[0], input_BD.unsqueeze(1)}, 1);
    state.tensors[0].copy_(history_BFD.narrow(1, 1, options_.frames - 1));
    return torch::relu(apply_linear(map_, history_BFD.flatten(1)));
  }

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
