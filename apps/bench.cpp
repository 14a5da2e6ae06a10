// engram bench: how fast the parts are. Nothing is timed before it has passed its check.
#include <cstdio>
#include <functional>

#include "apps/bench_env.h"
#include "apps/commands.h"
#include "base/error.h"

namespace engram {
namespace {

constexpr const char* kHelp = R"(Usage: engram bench SUBJECT [options]

Measures how fast a part of the program is on this machine. What is measured is first
checked against a plain computation of the same thing; a failed check stops the command.

Subjects:
  env    environment steps per second, observations included, on the CPU or a GPU

'engram bench SUBJECT --help' lists the options of a subject.
)";

}  // namespace

int run_bench(const std::vector<std::string>& arguments) {
  static const std::vector<std::pair<std::string, std::function<int(const std::vector<std::string>&)>>> kSubjects = {
      {"env", bench_env}};
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  std::string known;
  for (const auto& [name, bench] : kSubjects) {
    if (!arguments.empty() && arguments[0] == name) return bench({arguments.begin() + 1, arguments.end()});
    known += (known.empty() ? "" : ", ") + name;
  }
  throw UserError((arguments.empty() ? std::string("no subject") : "unknown subject '" + arguments[0] + "'") +
                  "; engram bench takes " + known);
}

}  // namespace engram
