#include "tests/agents/resumed_run.h"
#include "tests/gpu.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("a run on a GPU that is resumed at random points equals the uninterrupted one") {
  if (skip_without_gpu()) return;
  const Settings settings = {{"task.name", "visual_match"},
                             {"task.explore_steps", "2"},
                             {"task.distractor_steps", "20"},
                             {"task.reward_steps", "15"},
                             {"memory.width", "48"},
                             {"memory.layers", "2"},
                             {"memory.heads", "2"},
                             {"memory.dropout", "0.1"},
                             {"network.hidden_width", "256"},
                             {"network.dropout", "0.1"},
                             {"run.num_envs", "3"},
                             {"run.steps", "600"},
                             {"run.random_episodes", "6"},
                             {"replay.batch_episodes", "9"},
                             {"evaluation.every_steps", "200"},
                             {"evaluation.episodes", "4"},
                             {"evaluation.final_episodes", "4"},
                             {"run.metrics_every_steps", "100"},
                             {"checkpoint.every_minutes", "0"}};
  for (const char* backbone : {"hqlt", "deltanet", "transformer", "lstm"})
    for (const char* precision : {"bfloat16", "float32"}) {
      CAPTURE(backbone);
      CAPTURE(precision);
      Settings own = settings;
      own.insert(own.end(), {{"memory.name", backbone}, {"run.precision", precision}});
      if (backbone == std::string("lstm"))
        std::erase_if(own,
                      [](const auto& item) { return item.first == "memory.heads" || item.first == "memory.dropout"; });
      check_resumed_equals_uninterrupted(own, 3, 1, torch::kCUDA);
    }
}
