// The sizes of an agent as the kernel sees them: those of a StepSizes with values are known when it is compiled, so
// that loops unroll and addresses fold; those of AnySizes come with the arguments.
#pragma once

#include "kernels/acting/agent_step/arguments.h"

namespace engram {

template <int width, int inner, int heads, int window, int hidden, int channels, int height, int columns>
struct StepSizes {
  static constexpr bool kFixed = width > 0;
  static constexpr int kWidth = width, kInner = inner, kHeads = heads, kWindow = window, kHidden = hidden,
                       kChannels = channels, kHeight = height, kColumns = columns;
  static constexpr int kHeadWidth = width / (heads > 0 ? heads : 1);
  static_assert(kHeadWidth % 2 == 0, "heads need no padding");
  // Of a lane: pairs of a row of `width` channels, channels and pairs of a head.
  static constexpr int kRowPairs = kFixed ? (width + 63) / 64 : kAgentStepMaxWidth / 64;
  static constexpr int kHeadChannels = kFixed ? (kHeadWidth + 31) / 32 : kAgentStepMaxHeadWidth / 32;
  static constexpr int kHeadPairs = (kHeadChannels + 1) / 2;

  static bool match(const AgentStepShape& shape) {
    return shape.width == width && shape.inner_width == inner && shape.heads == heads && shape.window == window &&
           shape.hidden_width == hidden && shape.channels == channels && shape.height == height &&
           shape.columns == columns && (window == 0 || shape.mixing == AgentStepMixing::kVector);
  }
};
using AnySizes = StepSizes<0, 0, 0, 0, 0, 0, 0, 0>;
// The published agents of the tasks that show a 5 x 5 crop of a board.
using HqltSizes = StepSizes<100, 512, 2, 64, 256, 3, 5, 5>;
using DeltaNetSizes = StepSizes<100, 512, 2, 0, 256, 3, 5, 5>;
// Those of configs/compare and of configs/small/visual_match.ini.
using SmallHqltSizes = StepSizes<64, 256, 2, 64, 64, 3, 5, 5>;
using QuickstartSizes = StepSizes<32, 256, 2, 0, 64, 3, 5, 5>;

// choose(sizes) of the sizes that fit `shape`.
template <typename Choose>
auto choose_sizes(const AgentStepShape& shape, const Choose& choose) {
  if (HqltSizes::match(shape)) return choose(HqltSizes{});
  if (DeltaNetSizes::match(shape)) return choose(DeltaNetSizes{});
  if (SmallHqltSizes::match(shape)) return choose(SmallHqltSizes{});
  if (QuickstartSizes::match(shape)) return choose(QuickstartSizes{});
  return choose(AnySizes{});
}

template <class Sizes>
class Dimensions {
 public:
  __device__ explicit Dimensions(const StepArguments& arguments) : arguments_(arguments) {}

  __device__ int width() const { return Sizes::kFixed ? Sizes::kWidth : arguments_.shape.width; }
  __device__ int heads() const { return Sizes::kFixed ? Sizes::kHeads : arguments_.shape.heads; }
  __device__ int head_width() const { return Sizes::kFixed ? Sizes::kHeadWidth : arguments_.layout.head_width; }
  // With padded heads (layout.h).
  __device__ int padded_head() const { return padded_head_of(head_width()); }
  __device__ int mixer_width() const { return heads() * padded_head(); }
  __device__ int window() const { return Sizes::kFixed ? Sizes::kWindow : arguments_.shape.window; }
  __device__ int channels() const { return Sizes::kFixed ? Sizes::kChannels : arguments_.shape.channels; }
  __device__ int height() const { return Sizes::kFixed ? Sizes::kHeight : arguments_.shape.height; }
  __device__ int columns() const { return Sizes::kFixed ? Sizes::kColumns : arguments_.shape.columns; }
  __device__ AgentStepMixing mixing() const {
    return Sizes::kFixed ? AgentStepMixing::kVector : arguments_.shape.mixing;
  }

  // In tiles.
  __device__ int width_tiles() const { return Sizes::kFixed ? tiles_of(Sizes::kWidth) : arguments_.layout.width_tiles; }
  __device__ int mixer_tiles() const { return Sizes::kFixed ? tiles_of(Sizes::kWidth) : arguments_.layout.mixer_tiles; }
  __device__ int feature_tiles() const { return Sizes::kFixed ? tiles_of(kFeatures) : arguments_.layout.feature_tiles; }
  __device__ int projection_tiles() const {
    return Sizes::kFixed ? tiles_of(kProjections) : arguments_.layout.projection_tiles;
  }
  __device__ int inner_tiles() const {
    return Sizes::kFixed ? step_inner_tiles(Sizes::kInner) : arguments_.layout.inner_tiles;
  }
  __device__ int hidden_tiles() const {
    return Sizes::kFixed ? tiles_of(Sizes::kHidden) : arguments_.layout.hidden_tiles;
  }

 private:
  static constexpr int kFeatures = kConvolution2 * (Sizes::kHeight - 2) * (Sizes::kColumns - 2);
  static constexpr int kProjections = 3 * Sizes::kWidth + Sizes::kHeads + (Sizes::kWindow > 0 ? Sizes::kWidth : 0);

  const StepArguments& arguments_;
};

}  // namespace engram
