// Another project's use of the environments: random steps until every episode has ended once.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/rng.h"
#include "envs/registry.h"
#include "envs/vec/vec_env.h"

int main() {
  constexpr int kEnvs = 4;
  for (const std::string& task : engram::task_names()) {
    const auto env = engram::make_cpu_vec_env(engram::TaskConfig(task), 1, engram::Purpose::kTest, kEnvs, 2);
    engram::Rng rng(1, engram::Purpose::kAction, 0, 0);
    const engram::ActionSpec& action = env->info().action;
    const int words = action.words();
    std::vector<std::int32_t> action_N(kEnvs * words);
    std::vector<bool> ended_N(kEnvs);
    env->reset_all();
    for (int step = 0; step < env->info().max_episode_steps; ++step) {
      for (int i = 0; i < kEnvs; ++i) engram::draw_action(action, rng, action_N.data() + i * words);
      env->step(action_N);
      for (int i = 0; i < kEnvs; ++i) ended_N[i] = ended_N[i] || env->end_N()[i] != engram::End::kNone;
      env->reset_finished();
    }
    for (const bool ended : ended_N) {
      if (!ended) {
        std::fprintf(stderr, "%s: an episode outlasts max_episode_steps\n", task.c_str());
        return 1;
      }
    }
    std::printf("%s: %d episodes ended\n", task.c_str(), kEnvs);
  }
}
