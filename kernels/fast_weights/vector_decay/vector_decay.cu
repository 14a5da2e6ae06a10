#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/common/block_threads.h"
#include "kernels/common/launch.cuh"
#include "kernels/fast_weights/vector_decay/delta_walk.h"
#include "kernels/fast_weights/vector_decay/vector_decay.h"
#include "kernels/fast_weights/vector_decay/walk.h"

namespace engram {
namespace {

using namespace vector_decay;

constexpr int kMaxTime = 1 << 30;

template <Role kRole, int kPart>
__global__ void __launch_bounds__(Walk<kRole, kPart>::kThreads) walk_kernel(const __grid_constant__ Problem problem) {
  __shared__ typename Walk<kRole, kPart>::Shared shared;
  Walk<kRole, kPart> walk(problem, blockIdx.x, threadIdx.x);
  OneThread threads(walk, shared);
  walk_block<kRole>(threads);
}

template <Role kRole>
void launch_walk(const Problem& problem, const char* what, cudaStream_t stream) {
  const VectorDecay& given = problem.given;
  with_sixteens(has_rows_of_keys(kRole) ? given.value_width : given.key_width, [&](auto part) {
    using OneWalk = Walk<kRole, part()>;
    const auto matrices = static_cast<unsigned>(given.batch) * static_cast<unsigned>(given.heads);
    walk_kernel<kRole, part()>
        <<<matrices* static_cast<unsigned>(OneWalk::groups(given)), OneWalk::kThreads, 0, stream>>>(problem);
    check_cuda(cudaGetLastError(), what);
  });
}

void check_shape(const VectorDecay& given) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const auto has = [](int width) { return width >= 1 && width <= kMaxVectorDecayWidth; };
  const std::int64_t rows = given.batch;
  if (given.batch < 1 || given.time < 1 || given.time > kMaxTime || given.heads < 1 || !has(given.key_width) ||
      !has(given.value_width) || rows * given.time > kMost ||
      rows * given.time * given.heads > kMost / std::max(given.key_width, given.value_width))
    throw std::runtime_error("a decay for each key channel: " + std::to_string(given.batch) + " rows of " +
                             std::to_string(given.time) + " steps with " + std::to_string(given.heads) + " heads of " +
                             std::to_string(given.key_width) + " key and " + std::to_string(given.value_width) +
                             " value channels");
}

template <DeltaRole kRole, int kLanes>
__global__ void __launch_bounds__(DeltaWalk<kRole, kLanes>::kThreads)
    delta_kernel(const __grid_constant__ DeltaProblem problem) {
  using OneWalk = DeltaWalk<kRole, kLanes>;
  __shared__ typename OneWalk::Shared shared;
  OneWalk walk(problem, blockIdx.x, threadIdx.x);
  OneThread threads(walk, shared);
  walk_delta_block<OneWalk>(threads);
}

template <DeltaRole kRole>
void launch_delta(const DeltaProblem& problem, const char* what, cudaStream_t stream) {
  const VectorDecay& given = problem.given.sum;
  check_shape(given);
  with_sixteens(given.key_width, [&](auto lanes) {
    using OneWalk = DeltaWalk<kRole, lanes()>;
    const auto matrices = static_cast<unsigned>(given.batch) * static_cast<unsigned>(given.heads);
    delta_kernel<kRole, lanes()>
        <<<matrices* static_cast<unsigned>(OneWalk::groups(given)), OneWalk::kThreads, 0, stream>>>(problem);
    check_cuda(cudaGetLastError(), what);
  });
}

}  // namespace

void vector_decay_forward(const VectorDecay& given, float* output_BTHV, cudaStream_t stream) {
  check_shape(given);
  launch_walk<Role::kOutput>({given, nullptr, output_BTHV, {}}, "fast weights with a decay for each channel", stream);
}

void vector_decay_backward(const VectorDecay& given, const float* output_gradient_BTHV,
                           const VectorDecayGradient& gradient, cudaStream_t stream) {
  check_shape(given);
  const Problem problem{given, output_gradient_BTHV, nullptr, gradient};
  launch_walk<Role::kQuery>(problem, "a decay for each channel, the queries' gradient", stream);
  launch_walk<Role::kKey>(problem, "a decay for each channel, the keys' gradient", stream);
  if (gradient.value_BTHV != nullptr)
    launch_walk<Role::kValue>(problem, "a decay for each channel, the values' gradient", stream);
}

void vector_delta_forward(const VectorDelta& given, float* output_BTHV, float* error_BTHV, cudaStream_t stream) {
  launch_delta<DeltaRole::kForward>({given, output_BTHV, error_BTHV, nullptr, nullptr},
                                    "the delta rule with a decay for each channel", stream);
}

void vector_delta_backward(const VectorDelta& given, const float* output_gradient_BTHV, float* written_gradient_BTHV,
                           cudaStream_t stream) {
  launch_delta<DeltaRole::kBackward>({given, nullptr, nullptr, output_gradient_BTHV, written_gradient_BTHV},
                                     "the delta rule with a decay for each channel, the gradient of what is written",
                                     stream);
}

}  // namespace engram
