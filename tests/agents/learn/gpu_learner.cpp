#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/dqn/dqn.h"
#include "agents/learn/learner.h"
#include "agents/learn/ppo/ppo.h"
#include "agents/learn/registry.h"
#include "agents/learn/sac/sac.h"
#include "agents/play/episode_store.h"
#include "agents/run/trained/trained_agent.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

constexpr int kSteps = 24;
const std::vector<std::string> kBackbones{"hqlt", "deltanet", "transformer"};

const TaskInfo& task() {
  static const TaskInfo info = image_task(4, kSteps);
  return info;
}

// Small, with dropout on.
Config config_of(const std::string& backbone, const std::string& precision, const std::string& kernels = "auto") {
  Settings settings = {{"memory.name", backbone},    {"memory.width", "20"},         {"memory.layers", "2"},
                       {"memory.heads", "2"},        {"network.hidden_width", "32"}, {"run.seed", "3"},
                       {"run.precision", precision}, {"run.kernels", kernels}};
  if (backbone == "hqlt") settings.emplace_back("memory.window", "7");
  return Config::from_settings(settings);
}

// Batches of ragged episodes, all as long as the longest of the task: the first one is. They have what a learner on
// policy needs as well.
class Batches {
 public:
  explicit Batches(torch::Device device)
      : device_(device), store_(EpisodeStore::of_iterations(task(), 24 * kSteps, torch::kCPU)) {
    Rng rng(1, Purpose::kTest, 0, 5);
    std::vector<std::int64_t> all;
    for (int i = 0; i < 24; ++i) {
      Episode episode = random_episode(task(), i == 0 ? kSteps : 8 + static_cast<int>(rng.below(kSteps - 7)),
                                       i % 2 == 0 ? End::kTerminated : End::kTruncated, rng);
      for (std::int64_t t = 0; t < episode.steps(); ++t) episode.log_probs.push_back(-0.9f - 0.4f * rng.uniform());
      store_.add(episode);
      all.push_back(i);
    }
    const torch::Tensor value_BT = torch::linspace(-1, 1, 24 * kSteps).reshape({24, kSteps});
    store_.put_advantages(all, value_BT, (20 * value_BT).sin());
  }
  EpisodeBatch next() {
    std::vector<std::int64_t> indices{0};
    while (indices.size() < 8) indices.push_back(random_.below(24));
    return to_device(store_.gather(indices), device_);
  }

 private:
  torch::Device device_;
  EpisodeStore store_;
  Rng random_{1, Purpose::kTest, 0, 6};
};

// The first steps of all its episodes.
EpisodeBatch first_steps(const EpisodeBatch& batch, std::int64_t steps) {
  const auto cut = [](const torch::Tensor& x, std::int64_t rows) { return x.narrow(1, 0, rows).contiguous(); };
  return {.observation = cut(batch.observation, steps + 1),
          .previous_action_BT1 = cut(batch.previous_action_BT1, steps + 1),
          .previous_reward_BT1 = cut(batch.previous_reward_BT1, steps + 1),
          .action_BT = cut(batch.action_BT, steps),
          .reward_BT = cut(batch.reward_BT, steps),
          .terminated_BT = cut(batch.terminated_BT, steps),
          .steps_B = batch.steps_B.clamp_max(steps),
          .mask_BT = cut(batch.mask_BT, steps)};
}

// One series of numbers for each of the losses.
using Curves = std::map<std::string, std::vector<double>>;

Curves learn(const std::shared_ptr<AgentNetwork>& network, const SacOptions& options, torch::Device device,
             int updates) {
  torch::set_num_threads(1);  // a second thread would wait more than compute at these sizes
  network->train();
  Learner learner(learner_config(options), network);
  Batches batches(device);
  Curves curves;
  for (int i = 0; i < updates; ++i)
    for (const auto& [name, value] : learner.update(batches.next())) curves[name].push_back(value.item<double>());
  return curves;
}

std::shared_ptr<AgentNetwork> training_network(const Config& config, torch::Device device = torch::kCUDA) {
  auto network = make_network(config, task(), device);
  network->train();
  return network;
}

// The same agent twice: updates of the one are recorded and replayed, those of the other launched step by step.
struct LearntTwice {
  LearntTwice(const Config& config, const LearnerConfig& learner)
      : recorded(training_network(config)),
        launched(training_network(config)),
        replaying(learner, recorded),
        launching(learner, launched) {
    launching.launch_every_update();
  }

  std::shared_ptr<AgentNetwork> recorded, launched;
  Learner replaying, launching;
};

