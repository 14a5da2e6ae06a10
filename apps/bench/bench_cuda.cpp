// What the subjects that measure a GPU share.
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agents/run/machine/device_timing.h"
#include "agents/run/trained/trained_agent.h"
#include "apps/bench/bench.h"
#include "base/error.h"
#include "kernels/common/cuda_support.h"
#include "nn/device/device.h"
#include "nn/device/gpu_share.h"

namespace engram {

torch::Device bench_gpu(const std::string& subject) {
  if (!has_cuda_device())
    throw UserError("bench " + subject + " measures a GPU, and " + no_gpu_text(device_count_error()));
  return parse_device("cuda:0");
}

double gpu_update_ms(Learner& learner, const EpisodeBatch& batch) {
  constexpr int kMost = 50, kLeast = 5;
  c10::cuda::CUDACachingAllocator::emptyCache();  // of the graphs that were measured before, whose pools no other uses
  for (int i = 0; i < 6; ++i) learner.update(batch);
  std::vector<double> milliseconds;
  double total = 0;
  while (milliseconds.size() < kMost && (milliseconds.size() < kLeast || total < 1e3)) {
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record();
    learner.update(batch);
    end.record();
    end.synchronize();
    milliseconds.push_back(begin.elapsed_time(end));
    total += milliseconds.back();
  }
  const auto middle = milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2);
  std::nth_element(milliseconds.begin(), middle, milliseconds.end());
  return *middle;
}

// For as long as a GPU that was idle takes to reach its clocks.
constexpr double kSeconds = 0.5;

// By a kernel that reads and writes: a copy in a graph is left to a copy engine, which is slower than memory.
double device_copy_bytes_per_second() {
  constexpr std::int64_t kValues = std::int64_t{1} << 28;
  const auto options = torch::TensorOptions(torch::kCUDA).dtype(torch::kFloat32);
  const torch::Tensor from = torch::ones(kValues, options);
  torch::Tensor to = torch::empty_like(from);
  const double ms = torch_graph_ms(
      4, [&] { torch::neg_out(to, from); }, kSeconds);
  return 2e3 * static_cast<double>(kValues * sizeof(float)) / ms;
}

double large_product_flops_per_second() {
  constexpr std::int64_t kSide = 8192;
  const auto options = torch::TensorOptions(torch::kCUDA).dtype(torch::kBFloat16);
  const torch::Tensor a = torch::randn({kSide, kSide}, options), b = torch::randn({kSide, kSide}, options);
  torch::Tensor c = torch::empty_like(a);
  const double ms = torch_graph_ms(
      4, [&] { torch::mm_out(c, a, b); }, kSeconds);
  return 2e3 * static_cast<double>(kSide) * kSide * kSide / ms;
}

}  // namespace engram
