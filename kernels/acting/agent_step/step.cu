#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/acting/agent_step/memory.cuh"
#include "kernels/common/early_launch.h"

namespace engram {
namespace {

// A cluster of blocks takes rows_per_cluster environments. Each block owns some of them; products are spread over the
// cluster by outputs (by inputs where the inputs were made here), and their results written to the owners.
template <typename T, int kCluster, class Sizes>
__global__ void __launch_bounds__(kStepThreads, 1) step_kernel(const __grid_constant__ StepArguments arguments) {
  extern __shared__ __align__(128) unsigned char memory[];
  const AgentStepLayout& layout = arguments.layout;
  const AgentStepShared& at = arguments.shared;
  const int rank = blockIdx.x % kCluster;
  StepBlock<T, kCluster, Sizes, false> block(arguments, memory, rank, blockIdx.x / kCluster, true);
  cluster_arrive<kCluster>();  // the others may write to this block's memory once it runs
  wait_for_previous_kernel();

  const int columns = block.columns(), column_tiles = (columns + 7) / 8;
  const int width_tiles = block.width_tiles(), width = width_tiles * kStepTile, stride = operand_stride_of(width_tiles);
  const auto matrix = [&](int tile) {
    return arguments.tiles + static_cast<std::int64_t>(tile) * kPlanes<T> * kTileElements;
  };
  const auto block_barrier = [] { __syncthreads(); };
  const auto cluster_barrier = [] { cluster_wait<kCluster>(); };
  const T* normed = block.template shared<T>(at.normed);

  // W X for the block's own environments; store(output, own, x).
  const auto multiply_local = [&](int tile, int inputs, const T* operand, int operand_stride, const auto& store) {
    const bf16* const first[1] = {matrix(tile)};
    multiply<T, 1>(first, width_tiles, inputs, inputs, operand, operand_stride, (block.own_rows() + 7) / 8,
                   block_barrier, [&](int m, int n, const Accumulator(&sum)[1]) {
#pragma unroll
                     for (int i = 0; i < 4; ++i) {
                       const int own = n * 8 + lane_id() % 4 * 2 + i % 2;
                       if (own < block.own_rows()) store(m * kStepTile + lane_id() / 4 + i / 2 * 8, own, sum[0].x[i]);
                     }
                   });
  };
  // Writes a tile of results for all environments to their owners, at `offset` of their memory, `pitch` floats a row.
  const auto store_to_owners = [&](int offset, int pitch, int m, int n, const Accumulator& sum) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = n * 8 + lane_id() % 4 * 2 + j;
      if (column >= columns) continue;
      const int owner = column * at.own_reciprocal >> 16, own = column - owner * at.own;
      float* target =
          peer<kCluster>(block.template shared<float>(offset), owner) + own * pitch + m * kStepTile + lane_id() / 4;
      target[0] = sum.x[j];
      target[8] = sum.x[2 + j];
    }
  };
  const auto store_operand_tile = [&](T* operand, int operand_stride, int m, int n, const Accumulator& x) {
    store_transposed(operand + n * 8 * operand_stride + m * kStepTile, operand_stride, x, columns - n * 8, kStepTile);
  };

  block.begin();
  block.encode(multiply_local);
  cluster_barrier();
  block.start_and_normalise(layout.mixer_norm);
  cluster_arrive<kCluster>();

