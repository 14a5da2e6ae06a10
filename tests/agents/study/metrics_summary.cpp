#include "agents/study/metrics_summary.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

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
  CHECK(summary.final_evaluation->greedy.solved == 3);
  CHECK(summary.final_evaluation->greedy.success.high == 0.6);
  CHECK(std::isnan(summary.final_evaluation->greedy.mean_return));
  CHECK_FALSE(summary.last_evaluation->sampled);  // rows of an older version
  CHECK_FALSE(summary.final_evaluation->sampled);
  CHECK(summary.temperatures.empty());
}

TEST_CASE("MMER is the highest mean return of an iteration, of learners that have iterations") {
  const auto row = [](const std::string& mean) {
    return "{\"kind\":\"iteration\",\"environment_steps\":10,\"updates\":0,\"episodes\":120,\"return\":" + mean + "}\n";
  };
  CHECK_FALSE(summary_of(kRows).mmer);
  CHECK_FALSE(summary_of(kRows + row("null")).mmer);
  const MetricsSummary summary = summary_of(kRows + row("-0.75") + row("null") + row("-0.25") + row("-0.5"));
  CHECK(summary.mmer == -0.25);
  CHECK(summary.steps == 50);
  CHECK(summary.damaged_rows == 0);
  CHECK(summary_of(row("0.5") + row("\"x\"")).damaged_rows == 1);
}

TEST_CASE("temperatures are those of the rows that have one") {
  const auto row = [](int steps, const std::string& more) {
    return "{\"kind\":\"train\",\"environment_steps\":" + std::to_string(steps) +
           ",\"updates\":1,\"episodes\":2,\"skipped_updates\":0" + more + "}\n";
  };
  const MetricsSummary summary = summary_of(row(5, "") + row(6, ",\"alpha\":0.25") + row(7, ",\"alpha\":null") +
                                            row(8, ",\"alpha\":0.125") + row(9, ",\"alpha\":-1"));
  REQUIRE(summary.temperatures.size() == 2);
  CHECK(summary.temperatures[0].steps == 6);
  CHECK(summary.temperatures[0].alpha == 0.25);
  CHECK(summary.temperatures[1].steps == 8);
  CHECK(summary.temperatures[1].alpha == 0.125);
  CHECK(summary.steps == 8);
  CHECK(summary.damaged_rows == 1);
}

TEST_CASE("sampled episodes are read where a row has them, and the best evaluation is by the greedy ones") {
  const auto row = [](const std::string& kind, int steps, const std::string& more) {
    return "{\"kind\":\"" + kind + "\",\"environment_steps\":" + std::to_string(steps) +
           ",\"updates\":1,\"episodes\":8," + more + "}\n";
  };
  const std::string greedy = "\"return\":2,\"success\":0.5";
  const std::string sampled = ",\"sampled_return\":-1.5,\"sampled_success\":0.75";
  const std::string better = ",\"sampled_return\":1,\"sampled_success\":1";
  const std::string low = ",\"success_low\":0.2,\"success_high\":0.8";
  const std::string sampled_low = ",\"sampled_success_low\":0.4,\"sampled_success_high\":0.9";
  const MetricsSummary summary = summary_of(row("evaluation", 10, greedy + sampled) +
                                            row("evaluation", 20, "\"return\":2,\"success\":0" + better) +
                                            row("final", 10, greedy + sampled + low + sampled_low));
  CHECK(summary.damaged_rows == 0);
  REQUIRE((summary.best_evaluation && summary.best_evaluation->sampled && summary.final_evaluation));
  CHECK(summary.best_evaluation->environment_steps == 10);
  CHECK(*summary.best_evaluation->sampled == PlayedEpisodes{0.75, -1.5});
  REQUIRE(summary.final_evaluation->sampled);
  CHECK(summary.final_evaluation->sampled->solved == 6);
  CHECK(summary.final_evaluation->sampled->success.low == 0.4);
  CHECK(summary.final_evaluation->sampled->mean_return == -1.5);

  for (const std::string& half : {std::string(",\"sampled_return\":1"), std::string(",\"sampled_success\":1"),
                                  std::string(",\"sampled_return\":1,\"sampled_success\":1.5")})
    CHECK(summary_of(row("evaluation", 10, greedy + half)).damaged_rows == 1);
  CHECK(summary_of(row("final", 10, greedy + sampled + low)).damaged_rows == 1);
}

TEST_CASE("decisions are read where a row has them, and that none was taken") {
  const auto row = [](const std::string& kind, const std::string& more) {
    return "{\"kind\":\"" + kind +
           "\",\"environment_steps\":9,\"updates\":1,\"episodes\":8,\"return\":2,\"success\":0.5" + more + "}\n";
  };
  const std::string sampled = ",\"sampled_return\":1,\"sampled_success\":0.25";
  const std::string taken = ",\"decided\":0.75,\"right_of_decided\":0.5";
  const std::string low = ",\"success_low\":0,\"success_high\":1,\"sampled_success_low\":0,\"sampled_success_high\":1";
  const MetricsSummary summary = summary_of(row("evaluation", sampled + taken + ",\"sampled_decided\":0") +
                                            row("final", sampled + low + taken + ",\"sampled_decided\":0"));
  CHECK(summary.damaged_rows == 0);
  REQUIRE((summary.last_evaluation && summary.final_evaluation));
  CHECK(summary.last_evaluation->greedy_decisions == DecisionRates{0.75, 0.5});
  CHECK(summary.last_evaluation->sampled_decisions == DecisionRates{0, {}});
  CHECK(summary.final_evaluation->greedy.decisions == DecisionRates{0.75, 0.5});
  CHECK(summary.final_evaluation->sampled->decisions == DecisionRates{0, {}});
  CHECK_FALSE(summary_of(row("evaluation", sampled)).last_evaluation->greedy_decisions);
  CHECK(summary_of(row("evaluation", ",\"decided\":1.5")).damaged_rows == 1);
  CHECK(summary_of(row("evaluation", ",\"decided\":1,\"right_of_decided\":-1")).damaged_rows == 1);
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
