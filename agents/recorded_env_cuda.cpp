#include "agents/recorded_env.h"
#include "envs/cuda_vec_env.h"
#include "nn/cuda_support.h"

namespace engram {
namespace {

class RecordedCudaEnv final : public RecordedEnv {
 public:
  RecordedCudaEnv(std::unique_ptr<CudaVecEnv> environments, int between_looks)
      : RecordedEnv(environments->info(), environments->size(), between_looks, torch::kCUDA),
        environments_(std::move(environments)) {
    const std::int64_t size = environments_->size();
    const ObservationSpec& observation = environments_->info().observation;
    std::vector<std::int64_t> shape{size};
    shape.insert(shape.end(), observation.shape.begin(), observation.shape.end());
    const auto options = torch::TensorOptions(torch::kCUDA);
    const auto view = [&](const void* data, const std::vector<std::int64_t>& view_shape, torch::ScalarType type) {
      return torch::from_blob(const_cast<void*>(data), view_shape, options.dtype(type));
    };
    rows_ = {view(environments_->observation_N(), shape,
                  observation.type == ElementType::kUint8 ? torch::kUInt8 : torch::kFloat32),
             view(environments_->reward_N(), {size}, torch::kFloat32),
             torch::ones({size}, options.dtype(torch::kUInt8)), torch::zeros({size}, options.dtype(torch::kInt32))};
  }

  const TaskInfo& info() const override { return environments_->info(); }

  void step() override {
    environments_->play(rows_.action_N.const_data_ptr<std::int32_t>(), recording_.view(), fresh_N(), current_stream());
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
                                                    int num_envs, int between_looks) {
  return make_recorded_env(make_cuda_vec_env(task, seed, purpose, num_envs), between_looks);
}

}  // namespace engram
