#include "apps/cli/program.h"

#include <c10/util/Exception.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "agents/run/machine/device_failure.h"
#include "apps/cli/commands.h"
#include "apps/cli/standard_streams.h"
#include "apps/cli/taken_signals.h"
#include "apps/cli/threads.h"
#include "base/error.h"
#include "base/text/suggest.h"
#include "storage/build_info.h"
#include "storage/run/run_failure.h"

namespace engram {
namespace {

void print_program_help() {
  std::cout << wrapped("engram trains, evaluates and films reinforcement-learning agents that must remember.", 0)
            << "\n\nUsage: engram COMMAND [arguments]\n\nCommands\n";
  for (const Command& command : commands())
    std::cout << "  " << command.name << std::string(12 - std::string(command.name).size(), ' ')
              << wrapped(command.summary, 14) << "\n";
  std::cout << "\n  engram COMMAND --help   " << wrapped("what a command does and takes, with units and defaults", 26)
            << "\n  engram --version        " << wrapped("version, commit, LibTorch, GPU support", 26) << "\n\n"
            << wrapped(
                   "Completion by the Tab key: put  source <(engram completion bash)  into ~/.bashrc; for zsh, "
                   "engram completion --help tells.",
                   0)
            << "\n\n"
            << wrapped("A first run: a T-maze whose goal is shown once, at the start; a minute on two cores", 0)
            << "\n"
               "  engram train runs/first --task.name tmaze --task.corridor_length 10 \\\n"
               "    --memory.name lstm --learner.alpha 0.01 --learner.learning_rate 0.001 \\\n"
               "    --run.steps 5000\n"
               "  engram evaluate runs/first\n"
               "  engram render runs/first --output first.mp4\n\n"
            << wrapped(
                   "Exit status: 0 success, 1 a failure of the program or the machine, 2 bad input, 3 training has "
                   "diverged, 4 out of memory, 5 no room for a further program on the GPU.",
                   0)
            << "\n";
}

void print_version() {
  const BuildInfo& build = build_info();
  std::cout << "engram " << build.version << " (commit " << build.commit << ", " << build.build_type << ", "
            << build.compiler << ")\nLibTorch " << build.torch_version
            << ", GPU support: " << (build.cuda ? "yes, for " + build.cuda_architectures : "no") << "\n";
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_program_help();
    return 0;
  }
  if (arguments[0] == "--version") {
    print_version();
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (arguments[0] == command.name) return command.run({arguments.begin() + 1, arguments.end()});
    names.push_back(command.name);
  }
  throw UserError(unknown_name("command", arguments[0], names, "engram --help"));
}

// The first line says what happened; LibTorch's further ones say where in LibTorch.
int fail(const std::string& message, FailureKind kind = FailureKind::kError) {
  std::cerr << "engram: " << message.substr(0, message.find('\n')) << std::endl;
  return exit_status(kind);
}

// Memory or a GPU has no room, or `otherwise` says what.
int fail_with(const std::exception& error, const std::string& otherwise) {
  const auto lack = lack_of_room(error);
  return lack ? fail(lack->reason, lack->kind) : fail(otherwise);
}

int run_and_report(const std::vector<std::string>& arguments, void (*prepare)()) {
  try {
    if (prepare != nullptr) prepare();
    return run(arguments);
  } catch (const UserError& error) {
    return fail(error.what(), FailureKind::kRefused);
  } catch (const DivergedError& error) {
    return fail(error.what(), FailureKind::kDiverged);
  } catch (const RunFailed& failed) {
    return fail(failed.what(), failed.kind());
  } catch (const c10::Error& error) {
    return fail_with(error, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail_with(error, error.what());
  }
}

// The status of a command whose output is written: error number, 0 if all of it is.
int status_with_output(int status, int error) {
  if (error == 0) return status;
  int own = kSignalStatus + SIGPIPE;  // its reader wanted no more, and nobody is told
  if (error != EPIPE) own = fail("the standard output cannot be written: " + std::generic_category().message(error));
  return status == 0 ? own : status;
}

}  // namespace

int run_program(int argc, char** argv, void (*prepare)()) {
  if (const int error = open_closed_streams())
    return fail("'/dev/null' cannot be opened: " + std::generic_category().message(error));
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is then an error that is told, as a full disk is
  use_threads(1);  // until a command knows how many it takes: one of many runs would else begin with all processors
  CheckedOutput output;
  const int status = run_and_report({argv + 1, argv + argc}, prepare);
  return status_with_output(status, output.flush());
}

}  // namespace engram
