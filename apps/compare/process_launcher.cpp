#include "apps/compare/process_launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>
#include <utility>

#include "agents/run/machine/hardware.h"
#include "apps/cli/stop_signals.h"
#include "apps/cli/taken_signals.h"
#include "base/error.h"
#include "base/machine/processors.h"
#include "experiments/plan/plan.h"
#include "ranks/launch.h"
#include "storage/run/run_failure.h"

extern char** environ;

namespace engram {
namespace {

namespace fs = std::filesystem;

constexpr int kNotStarted = 127;
constexpr double kWaitSeconds = 0.2;
constexpr off_t kTailBytes = 256 * 1024;  // with a failure of each of a program's seeds
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kThreads = "OMP_NUM_THREADS";

// A new file: a program that trains the same run keeps the one that it has, and may be making one at the same moment.
Descriptor open_output(const fs::path& file) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) throw_error("folder '" + file.parent_path().string() + "' cannot be created", error.value());
  while (true) {
    fs::remove(file, error);
    if (error) throw_error("'" + file.string() + "' cannot be removed", error.value());
    Descriptor output(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (output.number() >= 0) return output;
    if (errno != EEXIST) throw_error("'" + file.string() + "' cannot be written", errno);
  }
}

// The same file under the name of every run of a job.
Descriptor open_output(const std::vector<const PlannedRun*>& runs) {
  const fs::path first = output_file(*runs.front());
  Descriptor output = open_output(first);
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const fs::path file = output_file(*runs[i]);
    std::error_code error;
    fs::remove(file, error);
    if (!error) fs::create_hard_link(first, file, error);
    if (error) throw_error("'" + file.string() + "' cannot be written", error.value());
  }
  return output;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

bool sets(const char* variable, const char* name) {
  const std::size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

// The environment of this program, with one GPU to see. A run of its own is no rank, whatever this program is. libgomp
// starts with the run's threads, unless the environment says it already: 68 runs of one thread each had a load of 600
// to 1,300 on 64 processors without that.
std::vector<std::string> environment_with(const std::string& gpu, int threads) {
  std::vector<std::string> variables;
  bool says_threads = false;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool of_ranks =
        std::ranges::any_of(kLaunchVariables, [&](const char* name) { return sets(*variable, name); });
    if (!of_ranks && (gpu.empty() || !sets(*variable, kVisible))) variables.emplace_back(*variable);
    says_threads = says_threads || sets(*variable, kThreads);
  }
  if (!gpu.empty()) variables.push_back(std::string(kVisible) + "=" + gpu);
  if (!says_threads) variables.push_back(std::string(kThreads) + "=" + std::to_string(threads));
  return variables;
}

// In the child, between fork and exec: nothing but calls that are safe there.
[[noreturn]] void become(pid_t parent, int output, char* const* arguments, char* const* environment) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C reaches it through this program alone: a second one would end it unsaved
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // kept by exec
  if (::getppid() != parent) ::_exit(kNotStarted);
  ::signal(SIGUSR1, SIG_IGN);  // kept by exec: it would end a program that does not take it yet, or has nothing to save
  for (const int number : {SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);  // whatever this program does with them
  const int input = ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(output, STDERR_FILENO) < 0)
    ::_exit(kNotStarted);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve("/proc/self/exe", arguments, environment);
  ::_exit(kNotStarted);
}

// The last line of what a program printed that begins so, without its beginning and the program's name; empty: none.
std::string last_line(const Descriptor& output, const std::string& beginning = "") {
  const off_t size = std::max<off_t>(0, ::lseek(output.number(), 0, SEEK_END));
  std::string tail(static_cast<std::size_t>(std::min(size, kTailBytes)), '\0');
  const ssize_t count = ::pread(output.number(), tail.data(), tail.size(), std::max<off_t>(0, size - kTailBytes));
  tail.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  std::istringstream stream(tail);
  std::string line, last;
  while (std::getline(stream, line))
    if (!line.empty() && line.starts_with(beginning)) last = line.substr(beginning.size());
  const std::string name = "engram: ";
  return one_line(last.starts_with(name) ? last.substr(name.size()) : last);
}

// Without a reason where the program has not said it.
RunFailure failure_of(int status, const PlannedRun& run, bool alone, const Descriptor& output) {
  if (!alone)  // as `engram train --seeds` says it
    if (auto own = parse_failed_line(last_line(output, "seed " + std::to_string(run.seed) + ": "))) return *own;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return {FailureKind::kKilled, "ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")"};
  }
  const int code = WEXITSTATUS(status);
  if (code == 0) return {};
  if (code == kNotStarted) return {FailureKind::kError, "the program could not be started"};
  if (is_stopped_status(code)) return {FailureKind::kStopped, "stopped by a signal from elsewhere; it can go on"};
  const std::string said = last_line(output);
  return {kind_of_exit(code), said.empty() ? "exit status " + std::to_string(code) : said};
}

