#include "experiments/probe/probe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "agents/run/machine/hardware.h"
#include "base/error.h"
#include "base/text/json_text.h"
#include "base/text/text.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/experiment.h"
#include "experiments/probe/kept_training.h"
#include "memory/backbones/hybrids/stack.h"
#include "storage/build_info.h"
#include "storage/files.h"
#include "storage/tensors/digest.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

// The backbone of an entry such as "hqlt:mixing=sum": sizes of the options where it has them (transformer++ has its
// layers as a list), then its own settings.
BackboneConfig make_config(const std::string& entry, const ProbeOptions& options, const ProbeTask& task) {
  const NamedSettings parsed = parse_named_settings(entry);
  BackboneConfig config(parsed.name);
  OptionList list = config.options();
  const std::string layers = std::to_string(probe_layers(options).value_or(task.layers()));
  const std::vector<std::pair<std::string, std::string>> sizes = {{"memory.width", std::to_string(options.width)},
                                                                  {"memory.heads", std::to_string(options.heads)},
                                                                  {"memory.layers", layers},
                                                                  {"memory.window", std::to_string(options.window)},
                                                                  {"memory.dropout", "0"}};
  for (const auto& [name, value] : sizes)
    for (const Option& option : list.options())
      if (option.name == name) option.set(value);
  if (parsed.name == TransformerPlusPlusOptions::kName)
    list.set("memory.stack", TransformerPlusPlusOptions::of_layers(std::stoi(layers)));
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
  const std::string reference = probe_entries(options.backbones, "backbones").front();
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

// With as many steps as --epochs says of this task.
ProbeTraining training_of(const ProbeOptions& options, const ProbeTask& task, const std::string& entry) {
  ProbeTraining training = options.training;
  if (options.epochs == 0) return training;
  const std::int64_t sequences = task.training_sequences();
  if (sequences == 0)
    throw UserError("--epochs " + std::to_string(options.epochs) + " are passes over a training set, and '" + entry +
                    "' has none: every sequence is new");
  const std::int64_t steps = (options.epochs * sequences + training.batch - 1) / training.batch;
  if (steps > kMostProbeSteps)
    throw UserError("--epochs " + std::to_string(options.epochs) + " of '" + entry + "' are " + std::to_string(steps) +
                    " steps, more than " + std::to_string(kMostProbeSteps));
  training.steps = static_cast<int>(steps);
  return training;
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
  const ProbeTraining training = training_of(options, task, cell.task);
  Json json = {{"task", parse_named_settings(cell.task).name},
               {"task_options", json_of(task_options.values())},
               {"backbone", backbone.name()},
               {"backbone_options", json_of(backbone.values())},
               {"seed", cell.seed},
               {"learning_rate", cell.rate},
               {"steps", training.steps},
               {"batch", training.batch},
               {"warmup", training.warmup},
               {"final_rate", training.final_rate},
               {"weight_decay", training.weight_decay},
               {"clip_gradient_norm", training.clip_gradient_norm},
               {"validate_every", training.validate_every},
               {"patience", training.patience},
               {"stop_accuracy", training.stop_accuracy},
               {"embedding_std", training.network.embedding_std},
               {"bfloat16", training.network.bfloat16},
               {"test_sequences", options.test_sequences}};
  // Where matrices alone decay a cell has the name of before there was a choice, and is found again.
  if (training.decayed == Decayed::kAll) json["decayed"] = "all";
  // The same where a map says the answers.
  if (training.network.answers_by == AnswersBy::kEmbeddings) json["answers_by"] = "embeddings";
  if (const std::string content = task.content(); !content.empty()) json["content"] = content;
  return json_text(json);
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string device_text(torch::Device device) { return device.is_cuda() ? "GPU" : "CPU"; }

}  // namespace

std::vector<ProbeCell> plan_probe(const ProbeOptions& options) {
  const ScoreTable table = probe_table(options);
  std::vector<ProbeCell> cells;
  for (const std::string& task_entry : table.tasks) {
    const auto task = make_probe_task(task_entry);
    if (options.training.network.answers_by == AnswersBy::kEmbeddings && !task->first_class_symbol())
      throw UserError("--answers_by embeddings is for tasks that answer with symbols of their sequences, and '" +
                      task_entry + "' does not");
    for (const std::string& backbone_entry : table.methods) {
      const BackboneConfig backbone = matched_config(backbone_entry, options, *task);
      if (task->model() == ProbeModel::kMemory) check_bare_memory(backbone);
      for (const double rate : probe_rates(options))
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
  const ScoreTable table = probe_table(options);
  double most = 0;
  for (const std::string& task_entry : table.tasks) {
    const auto task = make_probe_task(task_entry);
    for (const std::string& backbone_entry : table.methods)
      most = std::max(most, learning_work(matched_config(backbone_entry, options, *task), options.training.batch,
                                          task->length(Split::kTraining)));
  }
  return most;
}

std::filesystem::path kept_training_file(const ProbeCell& cell, const std::filesystem::path& folder) {
  return (folder / cell.file).replace_extension(".safetensors");
}

ProbeResult run_probe_cell(const ProbeCell& cell, const ProbeOptions& options, torch::Device device,
                           const std::filesystem::path& folder) {
  const auto task = make_probe_task(cell.task);
  ProbeTraining training = training_of(options, *task, cell.task);
  training.learning_rate = cell.rate;
  KeptTraining kept(kept_training_file(cell, folder), cell.identity);
  ProbeLearner learner(*task, matched_config(cell.backbone, options, *task), training, cell.seed, device);
  ProbeResult result{};
  kept.restore(learner);
  result.diverged_at = learner.train(options.test_sequences, [&] { kept.keep(learner); });
  const ProbeAccuracy test = learner.evaluate(Split::kTest, options.test_sequences);
  result.accuracy = test.accuracy;
  result.test_loss = test.loss;
  result.validation_accuracy = learner.best().accuracy;
  result.validation_loss = learner.best().loss;
  result.best_step = learner.best().step;
  result.chance = task->chance();
  result.loss = learner.last_loss();
  result.seconds = kept.seconds();
  result.cost = learner.backbone_cost();

  Json by_question = Json::array();
  for (const double accuracy : test.by_question) by_question.push_back(finite_or_null(accuracy));
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
                     {"accuracy_by_question", by_question},
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
  kept.remove();
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
  if (!(result.chance >= 0 && result.chance < 1 && result.accuracy >= 0 && result.accuracy <= 1)) refuse();
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

}  // namespace engram
