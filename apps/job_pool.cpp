#include "apps/job_pool.h"

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

#include "agents/hardware.h"
#include "base/error.h"
#include "experiments/plan.h"
#include "ranks/launch.h"
#include "storage/run_lock.h"

extern char** environ;

namespace engram {
namespace {

namespace fs = std::filesystem;

constexpr int kNotStarted = 127;
constexpr int kSignalStatus = 128;  // as `engram train` reports a signal that it obeyed
constexpr off_t kTailBytes = 4096;
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

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

// The environment of this program, with one GPU to see. A run of its own is no rank, whatever this program is.
std::vector<std::string> environment_with(const std::string& gpu) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool of_ranks =
        std::ranges::any_of(kLaunchVariables, [&](const char* name) { return sets(*variable, name); });
    if (!of_ranks && (gpu.empty() || !sets(*variable, kVisible))) variables.emplace_back(*variable);
  }
  if (!gpu.empty()) variables.push_back(std::string(kVisible) + "=" + gpu);
  return variables;
}

// In the child, between fork and exec: nothing but calls that are safe there.
[[noreturn]] void become(pid_t parent, int output, char* const* arguments, char* const* environment) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C reaches it through this program alone: a second one would end it unsaved
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // kept by exec
  if (::getppid() != parent) ::_exit(kNotStarted);
  ::signal(SIGUSR1, SIG_IGN);  // kept by exec: it would end a program that has no handler yet, or has nothing to save
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

// The last line of what a program printed, without the program's name.
std::string last_line(const Descriptor& output) {
  const off_t size = std::max<off_t>(0, ::lseek(output.number(), 0, SEEK_END));
  std::string tail(kTailBytes, '\0');
  const ssize_t count = ::pread(output.number(), tail.data(), tail.size(), std::max<off_t>(0, size - kTailBytes));
  tail.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  std::istringstream stream(tail);
  std::string line, last;
  while (std::getline(stream, line))
    if (!line.empty()) last = line;
  const std::string name = "engram: ";
  return one_line(last.starts_with(name) ? last.substr(name.size()) : last);
}

bool in_use(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && RunLock::held(folder);
}

// A folder of something else is left to the job, which says what is wrong with it.
bool is_trained(const fs::path& directory, const PlannedRun& run) {
  try {
    return read_run_state(directory, run).trained;
  } catch (const UserError&) {
    return false;
  }
}

std::string failure_reason(int status, const Descriptor& output, bool trains) {
  if (WIFSIGNALED(status))
    return "ended by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
  const int code = WEXITSTATUS(status);
  if (code == kNotStarted) return "the program could not be started";
  if (code == kSignalStatus + SIGTERM || code == kSignalStatus + SIGINT)
    return "stopped by a signal from elsewhere; it can go on";
  if (code == 0) return trains ? "ended without its final evaluation" : "ended without the evaluations of its range";
  const std::string said = last_line(output);
  return said.empty() ? "exit status " + std::to_string(code) : said;
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

JobPool::JobPool(fs::path directory, const Machine& machine) : directory_(std::move(directory)), machine_(machine) {}

JobPool::~JobPool() {
  for (const Job& job : jobs_) ::kill(job.process, SIGTERM);
  for (const Job& job : jobs_)
    while (::waitpid(job.process, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void JobPool::start(const PlannedRun& run) {
  int slot = 0;
  while (std::ranges::count(jobs_, slot, &Job::slot) > 0) ++slot;
  std::error_code ignored;
  fs::remove(failure_file(directory_, run), ignored);

  std::vector<std::string> arguments = {"engram"};
  const bool trains = !run.range || !is_trained(directory_, run);
  for (std::string& argument : trains ? train_arguments(directory_, run) : evaluate_arguments(run))
    arguments.push_back(std::move(argument));
  const std::string prefix = trains ? "--run." : "--";
  std::string gpu;
  if (machine_.gpus > 0 && run.config.run.device != "cpu") {
    const std::vector<std::string> gpus = visible_gpus(std::getenv(kVisible), machine_.gpus);
    gpu = gpus[static_cast<std::size_t>(slot) % gpus.size()];
    arguments.insert(arguments.end(), {prefix + "device", "cuda"});
  } else {
    arguments.insert(arguments.end(), {prefix + "device", "cpu"});
  }
  // Its share of the machine, which it cannot know itself.
  const int threads =
      run.config.run.threads > 0
          ? run.config.run.threads
          : training_threads(run.config, gpu.empty() ? torch::kCPU : torch::kCUDA, machine_.threads).count;
  if (run.config.run.threads == 0 || !trains)
    arguments.insert(arguments.end(), {prefix + "threads", std::to_string(threads)});

  auto output = std::make_shared<Descriptor>(open_output(output_file(directory_, run)));
  std::vector<std::string> variables = environment_with(gpu);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(variables);
  const pid_t parent = ::getpid();
  // Not posix_spawn: that the child shall not outlive its parent has to be said between fork and exec.
  const pid_t child = ::fork();
  if (child < 0) throw_error("a process for run " + run.name() + " cannot be made", errno);
  if (child == 0) become(parent, output->number(), argv.data(), envp.data());
  jobs_.push_back({&run, child, slot, Clock::now(), std::move(output), trains});
}

void JobPool::signal(int number) {
  if (number == SIGINT || number == SIGTERM) stopping_ = true;
  for (const Job& job : jobs_) ::kill(job.process, number);
}

std::optional<FinishedJob> JobPool::take_finished() {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    int status = 0;
    const pid_t ended = ::waitpid(jobs_[i].process, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
    const Job job = jobs_[i];
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    return finish(job, status);
  }
  return std::nullopt;
}

FinishedJob JobPool::finish(const Job& job, int status) {
  const PlannedRun& run = *job.run;
  FinishedJob finished{job.run, JobEnd::kFailed, "", std::chrono::duration<double>(Clock::now() - job.begin).count()};
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalStatus + WTERMSIG(status);
  if (code == 0) {
    try {
      const RunState state = read_run_state(directory_, run);
      if (state.stage == RunStage::kFinished) finished.end = JobEnd::kFinished;
      if (state.stage == RunStage::kUnfinished && state.trained && job.trains) finished.end = JobEnd::kTrained;
      if (state.running) finished.end = JobEnd::kBusy;  // another program has taken it up meanwhile
    } catch (const UserError& error) {
      finished.reason = error.what();
    }
  } else if (stopping_ && (code == kSignalStatus + SIGTERM || code == kSignalStatus + SIGINT)) {
    finished.end = JobEnd::kStopped;
  } else if (code == 2 && (last_line(*job.output).find("is in use by") != std::string::npos || in_use(run.folder))) {
    finished.end = JobEnd::kBusy;
  }
  if (finished.end != JobEnd::kFailed) return finished;
  if (finished.reason.empty()) finished.reason = failure_reason(status, *job.output, job.trains);
  const fs::path file = failure_file(directory_, run);
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) throw_error("folder '" + file.parent_path().string() + "' cannot be created", error.value());
  replace_file(file, [&](std::ostream& stream) { stream << finished.reason << "\n"; });
  return finished;
}

}  // namespace engram
