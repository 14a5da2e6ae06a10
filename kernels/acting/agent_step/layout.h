// Where the packed weights and the shared memory of agent_step's kernel lie. Host code; the kernel gets the results.
//
// Weights of a product lie in 16 x 16 tiles [output tile][input tile], padded with zeros, each in the order in which a
// warp reads it as the left operand of mma.sync m16n8k16: [plane][lane][4 registers].
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/acting/agent_step/agent_step.h"

namespace engram {

constexpr int kStepThreads = 512;
constexpr int kStepTile = 16;
constexpr int kStepCluster = 8;                       // blocks, where the device has clusters
constexpr int kConvolution1 = 8, kConvolution2 = 16;  // channels

HOST_DEVICE constexpr int tiles_of(int count) { return (count + kStepTile - 1) / kStepTile; }

constexpr int kStepMaxOwn = 12;  // environments of a block

// Elements between the rows of an operand in shared memory: ldmatrix then meets no bank twice.
HOST_DEVICE constexpr int operand_stride_of(int tiles) { return tiles * kStepTile + 8; }
HOST_DEVICE constexpr int projection_stride_of(int tiles) { return tiles * kStepTile + 4; }
// Floats between the slots of a ring: 8 or 24 modulo 32, so that half a warp of 64-bit loads, four lanes a slot, meets
// no bank twice.
HOST_DEVICE constexpr int ring_stride_of(int width) { return (width + 7) / 16 * 16 + 8; }
// Of the MLP's hidden units, zeros behind them: every block of a cluster has as many.
HOST_DEVICE constexpr int step_inner_tiles(int inner_width) {
  return (tiles_of(inner_width) + kStepCluster - 1) / kStepCluster * kStepCluster;
}
// Elements of a head beside each other, which are taken in pairs: odd widths have a zero behind them. The mixer's
// queries, keys, values, vector gates and results, and its memories in shared memory, lie so.
HOST_DEVICE constexpr int padded_head_of(int head_width) { return (head_width + 1) / 2 * 2; }
HOST_DEVICE constexpr int shares_of(int tiles, int cluster) { return (tiles + cluster - 1) / cluster; }

struct AgentStepLayout {
  // Sizes, in tiles but for the first four; mixer: all heads, padded.
  int features, projection_rows, head_width, mixer_width;
  int feature_tiles, width_tiles, mixer_tiles, projection_tiles, inner_tiles, hidden_tiles, action_tiles;

  // Packed matrices, in tiles; those of a layer from layer * layer_tiles on.
  int encoder, projection, output, gate, up, down, layer_tiles, hidden1, hidden2, action, tile_count;
  // Packed vectors, in floats; those of a layer from layer * layer_floats on.
  int convolution1, convolution1_bias, convolution2, convolution2_bias, encoder_bias;
  int mixer_norm, head_norm, mlp_norm, layer_floats, norm, hidden1_bias, hidden2_bias, action_bias, float_count;

  explicit AgentStepLayout(const AgentStepShape& shape) {
    features = shape.image() ? kConvolution2 * (shape.height - 2) * (shape.columns - 2) : shape.channels;
    head_width = shape.head_width();
    mixer_width = shape.heads * padded_head_of(head_width);
    const bool vector_gates = shape.window > 0 && shape.mixing == AgentStepMixing::kVector;
    projection_rows = 3 * mixer_width + shape.heads + (vector_gates ? mixer_width : shape.gate_rows());
    feature_tiles = tiles_of(features);
    width_tiles = tiles_of(shape.width);
    mixer_tiles = tiles_of(mixer_width);
    projection_tiles = tiles_of(projection_rows);
    inner_tiles = step_inner_tiles(shape.inner_width);
    hidden_tiles = tiles_of(shape.hidden_width);
    action_tiles = tiles_of(shape.actions);

    int next = 0;
    const auto take = [&next](int count) {
      next += count;
      return next - count;
    };
    projection = take(projection_tiles * width_tiles);
    output = take(width_tiles * mixer_tiles);
    gate = take(inner_tiles * width_tiles);
    up = take(inner_tiles * width_tiles);
    down = take(width_tiles * inner_tiles);
    layer_tiles = next;
    next *= shape.layers;
    encoder = take(width_tiles * feature_tiles);
    hidden1 = take(hidden_tiles * width_tiles);
    hidden2 = take(hidden_tiles * hidden_tiles);
    action = take(action_tiles * hidden_tiles);
    tile_count = next;

    next = 0;
    mixer_norm = take(shape.width);
    head_norm = take(shape.head_width());
    mlp_norm = take(shape.width);
    layer_floats = next;
    next *= shape.layers;
    convolution1 = take(kConvolution1 * shape.channels * 4);
    convolution1_bias = take(kConvolution1);
    convolution2 = take(kConvolution2 * kConvolution1 * 4);
    convolution2_bias = take(kConvolution2);
    encoder_bias = take(shape.width);
    norm = take(shape.width);
    hidden1_bias = take(hidden_tiles * kStepTile);
    hidden2_bias = take(hidden_tiles * kStepTile);
    action_bias = take(action_tiles * kStepTile);
    float_count = next;
  }
};

// Where dropout's decisions lie: a byte for each group of eight elements, the keys of an environment in this order.
struct AgentStepDropout {
  int width_groups, head_groups;  // of all heads of q, k or v
  int first_layer, query, key, value, mixer, mlp, layer_groups, groups;

