// Low-rank adapters: what they adapt, their gradients, that nothing else changes, their state, and runs that resume.
#include "agents/learn/low_rank_adapters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/learner.h"
#include "agents/learn/registry.h"
#include "agents/learn/sac/sac.h"
#include "agents/play/episode_store.h"
#include "base/error.h"
#include "storage/tensors/weights.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/run/resumed_run.h"

using namespace engram;
using torch::Tensor;

namespace {

const TaskInfo kTask = vector_task(5, 3, 9);
const std::string kHybrid = "gated_deltanet,window";  // convolutions, and attention by softmax

std::shared_ptr<AgentNetwork> network_of(const std::string& backbone, const std::string& stack, unsigned seed = 1) {
  torch::manual_seed(seed);
  BackboneConfig config = small_backbone(backbone, 8);
  OptionList options = config.options();
  if (!stack.empty()) options.set("memory.stack", stack);
  auto network = std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 6, .dropout = 0}, config, kTask);
  scatter_weights(*network, 0.3);
  return network;
}

TensorMap copied(const AgentNetwork& network) {
  TensorMap weights = module_weights(network);
  for (auto& [name, tensor] : weights) tensor = tensor.clone();
  return weights;
}

std::set<std::string> changed(const TensorMap& before, const AgentNetwork& network) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : module_weights(network))
    if (!torch::equal(tensor, before.at(name)) && !name.starts_with("target_critic")) names.insert(name);
  return names;
}

EpisodeBatch random_batch() {
  EpisodeStore store({}, kTask, 100, torch::kCPU);
  Rng rng(1, Purpose::kTest, 0, 3);
  for (int i = 0; i < 3; ++i) store.add(random_episode(kTask, 3 + 3 * i, End::kTerminated, rng));
  return store.gather({0, 1, 2});
}

std::set<std::string> maps(const std::string& mixer) {
  std::set<std::string> names;
  for (const char* map : {"query", "key", "value", "output"}) names.insert(mixer + "." + map + ".weight");
  return names;
}

std::string refusal(const std::string& backbone, const std::string& stack) {
  try {
    const auto network = network_of(backbone, stack);
    LowRankAdapters({.rank = 2}, *network);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an update of adapters changes maps of attention and convolutions, in the maps by a matrix of their rank") {
  const std::string attention = "backbone.blocks.1.mixer", linear = "backbone.blocks.0.mixer";
  for (const auto& [fast_weights, convolutions] : {std::pair(false, true), {true, true}, {false, false}}) {
    CAPTURE(fast_weights);
    CAPTURE(convolutions);
    const auto network = network_of("stack", kHybrid);
    network->train();
    const TensorMap before = copied(*network);
    const AdapterOptions options{.rank = 2, .alpha = 6, .fast_weights = fast_weights, .convolutions = convolutions};
    Learner learner(learner_config(SacOptions{.learning_rate = 0.01}), network, LowRankAdapters(options, *network));
    CHECK(changed(before, *network).empty());
    for (int i = 0; i < 4; ++i) learner.update(random_batch());

    std::set<std::string> adapted = maps(attention);
    if (fast_weights) adapted.merge(maps(linear));
    std::set<std::string> expected = adapted;
    if (convolutions) expected.insert(linear + ".convolution.weight");
    CHECK(changed(before, *network) == expected);

    StateArchive archive;
    learner.visit_state(archive);
    const TensorMap& state = archive.saved_tensors();
    for (const std::string& weight : adapted) {
      CAPTURE(weight);
      const std::string map = "adapters." + weight.substr(0, weight.rfind('.'));
      const Tensor change = module_weights(*network).at(weight) - before.at(weight);
      CHECK(torch::equal(state.at(map + ".base"), before.at(weight)));
      const Tensor product = torch::matmul(state.at(map + ".B"), state.at(map + ".A")).detach();
      CHECK(torch::allclose(change, 3 * product, 1e-5, 1e-6));
      const Tensor singular = std::get<1>(torch::linalg_svd(change));
      CHECK(singular[1].item<float>() > 1e-3f * singular[0].item<float>());
      CHECK(singular[2].item<float>() < 1e-4f * singular[0].item<float>());
    }
  }
}

TEST_CASE("gradients of adapters equal finite differences") {
  const auto network = network_of("stack", kHybrid);
  network->to(torch::kFloat64);
  LowRankAdapters adapters({.rank = 2, .alpha = 3, .fast_weights = true}, *network);
  {
    const torch::NoGradGuard no_grad;
    for (Tensor parameter : adapters.parameters()) parameter.normal_(0, 0.3);
  }
  adapters.merge();
  const Tensor input = torch::randn({2, 7, 8}, torch::kFloat64), weight = torch::randn_like(input);
  const auto loss = [&] { return (network->backbone().forward(input) * weight).sum(); };
  loss().backward();
  adapters.set_gradients();
  REQUIRE(adapters.parameters().size() == adapters.names().size());
  REQUIRE(adapters.parameters().size() == 2 * 8 + 1);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < adapters.names().size(); ++i) {
    CAPTURE(adapters.names()[i]);
    Tensor parameter = adapters.parameters()[i];
    const Tensor direction = torch::randn_like(parameter), origin = parameter.clone();
    const auto loss_at = [&](double distance) {
      parameter.copy_(origin + distance * direction);
      adapters.merge();
      return loss().item<double>();
    };
    constexpr double kStep = 1e-5;
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    loss_at(0);
    const double expected = (parameter.grad() * direction).sum().item<double>();
    CHECK(std::abs(expected) > 1e-6);
    CHECK(std::abs(slope - expected) < 1e-6 * (1 + std::abs(expected)));
  }
}

