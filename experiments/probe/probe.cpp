#include "experiments/probe/probe.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "agents/run/machine/hardware.h"
#include "base/error.h"
#include "base/formatted.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/words.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/experiment.h"
#include "experiments/results/csv.h"
#include "experiments/statistics/aggregate.h"
#include "storage/build_info.h"
#include "storage/digest.h"
#include "storage/files.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> split_words(const std::string& list, const char* option) {
  const std::vector<std::string> words = split_list(list);
  for (const std::string& word : words)
    if (word.empty()) throw UserError(std::string("--") + option + " '" + list + "' has an empty entry");
  return words;
}

template <class Number>
Number parse_number(const std::string& text, const char* option, Number low, Number high) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high))
    throw UserError(std::string("--") + option + " has '" + text + "'; it takes numbers " + number_text(low) + ".." +
                    number_text(high));
  return value;
}

std::vector<double> parse_rates(const std::string& text) {
  std::vector<double> rates;
  for (const std::string& word : split_words(text, "rates")) {
    const double rate = parse_number(word, "rates", 1e-8, 1.0);
    if (std::find(rates.begin(), rates.end(), rate) != rates.end())
      throw UserError("--rates '" + text + "' has " + word + " twice");
    rates.push_back(rate);
  }
  return rates;
}

// The backbone of an entry such as "hqlt:mixing=sum": sizes of the options where it has them, then its own settings.
BackboneConfig make_config(const std::string& entry, const ProbeOptions& options, const ProbeTask& task) {
  const NamedSettings parsed = parse_named_settings(entry);
  BackboneConfig config(parsed.name);
  OptionList list = config.options();
  const std::string layers = options.layers == "published"
                                 ? std::to_string(task.layers())
                                 : std::to_string(parse_number(options.layers, "layers", 1, 256));
  const std::vector<std::pair<std::string, std::string>> sizes = {{"memory.width", std::to_string(options.width)},
                                                                  {"memory.heads", std::to_string(options.heads)},
                                                                  {"memory.layers", layers},
                                                                  {"memory.window", std::to_string(options.window)},
                                                                  {"memory.dropout", "0"}};
  for (const auto& [name, value] : sizes)
    for (const Option& option : list.options())
      if (option.name == name) option.set(value);
  try {
    for (const auto& [key, value] : parsed.settings) list.set("memory." + key, value);
    config.check();
  } catch (const UserError& error) {
    throw UserError("backbone '" + entry + "': " + error.what());
  }
  return config;
}

// The same with the size that --match asks for: as many parameters as the first backbone of the list. Sizes are looked
// for by making networks, so what was found is kept.
BackboneConfig matched_config(const std::string& entry, const ProbeOptions& options, const ProbeTask& task) {
  BackboneConfig backbone = make_config(entry, options, task);
  const std::string reference = split_words(options.backbones, "backbones").front();
  if (options.match == Match::kNone || entry == reference) return backbone;
  // No parameter counts steps, so that the agent's task does not matter.
  Config goal, config;
  goal.memory = make_config(reference, options, task);
  config.memory = backbone;
  static std::map<std::string, BackboneConfig> found;
  const std::string sought = goal.to_ini() + config.to_ini();
  if (const auto known = found.find(sought); known != found.end()) return known->second;
  match_sizes(config, options.match, budget_of(goal), "backbone '" + entry + "'");
  return found.emplace(sought, config.memory).first->second;
}

std::string hex_digest(const std::string& text) {
  Digest digest;
  digest.update(text.data(), text.size());
  return digest.hex();
}