  AgentStepDropout() = default;
  explicit AgentStepDropout(const AgentStepShape& shape)
      : width_groups(static_cast<int>(dropout_row(shape.width)) / kDropoutGroup),
        head_groups(shape.heads * static_cast<int>(dropout_row(shape.head_width())) / kDropoutGroup),
        first_layer(2 * width_groups),  // after the encoder's and the backbone's input
        query(0),
        key(head_groups),
        value(2 * head_groups),
        mixer(3 * head_groups),
        mlp(mixer + width_groups),
        layer_groups(mlp + width_groups),
        groups(first_layer + shape.layers * layer_groups) {}
};

// Shared memory of a block, in bytes. A cluster of `cluster` blocks takes cluster * own environments; each block owns
// `own` of them: their residual stream and memory. Products are spread over the cluster, so that a block holds operands
// of all its environments. Alone (`sources` not 0): one environment, of which every block holds all but the products of
// the others, `sources` blocks together.
struct AgentStepShared {
  int own, stages;
  int own_reciprocal;  // column / own = column * own_reciprocal >> 16
  int normed, residual, kept, partial, projection, mixed, rope, vectors, stage, hidden1;
  int scratch;  // of the encoder, and of the block's own products; partial, too, unless alone
  // Inside `scratch`, which is free while the mixer runs.
  int fast_pair, fast_partial, value_partial, score, update, fast_output, overlap;
  // Inside a stage.
  int stage_key, stage_value, stage_bytes;
  int bytes;

  AgentStepShared(const AgentStepShape& shape, const AgentStepLayout& layout, int cluster, int own_rows,
                  int stage_count, int element_bytes, int sources = 0)
      : own(own_rows), stages(stage_count) {
    const int rows = (cluster * own + 15) / 16 * 16;  // operands are loaded two tiles of 8 rows at a time
    const int width = layout.width_tiles * kStepTile;
    const int inner_share = layout.inner_tiles / cluster, hidden_share = shares_of(layout.hidden_tiles, cluster);
    const int operand_stride = operand_stride_of(layout.width_tiles);
    const int feature_stride = operand_stride_of(layout.feature_tiles);
    const int inner_stride = operand_stride_of(inner_share), action_stride = operand_stride_of(hidden_share);
    const int hidden_stride = operand_stride_of(layout.hidden_tiles);
    const int projection_stride = projection_stride_of(layout.projection_tiles);
    const int mixer_width = layout.mixer_width, ring_stride = ring_stride_of(mixer_width);
    own_reciprocal = 65536 / own + 1;

    int next = 0;
    const auto take = [&next](int size) {
      next += (size + 127) / 128 * 128;
      return next - (size + 127) / 128 * 128;
    };
    normed = take(rows * operand_stride * element_bytes);
    residual = take(own * width * 4);
    kept = take(own * AgentStepDropout(shape).groups);
    rope = take(own * shape.head_width() / 2 * 8);
    mixed = take(16 * operand_stride_of(layout.mixer_tiles) * element_bytes);
    vectors = take(sources > 0 ? layout.float_count * 4 : 0);
    scratch = next;
    fast_pair = take(own * mixer_width * 8);
    fast_partial = take(kStepThreads * 16);
    value_partial = take(kStepThreads * 8);
    score = take(shape.window * shape.heads * 4);
    update = take(mixer_width * 4);
    fast_output = take(mixer_width * 4);
    overlap = take(own * shape.heads * 4);
    const int end_scratch = next;
    int encoder_bytes = 16 * feature_stride * element_bytes;
    if (shape.image())
      encoder_bytes += 4 * (kConvolution1 * (4 * shape.channels + 1) + kConvolution2 * (4 * kConvolution1 + 1) +
                            own * (shape.channels * shape.height * shape.columns +
                                   kConvolution1 * (shape.height - 1) * (shape.columns - 1)));
    const int end_encoder = scratch + (encoder_bytes + 127) / 128 * 128;
    // Alone, the other blocks may send their parts while this one still reads its scratch.
    next = sources > 0 ? std::max(end_scratch, end_encoder) : scratch;
    partial = take(std::max(sources, cluster) * own * std::max(width, layout.action_tiles * kStepTile) * 4);
    if (sources == 0) next = std::max(next, end_scratch);
    projection =
        take(std::max(own * projection_stride * 4, rows * std::max(inner_stride, action_stride) * element_bytes));
    next = std::max(next, end_encoder);

    stage = hidden1 = next;
    next = 0;
    take(shape.width * padded_head_of(shape.head_width()) * 4);
    stage_key = take(shape.window * ring_stride * 4);
    stage_value = take(shape.window * ring_stride * 4);
    stage_bytes = next;
    bytes = stage + std::max(stages * stage_bytes, rows * hidden_stride * element_bytes);
  }
};

}  // namespace engram