bool same_weights(const AgentNetwork& a, const AgentNetwork& b) {
  const auto first = a.parameters(), second = b.parameters();
  for (std::size_t i = 0; i < first.size(); ++i)
    if (!torch::equal(first[i], second[i])) return false;
  return true;
}

}  // namespace

TEST_CASE("a recorded update computes what one launched step by step computes, bit for bit") {
  if (skip_without_gpu()) return;
  std::vector<std::string> backbones = kBackbones;
  backbones.insert(backbones.end(), {"gated_deltanet", "performer"});  // with all that the family's mixers have
  for (const std::string& backbone : backbones)
    for (const std::string precision : {"float32", "bfloat16"})
      for (const Temperature temperature : {Temperature::kFixed, Temperature::kLearnt}) {
        CAPTURE(backbone);
        CAPTURE(precision);
        SacOptions options;
        options.temperature = temperature;
        options.clip_gradient_norm = temperature == Temperature::kFixed ? 0 : 0.5;
        LearntTwice twice(config_of(backbone, precision), learner_config(options));
        auto& [recorded, launched, replaying, launching] = twice;
        REQUIRE(same_weights(*recorded, *launched));
        Batches batches(torch::kCUDA);
        for (int update = 0; update < 12; ++update) {
          CAPTURE(update);
          // From here on the host's settings do not reach a recorded update: it stays as it was, which shows that it is
          // one.
          if (update == 8) recorded->use_kernels(false);
          const EpisodeBatch batch = batches.next();
          const NamedScalars replayed = replaying.update(batch), expected = launching.update(batch);
          for (const auto& [name, value] : expected) {
            CAPTURE(name);
            CHECK(torch::equal(named(replayed, name), value));
          }
        }
        CHECK(same_weights(*recorded, *launched));
        CHECK(replaying.algorithm().judges_by()[0].value == launching.algorithm().judges_by()[0].value);
      }
}

TEST_CASE("a recorded update takes the learning rate that is set after its recording, bit for bit as a launched one") {
  if (skip_without_gpu()) return;
  SacOptions options;
  options.target_rate = 0;
  LearntTwice twice(config_of("hqlt", "float32"), learner_config(options));
  auto& [recorded, launched, replaying, launching] = twice;
  Batches batches(torch::kCUDA);
  for (int update = 0; update < 12; ++update) {
    CAPTURE(update);
    for (Learner* learner : {&replaying, &launching}) learner->set_learning_rate(1e-3 / (update + 1));
    const EpisodeBatch batch = batches.next();
    replaying.update(batch), launching.update(batch);
    CHECK(same_weights(*recorded, *launched));
  }
  replaying.set_learning_rate(0);
  replaying.update(batches.next());
  CHECK(same_weights(*recorded, *launched));
}

TEST_CASE("a recorded update of other learners is the launched one, bit for bit, and its losses are those of the CPU") {
  if (skip_without_gpu()) return;
  for (const auto& [backbone, learner] :
       {std::pair(std::string("hqlt"), learner_config(DqnOptions{.clip_gradient_norm = 0.5})),
        {"deltanet", learner_config(DqnOptions{.clip_gradient_norm = 0.5})},
        {"hqlt", learner_config(PpoOptions{.value_clip = 0.2})},
        {"deltanet", learner_config(PpoOptions{.kl_weight = 0.1, .kl_goal = 0.01, .target_kl = 0.5})}}) {
    CAPTURE(backbone);
    CAPTURE(learner.name());
    Config config = config_of(backbone, "float32");
    config.network.dropout = 0;
    config.learner = learner;
    OptionList options = config.options();
    options.set("memory.dropout", "0");
    LearntTwice twice(config, config.learner);
    auto& [recorded, launched, replaying, launching] = twice;
    const auto host = training_network(config, torch::kCPU);
    Learner on_host(config.learner, host);
    Batches batches(torch::kCUDA), same_batches(torch::kCPU);
    for (int update = 0; update < 12; ++update) {
      CAPTURE(update);
      const EpisodeBatch batch = batches.next();
      // Each update on the CPU begins where the GPU's does: what rounding changes in one may grow in those after it.
      copy_weights(*launched, *host);
      const NamedScalars replayed = replaying.update(batch), expected = launching.update(batch),
                         plain = on_host.update(same_batches.next());
      for (const auto& [name, value] : expected) {
        CAPTURE(name);
        CHECK(torch::equal(named(replayed, name), value));
        CHECK(value.item<double>() == doctest::Approx(named(plain, name).item<double>()).epsilon(1e-5));
      }
    }
    CHECK(same_weights(*recorded, *launched));
  }
}