std::string cell_identity(const ProbeOptions& options, ProbeTask& task, const BackboneConfig& backbone,
                          const ProbeCell& cell) {
  const auto json_of = [](const std::vector<OptionValue>& values) {
    Json json = Json::object();
    for (const OptionValue& option : values) json[option.name] = option.text;
    return json;
  };
  OptionList task_options("");
  task.list_options(task_options);
  const ProbeTraining& training = options.training;
  Json json = {{"task", parse_named_settings(cell.task).name},
               {"task_options", json_of(task_options.values())},
               {"backbone", backbone.name()},
               {"backbone_options", json_of(backbone.values())},
               {"seed", cell.seed},
               {"learning_rate", cell.rate},
               {"steps", training.steps},
               {"batch", training.batch},
               {"weight_decay", training.weight_decay},
               {"clip_gradient_norm", training.clip_gradient_norm},
               {"validate_every", training.validate_every},
               {"bfloat16", training.bfloat16},
               {"test_sequences", options.test_sequences}};
  if (const std::string content = task.content(); !content.empty()) json["content"] = content;
  return json_text(json);
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string device_text(torch::Device device) { return device.is_cuda() ? "GPU" : "CPU"; }

std::string percent(double fraction) { return formatted("%.1f", 100 * fraction); }

std::string mean_loss_text(const std::vector<double>& losses) {
  if (losses.empty()) return "-";
  return formatted("%.4f", std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size()));
}

// One task's and backbone's cells at the rate that counts.
struct Row {
  double rate = 0;
  std::vector<std::optional<ProbeResult>> by_seed;
};

// The best in validation as ProbeLearner::train() takes it: by the loss unless that is kCrossEntropy.
Row best_row(const std::vector<Row>& rows, ProbeLoss loss) {
  const bool by_loss = loss != ProbeLoss::kCrossEntropy;
  const double worst = by_loss ? -1e9 : 0;
  const auto validation = [&](const Row& row) {
    double sum = 0;
    int count = 0;
    for (const auto& result : row.by_seed) {
      if (!result) continue;
      const double score = by_loss ? -result->validation_loss.value_or(-worst) : result->validation_accuracy;
      sum += result->diverged_at ? worst : score;
      ++count;
    }
    return count == 0 ? worst - 1 : sum / count;
  };
  return *std::max_element(rows.begin(), rows.end(),
                           [&](const Row& a, const Row& b) { return validation(a) < validation(b); });
}

ScoreTable empty_table(const ProbeOptions& options, const std::string& metric = "normalised accuracy",
                       const std::string& units = "fraction of the way from chance to perfect") {
  return {metric, units, split_words(options.tasks, "tasks"), split_words(options.backbones, "backbones"),
          parse_seeds(options.seeds)};
}

}  // namespace

ProbeOptions::ProbeOptions(ProbePreset preset) {
  if (preset == ProbePreset::kFull) return;
  tasks =
      "parity:train_length=20:test_length=64,modular:train_length=16:test_length=48,"
      "recall:pairs=4:length=24:alphabet=8,rewritten:pairs=4:length=24:alphabet=8,copy:items=4:alphabet=4:delay=16,"
      "selective_copy:items=4:alphabet=4:length=20,retrieval:keys=12";
  rates = "0.003";
  width = 32;
  heads = 2;
  window = 8;
  test_sequences = 128;
  training.steps = 600;
  training.validate_every = 50;
  training.batch = 32;
}

void ProbeOptions::list_options(OptionList& list) {
  list.add(
      "tasks", tasks,
      "tasks, separated by commas, each NAME or NAME:key=value:key=value; what an entry leaves open is the preset's");
  list.add(
      "backbones", backbones,
      "backbones, each NAME or NAME:key=value..., the keys those of [memory]; a value that is a list is put in square "
      "brackets: stack:stack=[deltanet,window:window=8]");
  list.add("seeds", seeds, "seeds of weights and sequences: 0-4,8");
  list.add("rates", rates, "learning rates; of several the one that is best in validation counts");
  list.add("layers", layers, "layers of the backbones: a number, or published (2; modular 3, retrieval 1)");
  list.add("width", width, {1, 1 << 14}, "width of the backbones");
  list.add("match", match, {{Match::kNone, "none"}, {Match::kParameters, "parameters"}},
           "parameters: the others get the widths at which they have as many as the first backbone");
  list.add("heads", heads, {1, 1 << 10}, "heads of those that have any");
  list.add("window", window, {1, 1 << 20}, "window or chunk of those that have one, steps");
  list.add("steps", training.steps, {1, 100'000'000}, "training steps");
  list.add("batch", training.batch, {1, 1 << 20}, "sequences of a training step");
  list.add("weight_decay", training.weight_decay, {0, 10}, "of AdamW, for matrices");
  list.add("clip_gradient_norm", training.clip_gradient_norm, {1e-9, 1e9}, "greatest norm of the whole gradient");
  list.add("validate_every", training.validate_every, {1, 100'000'000},
           "training steps from a validation to the next; the best one's weights are tested");
  list.add("bfloat16", training.bfloat16, "activations and products in bfloat16, on a GPU");
  list.add("test_sequences", test_sequences, {1, 1 << 24}, "sequences of a test, rounded up to whole batches");
}

