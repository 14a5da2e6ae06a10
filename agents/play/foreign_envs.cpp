#include "agents/play/foreign_envs.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/observation_tensor.h"
#include "base/error.h"

namespace engram {
namespace {

class RecordedForeignEnv final : public RecordedEnv {
 public:
  RecordedForeignEnv(std::unique_ptr<ForeignEnvs> environments, const TaskInfo& task, std::uint64_t seed,
                     Purpose purpose)
      : RecordedEnv(task, environments->size(), /*between_looks=*/1, torch::kCPU),
        environments_(std::move(environments)),
        task_(task),
        seed_(seed),
        purpose_(purpose),
        observation_N_(torch::zeros(observation_shape({environments_->size()}, task.observation),
                                    observation_dtype(task.observation))),
        reward_N_(torch::zeros({environments_->size()})) {
    rows_ = rows_over(task, environments_->size(), observation_N_.const_data_ptr(), reward_N_.const_data_ptr<float>(),
                      torch::kCPU);
  }

  const TaskInfo& info() const override { return task_; }
  bool plays_again() const override { return false; }
  std::int64_t unrecorded_steps() override { return std::exchange(unrecorded_, 0); }

  void step(const torch::Tensor& probabilities_NA) override {
    const auto size = static_cast<std::size_t>(environments_->size());
    const std::int32_t* const action_N = rows_.action_N.const_data_ptr<std::int32_t>();
    const float* const probabilities = probabilities_NA.defined() ? probabilities_NA.const_data_ptr<float>() : nullptr;
    try {
      environments_->step({action_N, size});
      check_lengths();
    } catch (...) {
      throw EnvironmentFailure(std::current_exception());
    }
    for (int i = 0; i < static_cast<int>(size); ++i) {
      if (environments_->stepped_N()[i] != 0) {
        const float* const own = probabilities == nullptr ? nullptr : probabilities + i * task_.num_actions();
        record(i, action_N + i, log_probability(recording_.view().rows, own, action_N + i));
      } else {
        ++unrecorded_;
      }
      if (environments_->began_N()[i] != 0) begin_row(i, environments_->first_observation_N());
    }
  }

 private:
  void begin(std::span<const std::uint32_t> number_N) override {
    number_N_.assign(number_N.begin(), number_N.end());
    // Another seed each time that episodes were given up, and the same for the same evaluation.
    std::uint32_t ahead = 0;
    for (const std::uint32_t number : number_N) ahead += number - number_N[0];
    Rng random(seed_, purpose_, ahead, number_N[0]);
    try {
      environments_->reset(random.below(std::uint32_t{1} << 31));
    } catch (...) {
      throw EnvironmentFailure(std::current_exception());
    }
    for (int i = 0; i < environments_->size(); ++i) begin_row(i, environments_->first_observation_N());
  }

  // An episode of which nothing has been recorded yet.
  void begin_row(int i, const std::byte* observation_N) {
    see(i, begin_episode(recording_.view(), i), observation_N);
    reward_N_.data_ptr<float>()[i] = 0;
    rows_.fresh_N.data_ptr<std::uint8_t>()[i] = 1;
  }

  void record(int i, const std::int32_t* action, float log_prob) {
    const float reward = environments_->reward_N()[i];
    const End end = environments_->end_N()[i];
    see(i,
        record_step(recording_.view(), i, action, log_prob, reward, end, environments_->success_N()[i] != 0,
                    number_N_[static_cast<std::size_t>(i)]),
        environments_->observation_N());
    reward_N_.data_ptr<float>()[i] = reward;
    if (end == End::kNone) return;
    ++number_N_[static_cast<std::size_t>(i)];
    // Until the next episode begins, what is seen last stands for its first observation.
    begin_row(i, environments_->observation_N());
  }

  // `row`: of the recording.
  void see(int i, std::int64_t row, const std::byte* observation_N) const {
    const EpisodeRows& rows = recording_.view().rows;
    const auto bytes = static_cast<std::size_t>(rows.row_bytes);
    const std::byte* const seen = observation_N + i * rows.row_bytes;
    std::memcpy(rows.observation_at(row), seen, bytes);
    std::memcpy(static_cast<std::byte*>(observation_N_.data_ptr()) + i * rows.row_bytes, seen, bytes);
  }

  void check_lengths() const {
    for (int i = 0; i < environments_->size(); ++i)
      if (environments_->stepped_N()[i] != 0 && environments_->end_N()[i] == End::kNone &&
          recording_.view().steps_N[i] + 1 >= task_.max_episode_steps)
        throw UserError("environment " + std::to_string(i) + " has not ended its episode after " +
                        std::to_string(task_.max_episode_steps) + " steps, which max_episode_steps says is the most");
  }

  std::unique_ptr<ForeignEnvs> environments_;
  const TaskInfo task_;
  const std::uint64_t seed_;
  const Purpose purpose_;
  torch::Tensor observation_N_, reward_N_;
  std::vector<std::uint32_t> number_N_;
  std::int64_t unrecorded_ = 0;
};

}  // namespace

std::unique_ptr<RecordedEnv> make_recorded_env(std::unique_ptr<ForeignEnvs> environments, const TaskInfo& task,
                                               std::uint64_t seed, Purpose purpose) {
  return std::make_unique<RecordedForeignEnv>(std::move(environments), task, seed, purpose);
}

}  // namespace engram
