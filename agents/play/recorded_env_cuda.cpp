#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "agents/play/recorded_env.h"
#include "envs/vec/cuda_vec_env.h"
#include "nn/device/cuda_support.h"

namespace engram {
namespace {

class RecordedCudaEnv final : public RecordedEnv {
 public:
  RecordedCudaEnv(std::unique_ptr<CudaVecEnv> environments, int between_looks)
      : RecordedEnv(environments->info(), environments->size(), between_looks, torch::kCUDA),
        environments_(std::move(environments)) {
    rows_ = rows_over(environments_->info(), environments_->size(), environments_->observation_N(),
                      environments_->reward_N(), torch::kCUDA);
  }

  const TaskInfo& info() const override { return environments_->info(); }

  void step(const torch::Tensor& probabilities_NA) override {
    environments_->play(rows_.action_N.const_data_ptr<std::int32_t>(),
                        probabilities_NA.defined() ? probabilities_NA.const_data_ptr<float>() : nullptr,
                        recording_.view(), fresh_N(), current_stream());
  }

 private:
  void begin(std::span<const std::uint32_t> number_N) override {
    const std::vector<std::int32_t> numbers(number_N.begin(), number_N.end());  // the same bits
    const torch::Tensor on_device = torch::tensor(numbers, torch::kInt32).to(torch::kCUDA);
    environments_->restart(reinterpret_cast<const std::uint32_t*>(on_device.const_data_ptr<std::int32_t>()),
                           recording_.view(), fresh_N(), current_stream());
  }
  std::uint8_t* fresh_N() { return rows_.fresh_N.data_ptr<std::uint8_t>(); }

  std::unique_ptr<CudaVecEnv> environments_;
};

}  // namespace

std::unique_ptr<RecordedEnv> make_recorded_env(std::unique_ptr<CudaVecEnv> environments, int between_looks) {
  return std::make_unique<RecordedCudaEnv>(std::move(environments), between_looks);
}

std::unique_ptr<RecordedEnv> make_recorded_cuda_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose,
                                                    int num_envs, int between_looks, std::uint32_t first_environment) {
  return make_recorded_env(make_cuda_vec_env(task, seed, purpose, num_envs, first_environment), between_looks);
}

}  // namespace engram
