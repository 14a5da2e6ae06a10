#include "apps/cli/commands.h"

namespace engram {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"train", "train an agent on a task and keep everything in a run directory", run_train, describe_train},
      {"evaluate", "measure success and return of a trained agent", run_evaluate, describe_evaluate},
      {"diagnose", "say why a trained agent does not solve its task: decisions, critics, memory", run_diagnose,
       describe_diagnose},
      {"compare", "train several backbones on several tasks, and report on them", run_compare, describe_compare},
      {"sweep", "find the best of some settings of one agent", run_sweep, describe_sweep},
      {"render", "film an agent at work", run_render, describe_render},
      {"play", "play a task yourself, in a terminal", run_play, describe_play},
      {"inspect", "say what a run directory or a file of tensors is, and where a run stands", run_inspect,
       describe_inspect},
      {"list", "show the tasks, their published sizes, and the memory backbones", run_list, describe_list},
      {"probe", "test what backbones can do without reinforcement learning", run_probe, describe_probe},
      {"replay", "check recorded episodes against the rules of the environments", run_replay, describe_replay},
      {"bench", "measure speed", run_bench, describe_bench},
      {"completion", "print a script that completes command lines in bash or zsh", run_completion, describe_completion},
  };
  return all;
}

}  // namespace engram
