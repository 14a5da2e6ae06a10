#include "apps/compare/live_page.h"

#include <algorithm>

#include "experiments/report/files.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kBetweenPages = 60s, kSoonest = 5s;
// The report itself has more; what is looked at for a minute needs fewer.
constexpr int kLiveResamples = 1000;

}  // namespace

LivePage::LivePage(const fs::path& directory, const Experiment& experiment, const std::vector<PlannedRun>& runs,
                   const EarlierRuns& earlier)
    : results_{.folder = directory,
               .experiment = experiment.by_learner(),
               .runs = {},
               .tasks = {},
               .sweep = {},
               .notes = {},
               .planned = experiment},
      earlier_(earlier),
      file_(directory / "report" / "report.html") {
  plan(runs);
}

void LivePage::plan(const std::vector<PlannedRun>& runs) {
  results_.runs.clear();
  for (const PlannedRun& run : runs) results_.runs.push_back(RunResult::missing(run));
}

// What has ended does not change any more.
void LivePage::read_runs() {
  bool any = false;
  for (RunResult& run : results_.runs) {
    if (!run.counts()) {
      run = read_run(run.plan);
      take_earlier(run, earlier_);
    }
    any = any || run.counts();
  }
  if (any && results_.tasks.empty()) add_facts(results_);
}

void LivePage::write(const UnderWay* state) {
  const auto begin = Clock::now();
  read_runs();
  const BootstrapOptions bootstrap{.resamples = kLiveResamples, .threads = 1};
  create_folders(ReportFiles::beside(file_), /*pictures=*/false);
  write_text_file(file_, page_under_way(results_, state, file_, bootstrap));
  due_ = last_ == Clock::time_point{};  // the first page knows nothing of what has been started just now
  last_ = Clock::now();
  taken_ = last_ - begin;
}

void LivePage::update(const std::function<UnderWay()>& state) {
  const auto since = Clock::now() - last_;
  const bool first = last_ == Clock::time_point{};
  if (!first && since < std::max<Clock::duration>(due_ ? kSoonest : kBetweenPages, 20 * taken_)) return;
  const UnderWay now = state();
  write(&now);
}

void LivePage::finish() { write(nullptr); }

}  // namespace engram
