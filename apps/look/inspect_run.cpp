// What a run directory holds and where the run stands.
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "agents/act/roads.h"
#include "agents/run/config/config_json.h"
#include "agents/run/machine/memory_estimate.h"
#include "agents/study/metrics_summary.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/status_display.h"
#include "apps/look/inspect.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "envs/external_task.h"
#include "storage/log/metrics.h"
#include "storage/run/run_directory.h"
#include "storage/run/run_lock.h"
#include "storage/settings.h"
#include "storage/tensors/checkpoint.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

enum class Standing { kRunning, kNotBegun, kCanGoOn, kCannotGoOn, kFinished };

const char* standing_name(Standing standing) {
  switch (standing) {
    case Standing::kRunning:
      return "running";
    case Standing::kNotBegun:
      return "not begun";
    case Standing::kCanGoOn:
      return "can go on";
    case Standing::kCannotGoOn:
      return "cannot go on";
    case Standing::kFinished:
      return "finished";
  }
  return "";
}

// One of the run's weights files or checkpoints.
struct SavedFile {
  fs::path file;
  std::optional<SafetensorsSummary> contents;  // none where it is damaged
  std::string damage;
};

struct RunFacts {
  fs::path folder;
  Config config;
  std::vector<Road> roads;
  bool running = false;
  MetricsSummary metrics;
  std::vector<SavedFile> weights, checkpoints;
  const SavedFile* newest = nullptr;                  // checkpoint that can be read
  std::string lost;                                   // what it cannot be gone on from without; empty: nothing
  std::int64_t steps = 0, updates = 0, episodes = 0;  // the furthest that is written anywhere
  Standing standing = Standing::kNotBegun;

  bool can_go_on() const { return newest != nullptr && lost.empty(); }
};

// Reads files, passing over those that are not there: a run that trains removes old checkpoints.
void read_saved(const fs::path& file, const std::string& what, std::vector<SavedFile>& files) {
  SavedFile saved{file, {}, {}};
  try {
    SafetensorsSummary contents = summarize_safetensors(file, what);
    if (what == "checkpoint") read_checkpoint_header(contents.metadata, contents.digest_checked, "it");
    saved.contents = std::move(contents);
  } catch (const UserError& error) {
    std::error_code ignored;
    if (!fs::exists(file, ignored)) return;
    saved.damage = error.what();
  }
  files.push_back(std::move(saved));
}

// Whether the run has done all that its config asks for.
bool is_finished(const RunFacts& facts) {
  if (facts.metrics.final_evaluation) return true;
  if (facts.config.evaluation.final_episodes > 0 || facts.newest == nullptr) return false;
  // Without a final evaluation the last thing that a run writes is its last weights, after an evaluation of them.
  const SafetensorsSummary& state = *facts.newest->contents;
  const std::optional<std::int64_t> steps = count_entry(state, "environment_steps");
  const std::optional<EvaluationSummary>& last = facts.metrics.last_evaluation;
  bool written = false;
  for (const SavedFile& file : facts.weights)
    written = written || (file.contents && file.file.stem() == "last" &&
                          count_entry(*file.contents, "environment_steps") == steps &&
                          count_entry(*file.contents, "updates") == count_entry(state, "updates"));
  if (!written || !last || last->environment_steps != steps) return false;
  double seconds = 0;
  if (const auto found = state.metadata.find("state.seconds"); found != state.metadata.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), seconds);
  const double goal = facts.config.evaluation.stop_at_success, limit = facts.config.run.max_seconds;
  return *steps >= facts.config.run.steps || (goal > 0 && last->greedy.success >= goal) ||
         (limit > 0 && seconds >= limit);
}

Standing standing_of(const RunFacts& facts) {
  if (facts.running) return Standing::kRunning;
  if (is_finished(facts)) return Standing::kFinished;
  if (facts.can_go_on()) return Standing::kCanGoOn;
  const bool begun = !facts.checkpoints.empty() || facts.steps > 0 || !facts.weights.empty();
  return begun ? Standing::kCannotGoOn : Standing::kNotBegun;
}

