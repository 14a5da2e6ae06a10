// A minibatch that comes in parts, recorded part by part on a GPU.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agents/learn/ppo/ppo.h"
#include "agents/learn/registry.h"
#include "tests/agents/learn/learning_task.h"
#include "tests/gpu.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("recorded parts are learnt from as launched ones, bit for bit, and as one batch of all of them on a CPU") {
  if (skip_without_gpu()) return;
  const LearnerConfig config = learner_config(PpoOptions{.kl_weight = 0.1, .clip_gradient_norm = 0.5});
  for (const std::string backbone : {"gru", "hqlt", "lru", "transformer"}) {
    CAPTURE(backbone);
    LearningTask task(backbone, torch::kFloat32);
    const auto recorded = task.first_network(torch::kCUDA, config), launched = task.first_network(torch::kCUDA, config),
               on_host = task.first_network(torch::kCPU, config);
    Learner replaying(config, recorded), launching(config, launched), plain(config, on_host);
    launching.launch_every_update();
    const auto part = [&](std::size_t i) {
      const std::int64_t first[] = {0, 1, 3}, count[] = {1, 2, 4};
      return to_device(task.part(first[i], count[i]), torch::kCUDA);
    };
    // The first three of each shape are launched by both. Parts and whole batches take turns, which share weights
    // alone.
    for (int update = 0; update < 12; ++update) {
      CAPTURE(update);
      const bool whole = update % 4 == 3;
      const EpisodeBatch batch = task.batch(0, 1), on_gpu = to_device(batch, torch::kCUDA);
      const NamedScalars replayed = whole ? replaying.update(on_gpu) : replaying.update_in_parts(3, part),
                         expected = whole ? launching.update(on_gpu) : launching.update_in_parts(3, part),
                         of_host = plain.update(batch);
      for (const auto& [name, value] : expected) {
        CAPTURE(name);
        CHECK(torch::equal(named(replayed, name), value));
        // Rounding of float32, which Adam's first steps carry into the weights.
        CHECK(value.item<double>() == doctest::Approx(named(of_host, name).item<double>()).epsilon(2e-3));
      }
    }
    const TensorMap one = copied_weights(*recorded), other = copied_weights(*launched);
    for (const auto& [name, weight] : one) CHECK(torch::equal(weight, other.at(name)));
    CHECK(replaying.faults().count == 0);
  }
}