std::string with_preset_sizes(const std::string& tasks, ProbePreset preset) {
  std::string result;
  for (const std::string& entry : split_words(tasks, "tasks")) {
    const NamedSettings given = parse_named_settings(entry);
    result += (result.empty() ? "" : ",") + entry;
    for (const std::string& sized : split_words(ProbeOptions(preset).tasks, "tasks")) {
      const NamedSettings usual = parse_named_settings(sized);
      if (usual.name != given.name) continue;
      for (const auto& [key, value] : usual.settings)
        if (std::ranges::count(given.settings, key, &std::pair<std::string, std::string>::first) == 0)
          result += ":" + key + "=" + value;
    }
  }
  return result;
}

std::string with_text(const std::string& tasks, const std::string& file) {
  std::string result;
  int found = 0;
  for (const std::string& entry : split_words(tasks, "tasks")) {
    const NamedSettings given = parse_named_settings(entry);
    result += (result.empty() ? "" : ",") + entry;
    if (given.name != "text") continue;
    if (std::ranges::count(given.settings, "file", &std::pair<std::string, std::string>::first) > 0)
      throw UserError("--text '" + file + "' and '" + entry + "' both name a file");
    result += ":file=[" + file + "]";
    ++found;
  }
  if (found == 0) throw UserError("--text '" + file + "' is for the task text, which is not among --tasks " + tasks);
  return result;
}

std::vector<ProbeCell> plan_probe(const ProbeOptions& options) {
  const ScoreTable table = empty_table(options);
  std::vector<ProbeCell> cells;
  for (const std::string& task_entry : table.tasks) {
    const auto task = make_probe_task(task_entry);
    for (const std::string& backbone_entry : table.methods) {
      const BackboneConfig backbone = matched_config(backbone_entry, options, *task);
      for (const double rate : parse_rates(options.rates))
        for (const std::uint64_t seed : table.seeds) {
          ProbeCell cell{task_entry, backbone_entry, seed, rate, {}, {}};
          cell.identity = cell_identity(options, *task, backbone, cell);
          cell.file = parse_named_settings(task_entry).name + "-" + backbone.name() + "-" + std::to_string(seed) + "-" +
                      hex_digest(cell.identity).substr(0, 16) + ".json";
          cells.push_back(std::move(cell));
        }
    }
  }
  return cells;
}

double probe_work(const ProbeOptions& options) {
  const ScoreTable table = empty_table(options);
  double most = 0;
  for (const std::string& task_entry : table.tasks) {
    const auto task = make_probe_task(task_entry);
    for (const std::string& backbone_entry : table.methods)
      most = std::max(most, learning_work(matched_config(backbone_entry, options, *task), options.training.batch,
                                          task->length(Split::kTraining)));
  }
  return most;
}

