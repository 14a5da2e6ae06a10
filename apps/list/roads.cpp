#include "apps/list/roads.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "agents/act/make_policy.h"
#include "agents/act/network.h"
#include "agents/act/roads.h"
#include "agents/learn/sac/fused_loss.h"
#include "apps/cli/command_line.h"
#include "memory/core/registry.h"
#include "memory/core/roads.h"
#include "memory/fused/block.h"
#include "nn/fused/heads/heads.h"
#include "nn/fused/norm.h"
#include "nn/fused/swiglu.h"
#include "nn/layers/encoder.h"

namespace engram {
namespace {

constexpr torch::ScalarType kDtype = torch::kBFloat16;
constexpr torch::DeviceType kGpu = torch::kCUDA;
constexpr std::int64_t kWidth = 100, kActions = 4;  // of the experiments
constexpr std::int64_t kSteps = 781;                // of the longest published episode

std::string paragraph(const std::string& text) { return wrapped(text, 0, 120) + "\n"; }

std::string row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + (cell.empty() ? "|" : " |");
  return text + "\n";
}

std::string table(const std::vector<std::string>& titles) {
  return row(titles) + row(std::vector<std::string>(titles.size(), "---"));
}

// The largest size that is supported; they are from 1 on up to there.
template <class SupportOf>
std::string largest(SupportOf support_of) {
  std::int64_t size = 0;
  while (support_of(size + 1)) ++size;
  return std::to_string(size);
}

// A road that has a faster form, and LibTorch where there is neither.
std::string road_row(std::vector<std::string> sizes, const Support& kernels, const std::string& fused,
                     const Support& fastest, const std::string& one_kernel) {
  const bool slowest = !kernels;
  sizes.push_back(slowest ? "LibTorch" : fastest ? one_kernel : fused);
  sizes.push_back(slowest ? kernels.reason() : fastest.reason());
  return row(sizes);
}

std::string backbones() {
  std::string text = table({"backbone", "learning", "why not by kernels"});
  for (const std::string& name : backbone_names()) {
    const auto backbone = make_backbone(BackboneConfig(name), kSteps);
    const Support kernels = backbone->supports_learning(kDtype, kGpu);
    const char* const without = backbone->supports_blocks(kDtype, kGpu) ? kFusedBlocks : "LibTorch";
    text += row({name, kernels ? "fused kernels" : without, kernels.reason()});
  }
  const auto block = [](std::int64_t width, std::int64_t heads) {
    return cuda::supports_block(width, heads, kDtype, kGpu);
  };
  return text + "\n" +
         paragraph("The kernels take `memory.width` up to " + largest([&](std::int64_t n) { return block(n, n); }) +
                   " and `memory.width` / `memory.heads` up to " +
                   largest([&](std::int64_t n) { return block(n, 1); }) + ", any number of layers and any window.");
}

std::string swiglu() {
  std::string text = table({"memory.width", "memory.mlp_width", "SwiGLU", "why not in one kernel"});
  for (const auto& [width, inner] : {std::pair(100, 512), {128, 512}, {129, 512}, {100, 192}, {100, 500}})
    text += road_row({std::to_string(width), std::to_string(inner)}, Support(), "products",
                     cuda::supports_one_kernel_swiglu_sizes(width, inner, kDtype), "one kernel");
  return text;
}

std::string acting() {
  std::string text = "One kernel is the whole step of " + one_kernel_limits() +
                     ". Any other agent acts by its network's operations, captured in a CUDA graph with rules and "
                     "recording.";
  std::string by_kernels, blocks;
  const auto add = [](std::string& list, const std::string& name) { list += (list.empty() ? "" : ", ") + name; };
  for (const std::string& name : backbone_names()) {
    const auto backbone = make_backbone(BackboneConfig(name), kSteps);
    if (backbone->supports_step(kDtype, kGpu))
      add(by_kernels, name);
    else if (backbone->supports_step_blocks(kDtype, kGpu))
      add(blocks, name);
  }
  if (!by_kernels.empty())
    text +=
        " There all of the backbone's step is kernels for " + by_kernels +
        ", with the limits of learning above and an even memory.width / memory.heads; and all but the mixers' for " +
        blocks + ".";
  return paragraph(text);
}

std::string heads() {
  std::string text = table({"network.hidden_width", "memory.width", "actions", "heads", "why not by what is faster"});
  struct Sizes {
    std::int64_t hidden, width, actions;
  };
  for (const Sizes& sizes : {Sizes{256, kWidth, kActions},
                             {256, 128, 16},
                             {256, 129, kActions},
                             {256, kWidth, 17},
                             {128, kWidth, kActions},
                             {64, 64, kActions},
                             {96, kWidth, kActions},
                             {512, kWidth, kActions},
                             {520, kWidth, kActions},
                             {100, kWidth, kActions}}) {
    const cuda::HeadSizes heads{sizes.width, sizes.hidden, sizes.actions, 3, 2};  // actor and critics, two targets
    text += road_row({std::to_string(sizes.hidden), std::to_string(sizes.width), std::to_string(sizes.actions)},
                     cuda::supports_heads(heads, kDtype, kGpu), "fused products",
                     cuda::supports_one_kernel_heads_sizes(heads, kDtype), "one kernel");
  }
  return text;
}

std::string encoder() {
  const auto image = [](std::int64_t side) {
    return ObservationEncoder::supports_kernels_for(single_part({3, side, side}), kDtype, kGpu);
  };
  // The smallest image is 3 x 3.
  const std::string side = largest([&](std::int64_t n) { return n < 3 ? image(3) : image(n); });
  ObservationPart tokens{.name = "tokens", .kind = PartKind::kTokens, .shape = {1}, .values = 2};
  const std::string parts = largest([&](std::int64_t n) {
    return ObservationEncoder::supports_kernels_for(std::vector<ObservationPart>(static_cast<std::size_t>(n), tokens),
                                                    kDtype, kGpu);
  });
  const std::int64_t joint = 8 * std::stoll(largest([](std::int64_t n) { return cuda::supports_norm(8 * n); }));
  return paragraph(
      "Quantities and tokens, in up to " + parts + " parts, and images up to " + side + " x " + side +
      " are encoded by fused layers; the joint encoder is fused layers for up to " + parts +
      " parts, those beside the observation included, where `network.hidden_width` is a multiple of 8 up to " +
      std::to_string(joint) + ". Larger images are LibTorch's (" + image(std::stoll(side) + 1).reason() +
      "), as are images beside other parts.");
}

std::string loss() {
  return paragraph("SAC's losses and their gradients are one kernel for up to " +
                   largest([](std::int64_t n) { return supports_fused_sac_loss(kGpu, torch::kFloat32, n); }) +
                   " actions, DQN's are LibTorch's operations; both in float32 whatever the precision of the network.");
}

}  // namespace

std::string roads_page() {
  return "# What runs fast\n\n" +
         paragraph(
             "Printed by `engram list roads`. Every agent learns on a GPU in the precision that `run.precision` says; "
             "its sizes decide which of its parts engram's own kernels compute. The rest are LibTorch's operations. "
             "`engram train` prints the choice for its agent, `about.json` keeps it, and `run.kernels` = `require` "
             "refuses to train where a part has no kernels.") +
         "\n## Backbones\n\n" + backbones() + "\n" +
         paragraph(
             "In `deltanet` and `hqlt` the MLP, SwiGLU, has a kernel that keeps its hidden units on chip, for GPUs "
             "of compute capability 9.0 in bfloat16:") +
         "\n" + swiglu() + "\n## Acting\n\n" + acting() + "\n## Heads\n\n" +
         paragraph(
             "Actor, critics and target critics are one kernel in bfloat16: with `network.hidden_width` 64 or 128 "
             "on every GPU, with 256 on those of compute capability 9.0.") +
         "\n" + heads() + "\n## Encoder\n\n" + encoder() + "\n## Losses\n\n" + loss();
}

}  // namespace engram
