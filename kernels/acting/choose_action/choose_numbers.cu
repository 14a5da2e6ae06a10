#include <stdexcept>
#include <string>

#include "base/sample_action.h"
#include "kernels/acting/choose_action/choose_numbers.h"
#include "kernels/common/cuda_support.h"
#include "kernels/common/early_launch.h"

namespace engram {
namespace {

constexpr int kThreads = 128;

// One thread a row.
__global__ void __launch_bounds__(kThreads) choose_numbers_kernel(const __grid_constant__ ChooseNumbers choice) {
  wait_for_previous_kernel();
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= choice.rows) return;
  const int numbers = choice.numbers;
  const float* const normal = choice.normal_NX + row * 2 * numbers;
  for (int i = 0; i < 2 * numbers; ++i) choice.kept_NX[row * 2 * numbers + i] = normal[i];
  if (!draw_numbers(normal, numbers, choice.greedy, choice.stream_N[row], choice.action_N + row * numbers))
    *choice.diverged = 1;
  choice.fresh_N[row] = 0;
}

}  // namespace

void choose_numbers(const ChooseNumbers& choice, cudaStream_t stream) {
  if (choice.rows < 0 || choice.numbers < 1)
    throw std::runtime_error("choose_numbers: " + std::to_string(choice.rows) + " rows of " +
                             std::to_string(choice.numbers) + " numbers");
  if (choice.rows == 0) return;
  const auto blocks = static_cast<unsigned>((choice.rows + kThreads - 1) / kThreads);
  launch_early<choose_numbers_kernel>(dim3(blocks), dim3(kThreads), 0, stream, "choose_numbers", choice);
}

}  // namespace engram
