#include <cstdint>
#include <vector>

#include "agents/act/policy.h"
#include "kernels/acting/choose_action/choose_action.h"
#include "kernels/acting/choose_action/choose_numbers.h"
#include "kernels/acting/reset_rows/reset_rows.h"
#include "nn/device/cuda_support.h"

namespace engram {

void forget_rows_on_gpu(MemoryState& memory, const torch::Tensor& fresh_N) {
  std::vector<RowTensor> tensors;
  for (const torch::Tensor& tensor : memory.tensors) {
    TORCH_CHECK(tensor.is_contiguous(), "a tensor of memory is not contiguous");
    tensors.push_back({tensor.data_ptr(), static_cast<std::int64_t>(tensor.nbytes()) / tensor.size(0)});
  }
  if (!tensors.empty())
    reset_rows(tensors, fresh_N.const_data_ptr<std::uint8_t>(), static_cast<int>(fresh_N.size(0)), current_stream());
}

void choose_actions_on_gpu(const ActingRows& rows, const torch::Tensor& given_NA, ActionChoice choice, Rng* stream_N,
                           const torch::Tensor& probabilities_NA, const torch::Tensor& diverged) {
  const torch::Tensor logits_NA = given_NA.stride(1) == 1 ? given_NA : given_NA.contiguous();
  choose_action({.rows = static_cast<int>(logits_NA.size(0)),
                 .actions = static_cast<int>(logits_NA.size(1)),
                 .greedy = choice == ActionChoice::kGreedy,
                 .logits_NA = logits_NA.const_data_ptr<float>(),
                 .logits_stride = logits_NA.stride(0),
                 .stream_N = stream_N,
                 .probabilities_NA = probabilities_NA.data_ptr<float>(),
                 .action_N = rows.action_N.data_ptr<std::int32_t>(),
                 .fresh_N = rows.fresh_N.data_ptr<std::uint8_t>(),
                 .diverged = diverged.data_ptr<std::int32_t>()},
                current_stream());
}

void choose_numbers_on_gpu(const ActingRows& rows, const torch::Tensor& given_NX, ActionChoice choice, Rng* stream_N,
                           const torch::Tensor& kept_NX, const torch::Tensor& diverged) {
  const torch::Tensor normal_NX = given_NX.contiguous();
  choose_numbers({.rows = static_cast<int>(normal_NX.size(0)),
                  .numbers = static_cast<int>(rows.action_N.size(1)),
                  .greedy = choice == ActionChoice::kGreedy,
                  .normal_NX = normal_NX.const_data_ptr<float>(),
                  .stream_N = stream_N,
                  .kept_NX = kept_NX.data_ptr<float>(),
                  .action_N = rows.action_N.data_ptr<std::int32_t>(),
                  .fresh_N = rows.fresh_N.data_ptr<std::uint8_t>(),
                  .diverged = diverged.data_ptr<std::int32_t>()},
                 current_stream());
}

}  // namespace engram
