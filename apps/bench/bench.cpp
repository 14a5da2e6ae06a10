// engram bench: how fast the parts are, nothing of which is timed before it has passed its check, and what a backbone
// passes back over a delay.
#include "apps/bench/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "base/error.h"

namespace engram {
namespace {

void print_bench_help() {
  std::cout << "Usage: engram bench SUBJECT [options]\n\n"
            << wrapped(
                   "Measures how fast a part of the program is on this machine. What is measured is first checked "
                   "against a plain computation of the same thing; a failed check prints no time.",
                   0)
            << "\n\nSubjects:\n"
            << "  env      " << wrapped("environment steps per second, observations included, on the CPU or a GPU", 11)
            << "\n  kernels  " << wrapped("the delta rule, attention and their steps on a GPU", 11) << "\n  act      "
            << wrapped("a step of the agent on a GPU, alone and with environment and recording", 11)
            << "\n  update   an update of the learner on a GPU, or on the CPU\n"
               "  train    whole training by PPO, in steps per second\n"
               "  run      a minute of a published run on a GPU\n"
            << "  gradient "
            << wrapped("not speed: what of a loss's gradient reaches a cue over a delay, before learning; on the CPU",
                       11)
            << "\n\n"
               "engram bench SUBJECT --help lists a subject's options.\n";
}

struct Subject {
  std::string name;
  std::function<int(const BenchCall&)> bench;
};

std::vector<Subject> subjects() {
  return {{"env", bench_env},     {"kernels", bench_kernels}, {"act", bench_act},          {"update", bench_update},
          {"train", bench_train}, {"run", bench_run},         {"gradient", bench_gradient}};
}

}  // namespace

bool parse_bench_options(const std::string& subject, std::string help, OptionList& options, BenchOutput& output,
                         const BenchCall& call) {
  output.list_options(options);
  const CommandSyntax syntax = {.values = {{"task", task_names()}, {"device", kDeviceValues}, {"against", {"FILE"}}}};
  if (call.visit) {
    call.visit("bench " + subject, options, syntax);
    return false;
  }
  if (!parse_command_line(call.words, options, syntax).help) return true;
  std::ranges::replace(help, '\n', ' ');
  std::cout << "Usage: engram bench " << subject << " [options]\n\n" << wrapped(help, 0) << "\n\nOptions\n";
  print_options(std::cout, options);
  return false;
}

std::string fixed(double value, int digits, const std::string& unit) {
  if (std::isnan(value)) return "-";
  std::ostringstream text;
  text.precision(digits);
  text << std::fixed << value << unit;
  return text.str();
}

Config published_run(const std::string& backbone, const std::string& device) {
  return Config::from_settings(
      {{"task.preset", "visual_match_hqlt"}, {"memory.name", backbone}, {"run.device", device}});
}

void set_where_there(Config& config, const std::string& key, const std::string& value) {
  OptionList options = config.options();
  for (const Option& option : options.options())
    if (option.name == key) return options.set(key, value);
}

void describe_bench(const CommandVisitor& visit) {
  visit("bench", OptionList(""), {});
  for (const Subject& subject : subjects()) subject.bench({{}, visit});
}

int run_bench(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    print_bench_help();
    return 0;
  }
  std::string known;
  for (const Subject& subject : subjects()) {
    if (!arguments.empty() && arguments[0] == subject.name)
      return subject.bench({{arguments.begin() + 1, arguments.end()}});
    known += (known.empty() ? "" : ", ") + subject.name;
  }
  throw UserError((arguments.empty() ? std::string("no subject") : "unknown subject '" + arguments[0] + "'") +
                  "; engram bench takes " + known);
}

}  // namespace engram
