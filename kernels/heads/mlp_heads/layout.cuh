// Where the packed weights stand, for the kernel that packs them and those that read them (README.md, "Orders").
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/common/wgmma.cuh"
#include "kernels/heads/mlp_heads/mlp_heads.h"

namespace engram::mlp {

constexpr int kHidden = kMlpHeadsHidden;
constexpr int kMostOutputs = 16;
constexpr int kTileRows = 64;            // of a warpgroup
constexpr int kWarpgroups = 2;           // of a block
constexpr int kWarps = 4 * kWarpgroups;  // of a block
constexpr int kThreads = 32 * kWarps;

// The kernels' width of rows: P rounded up to one that they are compiled for.
HOST_DEVICE constexpr int kernel_width(int stride) { return stride <= 64 ? 64 : stride <= 112 ? 112 : 128; }

// Which hidden unit stands at index `n` of a product's result, or `k` of its left operand: thread t of a quad holds
// columns 8 j + 2 t and 8 j + 2 t + 1, and of 32 units the 8 consecutive ones that make a vector of 16 bytes.
HOST_DEVICE constexpr int hidden_unit(int index) {
  const int j = index / 8 % 4, t = index / 2 % 4;
  return index / 32 * 32 + 8 * t + 2 * j + index % 2;
}
// The same for x's channels: of 16 the 4 consecutive ones that make a vector of 8 bytes.
HOST_DEVICE constexpr int channel(int index) {
  const int j = index / 8 % 2, t = index / 2 % 4;
  return index / 16 * 16 + 4 * t + 2 * j + index % 2;
}

// A head's parameters as the forward pass keeps them in shared memory: operands (n, k) of wgmma, and the third layer as
// fragments of mma.m16n8k16's right operand, [output tile][k / 16][lane] of 8 bytes. Offsets in bytes. Pieces are
// loaded and waited for one by one: W1 and its bias, W2, the rest.
template <int kWidth>
struct ForwardImage {
  using Weight1 = BlockTile<kHidden, kWidth>;
  using Weight2 = BlockTile<kHidden, kHidden>;
  static constexpr int kWeight1 = 0, kBias1 = kWeight1 + Weight1::kBytes;
  static constexpr int kWeight2 = kBias1 + 4 * kHidden, kBias2 = kWeight2 + Weight2::kBytes;
  static constexpr int kWeight3 = kBias2 + 4 * kHidden, kWeight3Tile = kHidden / 16 * 32 * 8;
  static constexpr int kBias3 = kWeight3 + kMostOutputs / 8 * kWeight3Tile, kBytes = kBias3 + 4 * kMostOutputs;
  static constexpr int kPieces = 3;
  HOST_DEVICE static constexpr int piece_begin(int piece) {
    return piece == 0 ? kWeight1 : piece == 1 ? kWeight2 : piece == 2 ? kBias2 : kBytes;
  }
};

// The same for the backward pass: W3 as fragments, [second unit / 8][lane] of 8 bytes, k the outputs; W2 transposed, n
// the first layer's units, and W1 transposed, n the channels, both in halves of the first layer's units. Pieces: W3,
// then each half's W2 and W1.
template <int kWidth>
struct BackwardImage {
  static constexpr int kHalf = kHidden / 2;
  using Weight2 = BlockTile<kHalf, kHidden>;
  using Weight1 = BlockTile<kWidth, kHalf>;
  static constexpr int kWeight3 = 0, kWeight2 = kHidden / 8 * 32 * 8, kWeight1 = kWeight2 + Weight2::kBytes;
  static constexpr int kHalfBytes = Weight2::kBytes + Weight1::kBytes, kBytes = kWeight2 + 2 * kHalfBytes;
  static constexpr int kPieces = 5;
  HOST_DEVICE static constexpr int piece_begin(int piece) {
    return piece == 0 ? kWeight3 : (piece % 2 ? kWeight2 : kWeight1) + (piece - 1) / 2 * kHalfBytes;
  }
};

// In the packed weights: all heads' forward images, then the kept heads' backward images.
HOST_DEVICE constexpr std::size_t forward_image_bytes(int width) {
  return width == 64 ? ForwardImage<64>::kBytes : width == 112 ? ForwardImage<112>::kBytes : ForwardImage<128>::kBytes;
}
HOST_DEVICE constexpr std::size_t backward_image_bytes(int width) {
  return width == 64    ? BackwardImage<64>::kBytes
         : width == 112 ? BackwardImage<112>::kBytes
                        : BackwardImage<128>::kBytes;
}

inline int row_tiles(std::int64_t rows) { return static_cast<int>((rows + kTileRows - 1) / kTileRows); }

// The masks: [head][first, second][tile][thread of a warpgroup] of 16 bytes, a bit for each of a thread's 128 hidden
// values. Value (row half r, 8-column tile j, column e) is bit 2 (j % 8) + r + 16 e of word j / 8.
HOST_DEVICE constexpr std::int64_t mask_index(int head, int layer, int tiles, int tile, int thread) {
  return ((2 * head + layer) * static_cast<std::int64_t>(tiles) + tile) * kWarpgroup + thread;
}

// Throws std::runtime_error unless supports_mlp_heads_sizes() has no objection.
void check_shape(const MlpHeadsShape& shape, const char* what);

}  // namespace engram::mlp
