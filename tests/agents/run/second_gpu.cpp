// A run on a GPU that is not the first: all of it happens there.
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "agents/run/machine/hardware.h"
#include "agents/run/training/trainer.h"
#include "kernels/common/cuda_support.h"
#include "storage/tensors/weights.h"
#include "tests/agents/run/small_visual_match.h"
#include "tests/gpu.h"

using namespace engram;

namespace {

Config config_of(const std::string& backbone, const std::string& precision) {
  Settings settings = testing::kSmallVisualMatch;
  settings.insert(settings.end(), {{"memory.name", backbone}, {"run.precision", precision}});
  return Config::from_settings(settings);
}

constexpr std::size_t kPageTables = 512 << 10;

struct LastWeights : TrainObserver {
  TensorMap weights;
  TrainStatus status;
  void finished(const TrainStatus& end, const AgentNetwork& network) override {
    status = end;
    for (const auto& [name, tensor] : module_weights(network)) weights[name] = tensor.cpu().clone();
  }
};

// As the program does it: the device first, then everything else.
LastWeights train_on(const std::string& device_name, const Config& config) {
  const torch::Device device = use_device(device_name);
  LastWeights last;
  Trainer(config, device, 1).run({&last});
  return last;
}

std::size_t free_bytes(int device) {
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  std::size_t free = 0, all = 0;
  check_cuda(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return free;
}

// By LibTorch's allocator, since the program began.
std::int64_t torch_bytes(int device) {
  using c10::CachingAllocator::StatType;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  return stats.allocated_bytes[static_cast<std::size_t>(StatType::AGGREGATE)].allocated;
}

}  // namespace

TEST_CASE("a run on the second GPU takes no memory of the first and gives the first one's weights, bit for bit") {
  if (testing::skip_without_gpus(2)) return;
  torch::zeros({1}, torch::Device(torch::kCUDA, 0));  // what a context takes is taken before anything is compared
  // The step in one kernel, and environments on the host; images, and each precision's kernels.
  for (const std::string backbone : {"hqlt", "deltanet", "transformer", "lstm"})
    for (const std::string precision : {"bfloat16", "float32"}) {
      CAPTURE(backbone);
      CAPTURE(precision);
      const Config config = config_of(backbone, precision);
      const std::int64_t before = torch_bytes(0);
      const std::size_t free_before = free_bytes(0);
      const LastWeights second = train_on("cuda:1", config);
      int current = -1;
      check_cuda(cudaGetDevice(&current), "cudaGetDevice");
      CHECK(current == 1);
      CHECK(torch_bytes(0) == before);
      // Nor by other means; other programs may have ended meanwhile. Pinned memory of the host is mapped in the
      // contexts of all GPUs, whose page tables are on them: far less than the 2 MiB that LibTorch takes at once.
      CHECK(free_bytes(0) + kPageTables >= free_before);

      const LastWeights first = train_on("cuda:0", config);
      CHECK(second.status.updates == first.status.updates);
      CHECK(second.status.updates > 50);
      REQUIRE(second.weights.size() == first.weights.size());
      for (const auto& [name, tensor] : first.weights) {
        CAPTURE(name);
        CHECK(torch::equal(second.weights.at(name), tensor));
      }
      REQUIRE((first.status.final_evaluation && second.status.final_evaluation));
      CHECK(second.status.final_evaluation->greedy.mean_return == first.status.final_evaluation->greedy.mean_return);
    }
}
