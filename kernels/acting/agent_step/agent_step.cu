#include <cmath>
#include <cstddef>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/acting/agent_step/agent_step.h"
#include "kernels/acting/agent_step/arguments.h"
#include "kernels/acting/agent_step/product.cuh"

namespace engram {

// One matrix or vector to take over: source [rows, columns].
struct AgentStepPacking {
  const float* source;
  int rows, columns;
  std::int64_t target;  // first tile, or first float of a vector
  int row_offset;       // in the packed matrix
  int input_tiles;      // 0: a vector
  // Rows or columns of a head beside each other, and in the packed matrix; 0: they are no heads'.
  int row_head = 0, column_head = 0, padded_head = 0;

  __device__ int packed_row(int row) const { return packed(row, row_head) + row_offset; }
  __device__ int packed_column(int column) const { return packed(column, column_head); }

 private:
  __device__ int packed(int i, int head) const { return head == 0 ? i : i / head * padded_head + i % head; }
};

namespace {

constexpr int kPackThreads = 256, kPackBlocks = 32;  // blocks a source

template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    pack_kernel(const AgentStepPacking* packing, bf16* tiles, float* vectors) {
  const AgentStepPacking own = packing[blockIdx.y];
  const int count = own.rows * own.columns;
  for (int i = blockIdx.x * kPackThreads + threadIdx.x; i < count; i += kPackBlocks * kPackThreads) {
    float rest = own.source[i];
    if (own.input_tiles == 0) {
      vectors[own.target + i] = rest;
      continue;
    }
    const int row = own.packed_row(i / own.columns), column = own.packed_column(i % own.columns);
    const int m = row % kStepTile, k = column % kStepTile;
    const std::int64_t tile = own.target + row / kStepTile * own.input_tiles + column / kStepTile;
    const int lane = m % 8 * 4 + k % 8 / 2, element = (m / 8 + k / 8 * 2) * 2 + k % 2;
#pragma unroll
    for (int p = 0; p < kPlanes<T>; ++p) {
      const bf16 x = __float2bfloat16_rn(rest);
      tiles[(tile * kPlanes<T> + p) * kTileElements + lane * 8 + element] = x;
      rest -= __bfloat162float(x);
    }
  }
}

std::vector<AgentStepPacking> packing_of(const AgentStepShape& shape, const AgentStepWeights& weights) {
  const AgentStepLayout layout(shape);
  const int width = shape.width, heads = shape.heads, inner = shape.inner_width, hidden = shape.hidden_width;
  std::vector<AgentStepPacking> packing;
  const auto matrix = [&](const float* source, int rows, int columns, int tile, int row_offset = 0) {
    packing.push_back({source, rows, columns, tile, row_offset, tiles_of(columns)});
  };
  const int head = shape.head_width(), padded_head = padded_head_of(head), mixer = layout.mixer_width;
  const auto head_rows = [&](const float* source, int tile, int row_offset) {
    packing.push_back({source, width, width, tile, row_offset, layout.width_tiles, head, 0, padded_head});
  };
  const auto vector = [&](const float* source, int size, int target) {
    packing.push_back({source, 1, size, target, 0, 0});
  };
  for (int i = 0; i < shape.layers; ++i) {
    const AgentStepWeights::Layer& layer = weights.layers.at(i);
    const int tile = i * layout.layer_tiles, projection = tile + layout.projection, first = i * layout.layer_floats;
    head_rows(layer.query, projection, 0);
    head_rows(layer.key, projection, mixer);
    head_rows(layer.value, projection, 2 * mixer);
    matrix(layer.beta, heads, width, projection, 3 * mixer);
    if (shape.gate_rows() > 0 && shape.mixing == AgentStepMixing::kVector)
      head_rows(layer.mixer_gate, projection, 3 * mixer + heads);
    else if (shape.gate_rows() > 0)
      matrix(layer.mixer_gate, shape.gate_rows(), width, projection, 3 * mixer + heads);
    packing.push_back({layer.output, width, width, tile + layout.output, 0, layout.mixer_tiles, 0, head, padded_head});
    matrix(layer.gate, inner, width, tile + layout.gate);
    matrix(layer.up, inner, width, tile + layout.up);
    packing.push_back({layer.down, width, inner, tile + layout.down, 0, layout.inner_tiles});
    vector(layer.mixer_norm, width, first + layout.mixer_norm);
    vector(layer.head_norm, shape.head_width(), first + layout.head_norm);
    vector(layer.mlp_norm, width, first + layout.mlp_norm);
  }
  if (shape.image()) {
    vector(weights.convolution1, kConvolution1 * shape.channels * 4, layout.convolution1);
    vector(weights.convolution1_bias, kConvolution1, layout.convolution1_bias);
    vector(weights.convolution2, kConvolution2 * kConvolution1 * 4, layout.convolution2);
    vector(weights.convolution2_bias, kConvolution2, layout.convolution2_bias);
  }
  matrix(weights.observation, width, layout.features, layout.encoder);
  vector(weights.observation_bias, width, layout.encoder_bias);
  vector(weights.norm, width, layout.norm);
  matrix(weights.hidden1, hidden, width, layout.hidden1);
  vector(weights.hidden1_bias, hidden, layout.hidden1_bias);
  matrix(weights.hidden2, hidden, hidden, layout.hidden2);
  vector(weights.hidden2_bias, hidden, layout.hidden2_bias);
  matrix(weights.output, shape.actions, hidden, layout.action);
  vector(weights.output_bias, shape.actions, layout.action_bias);
  return packing;
}

// Padding stays zero forever.
template <typename X>
DeviceBuffer<X> zeros(std::size_t size) {
  DeviceBuffer<X> buffer(size);
  check_cuda(cudaMemset(buffer.data(), 0, size * sizeof(X)), "agent step: clear");
  return buffer;
}

}  // namespace

Support AgentStepper::supports(const AgentStepShape& shape, Dtype operands) {
  const auto above = [](const char* what, int value, int most) {
    return Support::no(std::string(what) + " " + std::to_string(value) + " is more than " + std::to_string(most));
  };
  for (const auto& [what, value] :
       {std::pair("observations", shape.channels), std::pair("layers", shape.layers), std::pair("heads", shape.heads),
        std::pair("the width", shape.width), std::pair("the inner width", shape.inner_width),
        std::pair("the actor's hidden width", shape.hidden_width), std::pair("actions", shape.actions)})
    if (value < 1) return Support::no(std::string("the number or size of ") + what + " is " + std::to_string(value));
  const std::string width = std::to_string(shape.width), heads = std::to_string(shape.heads);
  if (shape.image() && (shape.height < 3 || shape.columns < 3))
    return Support::no("images of " + std::to_string(shape.height) + " x " + std::to_string(shape.columns) +
                       " are smaller than 3 x 3");
  if (shape.width % shape.heads != 0) return Support::no("width " + width + " is not divisible by heads " + heads);
  if (shape.width > kAgentStepMaxWidth) return above("width", shape.width, kAgentStepMaxWidth);
  if (shape.head_width() > kAgentStepMaxHeadWidth)
    return above("head width", shape.head_width(), kAgentStepMaxHeadWidth);
  if (shape.window > 0 && shape.rope && shape.head_width() % 2 != 0)
    return Support::no("rotary positions need an even head width, not " + std::to_string(shape.head_width()));
  if (shape.layers > kAgentStepMaxLayers) return above("layers", shape.layers, kAgentStepMaxLayers);
  if (shape.actions > kAgentStepMaxActions) return above("actions", shape.actions, kAgentStepMaxActions);
  const StepLaunch launch = plan_step(shape, operands, prepare_step_kernel(shape, operands), 1);
  if (launch.rows_per_cluster == 0)
    return Support::no("one environment needs " + std::to_string(launch.shared.bytes) +
                       " bytes of shared memory, more than a block has (window " + std::to_string(shape.window) +
                       ", width " + width + ", inner width " + std::to_string(shape.inner_width) + ")");
  return {};
}

AgentStepper::AgentStepper(const AgentStepShape& shape, Dtype operands, const AgentStepWeights& weights)
    : shape_(shape), operands_(operands) {
  if (const Support own = supports(shape, operands); !own) throw std::runtime_error("agent step: " + own.reason());
  device_ = std::make_unique<StepDevice>(prepare_step_kernel(shape, operands));
  const AgentStepLayout layout(shape);
  const std::size_t planes = operands == Dtype::kBfloat16 ? kPlanes<bf16> : kPlanes<float>;
  packing_ = DeviceBuffer<AgentStepPacking>(packing_of(shape, weights));
  tiles_ = zeros<bf16>(static_cast<std::size_t>(layout.tile_count) * planes * kTileElements);
  vectors_ = zeros<float>(static_cast<std::size_t>(layout.float_count));
  const int half = shape.head_width() / 2;
  std::vector<double> frequencies(half);
  for (int i = 0; i < half; ++i)
    frequencies[i] = std::pow(10000.0, i * (-2.0 / shape.head_width())) / (2 * std::numbers::pi);
  rope_frequencies_ = DeviceBuffer<double>(frequencies);
  finished_ = zeros<unsigned>(1);
}

AgentStepper::~AgentStepper() = default;

void AgentStepper::pack_weights(cudaStream_t stream) {
  const dim3 grid(kPackBlocks, static_cast<unsigned>(packing_.size()));
  const auto kernel = operands_ == Dtype::kBfloat16 ? pack_kernel<bf16> : pack_kernel<float>;
  kernel<<<grid, kPackThreads, 0, stream>>>(packing_.data(), tiles_.data(), vectors_.data());
  check_cuda(cudaGetLastError(), "agent step: packing");
}

void AgentStepper::step(const AgentStepRows& rows, cudaStream_t stream) {
  if (rows.rows < 1) throw std::runtime_error("agent step: " + std::to_string(rows.rows) + " rows");
  const StepLaunch launch = plan_step(shape_, operands_, *device_, rows.rows);
  bool drops = rows.encoder_dropout.drops() || rows.input_dropout.drops();
  for (int i = 0; i < shape_.layers; ++i) {
    const AgentStepRows::LayerDropout& layer = rows.dropout[i];
    for (const DropoutKey* key : {&layer.query, &layer.key, &layer.value, &layer.mixer, &layer.mlp})
      drops = drops || key->drops();
  }
  launch_step(launch, operands_,
              {shape_, AgentStepLayout(shape_), launch.shared, rows, AgentStepDropout(shape_), drops,
               launch.rows_per_cluster, tiles_.data(), vectors_.data(), rope_frequencies_.data(), finished_.data()},
              stream);
}

}  // namespace engram
