#include "agents/gpu_experience.h"

#include <algorithm>
#include <stdexcept>

#include "agents/trained_agent.h"
#include "nn/cuda_support.h"

namespace engram {
namespace {

// After the places of the learner's dropouts.
constexpr std::uint32_t kActingPlaces = 1 << 16;

Dtype operands_of(const Config& config) {
  return compute_dtype(config, torch::kCUDA) == torch::kBFloat16 ? Dtype::kBfloat16 : Dtype::kFloat32;
}

// Holds no episode longer than until the next round.
ReplayOptions only_recorded() { return {.capacity_steps = 1, .minimum_episodes = 1, .batch_episodes = 1}; }

}  // namespace

GpuRound::GpuRound(CudaVecEnv& environments, DevicePolicy& policy, const EpisodeStore& store, ActionChoice choice)
    : environments_(environments), policy_(policy), store_(store), choice_(choice) {
  const auto options = torch::TensorOptions(torch::kCUDA);
  running_N_ = torch::zeros({environments.size()}, options.dtype(torch::kUInt8));
  action_N_ = torch::zeros({environments.size()}, options.dtype(torch::kInt32));
}

EpisodeRecorders GpuRound::recorders() const {
  return {environments_.size(), slot_N_.data_ptr<std::int64_t>(), running_N_.data_ptr<std::uint8_t>()};
}

void GpuRound::begin(const torch::Tensor& slot_N) {
  if (slot_N_.defined() && slot_N_.data_ptr() != slot_N.data_ptr())
    throw std::logic_error("the slots of a round have moved");
  slot_N_ = slot_N;
  environments_.reset_finished(current_stream());
  begin_episodes(store_, recorders(), environments_.observation_N(), current_stream());
}

void GpuRound::step_environments(const std::int32_t* action_N) {
  environments_.step(action_N, current_stream());
  record_step(store_, recorders(),
              {action_N, environments_.reward_N(), reinterpret_cast<const std::uint8_t*>(environments_.end_N()),
               environments_.success_N(), environments_.observation_N()},
              current_stream());
}

bool GpuRound::all_ended() const { return !running_N_.any().item<bool>(); }

void GpuRound::play(const torch::Tensor& slot_N) {
  begin(slot_N);
  policy_.reset_all(current_stream());
  const Graphs graphs(store_.max_steps);
  const auto steps = [&] {
    for (std::int64_t i = 0; i < graphs.steps; ++i) {
      policy_.act(environments_.observation_N(), action_N_.data_ptr<std::int32_t>(), choice_, current_stream());
      step_environments(action_N_.data_ptr<std::int32_t>());
    }
  };
  for (std::int64_t i = 0; i < graphs.count; ++i) {
    if (i > 0 && i % kGraphsBetweenLooks == 0 && all_ended()) break;
    if (!warm_) {
      steps();  // loads the kernels, which a recording may not
      warm_ = true;
      continue;
    }
    if (!graph_.captured()) graph_.capture(steps);
    graph_.replay();
  }
  if (policy_.diverged())
    throw std::runtime_error("the policy's action probabilities are not finite: training has diverged");
  if (!all_ended()) throw std::logic_error("an episode is longer than its task allows");
}

void GpuRound::play(const torch::Tensor& slot_N, const torch::Tensor& action_TN) {
  begin(slot_N);
  for (std::int64_t t = 0; t < action_TN.size(0); ++t) step_environments(action_TN[t].data_ptr<std::int32_t>());
  if (!all_ended()) throw std::logic_error("an episode is longer than its task allows");
}

std::optional<std::string> GpuExperience::unsupported(const Config& config) {
  return DevicePolicy::unsupported(config.network, config.memory, config.task.info(), operands_of(config));
}

GpuExperience::GpuExperience(const Config& config, std::shared_ptr<AgentNetwork> network, torch::Device device)
    : config_(config),
      task_(config.task.info()),
      device_(device),
      network_(std::move(network)),
      environments_(make_cuda_vec_env(config.task, config.run.seed, Purpose::kTraining, config.run.num_envs)),
      evaluation_environments_(
          make_cuda_vec_env(config.task, config.run.seed, Purpose::kEvaluation, evaluation_envs(config))),
      policy_(network_, config.network, config.memory, task_, operands_of(config), config.run.num_envs, config.run.seed,
              kTrainingActions, kActingPlaces, collecting_memory(config)),
      evaluation_policy_(network_, config.network, config.memory, task_, operands_of(config), evaluation_envs(config),
                         config.run.seed, evaluation_actions(0), kActingPlaces),
      buffer_(config.replay, task_, config.run.num_envs, device),
      evaluation_buffer_(only_recorded(), task_, evaluation_envs(config), device),
      round_(*environments_, policy_, buffer_.store(), ActionChoice::kSample),
      greedy_round_(*evaluation_environments_, evaluation_policy_, evaluation_buffer_.store(), ActionChoice::kGreedy),
      sampled_round_(*evaluation_environments_, evaluation_policy_, evaluation_buffer_.store(), ActionChoice::kSample),
      random_(config.run.seed, Purpose::kRun, 0, 0),
      replay_random_(config.run.seed, Purpose::kReplay, 0, 0) {}

// Drawn as a Collector draws them for episodes of full length.
torch::Tensor GpuExperience::random_actions() {
  const torch::Tensor action_TN = torch::empty({task_.max_episode_steps, environments_->size()}, torch::kInt32);
  std::int32_t* const action = action_TN.data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < action_TN.numel(); ++i)
    action[i] = static_cast<std::int32_t>(random_.below(static_cast<std::uint32_t>(task_.num_actions())));
  return action_TN.to(device_);
}

