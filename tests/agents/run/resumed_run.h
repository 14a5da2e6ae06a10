// Runs that are resumed from states of another, and what tells them apart: for tests of resuming on the CPU and a GPU.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agents/run/training/trainer.h"
#include "storage/tensors/state_archive.h"

namespace engram::testing {

inline Settings tiny(const std::string& backbone, const Settings& more = {}) {
  Settings settings = {{"task.name", "tmaze"},
                       {"task.corridor_length", "4"},
                       {"memory.name", backbone},
                       {"network.hidden_width", "16"},
                       {"run.steps", "70"},
                       {"run.random_episodes", "3"},
                       {"run.metrics_every_steps", "7"},
                       {"replay.batch_episodes", "3"},
                       {"evaluation.every_steps", "20"},
                       {"evaluation.episodes", "3"},
                       {"run.num_envs", "2"},
                       {"evaluation.final_episodes", "4"},
                       {"checkpoint.every_minutes", "0"}};
  if (backbone != "none") settings.emplace_back("memory.width", "8");
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// The same for a learner on policy.
inline Settings on_policy(const std::string& backbone, const std::string& learner) {
  Settings settings = tiny(backbone, {{"learner.name", learner},
                                      {"learner.iteration_steps", "20"},
                                      {"learner.epochs", "2"},
                                      {"learner.minibatches", "2"}});
  std::erase_if(settings, [](const auto& item) {
    return item.first == "run.random_episodes" || item.first == "replay.batch_episodes";
  });
  return settings;
}

// What a file of the archive would hold.
inline SafetensorsFile contents(const StateArchive& archive) {
  SafetensorsFile file;
  for (const auto& [name, tensor] : archive.saved_tensors()) file.tensors[name] = tensor.cpu().clone();
  file.metadata = archive.saved_metadata();
  return file;
}

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// Keeps the states after chosen moves (0: before the first), the last state, and all rows.
struct Observer : TrainObserver {
  explicit Observer(std::set<int> wanted = {}) : wanted(std::move(wanted)) {}

  void measured(const TrainStatus& status) override {
    Row row = {0, double(status.steps), double(status.updates), status.recent_return, status.recent_success};
    for (const auto& [name, value] : status.losses) row.push_back(value);
    rows.push_back(row);
  }
  void begins_iteration(const TrainStatus& status, const IterationEpisodes& iteration) override {
    rows.push_back(
        {2, double(status.steps), double(status.updates), double(iteration.episodes), iteration.mean_return});
  }
  void evaluated(const TrainStatus& status, const AgentNetwork&, bool best) override {
    const EvaluationSummary& last = *status.last_evaluation;
    rows.push_back({1, double(last.environment_steps), last.greedy.success, last.greedy.mean_return, double(best)});
    if (last.sampled) rows.back().insert(rows.back().end(), {last.sampled->success, last.sampled->mean_return});
  }
  void save(const TrainStatus&, StateArchive& archive) override {
    ++moves;
    const bool kept = wanted.contains(moves);
    if (kept || moves >= last_move) last = contents(archive);
    if (kept) {
      states.push_back(last);
      rows_at.push_back(rows);
    }
    if (trainer) trainer->save_soon();  // after every move
  }

  std::set<int> wanted;
  Trainer* trainer = nullptr;
  int moves = 0;
  int last_move = 0;  // where it is known, `last` is not copied before: on a GPU copies take longer than the moves
  std::vector<SafetensorsFile> states;
  std::vector<Rows> rows_at;
  Rows rows;
  SafetensorsFile last;
};

inline std::vector<std::string> differences(const SafetensorsFile& a, const SafetensorsFile& b) {
  std::vector<std::string> found;
  if (a.tensors.size() != b.tensors.size() || a.metadata.size() != b.metadata.size()) found.push_back("other names");
  for (const auto& [name, tensor] : a.tensors)
    if (!b.tensors.contains(name) || !torch::equal(tensor, b.tensors.at(name))) found.push_back(name);
  for (const auto& [name, text] : a.metadata)
    if (name != "state.seconds" && (!b.metadata.contains(name) || text != b.metadata.at(name))) found.push_back(name);
  return found;
}

inline std::set<int> random_moves(int count, int of, unsigned seed) {
  std::mt19937 random(seed);
  std::set<int> moves;
  while (static_cast<int>(moves.size()) < std::min(count, of)) moves.insert(1 + static_cast<int>(random() % of));
  return moves;
}

inline int count_moves(const Config& config, int threads, torch::Device device) {
  Trainer trainer(config, device, threads);
  Observer observer;
  observer.trainer = &trainer;
  observer.last_move = std::numeric_limits<int>::max();
  trainer.save_soon();
  trainer.run({&observer});
  return observer.moves;
}

inline void check_resumed_equals_uninterrupted(const Settings& settings, int points, int threads = 1,
                                               torch::Device device = torch::kCPU) {
  const Config config = Config::from_settings(settings);
  const int moves = count_moves(config, threads, device);
  Observer whole(random_moves(points, moves, 7));
  whole.last_move = moves;
  TrainStatus end;
  {
    Trainer trainer(config, device, threads);
    whole.trainer = &trainer;
    trainer.save_soon();
    end = trainer.run({&whole});
  }
  REQUIRE(static_cast<int>(whole.states.size()) == points);
  std::set<std::string> phases;
  for (std::size_t i = 0; i < whole.states.size(); ++i) {
    phases.insert(whole.states[i].metadata.at("state.phase"));
    Trainer trainer(config, device, threads);
    StateArchive archive(whole.states[i], "the state");
    trainer.restore(archive);
    archive.check_all_restored();
    Observer rest;
    rest.rows = whole.rows_at[i];
    const TrainStatus resumed = trainer.run({&rest});
    CAPTURE(whole.states[i].metadata.at("state.steps"));
    CAPTURE(whole.states[i].metadata.at("state.phase"));
    CHECK(differences(whole.last, rest.last) == std::vector<std::string>{});
    CHECK(rest.rows == whole.rows);
    REQUIRE((end.final_evaluation && resumed.final_evaluation));
    CHECK(resumed.final_evaluation->greedy.solved == end.final_evaluation->greedy.solved);
    CHECK(resumed.final_evaluation->greedy.mean_return == end.final_evaluation->greedy.mean_return);
    REQUIRE((end.final_evaluation->sampled && resumed.final_evaluation->sampled));
    CHECK(resumed.final_evaluation->sampled->solved == end.final_evaluation->sampled->solved);
    CHECK(resumed.final_evaluation->sampled->mean_return == end.final_evaluation->sampled->mean_return);
  }
  if (points >= 20) CHECK(phases.size() >= 3);  // otherwise the points say little
}

}  // namespace engram::testing
