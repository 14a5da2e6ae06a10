#include "agents/run/config/config.h"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace engram {

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = {
      "# nothing\n",
      "%invalid_line%\n",
      "\xef\xbb\xbf[run]\n[learner]\n[tasks.a]\n",
      "\xff\xfe[\0r\0",
      "[]\n[run.]\nseed=\n",
      "format = 1\n[run]\nseed=3\n\n[task]\npreset = visual_match_750\n",
      "[run]\nsteps = 1.5M\nmax-seconds = 1e3\nlr = 3\n[learner]\nlearning-rate = 1e-3\n"};
  for (const std::string& task : task_names())
    for (const std::string& backbone : backbone_names())
      seeds.push_back(Config::from_settings({{"task.name", task}, {"memory.name", backbone}}).to_ini());
  return seeds;
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    std::istringstream stream(text_of(data, size));
    Config config = Config::from_layers({read_settings(stream, "it")});
    // What is taken is written in a form that is taken again, for the same config. A text can hold a comment's '#'.
    const std::string text = config.to_ini();
    if (config.run.device.find_first_of("#\n") != std::string::npos) return;
    std::istringstream again(text);
    require(Config::from_layers({read_settings(again, "its copy")}).to_ini() == text, "a config that changes: " + text);
  });
  return 0;
}
