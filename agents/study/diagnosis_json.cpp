#include "agents/study/diagnosis_json.h"

#include <cstdint>
#include <optional>

#include "agents/run/config/config_json.h"
#include "agents/run/trained/played_weights.h"
#include "agents/study/diagnosis_meaning.h"
#include "agents/study/statistics.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

Json fraction_json(std::int64_t count, std::int64_t total) {
  if (total == 0) return nullptr;
  const Interval interval = wilson_interval(count, total);
  return {{"estimate", interval.estimate}, {"interval", {interval.low, interval.high}}};
}

}  // namespace

Json diagnosis_json(const Diagnosis& found) {
  const std::string value = found.values_are_of_actions ? "q" : "value";
  Json json = {{"episodes", found.episodes}, {"success", fraction_json(found.solved, found.episodes)}};
  Json& decisions = json["decisions"] = nullptr;
  if (const auto& taken = found.decisions)
    decisions = {{"right", taken->right},
                 {"wrong", taken->wrong},
                 {"decided", fraction_json(taken->right + taken->wrong, found.episodes)},
                 {"right_of_decided", fraction_json(taken->right, taken->right + taken->wrong)},
                 {value + "_auc", taken->value_auc ? Json(*taken->value_auc) : Json()}};
  Json& phases = json["phases"] = Json::array();
  for (const PhaseFigures& phase : found.phases)
    phases.push_back({{"phase", phase.phase},
                      {"steps", phase.steps},
                      {"critic_loss", phase.squared_error},
                      {"critic_loss_share", phase.error_share},
                      {"entropy", phase.entropy},
                      {"absolute_" + value, phase.absolute_value}});
  Json& cue = json["cue"] = Json::array();
  for (const CueReadout& read : found.cue)
    cue.push_back(
        {{"lag", read.lag ? Json(*read.lag) : Json()},
         {"phase_begins", read.lag ? Json() : Json(found.decisions->phase)},
         {"episodes", read.readout.count},
         {"read", fraction_json(read.readout.correct, read.readout.count)},
         {"most_common", static_cast<double>(read.readout.most_common) / static_cast<double>(read.readout.count)}});
  return json;
}

Json run_diagnosis_json(const std::string& run, const RunDiagnosis& findings, const TrainedAgent& agent) {
  const std::optional<double> chance = agent.config.task.info().chance_success;
  Json json = {{"run", run},
               {"weights", name_of(agent.weights)},
               {"environment_steps", findings.weights_steps},
               {"task", agent.config.task.name()},
               {"backbone", agent.config.memory.name()},
               {"chance_success", chance ? Json(*chance) : Json()},
               {"differs", differs_json(agent.elsewhere)},
               {"learner", agent.config.learner.name()}};
  for (const auto& [name, value, source] : findings.judged_by) {
    json[name] = value;
    if (!source.empty()) json[name + "_source"] = source;
  }
  json.update({{"greedy", diagnosis_json(findings.greedy)},
               {"sampled", diagnosis_json(findings.sampled)},
               {"replayed", findings.replayed ? diagnosis_json(*findings.replayed)
                                              : Json::object({{"missing", findings.why_none_replayed}})},
               {"meaning", meaning_of(findings, agent)}});
  return json;
}

}  // namespace engram
