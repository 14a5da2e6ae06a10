// The kernel for few environments (compute capability 9.0): a cluster takes one environment.
//
// What counts is the number of times that the blocks have to wait for each other. So every block holds the residual
// stream, computes norms and memory itself and sends its share of a product to all others: twice a layer, and twice for
// the actor. The first block alone writes the step's results.
#include <cstdint>

#include "kernels/acting/agent_step/memory.cuh"
#include "kernels/acting/agent_step/messages.cuh"
#include "kernels/common/early_launch.h"

namespace engram {
namespace {

template <typename T, class Sizes>
__global__ void __launch_bounds__(kStepThreads, 1) alone_kernel(const __grid_constant__ StepArguments arguments) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Mailbox projections, outputs, hidden, logits;
  constexpr int kAhead = kPlanes < T >> 1 ? 2 : Sizes::kFixed ? 16 : 8;  // tiles in flight; mostly all
  const AgentStepLayout& layout = arguments.layout;
  const AgentStepShared& at = arguments.shared;
  const int rank = blockIdx.x % kStepCluster;
  StepBlock<T, 1, Sizes, true> block(arguments, memory, 0, blockIdx.x / kStepCluster, rank == 0);

  const int width_tiles = block.width_tiles(), width = width_tiles * kStepTile, stride = operand_stride_of(width_tiles);
  const int action_width = layout.action_tiles * kStepTile;
  const int projection_bytes = block.projection_tiles() * kStepTile * 4, output_bytes = kStepCluster * width * 4;
  if (threadIdx.x == 0) {
    projections.create(), outputs.create(), hidden.create(), logits.create();
    publish_mailboxes();
    projections.open(projection_bytes);
    outputs.open(output_bytes);
    hidden.open(block.hidden_tiles() * kStepTile * static_cast<int>(sizeof(T)));
    if (rank == 0) logits.open(kStepCluster * action_width * 4);
  }
  cluster_arrive<kStepCluster>();
  wait_for_previous_kernel();

  const auto matrix = [&](int tile) {
    return arguments.tiles + static_cast<std::int64_t>(tile) * kPlanes<T> * kTileElements;
  };
  const auto block_barrier = [] { __syncthreads(); };
  // The products between two barriers go to different warps, so that weights are fetched while others still compute.
  const auto multiply_local = [&](int tile, int inputs, const T* operand, int operand_stride, const auto& store) {
    const bf16* const first[1] = {matrix(tile)};
    multiply<T, 1, kAhead>(
        first, width_tiles, inputs, inputs, operand, operand_stride, 1, block_barrier,
        [&](int m, int, const Accumulator(&sum)[1]) {
          if (lane_id() % 4 != 0) return;
          store(m * kStepTile + lane_id() / 4, 0, sum[0].x[0]);
          store(m * kStepTile + lane_id() / 4 + 8, 0, sum[0].x[2]);
        },
        /*first_warp=*/6);
  };
  const T* normed = block.template shared<T>(at.normed);
  float* projected = block.template shared<float>(at.projection);
  float* partial = block.template shared<float>(at.partial);
  float* scratch = block.template shared<float>(at.scratch);

  block.begin();
  block.encode(multiply_local);
  block.start_and_normalise(layout.mixer_norm);
  cluster_wait<kStepCluster>();  // every block's mailboxes are there

