#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "agents/learn/losses.h"
#include "agents/learn/sac/fused_loss.h"
#include "agents/learn/sac/losses.h"
#include "agents/play/episode_store.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

constexpr int kActions = 3, kSteps = 40;
constexpr double kGamma = 0.9;

// Ragged episodes, every second one terminated.
EpisodeBatch ragged_batch(torch::Device device) {
  const TaskInfo task = vector_task(2, kActions, kSteps);
  EpisodeStore store({}, task, 6 * kSteps, torch::kCPU);
  Rng rng(1, Purpose::kTest, 0, 9);
  for (int i = 0; i < 6; ++i)
    store.add(random_episode(task, i == 2 ? kSteps : 1 + static_cast<int>(rng.below(kSteps)),
                             i % 2 == 0 ? End::kTerminated : End::kTruncated, rng));
  return to_device(store.gather({0, 1, 2, 3, 4, 5}), device);
}

// Rows of `stride` with zeros after the actions, as the heads on a GPU give them.
torch::Tensor head_output(double scale, int stride) {
  const auto values = scale * torch::randn({6, kSteps + 1, kActions});
  return torch::constant_pad_nd(values, {0, stride - kActions});
}

double relative(const torch::Tensor& actual, const torch::Tensor& expected) {
  const auto difference = (actual.detach().cpu().to(torch::kFloat64) - expected.detach()).norm().item<double>();
  return difference == 0 ? 0 : difference / expected.detach().norm().item<double>();
}

}  // namespace

TEST_CASE("the losses on a GPU and all their gradients are those of the definition on the CPU") {
  if (skip_without_gpu()) return;
  for (const double alpha : {0.01, 0.5})
    for (const double logit_scale : {1.0, 12.0})
      for (const int stride : {kActions, 8}) {
        CAPTURE(alpha);
        CAPTURE(logit_scale);
        CAPTURE(stride);
        torch::manual_seed(1);
        std::vector<torch::Tensor> host, device;  // logits, Q1, Q2, target Q1, target Q2
        for (int i = 0; i < 5; ++i) {
          const auto values = head_output(i == 0 ? logit_scale : 2, stride);
          host.push_back(values.narrow(-1, 0, kActions).to(torch::kFloat64).contiguous().requires_grad_(i < 3));
          device.push_back(values.to(torch::kCUDA).requires_grad_(i < 3));
        }
        const EpisodeBatch expected_batch = ragged_batch(torch::kCPU), batch = ragged_batch(torch::kCUDA);
        const auto alpha_host = torch::tensor(static_cast<double>(static_cast<float>(alpha)), torch::kFloat64);
        const auto alpha_device = torch::tensor(static_cast<float>(alpha)).to(torch::kCUDA);

        const auto mask = expected_batch.mask_BT.to(torch::kFloat64);
        const auto probabilities = host[0].softmax(-1);
        const auto rows = [](const torch::Tensor& x, int first) { return x.narrow(1, first, kSteps); };
        const auto target =
            torch::where(mask > 0,
                         sac::bellman_targets(expected_batch.reward_BT.to(torch::kFloat64),
                                              expected_batch.terminated_BT.to(torch::kFloat64), rows(probabilities, 1),
                                              rows(host[3], 1), rows(host[4], 1), alpha_host, kGamma),
                         0);
        const auto critic1 = critic_loss(rows(host[1], 0), expected_batch.action_BT, target, mask);
        const auto critic2 = critic_loss(rows(host[2], 0), expected_batch.action_BT, target, mask);
        const auto actor =
            sac::actor_loss(rows(probabilities, 0), rows(host[1], 0), rows(host[2], 0), alpha_host, mask);
        const auto critic = 0.5 * (critic1 + critic2), total = critic + actor;
        total.backward();
        const auto taken = rows(host[1], 0).gather(-1, expected_batch.action_BT.unsqueeze(-1)).squeeze(-1);

        const SacHeads heads{device[0], {device[1], device[2]}, {device[3], device[4]}};
        REQUIRE(supports_fused_sac_loss(torch::kCUDA, torch::kFloat32, kActions));
        const SacLoss loss = fused_sac_loss(heads, batch, alpha_device, kGamma, kActions);
        loss.backward();

        // float against double: some hundred roundings of 6e-8, of numbers of the same size.
        CHECK(relative(loss.target_BT, target) <= 1e-6);
        CHECK(relative(loss.critic, critic) <= 1e-5);
        CHECK(relative(loss.critic1, critic1) <= 1e-5);
        CHECK(relative(loss.critic2, critic2) <= 1e-5);
        CHECK(relative(loss.actor, actor) <= 1e-5);
        CHECK(relative(loss.total, total) <= 1e-5);
        CHECK(relative(loss.entropy, sac::mean_entropy(rows(probabilities, 0), mask)) <= 1e-5);
        CHECK(relative(loss.mean_q, masked_mean(taken, mask)) <= 1e-5);
        for (int i = 0; i < 3; ++i) {
          CAPTURE(i);
          CHECK(relative(device[i].grad().narrow(-1, 0, kActions), host[i].grad()) <= 1e-5);
          CHECK((device[i].grad().narrow(-1, kActions, stride - kActions) == 0).all().item<bool>());
        }
        CHECK_FALSE(loss.target_BT.requires_grad());
        CHECK_FALSE(device[3].grad().defined());
      }
}

TEST_CASE("the fused loss says what it does not take") {
  if (skip_without_gpu()) return;
  const auto reason = [](torch::Device device, torch::ScalarType outputs, std::int64_t actions) {
    return supports_fused_sac_loss(device, outputs, actions).reason();
  };
  CHECK(reason(torch::kCUDA, torch::kFloat32, 32) == "");
  CHECK(reason(torch::kCUDA, torch::kFloat32, 33) == "the number of actions 33 is more than 32");
  CHECK(reason(torch::kCUDA, torch::kFloat64, 4) == "the heads give Double, not Float");
  CHECK(reason(torch::kCPU, torch::kFloat32, 4) == "the agent learns on the cpu");
}