std::int64_t GpuExperience::collect(Acting acting, const std::function<void(const EpisodeResult&)>& finished) {
  std::vector<EpisodeResult> episodes;
  stream_.run([&] {
    const torch::Tensor slot_N = buffer_.slots_for(environments_->size());
    if (acting == Acting::kRandom) {
      round_.play(slot_N, random_actions());
    } else {
      policy_.refresh_weights(current_stream());
      round_.play(slot_N);
    }
    episodes = results(buffer_.store(), slot_N);
    buffer_.add_recorded(rounds_++);
  });
  std::int64_t steps = 0;
  for (const EpisodeResult& episode : episodes) {
    steps += episode.steps;
    finished(episode);
  }
  return steps;
}

EpisodeBatch GpuExperience::sample() {
  stream_.run([&] { buffer_.sample(replay_random_); });
  return buffer_.batch();
}

std::vector<EpisodeResult> GpuExperience::evaluate(ActionChoice choice, int episodes, std::uint32_t first_episode,
                                                   const std::function<bool()>& interrupted) {
  const EvaluationMode evaluation_mode(*network_);
  GpuRound& evaluation_round = choice == ActionChoice::kGreedy ? greedy_round_ : sampled_round_;
  const int size = evaluation_environments_->size();
  // Each environment has its quota; the last round may play a few episodes more than wanted.
  std::vector<std::vector<EpisodeResult>> played_N(size);
  stream_.run([&] {
    evaluation_environments_->reset_all(first_episode, current_stream());
    evaluation_policy_.refresh_weights(current_stream());
    evaluation_policy_.draw_from(evaluation_actions(first_episode));
    for (int round = 0; round * size < episodes && !interrupted(); ++round) {
      const torch::Tensor slot_N = evaluation_buffer_.slots_for(size);
      evaluation_round.play(slot_N);
      const std::vector<EpisodeResult> played = results(evaluation_buffer_.store(), slot_N);
      for (int i = 0; i < std::min(size, episodes - round * size); ++i) played_N[i].push_back(played[i]);
    }
  });
  std::vector<EpisodeResult> all;
  for (const auto& played : played_N) all.insert(all.end(), played.begin(), played.end());
  return all;
}

// Between rounds every environment's episode has ended, or none has begun, and the policy remembers nothing.
void GpuExperience::visit_state(StateArchive& archive) {
  archive.value("rounds", rounds_);
  archive.object("random", random_);
  archive.object("replay_random", replay_random_);
  stream_.run([&] {
    archive.within("policy", [&] { policy_.visit_state(archive); });
    archive.within("replay", [&] {
      const auto environments =
          make_cpu_vec_env(config_.task, config_.run.seed, Purpose::kTraining, config_.run.num_envs, 1);
      buffer_.visit_state(archive, *environments);
    });
    if (archive.restoring()) environments_->reset_all(rounds_, current_stream());
  });
}

std::vector<EpisodeResult> GpuExperience::results(const EpisodeStore& store, const torch::Tensor& slot_N) const {
  const auto on_device = slot_N.options();
  const auto rows = [&](auto* data, torch::ScalarType type, std::vector<std::int64_t> shape) {
    return torch::from_blob(data, shape, on_device.dtype(type)).index_select(0, slot_N).cpu();
  };
  const torch::Tensor steps_N = rows(store.steps_S, torch::kInt32, {store.slots});
  const torch::Tensor success_N = rows(store.success_S, torch::kUInt8, {store.slots});
  const torch::Tensor reward_NM = rows(store.reward_SM, torch::kFloat32, {store.slots, store.max_steps});
  std::vector<EpisodeResult> episodes;
  for (std::int64_t i = 0; i < slot_N.size(0); ++i) {
    EpisodeResult episode;
    episode.steps = steps_N.data_ptr<std::int32_t>()[i];
    episode.success = success_N.data_ptr<std::uint8_t>()[i] != 0;
    const float* const reward = reward_NM.data_ptr<float>() + i * store.max_steps;
    for (std::int64_t t = 0; t < episode.steps; ++t) episode.total_reward += reward[t];
    episodes.push_back(episode);
  }
  return episodes;
}

}  // namespace engram