ProbeResult run_probe_cell(const ProbeCell& cell, const ProbeOptions& options, torch::Device device,
                           const std::filesystem::path& folder) {
  const auto task = make_probe_task(cell.task);
  ProbeTraining training = options.training;
  training.learning_rate = cell.rate;
  const auto begin = std::chrono::steady_clock::now();
  ProbeLearner learner(*task, matched_config(cell.backbone, options, *task), training, cell.seed, device);
  ProbeResult result{};
  result.diverged_at = learner.train(options.test_sequences);
  const ProbeAccuracy test = learner.evaluate(Split::kTest, options.test_sequences);
  result.accuracy = test.accuracy;
  result.test_loss = test.loss;
  result.validation_accuracy = learner.best().accuracy;
  result.validation_loss = learner.best().loss;
  result.best_step = learner.best().step;
  result.chance = 1.0 / task->classes();
  result.loss = learner.last_loss();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.cost = learner.backbone_cost();

  Json validations = Json::array();
  for (const ProbeValidation& validation : learner.validations())
    validations.push_back(
        {{"step", validation.step}, {"accuracy", validation.accuracy}, {"loss", finite_or_null(validation.loss)}});

  const BuildInfo& build = build_info();
  const Json json = {{"cell", Json::parse(cell.identity)},
                     {"accuracy", result.accuracy},
                     {"validation_accuracy", result.validation_accuracy},
                     {"best_step", result.best_step},
                     {"validations", validations},
                     {"chance", result.chance},
                     {"normalised_accuracy", result.normalised()},
                     {"accuracy_by_question", test.by_question},
                     {"test_loss", finite_or_null(test.loss)},
                     {"validation_loss", finite_or_null(learner.best().loss)},
                     {"loss", finite_or_null(result.loss)},
                     {"diverged_at", result.diverged_at ? Json(*result.diverged_at) : Json()},
                     {"seconds", result.seconds},
                     {"parameters", result.cost.parameters},
                     {"state_bytes", result.cost.state_bytes},
                     {"multiply_adds_per_step", result.cost.multiply_adds_per_step},
                     {"device", device_text(device)},
                     {"engram", build.version},
                     {"commit", build.commit}};
  replace_file(folder / cell.file, [&](std::ostream& out) { out << json_text(json, 1) << "\n"; });
  return result;
}

std::optional<ProbeResult> read_probe_cell(const ProbeCell& cell, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / cell.file;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  const std::string where = "'" + file.string() + "'";
  const auto refuse = [&]() {
    throw UserError(where + " is not this probe's result; move it away to compute it again");
  };
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("cell") || json_text(json["cell"]) != cell.identity) refuse();
  const auto number = [&](const char* key) {
    if (!json.contains(key) || !json[key].is_number()) refuse();
    return json[key].get<double>();
  };
  ProbeResult result{};
  result.accuracy = number("accuracy");
  result.validation_accuracy = number("validation_accuracy");
  result.best_step = static_cast<int>(number("best_step"));
  result.chance = number("chance");
  if (!(result.chance > 0 && result.chance < 1 && result.accuracy >= 0 && result.accuracy <= 1)) refuse();
  for (const auto& [key, loss] :
       {std::pair("test_loss", &result.test_loss), {"validation_loss", &result.validation_loss}})
    if (json.contains(key) && json[key].is_number()) *loss = json[key].get<double>();
  result.seconds = number("seconds");
  result.cost.parameters = static_cast<std::int64_t>(number("parameters"));
  result.cost.state_bytes = static_cast<std::int64_t>(number("state_bytes"));
  result.cost.multiply_adds_per_step = static_cast<std::int64_t>(number("multiply_adds_per_step"));
  if (json.contains("diverged_at") && json["diverged_at"].is_number_integer())
    result.diverged_at = json["diverged_at"].get<int>();
  else
    result.loss = number("loss");
  return result;
}

