// A short run of visual match whose agent has what kernels take, for tests on GPUs.
#pragma once

#include "storage/settings.h"

namespace engram::testing {

inline const Settings kSmallVisualMatch = {{"task.name", "visual_match"},
                                           {"task.explore_steps", "2"},
                                           {"task.distractor_steps", "20"},
                                           {"task.reward_steps", "15"},
                                           {"memory.width", "48"},
                                           {"network.hidden_width", "256"},
                                           {"run.num_envs", "3"},
                                           {"run.steps", "600"},
                                           {"run.random_episodes", "6"},
                                           {"replay.batch_episodes", "9"},
                                           {"evaluation.every_steps", "200"},
                                           {"evaluation.episodes", "4"},
                                           {"evaluation.final_episodes", "4"},
                                           {"checkpoint.every_minutes", "0"}};

}  // namespace engram::testing
