// engram bench run: the beginning of a published run through the Trainer, and what the whole run would take.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "agents/config.h"
#include "agents/trained_agent.h"
#include "agents/trainer.h"
#include "apps/bench.h"

namespace engram {
namespace {

constexpr const char* kHelp =
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

  const double steps = static_cast<double>(config.run.steps), updates = steps * config.run.updates_per_step;
  const double evaluated = steps / static_cast<double>(config.evaluation.every_steps);
  figures.whole_run_seconds =
      1e-3 * (steps * figures.step_ms + updates * figures.update_ms + evaluated * figures.evaluation_ms);
  const auto reference = reference_times(config.memory.name());
  figures.reference_seconds = reference ? 1e-3 * (steps * reference->step_ms + updates * reference->update_ms) : NAN;
  return figures;
}

void print(const Config& config, const RunFigures& figures, bool json) {
  const TrainStatus& status = figures.status;
  const auto reference = reference_times(config.memory.name());
  const double other = status.seconds - status.seconds_acting - status.seconds_learning - status.seconds_evaluating;
  if (json) {
    const auto number = [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); };
    const nlohmann::json line = {
        {"backbone", config.memory.name()},
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
        {"step_ms", number(figures.step_ms)},
        {"update_ms", number(figures.update_ms)},
        {"evaluation_ms", number(figures.evaluation_ms)},
        {"whole_run_seconds", number(figures.whole_run_seconds)},
        {"reference_step_ms", reference ? nlohmann::json(reference->step_ms) : nlohmann::json()},
        {"reference_update_ms", reference ? nlohmann::json(reference->update_ms) : nlohmann::json()},
        {"reference_seconds", number(figures.reference_seconds)},
        {"ratio", number(figures.reference_seconds / figures.whole_run_seconds)}};
    std::printf("%s\n", line.dump().c_str());
    return;
  }
  const auto row = [&](const char* what, double seconds, double ms, double reference_ms) {
    std::printf("%-12s %8s %12s %12s\n", what, fixed(100 * seconds / status.seconds, 1, "%").c_str(),
                fixed(ms, 3, " ms").c_str(), fixed(reference_ms, 1, " ms").c_str());
  };
  std::printf("%s, %s: %lld steps, %lld updates, %lld episodes in %.1f s; %.0f steps/s, %.1f updates/s\n",
              config.memory.name().c_str(), figures.acts_by.c_str(), static_cast<long long>(status.steps),
              static_cast<long long>(status.updates), static_cast<long long>(status.episodes), status.seconds,
              status.steps_per_second, status.updates_per_second);
  std::printf("%-12s %8s %12s %12s\n", "", "share", "each", "reference");
  row("acting", status.seconds_acting, figures.step_ms, reference ? reference->step_ms : NAN);
  row("learning", status.seconds_learning, figures.update_ms, reference ? reference->update_ms : NAN);
  row("evaluating", status.seconds_evaluating, figures.evaluation_ms, NAN);
  row("other", other, NAN, NAN);
  std::printf("the whole run at these rates: %s; the reference's acting and updates: %s; ratio %s\n",
              fixed(figures.whole_run_seconds / 60, 1, " min").c_str(),
              fixed(figures.reference_seconds / 60, 0, " min").c_str(),
              fixed(figures.reference_seconds / figures.whole_run_seconds, 1).c_str());
}

}  // namespace

int bench_run(const BenchCall& call) {
  double seconds = 60;
  std::string backbone = "hqlt";
  bool json = false;
  OptionList options("");
  options.add("seconds", seconds, {1, 86400},
              "how long, random episodes included; the evaluation that ends it comes on top");
  options.add("memory", backbone, "the backbone");
  if (!parse_bench_options("run", kHelp, options, json, call)) return 0;
  const torch::Device device = bench_gpu("run");
  const torch::DeviceGuard guard(device);
  Config config = published_run(backbone);
  config.run.max_seconds = seconds;
  config.evaluation.final_episodes = 0;
  print(config, measure(config, device), json);
  return 0;
}

}  // namespace engram
