#include <cmath>
#include <numbers>
#include <stdexcept>
#include <type_traits>

#include "kernels/agent_step/agent_step.h"
#include "kernels/agent_step/arguments.h"
#include "kernels/agent_step/product.cuh"

namespace engram {

// One matrix or vector to take over: source [rows, columns].
struct AgentStepPacking {
  const float* source;
  int rows, columns;
  std::int64_t target;  // first tile, or first float of a vector
  int row_offset;       // in the packed matrix
  int input_tiles;      // 0: a vector
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
    const int row = i / own.columns + own.row_offset, column = i % own.columns;
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
  const auto vector = [&](const float* source, int size, int target) {
    packing.push_back({source, 1, size, target, 0, 0});
  };
  for (int i = 0; i < shape.layers; ++i) {
    const AgentStepWeights::Layer& layer = weights.layers.at(i);
    const int tile = i * layout.layer_tiles, projection = tile + layout.projection, first = i * layout.layer_floats;
    matrix(layer.query, width, width, projection);
    matrix(layer.key, width, width, projection, width);
    matrix(layer.value, width, width, projection, 2 * width);
    matrix(layer.beta, heads, width, projection, 3 * width);
    if (shape.gate_rows() > 0) matrix(layer.mixer_gate, shape.gate_rows(), width, projection, 3 * width + heads);
    matrix(layer.output, width, width, tile + layout.output);
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

std::optional<std::string> AgentStepper::unsupported(const AgentStepShape& shape, Dtype operands) {
  const std::string width = std::to_string(shape.width), heads = std::to_string(shape.heads);
  if (shape.channels < 1 || shape.layers < 1 || shape.heads < 1 || shape.hidden_width < 1 || shape.actions < 1 ||
      shape.inner_width < 1)
    return "sizes must be positive";
  if (shape.image() && (shape.height < 3 || shape.columns < 3)) return "images must be 3 x 3 at least";
  if (shape.width > 128 || shape.width % 4 != 0) return "width " + width + " is not a multiple of 4 up to 128";
  if (shape.width % shape.heads != 0 || shape.head_width() % 2 != 0)
    return "width " + width + " does not make " + heads + " heads of even width";
  if (shape.layers > kAgentStepMaxLayers) return "more than " + std::to_string(kAgentStepMaxLayers) + " layers";
  if (shape.actions > 32) return "more than 32 actions";
  if (plan_step(shape, operands, prepare_step_kernel(shape, operands), 1).rows_per_cluster == 0)
    return "window, observation, inner or hidden width do not fit shared memory";
  return std::nullopt;
}

AgentStepper::AgentStepper(const AgentStepShape& shape, Dtype operands, const AgentStepWeights& weights)
    : shape_(shape), operands_(operands) {
  if (const auto reason = unsupported(shape, operands)) throw std::runtime_error("agent step: " + *reason);
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
    for (const DropoutPlace* place : {&layer.query, &layer.key, &layer.value, &layer.mixer, &layer.mlp})
      drops = drops || place->drops();
  }
  launch_step(launch, operands_,
              {shape_, AgentStepLayout(shape_), launch.shared, rows, AgentStepDropout(shape_), drops,
               launch.rows_per_cluster, tiles_.data(), vectors_.data(), rope_frequencies_.data(), finished_.data()},
              stream);
}

}  // namespace engram
