// engram bench run: the beginning of a published run through the Trainer, and what the whole run would take.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "agents/run/config/config.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/run/training/trainer.h"
#include "apps/bench/bench.h"
#include "apps/cli/threads.h"
#include "base/text/formatted.h"

namespace engram {
namespace {

constexpr const char* kRunHelp =
    R"(The published visual-match run (15 + 750 + 15 steps, 2.0 million environment steps, an evaluation every 10
episodes, as in configs/paper/visual_match_hqlt.ini) for some seconds, its evaluations included: rates, the
shares of acting, learning and evaluating, and the time of the whole run at these rates, beside what the
reference's acting step and update would make it (measured on an H200). Nothing is saved.
)";

class EvaluationCount final : public TrainObserver {
 public:
  void evaluated(const TrainStatus&, const AgentNetwork&, bool) override { ++count; }

  int count = 0;
};

// The reference trainer on one H200: milliseconds an acting step of one environment and an update of 64 episodes.
struct ReferenceTimes {
  double step_ms, update_ms;
};
std::optional<ReferenceTimes> reference_times(const std::string& backbone) {
  if (backbone == "hqlt") return ReferenceTimes{13.0, 39.0};
  if (backbone == "deltanet") return ReferenceTimes{4.8, 39.8};
  if (backbone == "transformer") return ReferenceTimes{2.3, 26.5};
  return std::nullopt;
}

struct RunFigures {
  TrainStatus status;
  std::string acts_by;
  double step_ms = NAN, update_ms = NAN, evaluation_ms = NAN;  // on average, the run's first seconds included
  double whole_run_seconds = NAN;
  double reference_seconds = NAN;  // of acting and learning; NaN: not known
};

RunFigures measure(const Config& config, torch::Device device) {
  Trainer trainer(config, device, use_threads(config.run.threads));
  EvaluationCount evaluations;
  RunFigures figures;
  figures.status = trainer.run({&evaluations});
  figures.acts_by = trainer.acts_by();
  const TrainStatus& status = figures.status;
  const auto mean_ms = [](double seconds, std::int64_t count) {
    return count > 0 ? 1e3 * seconds / static_cast<double>(count) : NAN;
  };
  // Episodes of this task have one length, random ones, too.
  const std::int64_t random_steps =
      static_cast<std::int64_t>(config.run.random_episodes) * config.task.info().max_episode_steps;
  figures.step_ms = mean_ms(status.seconds_acting, status.steps - random_steps);
  figures.update_ms = mean_ms(status.seconds_learning, status.updates);
  figures.evaluation_ms = mean_ms(status.seconds_evaluating, evaluations.count);

  const double steps = static_cast<double>(config.run.steps), updates = steps * config.updates_per_step();
  const double evaluated = steps / static_cast<double>(config.evaluation.every_steps);
  figures.whole_run_seconds =
      1e-3 * (steps * figures.step_ms + updates * figures.update_ms + evaluated * figures.evaluation_ms);
  const auto reference = reference_times(config.memory.name());
  figures.reference_seconds = reference ? 1e-3 * (steps * reference->step_ms + updates * reference->update_ms) : NAN;
  return figures;
}

void print(const Config& config, double seconds, const RunFigures& figures, BenchReport& report) {
  const TrainStatus& status = figures.status;
  const auto reference = reference_times(config.memory.name());
  const double other = status.seconds - status.seconds_acting - status.seconds_learning - status.seconds_evaluating;
  const BenchJson fields = {{"backbone", config.memory.name()},
                            {"acts_by", figures.acts_by},
                            {"seconds", status.seconds},
                            {"steps", status.steps},
                            {"updates", status.updates},
                            {"episodes", status.episodes},
                            {"steps_per_second", status.steps_per_second},
                            {"updates_per_second", status.updates_per_second},
                            {"share_acting", status.seconds_acting / status.seconds},
                            {"share_learning", status.seconds_learning / status.seconds},
                            {"share_evaluating", status.seconds_evaluating / status.seconds},
                            {"share_other", other / status.seconds},
                            {"step_ms", figures.step_ms},
                            {"update_ms", figures.update_ms},
                            {"evaluation_ms", figures.evaluation_ms},
                            {"whole_run_seconds", figures.whole_run_seconds},
                            {"reference_step_ms", reference ? BenchJson(reference->step_ms) : BenchJson()},
                            {"reference_update_ms", reference ? BenchJson(reference->update_ms) : BenchJson()},
                            {"reference_seconds", figures.reference_seconds},
                            {"ratio", figures.reference_seconds / figures.whole_run_seconds}};
  const auto row = [&](const char* what, double spent, double ms, double reference_ms) {
    return formatted("%-12s %8s %12s %12s\n", what, fixed(100 * spent / status.seconds, 1, "%").c_str(),
                     fixed(ms, 3, " ms").c_str(), fixed(reference_ms, 1, " ms").c_str());
  };
  const std::string text =
      formatted("%s, %s: %lld steps, %lld updates, %lld episodes in %.1f s; %.0f steps/s, %.1f updates/s\n",
                config.memory.name().c_str(), figures.acts_by.c_str(), static_cast<long long>(status.steps),
                static_cast<long long>(status.updates), static_cast<long long>(status.episodes), status.seconds,
                status.steps_per_second, status.updates_per_second) +
      formatted("%-12s %8s %12s %12s\n", "", "share", "each", "reference") +
      row("acting", status.seconds_acting, figures.step_ms, reference ? reference->step_ms : NAN) +
      row("learning", status.seconds_learning, figures.update_ms, reference ? reference->update_ms : NAN) +
      row("evaluating", status.seconds_evaluating, figures.evaluation_ms, NAN) + row("other", other, NAN, NAN) +
      formatted("the whole run at these rates: %s; the reference's acting and updates: %s; ratio %s\n",
                fixed(figures.whole_run_seconds / 60, 1, " min").c_str(),
                fixed(figures.reference_seconds / 60, 0, " min").c_str(),
                fixed(figures.reference_seconds / figures.whole_run_seconds, 1).c_str());
  report.add(config.memory.name() + ", " + fixed(seconds, 0, " s"), fields, text);
}

}  // namespace

int bench_run(const BenchCall& call) {
  double seconds = 60;
  std::string backbone = "hqlt";
  BenchOutput output;
  OptionList options("");
  options.add("seconds", seconds, {1, 86400},
              "how long, random episodes included; the evaluation that ends it comes on top");
  options.add("memory", backbone, "the backbone");
  if (!parse_bench_options("run", kRunHelp, options, output, call)) return 0;
  const torch::Device device = bench_gpu("run");
  const torch::DeviceGuard guard(device);
  BenchReport report("run", output, device,
                     {{"step_ms", FigureKind::kTime},
                      {"update_ms", FigureKind::kTime},
                      {"evaluation_ms", FigureKind::kTime},
                      {"whole_run_seconds", FigureKind::kTime}});
  Config config = published_run(backbone, "cuda:0");
  config.run.max_seconds = seconds;
  config.evaluation.final_episodes = 0;
  print(config, seconds, measure(config, device), report);
  return report.finish();
}

}  // namespace engram