  for (int layer = 0; layer < arguments.shape.layers; ++layer) {
    const int tiles = layer * layout.layer_tiles;
    const int vectors = block.layer_vectors(layer);
    const AgentStepRows::LayerDropout& dropout = arguments.rows.dropout[layer];
    {
      const int share = shares_of(block.projection_tiles(), kCluster), first_m = rank * share;
      const bf16* const first[1] = {matrix(tiles + layout.projection + first_m * width_tiles)};
      multiply<T, 1>(first, max(0, min(share, block.projection_tiles() - first_m)), width_tiles, width_tiles, normed,
                     stride, column_tiles, cluster_barrier, [&](int m, int n, const Accumulator(&sum)[1]) {
                       store_to_owners(at.projection, projection_stride_of(block.projection_tiles()), first_m + m, n,
                                       sum[0]);
                     });
    }
    cluster_arrive<kCluster>();
    cluster_barrier();

    block.prepare(layer);
    for (int own = 0; own < block.own_rows(); ++own) block.remember(layer, own);
    float* output_N = block.template shared<float>(at.scratch);
    multiply_local(tiles + layout.output, block.mixer_tiles(), block.template shared<T>(at.mixed),
                   operand_stride_of(block.mixer_tiles()),
                   [&](int output, int own, float x) { output_N[own * width + output] = x; });
    __syncthreads();
    block.template add_and_normalise<1>(at.scratch, dropout.mixer, block.layer_groups(layer) + arguments.dropout.mixer,
                                        vectors + layout.mlp_norm);
    cluster_arrive<kCluster>();

    // The MLP's inner channels are spread over the cluster; each block's share gives a part of every output.
    const int share = block.inner_tiles() / kCluster, first_inner = rank * share;
    const int inner_stride = operand_stride_of(share);
    T* inner = block.template shared<T>(at.projection);
    {
      const bf16* const first[2] = {matrix(tiles + layout.gate + first_inner * width_tiles),
                                    matrix(tiles + layout.up + first_inner * width_tiles)};
      multiply<T, 2>(first, share, width_tiles, width_tiles, normed, stride, column_tiles, cluster_barrier,
                     [&](int m, int n, const Accumulator(&sum)[2]) {
                       Accumulator x;
#pragma unroll
                       for (int i = 0; i < 4; ++i) x.x[i] = silu(sum[0].x[i]) * sum[1].x[i];
                       store_operand_tile(inner, inner_stride, m, n, x);
                     });
    }
    {
      const bf16* const first[1] = {matrix(tiles + layout.down + first_inner)};
      multiply<T, 1>(first, width_tiles, share, block.inner_tiles(), inner, inner_stride, column_tiles, block_barrier,
                     [&](int m, int n, const Accumulator(&sum)[1]) {
                       store_to_owners(at.partial + rank * at.own * width * 4, width, m, n, sum[0]);
                     });
    }
    cluster_arrive<kCluster>();
    cluster_barrier();
    block.template add_and_normalise<kCluster>(
        at.partial, dropout.mlp, block.layer_groups(layer) + arguments.dropout.mlp,
        layer + 1 < arguments.shape.layers ? block.layer_vectors(layer + 1) + layout.mixer_norm : layout.norm);
    cluster_arrive<kCluster>();
  }

  const int hidden_tiles = block.hidden_tiles(), hidden_stride = operand_stride_of(hidden_tiles);
  const int share = shares_of(hidden_tiles, kCluster), share_stride = operand_stride_of(share);
  const int first_hidden = min(rank * share, hidden_tiles), hidden_count = min(share, hidden_tiles - first_hidden);
  T* hidden1 = block.template shared<T>(at.hidden1);
  {
    const bf16* const first[1] = {matrix(layout.hidden1 + first_hidden * width_tiles)};
    multiply<T, 1>(first, hidden_count, width_tiles, width_tiles, normed, stride, column_tiles, cluster_barrier,
                   [&](int m, int n, const Accumulator(&sum)[1]) {
                     const Accumulator x =
                         block.biased_relu(layout.hidden1_bias + (first_hidden + m) * kStepTile, sum[0]);
#pragma unroll
                     for (int i = 0; i < kCluster; ++i)
                       store_operand_tile(peer<kCluster>(hidden1, i), hidden_stride, first_hidden + m, n, x);
                   });
  }
  cluster_arrive<kCluster>();
  T* hidden2 = block.template shared<T>(at.projection);
  {
    const bf16* const first[1] = {matrix(layout.hidden2 + first_hidden * hidden_tiles)};
    multiply<T, 1>(first, hidden_count, hidden_tiles, hidden_tiles, hidden1, hidden_stride, column_tiles,
                   cluster_barrier, [&](int m, int n, const Accumulator(&sum)[1]) {
                     store_operand_tile(
                         hidden2, share_stride, m, n,
                         block.biased_relu(layout.hidden2_bias + (first_hidden + m) * kStepTile, sum[0]));
                   });
  }
  {
    const bf16* const first[1] = {matrix(layout.action + first_hidden)};
    const int pitch = layout.action_tiles * kStepTile;
    multiply<T, 1>(first, layout.action_tiles, hidden_count, hidden_tiles, hidden2, share_stride, column_tiles,
                   block_barrier, [&](int m, int n, const Accumulator(&sum)[1]) {
                     store_to_owners(at.partial + rank * at.own * pitch * 4, pitch, m, n, sum[0]);
                   });
  }
  cluster_arrive<kCluster>();
  cluster_barrier();
  block.template choose<kCluster>();
  if (rank == 0 && threadIdx.x == kStepThreads - 1) count_tick(arguments, gridDim.x / kCluster);
}

