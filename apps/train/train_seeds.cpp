#include "apps/train/train_seeds.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <streambuf>
#include <thread>
#include <utility>

#include "agents/run/machine/device_failure.h"
#include "apps/cli/stop_signals.h"
#include "apps/train/train_run.h"
#include "base/error.h"
#include "base/text/words.h"
#include "experiments/plan/experiment.h"
#include "storage/run/run_failure.h"

namespace engram {
namespace {

// Whole lines to standard output, each behind the seed whose they are.
class SeedLines : public std::streambuf {
 public:
  explicit SeedLines(const std::string& seed) : prefix_("seed " + seed + ": ") {}
  ~SeedLines() override {
    if (!line_.empty()) overflow('\n');
  }

 protected:
  int_type overflow(int_type character) override {
    if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
    line_ += traits_type::to_char_type(character);
    if (line_.back() == '\n') {
      static std::mutex writing;
      const std::lock_guard lock(writing);
      std::cout << prefix_ << std::exchange(line_, {}) << std::flush;
    }
    return character;
  }

 private:
  std::string prefix_, line_;
};

struct SeedRun {
  std::string seed, directory;
  Start start;
  int status = 0;
  std::optional<RunFailure> failure;
};

void train_seed(SeedRun& run, const std::vector<std::string>& arguments, int at_once, c10::WarningHandler* warnings) {
  const c10::WarningUtils::WarningHandlerGuard guard(warnings);  // a thread has its own
  SeedLines lines(run.seed);
  std::ostream out(&lines);
  std::optional<RunDirectory> directory;
  try {
    const TrainCall call{run.directory, arguments, std::make_shared<Ranks>(), out, {}, at_once};
    run.status = exit_status(train(run.start, call, directory));
  } catch (const std::exception& error) {
    run.failure = failure_of(error, run.start.config);
    if (run.failure->kind != FailureKind::kRefused) run.failure->reason += how_to_go_on(directory);
    out << failed_line(*run.failure) << "\n";
  }
}

}  // namespace

int train_seeds(const TrainOptions& options, const std::vector<std::string>& arguments,
                const std::function<Start(const TrainOptions&, const std::string& seed)>& find) {
  if (options.run.empty())
    throw UserError("the argument DIR (or --run DIR) is missing: the folder for the runs of --seeds");
  if (!options.resume.empty() && options.resume != "auto")
    throw UserError("--seeds goes on with --resume auto; --resume '" + options.resume + "' is one run");
  if (RunDirectory::is_run(options.run))
    throw UserError("'" + options.run + "' is a run itself; the folder for the runs of --seeds is another one");
  std::vector<SeedRun> runs;
  for (const std::uint64_t seed : parse_seeds(options.seeds)) {
    const std::string name = std::to_string(seed);
    TrainOptions own = options;
    own.run = (std::filesystem::path(options.run) / name).string();
    runs.push_back({name, own.run, find(own, name), 0, {}});
    std::error_code error;
    if (!runs.back().start.run && std::filesystem::exists(own.run, error) && !std::filesystem::is_empty(own.run, error))
      throw UserError("'" + own.run + "' exists and is not empty; --resume auto goes on with what was begun");
  }
  if (runs.size() > kMostSeedsAtOnce)
    throw UserError("--seeds '" + options.seeds + "' are " + std::to_string(runs.size()) + " seeds; at most " +
                    std::to_string(kMostSeedsAtOnce) + " are trained at once");

  check_runs_fit(runs.front().start.config, static_cast<int>(runs.size()));  // all are alike

  const StopSignals signals;
  c10::WarningHandler* const warnings = c10::WarningUtils::get_warning_handler();
  std::vector<std::thread> threads;
  for (SeedRun& run : runs)
    threads.emplace_back([&] { train_seed(run, arguments, static_cast<int>(runs.size()), warnings); });
  for (std::thread& thread : threads) thread.join();

  const auto failed = [](const SeedRun& run) { return run.failure.has_value(); };
  if (const auto first = std::ranges::find_if(runs, failed); first != runs.end())
    throw std::runtime_error(std::to_string(std::ranges::count_if(runs, failed)) + " of " +
                             counted(runs.size(), "run") + " failed: seed " + first->seed + ": " +
                             first->failure->reason);
  return std::ranges::max(runs, {}, &SeedRun::status).status;
}

}  // namespace engram