EndedJob::How how_ended(int status) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalStatus + WTERMSIG(status);
  if (code == 0) return EndedJob::How::kDone;
  if (is_stopped_status(code)) return EndedJob::How::kStopped;
  return kind_of_exit(code) == FailureKind::kRefused ? EndedJob::How::kRefused : EndedJob::How::kFailed;
}

}  // namespace

std::vector<std::string> visible_gpus(const char* setting, int gpus) {
  std::vector<std::string> names;
  for (std::string rest = setting != nullptr ? setting : ""; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    names.push_back(rest.substr(0, comma));
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  if (setting == nullptr)
    for (int i = 0; i < gpus; ++i) names.push_back(std::to_string(i));
  names.resize(std::min<std::size_t>(names.size(), static_cast<std::size_t>(gpus)));
  return names;
}

ProcessLauncher::ProcessLauncher(const Machine& machine, TakenSignals& signals)
    : machine_(machine), signals_(signals) {}

ProcessLauncher::~ProcessLauncher() {
  for (const Process& process : processes_) ::kill(process.id, SIGTERM);
  for (const Process& process : processes_)
    while (::waitpid(process.id, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void ProcessLauncher::start(const RunJob& job) {
  const PlannedRun& run = *job.runs.front();
  std::vector<std::string> arguments = {"engram"};
  for (std::string& argument : job.trains ? train_arguments(job.runs) : evaluate_arguments(run))
    arguments.push_back(std::move(argument));
  const std::string prefix = job.trains ? "--run." : "--";
  std::string gpu;
  if (machine_.gpus > 0 && run.config.run.device != "cpu") {
    const std::vector<std::string> gpus = visible_gpus(std::getenv(kVisible), machine_.gpus);
    gpu = gpus[static_cast<std::size_t>(job.slot) % gpus.size()];
    arguments.insert(arguments.end(), {prefix + "device", "cuda"});
    const bool many = machine_.runs_at_once() > available_processors();
    if (job.trains && many && run.config.run.gpu_wait == GpuWait::kAuto)
      arguments.insert(arguments.end(), {"--run.gpu_wait", "sleep"});
  } else {
    arguments.insert(arguments.end(), {prefix + "device", "cpu"});
  }
  // Its share of the machine, which it cannot know itself.
  const int threads =
      run.config.run.threads > 0
          ? run.config.run.threads
          : training_threads(run.config, gpu.empty() ? torch::kCPU : torch::kCUDA, machine_.threads).count;
  if (run.config.run.threads == 0 || !job.trains)
    arguments.insert(arguments.end(), {prefix + "threads", std::to_string(threads)});

  Descriptor output = open_output(job.runs);
  std::vector<std::string> variables = environment_with(gpu, threads);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(variables);
  const pid_t parent = ::getpid();
  // Not posix_spawn: that the child shall not outlive its parent has to be said between fork and exec.
  const pid_t child = ::fork();
  if (child < 0) throw_error("a process for run " + run.name() + " cannot be made", errno);
  if (child == 0) become(parent, output.number(), argv.data(), envp.data());
  processes_.push_back({job, child, std::move(output)});
}

bool ProcessLauncher::wait() {
  if (const auto signal = signals_.next(kWaitSeconds); signal && signal->number != SIGCHLD) {
    if (signal->number != SIGUSR1 && stopped_by_ == 0) stopped_by_ = signal->number;
    // As SIGHUP, which is never a second request, as here.
    const int number = signal->number == SIGPIPE ? SIGHUP : signal->number;
    for (const Process& process : processes_) ::kill(process.id, number);
  }
  return stopped_by_ != 0;
}

std::vector<EndedJob> ProcessLauncher::take_ended() {
  std::vector<EndedJob> ended;
  std::erase_if(processes_, [&](const Process& process) {
    int status = 0;
    const pid_t id = ::waitpid(process.id, &status, WNOHANG);
    if (id == 0 || (id < 0 && errno == EINTR)) return false;
    EndedJob job{process.job.slot, how_ended(status), {}};
    const bool alone = process.job.runs.size() == 1;
    for (const PlannedRun* run : process.job.runs)
      job.failures.push_back(failure_of(status, *run, alone, process.output));
    ended.push_back(std::move(job));
    return true;
  });
  return ended;
}

}  // namespace engram