StepKernel step_kernel_of(const AgentStepShape& shape, Dtype operands, int cluster) {
  if (operands == Dtype::kFloat32)
    return cluster == 1 ? step_kernel<float, 1, AnySizes> : step_kernel<float, kStepCluster, AnySizes>;
  if (cluster == 1) return step_kernel<bf16, 1, AnySizes>;
  return choose_sizes(shape, [](auto sizes) -> StepKernel { return step_kernel<bf16, kStepCluster, decltype(sizes)>; });
}

// The code that runs may have been compiled for a device without clusters.
bool has_clusters() {
  return cuda_device_attribute(cudaDevAttrClusterLaunch) != 0 &&
         can_launch_early(reinterpret_cast<const void*>(step_kernel<bf16, kStepCluster, AnySizes>));
}

// Calls launch(config) for a grid of clusters.
template <typename Launch>
void with_config(int cluster, int clusters, int shared_bytes, cudaStream_t stream, const Launch& launch) {
  cudaLaunchAttribute attributes[2] = {early_launch(), {}};
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(clusters * cluster);
  config.blockDim = kStepThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 0;
  launch(config);
}

void allow_shared_memory(StepKernel kernel, int bytes) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             "agent step: shared memory");
}

}  // namespace

StepDevice prepare_step_kernel(const AgentStepShape& shape, Dtype operands) {
  StepDevice device{has_clusters() ? kStepCluster : 1, cuda_device_attribute(cudaDevAttrMultiProcessorCount),
                    cuda_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - kStaticSharedBytes};
  const StepKernel kernel = step_kernel_of(shape, operands, device.cluster);
  allow_shared_memory(kernel, device.shared_bytes);
  if (device.cluster > 1) {
    allow_shared_memory(alone_kernel_of(shape, operands), device.shared_bytes);
    with_config(device.cluster, 1, device.shared_bytes, nullptr, [&](const cudaLaunchConfig_t& config) {
      check_cuda(cudaOccupancyMaxActiveClusters(&device.clusters, kernel, &config), "agent step: clusters");
    });
  }
  return device;
}

StepLaunch plan_step(const AgentStepShape& shape, Dtype operands, const StepDevice& device, int rows) {
  const AgentStepLayout layout(shape);
  const int element_bytes = static_cast<int>(dtype_bytes(operands));
  // Every block of a cluster must have something to send to the others.
  if (device.cluster > 1 && rows <= device.clusters && layout.projection_tiles >= device.cluster)
    for (const int stages : {2, 1}) {
      const AgentStepShared shared(shape, layout, 1, 1, stages, element_bytes, device.cluster);
      if (shared.bytes <= device.shared_bytes) return {device.cluster, true, 1, shared};
    }
  const int most = device.cluster * (operands == Dtype::kBfloat16 ? kStepMaxOwn : kStepMaxOwn / 2);
  // As many clusters as run at a time, then as few rows a cluster as that leaves.
  for (int per_cluster = std::clamp((rows + device.clusters - 1) / device.clusters, 1, most); per_cluster >= 1;) {
    const int own = (per_cluster + device.cluster - 1) / device.cluster;
    for (const int stages : {2, 1}) {
      const AgentStepShared shared(shape, layout, device.cluster, own, stages, element_bytes);
      if (shared.bytes <= device.shared_bytes) return {device.cluster, false, per_cluster, shared};
    }
    per_cluster = (own - 1) * device.cluster;
  }
  return {device.cluster, false, 0, AgentStepShared(shape, layout, device.cluster, 1, 1, element_bytes)};
}

void launch_step(const StepLaunch& launch, Dtype operands, const StepArguments& arguments, cudaStream_t stream) {
  const int clusters = (arguments.rows.rows + launch.rows_per_cluster - 1) / launch.rows_per_cluster;
  const StepKernel kernel = launch.alone ? alone_kernel_of(arguments.shape, operands)
                                         : step_kernel_of(arguments.shape, operands, launch.cluster);
  with_config(launch.cluster, clusters, launch.shared.bytes, stream, [&](const cudaLaunchConfig_t& config) {
    check_cuda(cudaLaunchKernelEx(&config, kernel, arguments), "agent step");
  });
}

}  // namespace engram