RunFacts read_run_facts(const fs::path& folder) {
  const RunDirectory run = RunDirectory::open(folder);
  RunFacts facts;
  facts.folder = folder;
  facts.config = read_config(run.config_file());
  facts.roads = run.roads();
  facts.running = RunLock::held(folder);
  facts.metrics = summarize_metrics(run.metrics_file());
  for (const WhichWeights which : {WhichWeights::kBest, WhichWeights::kLast})
    read_saved(run.weights_file(which), "weights file", facts.weights);
  for (const fs::path& file : list_checkpoints(run.checkpoints_folder()))
    read_saved(file, "checkpoint", facts.checkpoints);
  for (const SavedFile& file : facts.checkpoints)
    if (file.contents) facts.newest = &file;

  facts.steps = facts.metrics.steps;
  facts.updates = facts.metrics.updates;
  facts.episodes = facts.metrics.episodes;
  if (facts.newest != nullptr) {
    const SafetensorsSummary& state = *facts.newest->contents;
    const std::int64_t steps = *count_entry(state, "environment_steps"), updates = *count_entry(state, "updates");
    facts.lost = lost_metrics(run.metrics_file(), count_entry(state, "state.metrics_bytes").value_or(0));
    if (std::pair(steps, updates) > std::pair(facts.steps, facts.updates)) {
      facts.steps = steps;
      facts.updates = updates;
      facts.episodes = count_entry(state, "state.episodes").value_or(facts.episodes);
    }
  }
  facts.standing = standing_of(facts);
  return facts;
}

std::string standing_text(const RunFacts& facts) {
  switch (facts.standing) {
    case Standing::kRunning:
      return "running: a program is training in it now";
    case Standing::kNotBegun:
      return "not begun: nothing is saved yet";
    case Standing::kCanGoOn:
      return "can go on from step " + std::to_string(*count_entry(*facts.newest->contents, "environment_steps"));
    case Standing::kCannotGoOn:
      return "cannot go on: " + (!facts.lost.empty()         ? one_line(facts.lost)
                                 : facts.checkpoints.empty() ? "it has no checkpoint"
                                                             : "no checkpoint can be read");
    case Standing::kFinished:
      return "finished";
  }
  return "";
}

// Empty where there is nothing to go on from, or a program does, or Python alone can.
std::string resume_command(const RunFacts& facts) {
  if (!facts.can_go_on() || facts.running || facts.config.task.name() == kExternalTask) return "";
  return shell_command({"engram", "train", "--resume", facts.folder.string()});
}

// Empty of tasks that do not say what their decision is.
std::string decisions_text(const std::optional<DecisionRates>& decisions) {
  if (!decisions) return "";
  const std::string decided = formatted(", decided %.1f%%", 100 * decisions->decided);
  return decisions->right ? decided + formatted(" (%.0f%% right)", 100 * *decisions->right) : decided;
}

std::string evaluation_text(const EvaluationSummary& evaluation) {
  const std::string sampled =
      evaluation.sampled ? formatted(", sampled %.1f%%", 100 * evaluation.sampled->success) : std::string();
  return formatted("step %lld: success %.1f%%%s%s, return %.3g, ", static_cast<long long>(evaluation.environment_steps),
                   100 * evaluation.greedy.success, sampled.c_str(),
                   decisions_text(evaluation.greedy_decisions).c_str(), evaluation.greedy.mean_return) +
         counted(evaluation.episodes, "episode");
}

std::string played_text(const FinalEvaluation::Played& played, int episodes) {
  return formatted("success %.1f%% (95%%: %.1f to %.1f)%s, return %.3g, ", 100 * played.success.estimate,
                   100 * played.success.low, 100 * played.success.high, decisions_text(played.decisions).c_str(),
                   played.mean_return) +
         counted(episodes, "episode");
}