TEST_CASE("a recorded update of adapters is the launched one, bit for bit, and changes what they adapt") {
  if (skip_without_gpu()) return;
  for (const std::string& backbone : kBackbones)
    for (const std::string precision : {"float32", "bfloat16"}) {
      CAPTURE(backbone);
      CAPTURE(precision);
      const Config config = config_of(backbone, precision);
      const auto recorded = make_network(config, task(), torch::kCUDA),
                 launched = make_network(config, task(), torch::kCUDA),
                 untrained = make_network(config, task(), torch::kCUDA);
      const auto learner_of = [](const std::shared_ptr<AgentNetwork>& network) {
        network->train();
        torch::manual_seed(4);  // each learner draws its adapters
        return std::make_unique<Learner>(learner_config(SacOptions{.learning_rate = 1e-2}), network,
                                         LowRankAdapters({.rank = 3, .fast_weights = true}, *network));
      };
      const auto replaying = learner_of(recorded), launching = learner_of(launched);
      launching->launch_every_update();
      Batches batches(torch::kCUDA);
      for (int update = 0; update < 8; ++update) {
        const EpisodeBatch batch = batches.next();
        replaying->update(batch), launching->update(batch);
      }
      CHECK(same_weights(*recorded, *launched));
      const auto now = recorded->named_parameters();
      for (const auto& item : untrained->named_parameters()) {
        const std::string& name = item.key();
        CAPTURE(name);
        if (name.starts_with("target_critic")) continue;
        const bool map = name.ends_with("query.weight") || name.ends_with("key.weight") ||
                         name.ends_with("value.weight") ||
                         (name.ends_with("output.weight") && name.starts_with("backbone."));
        CHECK(torch::equal(now[name], item.value()) == !map);
      }
    }
}

TEST_CASE("recorded updates over batches of changing lengths are the launched ones, bit for bit") {
  if (skip_without_gpu()) return;
  for (const std::string& backbone : kBackbones)
    for (const std::string precision : {"float32", "bfloat16"}) {
      CAPTURE(backbone);
      CAPTURE(precision);
      SacOptions options;
      options.temperature = Temperature::kLearnt;
      LearntTwice twice(config_of(backbone, precision), learner_config(options));
      auto& [recorded, launched, replaying, launching] = twice;
      Batches batches(torch::kCUDA);
      for (int update = 0; update < 30; ++update) {
        CAPTURE(update);
        // Four launches of each length come first: from then on every update is a replay.
        if (update == 15) recorded->use_kernels(false);
        const EpisodeBatch batch = first_steps(batches.next(), std::vector{kSteps, 16, 9}[update % 3]);
        const NamedScalars replayed = replaying.update(batch), expected = launching.update(batch);
        for (const auto& [name, value] : expected) {
          CAPTURE(name);
          CHECK(torch::equal(named(replayed, name), value));
        }
      }
      CHECK(same_weights(*recorded, *launched));
    }
}

// cuDNN's LSTM and GRU do not promise the same bits twice.
TEST_CASE("updates of LSTM and GRU are recorded like all others") {
  if (skip_without_gpu()) return;
  for (const std::string backbone : {"lstm", "gru"}) {
    CAPTURE(backbone);
    const Config config = Config::from_settings({{"memory.name", backbone},
                                                 {"memory.width", "20"},
                                                 {"network.hidden_width", "32"},
                                                 {"run.precision", "float32"}});
    LearntTwice twice(config, LearnerConfig("sac"));
    auto& [recorded, launched, replaying, launching] = twice;
    Batches batches(torch::kCUDA);
    for (int update = 0; update < 12; ++update) {
      CAPTURE(update);
      const EpisodeBatch batch = first_steps(batches.next(), update % 2 == 0 ? kSteps : 16);
      const NamedScalars replayed = replaying.update(batch), expected = launching.update(batch);
      // Rounding of float32, over a dozen steps.
      for (const auto& [name, value] : expected) {
        CAPTURE(name);
        CHECK(torch::allclose(named(replayed, name), value, 1e-3, 1e-5));
      }
    }
  }
}