  for (int layer = 0; layer < arguments.shape.layers; ++layer) {
    const int tiles = layer * layout.layer_tiles, vectors = block.layer_vectors(layer);
    const bool last = layer + 1 == arguments.shape.layers;
    {
      const int first_m = rank * block.projection_tiles() / kStepCluster;
      const int count = (rank + 1) * block.projection_tiles() / kStepCluster - first_m;
      const bf16* const first[1] = {matrix(tiles + layout.projection + first_m * width_tiles)};
      // The first block overwrites fast weights when it has heard from all blocks, so when all have copied them.
      const auto copied = [&] {
        block.wait_for_copy();
        __syncthreads();
      };
      multiply<T, 1, kAhead>(
          first, count, width_tiles, width_tiles, normed, stride, 1, copied,
          [&](int m, int, const Accumulator(&sum)[1]) {
            send_column(projected + (first_m + m) * kStepTile, projections, sum[0], kStepCluster);
          },
          /*first_warp=*/8);
    }
    projections.wait(layer);
    if (threadIdx.x == 0 && !last) projections.open(projection_bytes);

    block.prepare(layer);
    block.remember(layer, 0);
    multiply_local(tiles + layout.output, block.mixer_tiles(), block.template shared<T>(at.mixed),
                   operand_stride_of(block.mixer_tiles()), [&](int output, int, float x) { scratch[output] = x; });
    __syncthreads();
    const AgentStepRows::LayerDropout& dropout = arguments.rows.dropout[layer];
    block.template add_and_normalise<1>(at.scratch, dropout.mixer, block.layer_groups(layer) + arguments.dropout.mixer,
                                        vectors + layout.mlp_norm);

    // The MLP's inner channels are spread over the cluster; each block's share gives a part of every output.
    const int share = block.inner_tiles() / kStepCluster, first_inner = rank * share;
    const int inner_stride = operand_stride_of(share);
    T* inner = block.template shared<T>(at.projection);
    {
      const bf16* const first[2] = {matrix(tiles + layout.gate + first_inner * width_tiles),
                                    matrix(tiles + layout.up + first_inner * width_tiles)};
      multiply<T, 2, kAhead / 2>(
          first, share, width_tiles, width_tiles, normed, stride, 1, block_barrier,
          [&](int m, int, const Accumulator(&sum)[2]) {
            Accumulator x;
#pragma unroll
            for (int i = 0; i < 4; ++i) x.x[i] = silu(sum[0].x[i]) * sum[1].x[i];
            store_transposed(inner + m * kStepTile, inner_stride, x, 1, kStepTile);
          },
          /*first_warp=*/1);
    }
    {
      const bf16* const first[1] = {matrix(tiles + layout.down + first_inner)};
      multiply<T, 1, kAhead>(
          first, width_tiles, share, block.inner_tiles(), inner, inner_stride, 1, block_barrier,
          [&](int m, int, const Accumulator(&sum)[1]) {
            send_column(partial + rank * width + m * kStepTile, outputs, sum[0], kStepCluster);
          },
          /*first_warp=*/8);
    }
    outputs.wait(layer);
    if (threadIdx.x == 0 && !last) outputs.open(output_bytes);
    block.template add_and_normalise<kStepCluster>(
        at.partial, dropout.mlp, block.layer_groups(layer) + arguments.dropout.mlp,
        last ? layout.norm : block.layer_vectors(layer + 1) + layout.mixer_norm);
  }

  const int hidden_tiles = block.hidden_tiles(), hidden_stride = operand_stride_of(hidden_tiles);
  const int share = shares_of(hidden_tiles, kStepCluster), share_stride = operand_stride_of(share);
  const int first_hidden = min(rank * share, hidden_tiles), hidden_count = min(share, hidden_tiles - first_hidden);
  T* hidden1 = block.template shared<T>(at.hidden1);
  {
    const bf16* const first[1] = {matrix(layout.hidden1 + first_hidden * width_tiles)};
    multiply<T, 1, kAhead>(
        first, hidden_count, width_tiles, width_tiles, normed, stride, 1, block_barrier,
        [&](int m, int, const Accumulator(&sum)[1]) {
          send_column(hidden1 + (first_hidden + m) * kStepTile, hidden,
                      block.biased_relu(layout.hidden1_bias + (first_hidden + m) * kStepTile, sum[0]), kStepCluster);
        },
        /*first_warp=*/8);
  }
  T* hidden2 = block.template shared<T>(at.projection);
  {
    const bf16* const first[1] = {matrix(layout.hidden2 + first_hidden * hidden_tiles)};
    multiply<T, 1, kAhead>(
        first, hidden_count, hidden_tiles, hidden_tiles, hidden1, hidden_stride, 1, [&] { hidden.wait(0); },
        [&](int m, int, const Accumulator(&sum)[1]) {
          store_transposed(hidden2 + m * kStepTile, share_stride,
                           block.biased_relu(layout.hidden2_bias + (first_hidden + m) * kStepTile, sum[0]), 1,
                           kStepTile);
        },
        /*first_warp=*/0);
  }
  {
    const bf16* const first[1] = {matrix(layout.action + first_hidden)};
    multiply<T, 1, kAhead>(
        first, layout.action_tiles, hidden_count, hidden_tiles, hidden2, share_stride, 1, block_barrier,
        [&](int m, int, const Accumulator(&sum)[1]) {
          send_column(partial + rank * action_width + m * kStepTile, logits, sum[0], 1);
        },
        /*first_warp=*/4);
  }
  if (rank != 0) return;
  logits.wait(0);
  block.template choose<kStepCluster>();
  if (threadIdx.x == kStepThreads - 1) count_tick(arguments, gridDim.x / kStepCluster);
#endif
}

}  // namespace

StepKernel alone_kernel_of(const AgentStepShape& shape, Dtype operands) {
  if (operands == Dtype::kFloat32) return alone_kernel<float, AnySizes>;
  return choose_sizes(shape, [](auto sizes) -> StepKernel { return alone_kernel<bf16, decltype(sizes)>; });
}

}  // namespace engram
