// engram bench: how fast the parts are. Nothing is timed before it has passed its check.
#include "apps/bench.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "apps/command_line.h"
#include "apps/commands.h"
#include "base/error.h"

namespace engram {
namespace {

constexpr const char* kHelp = R"(Usage: engram bench SUBJECT [options]

Measures how fast a part of the program is on this machine. What is measured is first
checked against a plain computation of the same thing; a failed check prints no time.

Subjects:
  env      environment steps per second, observations included, on the CPU or a GPU
  kernels  the delta rule, attention and their steps on a GPU
  act      a step of the agent on a GPU, alone and with environment and recording
  update   an update of the learner on a GPU
  run      a minute of a published run on a GPU

'engram bench SUBJECT --help' lists the options of a subject.
)";

struct Subject {
  std::string name;
  std::function<int(const std::vector<std::string>&)> bench;
};

std::vector<Subject> subjects() {
#ifdef ENGRAM_WITH_CUDA
  return {
      {"env", bench_env}, {"kernels", bench_kernels}, {"act", bench_act}, {"update", bench_update}, {"run", bench_run}};
#else
  std::vector<Subject> all = {{"env", bench_env}};
  for (const char* name : {"kernels", "act", "update", "run"})
    all.push_back({name, [name](const std::vector<std::string>&) -> int {
                     throw UserError(std::string("bench ") + name +
                                     " measures a GPU, and this program was built without GPU support");
                   }});
  return all;
#endif
}

}  // namespace

bool parse_bench_options(const std::string& subject, const std::string& help, OptionList& options, bool& json,
                         const std::vector<std::string>& words) {
  options.add("json", json, "one JSON object a line instead of the table");
  if (!parse_command_line(words, options).help) return true;
  std::cout << "Usage: engram bench " << subject << " [options]\n\n" << help << "\nOptions\n";
  print_options(std::cout, options);
  return false;
}

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  return words;
}

std::string fixed(double value, int digits, const std::string& unit) {
  if (std::isnan(value)) return "-";
  std::ostringstream text;
  text.precision(digits);
  text << std::fixed << value << unit;
  return text.str();
}

int run_bench(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  std::string known;
  for (const Subject& subject : subjects()) {
    if (!arguments.empty() && arguments[0] == subject.name)
      return subject.bench({arguments.begin() + 1, arguments.end()});
    known += (known.empty() ? "" : ", ") + subject.name;
  }
  throw UserError((arguments.empty() ? std::string("no subject") : "unknown subject '" + arguments[0] + "'") +
                  "; engram bench takes " + known);
}

}  // namespace engram
