// The block of DeltaNet, HQLT and their relatives ("Transformer++" shape) and the stack of blocks that is a whole
// backbone:
//   x <- x + Mixer(RMSNorm(x)),   x <- x + SwiGLU(RMSNorm(x)),   and one more RMSNorm after the last block.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/core/layer.h"
#include "memory/core/sequence_model.h"
#include "nn/layers/dropout.h"

namespace engram {

class BlockStack final : public SequenceModel {
 public:
  // One layer at least, all of the width `width`. input_dropout: its probability. Weights are drawn layer by layer.
  BlockStack(std::int64_t width, double input_dropout, const std::vector<LayerSpec>& layers);

  std::int64_t width() const override { return width_; }
  Support supports_learning(torch::ScalarType dtype, torch::Device device) const override;
  Support supports_fastest_learning(torch::ScalarType dtype, torch::Device device) const override;
  Support supports_blocks(torch::ScalarType dtype, torch::Device device) const override;
  Support supports_step(torch::ScalarType dtype, torch::Device device) const override;
  Support supports_step_blocks(torch::ScalarType dtype, torch::Device device) const override;
  MemoryState initial_state(std::int64_t batch) const override;
  std::vector<double> added_scales(std::uint64_t seed) override;

 private:
  class Block;
  // The plans of a call, one a layer.
  using Plans = std::vector<std::shared_ptr<const Layer::Plan>>;

  Output run(const torch::Tensor& input_BTD, const MemoryState& initial, const torch::Tensor& lengths_B,
             Rows rows) override;
  Output run_rows(const torch::Tensor& input_BTD, const MemoryState& initial, const torch::Tensor& lengths_B, Rows rows,
                  bool forgets);
  torch::Tensor run_fresh(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) override;
  // Through the fused branches of the blocks; a mixer that has none is recorded.
  torch::Tensor run_on_kernels(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) override;
  torch::Tensor run_step(const torch::Tensor& input_BD, MemoryState& state) override;
  torch::Tensor run_step_on_kernels(const torch::Tensor& input_BD, MemoryState& state,
                                    torch::ScalarType dtype) override;
  torch::Tensor run_viewed_step(const torch::Tensor& input_BD, MemoryState& state, MemoryView& view) override;
  // `view`: null or filled.
  torch::Tensor take_step(const torch::Tensor& input_BD, MemoryState& state, MemoryView* view);

  std::int64_t multiply_adds_per_step() const override;
  std::vector<torch::Tensor> mlp_parameters() const override;

  // What a layer says of kernels, or the first that has none, by its name unless all are of one kind.
  template <class SupportOf>
  Support of_all_layers(SupportOf support_of) const;
  // make(layer) for the first layer of each settings.
  template <class Make>
  Plans plans(Make make) const;
  // Of `lengths_B.size(0)` rows from `initial` on.
  Span span_of(std::int64_t steps, const torch::Tensor& lengths_B, const MemoryState& initial, Rows rows,
               bool forgets) const;
  std::span<const torch::Tensor> layer_state(const MemoryState& state, std::size_t layer) const;

  std::int64_t width_;
  bool counts_steps_ = false;
  std::vector<std::size_t> first_state_;  // of each layer, in MemoryState::tensors; and their end
  std::shared_ptr<Dropout> input_dropout_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<RmsNorm> norm_;
};

// `options.layers` layers of one kind. Throws UserError for options that options.check() refuses.
template <class Options>
std::shared_ptr<SequenceModel> make_block_stack(const Options& options, std::int64_t max_steps) {
  options.check();
  const std::vector<LayerSpec> layers(static_cast<std::size_t>(options.layers), options.layer(max_steps));
  return std::make_shared<BlockStack>(options.width, options.dropout, layers);
}

}  // namespace engram