ProbeSummary summarise_probe(const ProbeOptions& options, const std::filesystem::path& folder) {
  const std::vector<ProbeCell> cells = plan_probe(options);
  const std::size_t rates = parse_rates(options.rates).size();
  ProbeSummary summary{empty_table(options), empty_table(options, "test loss", "mean over answers"), {}, 0};
  const std::vector<std::string>&tasks = summary.table.tasks, &backbones = summary.table.methods;
  const std::vector<std::uint64_t>& seeds = summary.table.seeds;
  std::vector<std::string> left_out;
  std::vector<Row> rows;  // tasks x backbones
  std::size_t next = 0;
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    const ProbeLoss loss = make_probe_task(tasks[task])->loss();
    for (std::size_t backbone = 0; backbone < backbones.size(); ++backbone) {
      std::vector<Row> candidates;
      for (std::size_t rate = 0; rate < rates; ++rate) {
        Row row{cells[next].rate, {}};
        for (std::size_t seed = 0; seed < seeds.size(); ++seed, ++next) {
          row.by_seed.push_back(read_probe_cell(cells[next], folder / "cells"));
          if (!row.by_seed.back()) ++summary.missing;
        }
        candidates.push_back(std::move(row));
      }
      rows.push_back(best_row(candidates, loss));
      for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
        const auto& result = rows.back().by_seed[seed];
        const std::string name = tasks[task] + ", " + backbones[backbone] + ", seed " + std::to_string(seeds[seed]);
        if (!result)
          left_out.push_back(name + ": not finished");
        else if (result->diverged_at)
          left_out.push_back(name + ": the loss was not finite after " + counted(*result->diverged_at, "step"));
        else {
          summary.table.at(task, backbone, seed) = result->normalised();
          summary.losses.at(task, backbone, seed) = result->test_loss;
        }
      }
    }
  }

  std::vector<std::vector<std::optional<Estimate>>> estimates;
  const bool any = std::any_of(summary.table.scores.begin(), summary.table.scores.end(),
                               [](const auto& score) { return score.has_value(); });
  if (any) estimates = aggregate(summary.table).cells;

  std::string& text = summary.markdown;
  text =
      "# Probes\n\nNormalised accuracy, (accuracy - chance) / (1 - chance), in percent: mean over seeds, its 95% "
      "bootstrap interval,\nbest and median. Test loss: mean over seeds of the task's loss, "
      "of an answer (text: bits a byte). " +
      std::to_string(options.training.steps) + " steps of " + std::to_string(options.training.batch) +
      " sequences, width " + std::to_string(options.width) + ", heads " + std::to_string(options.heads) + ", layers " +
      options.layers + ", window " + std::to_string(options.window) + ", AdamW, learning rates " + options.rates +
      ", seeds " + options.seeds + ".\nTested are the weights that are best in validation, every " +
      std::to_string(options.training.validate_every) + " steps; best step: their median training steps.\n";
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    text += "\n## " + tasks[task] + "\n\n" +
            "| backbone | mean | 95% interval | best | median | test loss | seeds | rate | best step | parameters | "
            "state bytes | seconds a run |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (std::size_t backbone = 0; backbone < backbones.size(); ++backbone) {
      std::vector<double> scores, losses;
      for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
        if (const auto& score = summary.table.at(task, backbone, seed)) scores.push_back(*score);
        if (const auto& loss = summary.losses.at(task, backbone, seed)) losses.push_back(*loss);
      }
      text += "| " + backbones[backbone];
      if (scores.empty()) {
        text += " | - | - | - | - | - | 0 | - | - | - | - | - |\n";
        continue;
      }
      const Row& row = rows[task * backbones.size() + backbone];
      const Estimate estimate = *estimates[task][backbone];
      double seconds = 0;
      const ProbeResult* any_result = nullptr;
      std::vector<double> best_steps;
      for (const auto& result : row.by_seed)
        if (result) {
          seconds += result->seconds;
          best_steps.push_back(result->best_step);
          any_result = &*result;
        }
      text += " | " + percent(estimate.value) + " | " +
              (estimate.interval ? percent(estimate.interval->first) + " to " + percent(estimate.interval->second)
                                 : std::string("one run")) +
              " | " + percent(*std::max_element(scores.begin(), scores.end())) + " | " +
              percent(quantile(scores, 0.5)) + " | " + mean_loss_text(losses) + " | " + std::to_string(scores.size()) +
              " | " + number_text(row.rate) + " | " + std::to_string(std::lround(quantile(best_steps, 0.5))) + " | " +
              std::to_string(any_result->cost.parameters) + " | " + std::to_string(any_result->cost.state_bytes) +
              " | " + std::to_string(std::lround(seconds / static_cast<double>(best_steps.size()))) + " |\n";
    }
  }
  if (!left_out.empty()) text += "\nLeft out:\n\n";
  for (const std::string& line : left_out) text += "- " + line + "\n";

  write_score_table(summary.table, folder / "scores.json");
  write_score_table(summary.table, folder / "scores.csv");
  write_score_table(summary.losses, folder / "losses.csv");
  replace_file(folder / "probe.md", [&](std::ostream& out) { out << text; });
  return summary;
}

}  // namespace engram
