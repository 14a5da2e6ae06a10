#include "agents/study/diagnosis.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>

#include "agents/act/action_rule.h"
#include "agents/learn/losses.h"
#include "agents/study/statistics.h"
#include "base/error.h"

namespace engram {
namespace {

constexpr std::int64_t kEpisodesAtOnce = 16;

// Numbers texts in the order in which they are first met.
class Numbering {
 public:
  std::int64_t number(const std::string& text) {
    const auto found = std::ranges::find(texts_, text);
    if (found != texts_.end()) return found - texts_.begin();
    texts_.push_back(text);
    return static_cast<std::int64_t>(texts_.size()) - 1;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

// What the task says of an episode, from playing it again.
struct EpisodeFacts {
  std::vector<std::int64_t> phase_T;      // of the rows; a number of the phases
  std::optional<std::int64_t> deciding;   // the deciding step
  std::optional<std::int64_t> last_seen;  // the row before the first at which the cue is out of sight
  std::int64_t cue = 0;                   // which it is
  bool success = false;
};

std::string cue_class(const Cue& cue) {
  if (!cue.colour) return cue.text;
  const auto [red, green, blue] = *cue.colour;
  return cue.text + " " + std::to_string(red) + "," + std::to_string(green) + "," + std::to_string(blue);
}

class EpisodeReplay {
 public:
  explicit EpisodeReplay(VecEnv& environments)
      : environments_(environments), knows_decisions_(environments.decided(0).has_value()) {}

  // action_T: of the steps as a batch has them, on the CPU.
  EpisodeFacts play(const KeptEpisodes::Name& name, const torch::Tensor& action_T) {
    const int row = name.environment;
    EpisodeFacts facts;
    environments_.reset_row(row, name.number);
    const auto words = static_cast<std::size_t>(environments_.info().action.words());
    const torch::Tensor rows =
        action_T.is_floating_point() ? action_T.contiguous().view(torch::kInt32) : action_T.to(torch::kInt32);
    const std::int32_t* const action = rows.const_data_ptr<std::int32_t>();
    for (std::int64_t t = 0; t < action_T.size(0); ++t) {
      facts.phase_T.push_back(phases.number(environments_.phase(row)));
      if (!facts.last_seen)
        if (const std::optional<Cue> cue = environments_.cue(row)) {
          facts.last_seen = t - 1;
          facts.cue = cues.number(cue_class(*cue));
        }
      environments_.step_row(row, std::span(action + t * words, words));
      if (knows_decisions_ && !facts.deciding && *environments_.decided(row)) facts.deciding = t;
    }
    facts.success = environments_.success_N()[static_cast<std::size_t>(row)] != 0;
    return facts;
  }
  bool knows_decisions() const { return knows_decisions_; }

  Numbering phases, cues;

 private:
  VecEnv& environments_;
  const bool knows_decisions_;
};

// What the network computes at the rows of some episodes, on the CPU; NaN-free only where the mask is.
struct Computed {
  torch::Tensor mask_BT;  // bool
  StepFigures figures;
  torch::Tensor features_BTD;  // float32
};

Computed compute(AgentNetwork& network, Algorithm& algorithm, const EpisodeBatch& batch) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor features_BTD = features_of(network, batch);
  return {.mask_BT = batch.mask_BT.cpu() > 0,
          .figures = algorithm.judge(network, batch, features_BTD),
          .features_BTD = features_BTD.narrow(1, 0, batch.action_BT.size(1)).to(torch::kCPU, torch::kFloat32)};
}

// Sums over steps, by phase.
struct PhaseSums {
  std::int64_t steps = 0;
  double squared_error = 0, entropy = 0, absolute_value = 0;
};

// The steps of episode `b` of a batch.
void add_steps(std::vector<PhaseSums>& sums, const EpisodeFacts& facts, const Computed& computed, std::int64_t b) {
  const auto error = computed.figures.squared_error_BT.accessor<double, 2>(),
             entropy = computed.figures.entropy_BT.accessor<double, 2>(),
             value = computed.figures.value_BT.accessor<double, 2>();
  for (std::size_t t = 0; t < facts.phase_T.size(); ++t) {
    const auto row = static_cast<std::int64_t>(t);
    PhaseSums& sum = sums[static_cast<std::size_t>(facts.phase_T[t])];
    ++sum.steps;
    sum.squared_error += error[b][row];
    sum.entropy += entropy[b][row];
    sum.absolute_value += std::abs(value[b][row]);
  }
}

std::vector<PhaseFigures> figures_of(const std::vector<PhaseSums>& sums, const std::vector<std::string>& phases) {
  double total = 0;
  for (const PhaseSums& sum : sums) total += sum.squared_error;
  std::vector<PhaseFigures> figures;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const PhaseSums& sum = sums[i];
    const auto steps = static_cast<double>(sum.steps);
    figures.push_back({.phase = phases[i],
                       .steps = sum.steps,
                       .squared_error = sum.squared_error / steps,
                       .error_share = total > 0 ? sum.squared_error / total : 0,
                       .entropy = sum.entropy / steps,
                       .absolute_value = sum.absolute_value / steps});
  }
  return figures;
}

// The phase in which most decisions are taken; the first met wins a tie.
std::optional<std::int64_t> decision_phase(const std::vector<EpisodeFacts>& facts_E) {
  std::map<std::int64_t, std::int64_t> count;
  for (const EpisodeFacts& facts : facts_E)
    if (facts.deciding) ++count[facts.phase_T[static_cast<std::size_t>(*facts.deciding)]];
  const auto most = std::ranges::max_element(count, {}, &std::pair<const std::int64_t, std::int64_t>::second);
  return most == count.end() ? std::nullopt : std::optional(most->first);
}

// The moments at which the cue is read: of each, by episode, the row, or none where the episode does not have it.
struct Moment {
  std::optional<std::int64_t> lag;
  std::vector<std::optional<std::int64_t>> row_E;
  std::vector<torch::Tensor> features = {};  // [D] of the episodes that have it, in order
  std::vector<std::int64_t> classes = {};    // of the same
};

std::vector<Moment> moments_of(const std::vector<EpisodeFacts>& facts_E, std::optional<std::int64_t> decision_phase) {
  std::vector<Moment> moments;
  const auto add = [&](std::optional<std::int64_t> lag, const auto& row_of) {
    Moment moment{.lag = lag, .row_E = {}};
    for (const EpisodeFacts& facts : facts_E) {
      std::optional<std::int64_t> row = facts.last_seen ? row_of(facts) : std::nullopt;
      if (row && (*row < 0 || *row >= static_cast<std::int64_t>(facts.phase_T.size()))) row.reset();
      moment.row_E.push_back(row);
    }
    if (std::ranges::none_of(moment.row_E, [](const auto& row) { return row.has_value(); })) return false;
    moments.push_back(std::move(moment));
    return true;
  };
  for (std::int64_t lag = 0;; lag = std::max<std::int64_t>(1, 4 * lag))
    if (!add(lag, [lag](const EpisodeFacts& facts) { return std::optional(*facts.last_seen + lag); }) && lag > 0) break;
  if (!decision_phase) return moments;
  add(std::nullopt, [phase = *decision_phase](const EpisodeFacts& facts) -> std::optional<std::int64_t> {
    const auto found = std::ranges::find(facts.phase_T, phase);
    return found == facts.phase_T.end() ? std::nullopt : std::optional(found - facts.phase_T.begin());
  });
  return moments;
}

std::vector<CueReadout> read_cues(const std::vector<Moment>& moments) {
  std::vector<CueReadout> readouts;
  for (const Moment& moment : moments) {
    const std::vector<std::int64_t>& classes = moment.classes;
    if (static_cast<std::int64_t>(classes.size()) < Diagnosis::kFewestReadOut) continue;
    if (std::ranges::count(classes, classes.front()) == static_cast<std::ptrdiff_t>(classes.size())) continue;
    readouts.push_back({moment.lag, read_out_linearly(torch::stack(moment.features), classes)});
  }
  return readouts;
}

// Of episode `b` of a batch, whose name is given.
EpisodeFacts facts_of(EpisodeReplay& replay, const EpisodeBatch& batch, std::int64_t b,
                      const EpisodeStore::Name& name) {
  const std::int64_t steps = batch.steps_B[b].item<std::int64_t>();
  return replay.play(name, batch.action_BT[b].narrow(0, 0, steps).cpu());
}

}  // namespace

std::vector<PhaseFigures> figures_by_phase(EpisodeStore& store, const std::vector<std::int64_t>& indices,
                                           VecEnv& environments, AgentNetwork& network, Algorithm& algorithm) {
  if (network.is_training()) throw std::logic_error("figures by phase of a network in training mode");
  EpisodeReplay replay(environments);
  std::vector<PhaseSums> sums;
  for (std::size_t first = 0; first < indices.size(); first += kEpisodesAtOnce) {
    const std::size_t end = std::min(first + kEpisodesAtOnce, indices.size());
    const auto begin = indices.begin() + static_cast<std::ptrdiff_t>(first);
    const EpisodeBatch batch = store.gather({begin, indices.begin() + static_cast<std::ptrdiff_t>(end)});
    const Computed computed = compute(network, algorithm, batch);
    for (std::size_t i = first; i < end; ++i) {
      const auto b = static_cast<std::int64_t>(i - first);
      const EpisodeFacts facts = facts_of(replay, batch, b, store.name(indices[i]));
      sums.resize(replay.phases.texts().size());
      add_steps(sums, facts, computed, b);
    }
  }
  return figures_of(sums, replay.phases.texts());
}

Diagnosis diagnose(const KeptEpisodes& episodes, AgentNetwork& network, Algorithm& algorithm) {
  if (episodes.size() < 1) throw std::invalid_argument("a diagnosis of no episode");
  if (network.is_training()) throw std::logic_error("a diagnosis of a network in training mode");
  EpisodeReplay replay(*episodes.environments);
  std::vector<EpisodeFacts> facts_E;
  for (std::int64_t i = 0; i < episodes.size(); ++i)
    facts_E.push_back(facts_of(replay, episodes.store->gather({i}), 0, episodes.names[static_cast<std::size_t>(i)]));
  const std::optional<std::int64_t> phase_of_decisions = decision_phase(facts_E);
  std::vector<Moment> moments = moments_of(facts_E, phase_of_decisions);

  Diagnosis diagnosis;
  diagnosis.episodes = episodes.size();
  diagnosis.values_are_of_actions =
      network.make_action_rule(network.parameters().front().device())->values_are_of_actions();
  std::vector<PhaseSums> sums(replay.phases.texts().size());
  std::vector<double> right, wrong;
  for (std::int64_t first = 0; first < episodes.size(); first += kEpisodesAtOnce) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = first; i < std::min(first + kEpisodesAtOnce, episodes.size()); ++i) indices.push_back(i);
    const Computed computed = compute(network, algorithm, episodes.store->gather(indices));
    if (!computed.figures.squared_error_BT.masked_select(computed.mask_BT).isfinite().all().item<bool>())
      throw DivergedError("the critics' values are not finite: training has diverged");
    const auto value = computed.figures.value_BT.accessor<double, 2>();
    for (const std::int64_t index : indices) {
      const auto e = static_cast<std::size_t>(index);
      const EpisodeFacts& facts = facts_E[e];
      const std::int64_t b = index - first;
      add_steps(sums, facts, computed, b);
      if (facts.success) ++diagnosis.solved;
      if (facts.deciding) (facts.success ? right : wrong).push_back(value[b][*facts.deciding]);
      for (Moment& moment : moments) {
        if (!moment.row_E[e]) continue;
        moment.features.push_back(computed.features_BTD[b][*moment.row_E[e]].clone());
        moment.classes.push_back(facts.cue);
      }
    }
  }
  diagnosis.phases = figures_of(sums, replay.phases.texts());
  diagnosis.cue = read_cues(moments);
  if (!replay.knows_decisions()) return diagnosis;
  Diagnosis::Decisions& decisions = diagnosis.decisions.emplace();
  decisions.right = static_cast<std::int64_t>(right.size());
  decisions.wrong = static_cast<std::int64_t>(wrong.size());
  if (!right.empty() && !wrong.empty()) decisions.value_auc = area_under_curve(right, wrong);
  if (phase_of_decisions) decisions.phase = replay.phases.texts()[static_cast<std::size_t>(*phase_of_decisions)];
  return diagnosis;
}

}  // namespace engram