std::string final_text(const FinalEvaluation& last) {
  return formatted("of step %lld: ", static_cast<long long>(last.weights.environment_steps)) +
         played_text(last.greedy, last.episodes);
}

void print_saved(const char* title, const std::vector<SavedFile>& files) {
  if (files.empty()) {
    std::printf("\n  %s: none\n", title);
    return;
  }
  ScreenTable table({{title}, {"steps", true}, {"updates", true}, {"bytes", true}, {"digest"}});
  for (const SavedFile& file : files) {
    const std::string name = file.file.filename().string();
    if (!file.contents) {
      // The reason without the file's name, which the row begins with already.
      const std::string quoted = "'" + one_line(file.file.string()) + "' ";
      const std::size_t place = file.damage.find(quoted);
      table.add({name, place == std::string::npos ? file.damage : file.damage.substr(place + quoted.size())});
      continue;
    }
    const auto count = [&](const char* key) {
      const std::optional<std::int64_t> number = count_entry(*file.contents, key);
      return number ? std::to_string(*number) : "?";
    };
    table.add({name, count("environment_steps"), count("updates"), bytes_text(file.contents->bytes),
               digest_text(*file.contents)});
  }
  std::printf("\n%s", table.text().c_str());
}

Json saved_json(const SavedFile& file) {
  Json json = {{"file", file.file.string()}};
  if (const std::int64_t number = checkpoint_number(file.file); number > 0) json["number"] = number;
  const auto count = [&](const char* key) {
    const auto number = file.contents ? count_entry(*file.contents, key) : std::nullopt;
    return number ? Json(*number) : Json();
  };
  json["environment_steps"] = count("environment_steps");
  json["updates"] = count("updates");
  json["bytes"] = file.contents ? Json(file.contents->bytes) : Json();
  json["digest"] = file.contents ? Json(digest_text(*file.contents)) : Json();
  json["damage"] = file.contents ? Json() : Json(file.damage);
  return json;
}

// Null of tasks that do not say what their decision is, and of older versions.
void add_decisions(Json& json, const std::string& prefix, const std::optional<DecisionRates>& decisions) {
  json[prefix + "decided"] = decisions ? Json(decisions->decided) : Json();
  json[prefix + "right_of_decided"] = decisions && decisions->right ? Json(*decisions->right) : Json();
}

// The values of the sampled episodes are null where an older version has played none.
Json evaluation_json(const std::optional<EvaluationSummary>& evaluation) {
  if (!evaluation) return {};
  const auto& sampled = evaluation->sampled;
  Json json = {{"environment_steps", evaluation->environment_steps},
               {"updates", evaluation->updates},
               {"episodes", evaluation->episodes},
               {"success", evaluation->greedy.success},
               {"return", evaluation->greedy.mean_return},
               {"sampled_success", sampled ? Json(sampled->success) : Json()},
               {"sampled_return", sampled ? Json(sampled->mean_return) : Json()}};
  add_decisions(json, "", evaluation->greedy_decisions);
  add_decisions(json, "sampled_", evaluation->sampled_decisions);
  return json;
}

Json final_json(const std::optional<FinalEvaluation>& last) {
  if (!last) return {};
  Json json = {{"environment_steps", last->weights.environment_steps},
               {"updates", last->weights.updates},
               {"episodes", last->episodes}};
  const auto add = [&json](const std::string& prefix, const FinalEvaluation::Played* played) {
    json[prefix + "success"] = played != nullptr ? Json(played->success.estimate) : Json();
    json[prefix + "success_interval"] = played != nullptr ? Json({played->success.low, played->success.high}) : Json();
    json[prefix + "return"] = played != nullptr ? Json(played->mean_return) : Json();
    add_decisions(json, prefix, played != nullptr ? played->decisions : std::nullopt);
  };
  add("", &last->greedy);
  add("sampled_", last->sampled ? &*last->sampled : nullptr);
  return json;
}