TEST_CASE("an update whose gradient is not finite changes nothing, and is blamed on an adapter") {
  const auto network = network_of("stack", kHybrid);
  network->train();
  Learner learner(learner_config(SacOptions{.learning_rate = 0.01}), network, LowRankAdapters({.rank = 2}, *network));
  learner.update(random_batch());
  const TensorMap before = copied(*network);
  EpisodeBatch batch = random_batch();
  batch.reward_BT[0][0] = std::numeric_limits<float>::quiet_NaN();
  learner.update(batch);
  CHECK(changed(before, *network).empty());
  CHECK(learner.faults().count == 1);
}

TEST_CASE("a state of adapters holds all that they need, in a network of any weights") {
  const auto network = network_of("hqlt", ""), other = network_of("hqlt", "", 2);
  LowRankAdapters adapters({.rank = 3}, *network), restored({.rank = 3}, *other);
  {
    const torch::NoGradGuard no_grad;
    for (Tensor parameter : adapters.parameters()) parameter.normal_();
  }
  adapters.merge();
  StateArchive saved;
  adapters.visit_state(saved);
  StateArchive archive(testing::contents(saved), "the state");
  restored.visit_state(archive);
  archive.check_all_restored();
  restored.merge();
  for (const std::string& name : maps("backbone.blocks.0.mixer"))
    CHECK(torch::equal(module_weights(*network).at(name), module_weights(*other).at(name)));
}

TEST_CASE("every attention has maps to adapt, and what has none is refused") {
  for (const char* backbone : {"transformer", "hqlt", "hqlt_delayed_stream", "hqlt_delayed_chunk", "transformer++",
                               "gtrxl", "expansion_span"}) {
    CAPTURE(backbone);
    CHECK(refusal(backbone, "").empty());
  }
  for (const char* layer : {"window", "attention", "shifted_sparse:group=4", "expansion_span"})
    CHECK(refusal("stack", layer).empty());
  const std::string none = "the agent's memory has no linear maps of attention to adapt; ";
  CHECK(refusal("lstm", "") == none + "with adapters.rank 0 all of its weights are trained");
  for (const char* backbone : {"deltanet", "gla"})
    CHECK(refusal(backbone, "") == none + "those of its fast weights take adapters with adapters.fast_weights true");
}

TEST_CASE("a run of adapters that is resumed equals the uninterrupted one") {
  testing::check_resumed_equals_uninterrupted(testing::tiny("hqlt", {{"run.steps", "44"}, {"adapters.rank", "2"}}), 4);
  testing::check_resumed_equals_uninterrupted(
      testing::tiny("stack", {{"run.steps", "44"}, {"memory.stack", kHybrid}, {"adapters.rank", "2"}}), 4);
}