// Without kernels, and of more actions than they take, the losses are LibTorch's; an update of them can be recorded
// too.
TEST_CASE("losses that no kernel takes are LibTorch's, and are those of the CPU") {
  if (skip_without_gpu()) return;
  for (const int actions : {3, 40})
    for (const bool kernels : {false, true}) {
      CAPTURE(actions);
      CAPTURE(kernels);
      const TaskInfo many = vector_task(4, actions, kSteps);
      EpisodeStore store({}, many, 1000, torch::kCPU);
      Rng rng(1, Purpose::kTest, 0, 7);
      for (int i = 0; i < 4; ++i) store.add(random_episode(many, kSteps - 5 * i, End::kTerminated, rng));
      const auto losses = [&](torch::Device device) {
        const auto network = make_network(config_of("deltanet", "float32"), many, device);
        network->use_kernels(kernels);
        network->train();
        Learner learner(LearnerConfig("sac"), network);
        std::vector<double> values;
        for (int update = 0; update < 6; ++update)
          for (const auto& [name, value] : learner.update(to_device(store.gather({0, 1, 2, 3}), device)))
            values.push_back(value.item<double>());
        return values;
      };
      const std::vector<double> host = losses(torch::kCPU), device = losses(torch::kCUDA);
      for (std::size_t i = 0; i < host.size(); ++i) CHECK(device[i] == doctest::Approx(host[i]).epsilon(1e-3));
    }
}

TEST_CASE("the same updates give the same bits twice") {
  if (skip_without_gpu()) return;
  for (const std::string& backbone : kBackbones) {
    CAPTURE(backbone);
    const Config config = config_of(backbone, "bfloat16");
    const auto first = make_network(config, task(), torch::kCUDA), second = make_network(config, task(), torch::kCUDA);
    const Curves curves = learn(first, {}, torch::kCUDA, 20);
    CHECK(curves == learn(second, {}, torch::kCUDA, 20));
    CHECK(same_weights(*first, *second));
  }
}

// Along a run in double precision on the CPU, with the same seed, weights, batches and dropout everywhere: whole runs
// are no measure, because DeltaNet divides by the lengths of features, of which one here is nearly 0, so that runs of
// any two precisions part.
TEST_CASE("the losses and every weight's gradient along 40 updates are those of the CPU") {
  if (skip_without_gpu()) return;
  torch::set_num_threads(1);
  for (const std::string& backbone : kBackbones) {
    CAPTURE(backbone);
    SacOptions options;
    options.temperature = backbone == "hqlt" ? Temperature::kLearnt : Temperature::kFixed;
    const auto exact = make_network(config_of(backbone, "float32"), task(), torch::kCPU);
    exact->to(torch::kFloat64);
    exact->train();
    Learner learner(learner_config(options), exact);
    Batches batches(torch::kCPU);
    for (int update = 0; update <= 40; ++update) {
      CAPTURE(update);
      const EpisodeBatch batch = batches.next();
      // What an update measures, and what it leaves as gradients, by name.
      const auto measured = [&](torch::Device device, torch::ScalarType type, const std::string& precision) {
        const auto network = make_network(config_of(backbone, precision), task(), device);
        network->to(type);
        network->train();
        copy_weights(*exact, *network);
        Learner own(learner_config(options), network);
        own.launch_every_update();
        std::map<std::string, torch::Tensor> all;
        for (const auto& [name, value] : own.update(to_device(batch, device)))
          all[name] = value.detach().to(torch::kCPU, torch::kFloat64);
        for (const auto& item : network->named_parameters())
          if (item.value().grad().defined())
            all[item.key()] = item.value().grad().detach().to(torch::kCPU, torch::kFloat64);
        return all;
      };
      if (update % 8 == 0) {
        const auto expected = measured(torch::kCPU, torch::kFloat64, "float32"),
                   single = measured(torch::kCUDA, torch::kFloat32, "float32"),
                   half = measured(torch::kCUDA, torch::kFloat32, "bfloat16");
        REQUIRE(expected.size() > 40);
        REQUIRE(single.size() == expected.size());
        for (const auto& [name, value] : expected) {
          CAPTURE(name);
          // Over the whole gradient where a weight's own is nothing but rounding: a key's bias changes no attention.
          const double least = value.dim() == 0 ? 0 : 1e-3 * expected.at("gradient_norm").item<double>();
          const auto error = [&](const std::map<std::string, torch::Tensor>& of) {
            return (of.at(name) - value).norm().item<double>() / std::max(value.norm().item<double>(), least);
          };
          CHECK(error(single) <= 5e-6);  // TF32 would be 5e-4
          // bfloat16 rounds every operand of some ten products after each other by 0.0017 (RMS).
          if (value.dim() == 0) CHECK(error(half) <= 0.03);
        }
      }
      learner.update(batch);
    }
  }
}