// Of a run on a CPU, by part.
Json memory_json(const Config& config) {
  const MemoryEstimate estimate = estimate_memory(config, torch::kCPU);
  Json parts = Json::object();
  for (const MemoryPart& part : estimate.parts) parts[part.what] = std::llround(part.bytes);
  return {{"bytes", std::llround(estimate.total())}, {"parts", std::move(parts)}};
}

}  // namespace

Json run_json(const fs::path& folder) {
  const RunFacts facts = read_run_facts(folder);
  const std::string resume = resume_command(facts);
  Json json = {{"run", folder.string()},
               {"task", facts.config.task.name()},
               {"backbone", facts.config.memory.name()},
               {"state", standing_name(facts.standing)},
               {"resume", resume.empty() ? Json() : Json(resume)},
               {"progress",
                {{"environment_steps", facts.steps},
                 {"total_steps", facts.config.run.steps},
                 {"updates", facts.updates},
                 {"skipped_updates", facts.metrics.skipped_updates},
                 {"episodes", facts.episodes}}},
               {"evaluations",
                {{"count", facts.metrics.evaluations.size()},
                 {"last", evaluation_json(facts.metrics.last_evaluation)},
                 {"best", evaluation_json(facts.metrics.best_evaluation)},
                 {"final", final_json(facts.metrics.final_evaluation)}}},
               {"damaged_metric_rows", facts.metrics.damaged_rows},
               {"memory_on_cpu", memory_json(facts.config)},
               {"roads", Json::array()},
               {"weights", Json::array()},
               {"checkpoints", Json::array()},
               {"config", config_json(facts.config)}};
  for (const Road& road : facts.roads)
    json["roads"].push_back({{"part", road.part}, {"road", road.road}, {"reason", road.reason}});
  for (const SavedFile& file : facts.weights) json["weights"].push_back(saved_json(file));
  for (const SavedFile& file : facts.checkpoints) json["checkpoints"].push_back(saved_json(file));
  return json;
}

void print_run(const fs::path& folder) {
  const RunFacts facts = read_run_facts(folder);
  std::printf("%s\n", one_line(folder.string()).c_str());
  print_fact("what", "run of " + facts.config.memory.name() + " on " + facts.config.task.name());
  print_fact("stands", standing_text(facts));
  if (const std::string resume = resume_command(facts); !resume.empty()) {
    const bool finished = facts.standing == Standing::kFinished;
    print_command(finished ? "for more" : "go on", resume + (finished ? " --run.steps N" : ""));
  }
  print_fact("progress",
             formatted("%lld of %lld steps (%.0f%%), ", static_cast<long long>(facts.steps),
                       static_cast<long long>(facts.config.run.steps),
                       100 * static_cast<double>(facts.steps) / static_cast<double>(facts.config.run.steps)) +
                 counted(facts.updates, "update") + ", " + counted(facts.episodes, "episode"));
  if (facts.metrics.skipped_updates > 0)
    print_fact("  skipped", counted(facts.metrics.skipped_updates, "update") + " with values that were not finite");
  print_fact("evaluations", std::to_string(facts.metrics.evaluations.size()));
  if (const auto& last = facts.metrics.last_evaluation) print_fact("  last", evaluation_text(*last));
  if (const auto& best = facts.metrics.best_evaluation) print_fact("  best", evaluation_text(*best));
  if (const auto& last = facts.metrics.final_evaluation) {
    print_fact("  final", final_text(*last));
    if (last->sampled) print_fact("  sampled", played_text(*last->sampled, last->episodes));
  }
  if (facts.metrics.damaged_rows > 0)
    print_fact("damage",
               "lines of metrics.jsonl that are no rows of metrics: " + std::to_string(facts.metrics.damaged_rows));
  for (const Road& road : facts.roads)
    print_fact(&road == &facts.roads.front() ? "computed by" : "", one_line(road_text(road)));
  print_fact("memory", "on a CPU about " + estimate_memory(facts.config, torch::kCPU).text());
  print_settings(facts.config);
  print_saved("weights", facts.weights);
  print_saved("checkpoints", facts.checkpoints);
}

}  // namespace engram
