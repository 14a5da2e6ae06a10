#include "experiments/plan/experiment.h"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace engram {

std::vector<std::string> fuzz_seeds() {
  return {
      "# nothing\n",
      "%invalid_line%\n",
      "[compare]\nquestion = a?\nseeds = 0-4,8\nmatch = flops\nreference = b\ncontrols = none\n[task]\nname = tmaze\n"
      "[tasks.short]\ntask.corridor_length = 3\nrun.steps = 5\n[backbones.b]\nmemory.name = gru\n",
      "[compare]\nevaluate = task.corridor_length: 3,50\n[task]\nname = tmaze\n[tasks.t]\n[backbones.b]\nmemory.name = "
      "gru\n",
      "[compare]\nseeds = 1\n[run]\nsteps = 2M\n[tasks.a-b]\ntask.corridor-length = 1e1\n[backbones.c]\nmemory.name = "
      "gru\n",
      "[task]\ndistractor_steps = 3\n[tasks.visual_match_60]\n[tasks.b]\nlike = visual_match_60\n[backbones.gru]\n"
      "[backbones.none]\n",
      "[tasks.t]\ntask.preset = tmaze_passive_50\n[backbones.l+1]\nmemory.name = lstm\nmemory.width = 9\n"};
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    std::istringstream stream(text_of(data, size));
    const Experiment experiment = Experiment::from_settings(read_settings(stream, "it"));
    const std::string text = experiment.to_ini();
    std::istringstream again(text);
    require(Experiment::from_settings(read_settings(again, "its copy")).to_ini() == text,
            "an experiment that changes: " + text);
    for (const ExperimentEntry& task : experiment.tasks)
      for (const ExperimentEntry& backbone : experiment.backbones)
        experiment.config(task, backbone, experiment.seeds.front());
  });
  return 0;
}
