#include "agents/metrics_summary.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "tests/agents/temporary_folder.h"

using namespace engram;

namespace {

const std::string kRows =
    "{\"kind\":\"train\",\"environment_steps\":10,\"updates\":2.0,\"episodes\":3.0,\"skipped_updates\":0.0}\n"
    "{\"kind\":\"evaluation\",\"environment_steps\":20,\"updates\":4.0,\"episodes\":5.0,\"return\":1.5,\"success\":0.4}"
    "\n"
    "{\"kind\":\"evaluation\",\"environment_steps\":30,\"updates\":6.0,\"episodes\":5.0,\"return\":1.5,\"success\":0.4}"
    "\n"
    "{\"kind\":\"evaluation\",\"environment_steps\":40,\"updates\":8.0,\"episodes\":5.0,\"return\":9.0,\"success\":0.2}"
    "\n"
    "{\"kind\":\"train\",\"environment_steps\":50,\"updates\":9.0,\"episodes\":7.0,\"skipped_updates\":1.0}\n"
    "{\"kind\":\"final\",\"environment_steps\":30,\"updates\":6.0,\"episodes\":10.0,\"return\":null,\"success\":0.3,"
    "\"success_low\":0.1,\"success_high\":0.6}\n";

MetricsSummary summary_of(const std::string& text) {
  const TemporaryFolder folder;
  write_text(folder / "metrics.jsonl", text);
  return summarize_metrics(folder / "metrics.jsonl");
}

}  // namespace

TEST_CASE("rows give the progress, the last evaluation, the best one and the final one") {
  const MetricsSummary summary = summary_of(kRows);
  CHECK(summary.damaged_rows == 0);
  CHECK(summary.steps == 50);
  CHECK(summary.updates == 9);
  CHECK(summary.episodes == 7);
  CHECK(summary.skipped_updates == 1);
  CHECK(summary.evaluations.size() == 3);
  REQUIRE((summary.last_evaluation && summary.best_evaluation && summary.final_evaluation));
  CHECK(summary.last_evaluation->environment_steps == 40);
  CHECK(summary.best_evaluation->environment_steps == 30);  // the later of a tie
  CHECK(summary.final_evaluation->weights.environment_steps == 30);
  CHECK(summary.final_evaluation->solved == 3);
  CHECK(summary.final_evaluation->success.high == 0.6);
  CHECK(std::isnan(summary.final_evaluation->mean_return));
}

TEST_CASE("a row in writing is left out, a damaged one counted") {
  for (std::size_t length = 0; length <= kRows.size(); ++length) {
    CAPTURE(length);
    REQUIRE(summary_of(kRows.substr(0, length)).damaged_rows == 0);
  }
  const std::string end = ",\"updates\":2,\"episodes\":3,\"skipped_updates\":0,\"return\":0,\"success\":0}\n";
  for (const std::string& bad :
       {std::string("\n"), std::string("x\n"), std::string("3\n"), std::string("{}\n"), std::string("{\"kind\":3}\n"),
        std::string("\0\xff\n", 3), std::string(1'000'000, '[') + "\n", "\"" + std::string(65'536, 'x') + "\"\n",
        "{\"kind\":\"train\"" + end, "{\"kind\":\"train\",\"environment_steps\":-1" + end,
        "{\"kind\":\"train\",\"environment_steps\":1.5" + end, "{\"kind\":\"train\",\"environment_steps\":1e300" + end,
        "{\"kind\":\"train\",\"environment_steps\":\"1\"" + end,
        "{\"kind\":\"evaluation\",\"environment_steps\":null" + end,
        std::string("{\"kind\":\"evaluation\",\"environment_steps\":1,\"updates\":2,\"episodes\":3,\"return\":0,"
                    "\"success\":1.1}\n"),
        std::string("{\"kind\":\"evaluation\",\"environment_steps\":1,\"updates\":2,\"episodes\":1e10,\"return\":0,"
                    "\"success\":1}\n"),
        "{\"kind\":\"final\",\"environment_steps\":1" + end}) {
    CAPTURE(bad.substr(0, 100));
    const MetricsSummary summary = summary_of(bad + kRows);
    CHECK(summary.damaged_rows == 1);
    CHECK(summary.evaluations.size() == 3);
    CHECK(summary.steps == 50);
  }
}

TEST_CASE("no file gives nothing, what is no file is refused") {
  const TemporaryFolder folder;
  CHECK(summarize_metrics(folder / "none").evaluations.empty());
  CHECK(mentions(message_of<UserError>([&] { summarize_metrics(folder.path()); }), "is not a file"));
}

TEST_CASE("timings: each figure is that of the last row that has it") {
  const TemporaryFolder folder;
  write_text(folder / "timings.jsonl",
             "{\"kind\":\"train\",\"wall_seconds\":1.5,\"steps_per_second\":100,"
             "\"peak_memory_mb\":200,\"peak_gpu_memory_mb\":300}\n"
             "nonsense\n{\"wall_seconds\":-1}\n{\"wall_seconds\":\"2\"}\n[3]\n"
             "{\"kind\":\"evaluation\",\"wall_seconds\":2.5,\"steps_per_second\":null}\n{\"wall_seconds\":9");
  const TimingsSummary summary = summarize_timings(folder / "timings.jsonl");
  CHECK(summary.wall_seconds == 2.5);
  CHECK(summary.steps_per_second == 100);
  CHECK(summary.peak_memory_mb == 200);
  CHECK(summary.peak_gpu_memory_mb == 300);
  CHECK(summary.damaged_rows == 4);
  CHECK(!summarize_timings(folder / "none").wall_seconds);
}
