#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "agents/learn/learner.h"
#include "agents/learn/registry.h"
#include "agents/learn/sac/sac.h"
#include "agents/play/episode_store.h"
#include "base/error.h"
#include "storage/tensors/weights.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"
#include "tests/agents/learn/sac/plain_sac.h"

using namespace engram;

namespace {

const NetworkOptions kSmallNetwork{
    .previous_action_width = 3, .previous_reward_width = 2, .hidden_width = 6, .dropout = 0};

std::vector<std::string> all_backbones() {
  std::vector<std::string> names = kMemoryBackbones;
  names.push_back("none");
  return names;
}

std::shared_ptr<AgentNetwork> scattered_network(const std::string& backbone, const TaskInfo& task,
                                                const NetworkOptions& options = kSmallNetwork) {
  torch::manual_seed(1);
  auto network = std::make_shared<AgentNetwork>(options, small_backbone(backbone, 8), task);
  scatter_weights(*network, 0.3);
  return network;
}

// Names of the operations that these numbers come from.
std::set<std::string> operations_of(const std::vector<torch::Tensor>& numbers) {
  std::set<std::string> names;
  std::set<torch::autograd::Node*> seen;
  std::vector<std::shared_ptr<torch::autograd::Node>> open;
  for (const torch::Tensor& number : numbers) open.push_back(number.grad_fn());
  while (!open.empty()) {
    const std::shared_ptr<torch::autograd::Node> node = open.back();
    open.pop_back();
    if (!node || !seen.insert(node.get()).second) continue;
    names.insert(node->name());
    for (const auto& edge : node->next_edges()) open.push_back(edge.function);
  }
  return names;
}

plain::Numbers floats_of(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kFloat64).contiguous().flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

plain::Head head_of(const AgentNetwork& network, const std::string& name) {
  const auto parameters = network.named_parameters();
  const auto numbers = [&](const char* suffix) { return floats_of(parameters[name + suffix]); };
  const auto shape1 = parameters[name + ".hidden1.weight"].sizes(),
             shape3 = parameters[name + ".output.weight"].sizes();
  return {static_cast<int>(shape1[1]), static_cast<int>(shape1[0]), static_cast<int>(shape3[0]),
          numbers(".hidden1.weight"),  numbers(".hidden1.bias"),    numbers(".hidden2.weight"),
          numbers(".hidden2.bias"),    numbers(".output.weight"),   numbers(".output.bias")};
}

plain::Head zeros_like(const plain::Head& head) {
  plain::Head zeros = head;
  for (plain::Numbers* numbers :
       {&zeros.weight1, &zeros.bias1, &zeros.weight2, &zeros.bias2, &zeros.weight3, &zeros.bias3})
    numbers->assign(numbers->size(), 0);
  return zeros;
}

double alpha_of(Learner& learner) { return learner.algorithm().judges_by().front().value; }

// Greatest difference, relative to the greatest number.
double difference(const torch::Tensor& tensor, const torch::Tensor& expected) {
  return ((tensor.detach() - expected.detach()).abs().max() / expected.abs().max()).item<double>();
}
double difference(const torch::Tensor& tensor, const plain::Numbers& numbers) {
  return difference(tensor, torch::tensor(numbers, torch::kFloat64).reshape(tensor.sizes()));
}

// Both compute in double precision; sums of some hundred terms differ by their order alone.
constexpr double kUpdateTolerance = 1e-10;

}  // namespace

TEST_CASE("losses, targets and gradients of every parameter equal plain double-precision loops") {
  const TaskInfo task = vector_task(4, 3, 7);
  for (const std::string& backbone : all_backbones()) {
    CAPTURE(backbone);
    const auto network = scattered_network(backbone, task);
    network->to(torch::kFloat64);
    const EpisodeBatch batch = random_batch(task, 0);
    const int B = 5, T = 7, A = 3, D = 8;

    // Encoder and backbone are LibTorch's; all that follows is plain.
    const auto encoded = network->encode(batch.observation, batch.previous_action_BT1, batch.previous_reward_BT1);
    const auto features =
        network->backbone().forward(encoded, network->backbone().initial_state(B), batch.steps_B + 1).output_BTD;
    const plain::Numbers h = floats_of(features);
    const auto row = [&](int b, int t) {
      const auto first = h.begin() + (b * (T + 1) + t) * D;
      return plain::Numbers(first, first + D);
    };
    plain::Problem problem{.batch = B,
                           .steps = T,
                           .actions = A,
                           .alpha = 0.2,
                           .gamma = 0.9,
                           .length = {},
                           .action = {},
                           .reward = floats_of(batch.reward_BT),
                           .terminated = floats_of(batch.terminated_BT),
                           .logits = {},
                           .q1 = {},
                           .q2 = {},
                           .target_q1 = {},
                           .target_q2 = {}};
    const plain::Head actor = head_of(*network, "actor"), critic1 = head_of(*network, "critic1"),
                      critic2 = head_of(*network, "critic2"), target1 = head_of(*network, "target_critic1"),
                      target2 = head_of(*network, "target_critic2");
    const auto append = [](plain::Numbers& numbers, const plain::Numbers& more) {
      numbers.insert(numbers.end(), more.begin(), more.end());
    };
    for (int b = 0; b < B; ++b) {
      problem.length.push_back(batch.steps_B[b].item<int>());
      for (int t = 0; t <= T; ++t) append(problem.logits, plain::forward(actor, row(b, t)));
      for (int t = 0; t < T; ++t) {
        problem.action.push_back(batch.action_BT[b][t].item<int>());
        append(problem.q1, plain::forward(critic1, row(b, t)));
        append(problem.q2, plain::forward(critic2, row(b, t)));
        append(problem.target_q1, plain::forward(target1, row(b, t + 1)));
        append(problem.target_q2, plain::forward(target2, row(b, t + 1)));
      }
    }
    const plain::Solution expected = plain::solve(problem);

    plain::Head d_actor = zeros_like(actor), d_critic1 = zeros_like(critic1), d_critic2 = zeros_like(critic2);
    plain::Numbers d_h(h.size(), 0);
    const auto propagate = [&](const plain::Head& head, int b, int t, const plain::Numbers& d, int index,
                               plain::Head& d_head) {
      const plain::Numbers d_row =
          plain::backward(head, row(b, t), {d.begin() + index * A, d.begin() + (index + 1) * A}, d_head);
      for (int i = 0; i < D; ++i) d_h[(b * (T + 1) + t) * D + i] += d_row[i];
    };
    for (int b = 0; b < B; ++b)
      for (int t = 0; t < T; ++t) {
        propagate(actor, b, t, expected.d_logits, b * (T + 1) + t, d_actor);
        propagate(critic1, b, t, expected.d_q1, b * T + t, d_critic1);
        propagate(critic2, b, t, expected.d_q2, b * T + t, d_critic2);
      }

    const SacLoss loss = sac_loss(*network, batch, torch::tensor(0.2, torch::kFloat64), 0.9);
    CHECK(loss.critic1.item<double>() == doctest::Approx(expected.critic1).epsilon(kUpdateTolerance));
    CHECK(loss.critic2.item<double>() == doctest::Approx(expected.critic2).epsilon(kUpdateTolerance));
    CHECK(loss.actor.item<double>() == doctest::Approx(expected.actor).epsilon(kUpdateTolerance));
    CHECK(loss.total.item<double>() == doctest::Approx(expected.total).epsilon(kUpdateTolerance));
    CHECK(loss.entropy.item<double>() == doctest::Approx(expected.entropy).epsilon(kUpdateTolerance));
    CHECK(loss.mean_q.item<double>() == doctest::Approx(expected.mean_q).epsilon(kUpdateTolerance));
    CHECK(difference(loss.target_BT, expected.target) <= kUpdateTolerance);

    loss.total.backward();
    const auto parameters = network->named_parameters();
    const auto check_head = [&](const std::string& name, const plain::Head& gradient) {
      CHECK(difference(parameters[name + ".hidden1.weight"].grad(), gradient.weight1) <= kUpdateTolerance);
      CHECK(difference(parameters[name + ".hidden1.bias"].grad(), gradient.bias1) <= kUpdateTolerance);
      CHECK(difference(parameters[name + ".hidden2.weight"].grad(), gradient.weight2) <= kUpdateTolerance);
      CHECK(difference(parameters[name + ".hidden2.bias"].grad(), gradient.bias2) <= kUpdateTolerance);
      CHECK(difference(parameters[name + ".output.weight"].grad(), gradient.weight3) <= kUpdateTolerance);
      CHECK(difference(parameters[name + ".output.bias"].grad(), gradient.bias3) <= kUpdateTolerance);
    };
    check_head("actor", d_actor);
    check_head("critic1", d_critic1);
    check_head("critic2", d_critic2);

    // After the features, the chain rule from the plain gradient.
    std::vector<torch::Tensor> below;
    std::vector<std::string> names;
    for (const auto& item : parameters)
      if (item.value().requires_grad() && item.key().find("actor") == std::string::npos &&
          item.key().find("critic") == std::string::npos) {
        below.push_back(item.value());
        names.push_back(item.key());
      }
    const auto gradients =
        torch::autograd::grad({features}, below, {torch::tensor(d_h, torch::kFloat64).reshape({B, T + 1, D})});
    double greatest = 0;
    for (const torch::Tensor& gradient : gradients) greatest = std::max(greatest, gradient.abs().max().item<double>());
    for (std::size_t i = 0; i < below.size(); ++i) {
      CAPTURE(names[i]);
      // Some gradients are nothing but rounding (a key's bias moves no attention weight): they have no scale of their
      // own.
      const double scale = std::max(gradients[i].abs().max().item<double>(), 1e-3 * greatest);
      CHECK((below[i].grad() - gradients[i]).abs().max().item<double>() <= kUpdateTolerance * scale);
    }
  }
}

TEST_CASE("what stands in the padding changes no bit of losses and gradients") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const bool image : {false, true})
    for (const std::string& backbone : all_backbones()) {
      CAPTURE(backbone);
      CAPTURE(image);
      const TaskInfo task = image ? image_task(3, 7) : vector_task(4, 3, 7);
      NetworkOptions options = kSmallNetwork;
      options.dropout = 0.3;
      const auto clean_network = scattered_network(backbone, task, options);
      const auto dirty_network = scattered_network(backbone, task, options);
      const EpisodeBatch clean = random_batch(task, 1);
      EpisodeBatch dirty = random_batch(task, 1);
      for (int b = 0; b < 5; ++b) {
        const std::int64_t steps = dirty.steps_B[b].item<std::int64_t>(), padding = 7 - steps;
        const auto behind = [&](torch::Tensor& tensor, std::int64_t first) {
          return tensor[b].narrow(0, first, tensor.size(1) - first);
        };
        if (padding == 0) continue;
        if (image)
          behind(dirty.observation, steps + 1).random_(0, 256);
        else
          behind(dirty.observation, steps + 1).fill_(kNaN);
        behind(dirty.previous_action_BT1, steps + 1).random_(0, 4);
        behind(dirty.previous_reward_BT1, steps + 1).fill_(kNaN);
        behind(dirty.action_BT, steps).random_(0, 3);
        behind(dirty.reward_BT, steps).fill_(kNaN);
        behind(dirty.terminated_BT, steps).fill_(kNaN);
      }
      const auto run = [](AgentNetwork& network, const EpisodeBatch& batch) {
        torch::manual_seed(2);
        SacLoss loss = sac_loss(network, batch, torch::tensor(0.2f), 0.9);
        loss.backward();
        return loss;
      };
      const SacLoss a = run(*clean_network, clean), b = run(*dirty_network, dirty);
      CHECK(torch::equal(a.total, b.total));
      CHECK(torch::equal(a.critic1, b.critic1));
      CHECK(torch::equal(a.actor, b.actor));
      CHECK(torch::equal(a.entropy, b.entropy));
      CHECK(torch::equal(a.mean_q, b.mean_q));
      CHECK(torch::equal(a.target_BT, b.target_BT));
      const auto clean_parameters = clean_network->named_parameters(),
                 dirty_parameters = dirty_network->named_parameters();
      for (const auto& item : clean_parameters) {
        if (!item.value().requires_grad()) continue;
        CAPTURE(item.key());
        CHECK(torch::equal(item.value().grad(), dirty_parameters[item.key()].grad()));
      }
    }
}

TEST_CASE("an episode in a longer batch counts as it does alone") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = scattered_network("gru", task);
  network->to(torch::kFloat64);
  EpisodeStore store({}, task, 100, torch::kCPU);
  Rng rng(1, Purpose::kTest, 0, 2);
  for (const int steps : {3, 7}) store.add(random_episode(task, steps, End::kTerminated, rng));
  const auto alpha = torch::tensor(0.2, torch::kFloat64);
  const auto actor = [&](const std::vector<std::int64_t>& indices) {
    return sac_loss(*network, store.gather(indices), alpha, 0.9).actor.item<double>();
  };
  CHECK(actor({0, 1}) == doctest::Approx((3 * actor({0}) + 7 * actor({1})) / 10).epsilon(1e-12));
}

TEST_CASE("an update is one Adam step of all weights and one step of the targets") {
  const TaskInfo task = vector_task(4, 3, 7);
  for (const double clip : {0.0, 0.01}) {
    CAPTURE(clip);
    const auto network = scattered_network("gru", task), expected = scattered_network("gru", task);
    network->to(torch::kFloat64);
    expected->to(torch::kFloat64);
    SacOptions options;
    options.learning_rate = 1e-2;
    options.target_rate = 0.1;
    options.clip_gradient_norm = clip;
    Learner learner(learner_config(options), network);
    torch::optim::Adam optimizer(expected->trainable_parameters(), torch::optim::AdamOptions(options.learning_rate));
    for (std::uint32_t step = 0; step < 3; ++step) {
      const EpisodeBatch batch = random_batch(task, step);
      const NamedScalars report = learner.update(batch);
      optimizer.zero_grad();
      const SacLoss loss = sac_loss(*expected, batch, torch::tensor(options.alpha, torch::kFloat64), options.gamma);
      loss.total.backward();
      double squares = 0;
      for (const torch::Tensor& parameter : expected->trainable_parameters())
        squares += parameter.grad().square().sum().item<double>();
      const double norm = std::sqrt(squares);
      if (clip > 0) {
        REQUIRE(norm > clip);
        for (const torch::Tensor& parameter : expected->trainable_parameters()) parameter.grad().mul_(clip / norm);
      }
      optimizer.step();
      expected->update_targets(options.target_rate);
      CHECK(named(report, "gradient_norm").item<double>() == doctest::Approx(norm).epsilon(1e-10));
      CHECK(named(report, "critic_loss").item<double>() ==
            doctest::Approx(0.5 * (loss.critic1 + loss.critic2).item<double>()).epsilon(1e-10));
      CHECK(named(report, "actor_loss").item<double>() == doctest::Approx(loss.actor.item<double>()).epsilon(1e-10));
      CHECK(named(report, "alpha").item<double>() == doctest::Approx(options.alpha).epsilon(1e-12));
    }
    const auto ours = network->parameters(), theirs = expected->parameters();
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(difference(ours[i], theirs[i]) <= 1e-9);
    CHECK(network->is_training());
  }
  const auto network = scattered_network("none", task);
  network->eval();
  Learner learner(learner_config(SacOptions{}), network);
  CHECK_THROWS_AS(learner.update(random_batch(task, 0)), std::logic_error);
}

TEST_CASE("a learner trains at the rate that it is given last") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = scattered_network("gru", task), expected = scattered_network("gru", task);
  SacOptions options;
  options.learning_rate = 1e-2;
  Learner other(learner_config(options), expected);
  options.learning_rate = 0.5;
  Learner learner(learner_config(options), network);
  learner.set_learning_rate(1e-2);
  for (std::uint32_t step = 0; step < 2; ++step)
    learner.update(random_batch(task, step)), other.update(random_batch(task, step));
  const auto ours = network->parameters(), theirs = expected->parameters();
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(torch::equal(ours[i], theirs[i]));
  learner.set_learning_rate(0);
  learner.update(random_batch(task, 2));
  const auto trained = network->trainable_parameters(), before = expected->trainable_parameters();
  for (std::size_t i = 0; i < trained.size(); ++i) CHECK(torch::equal(trained[i], before[i]));
}

TEST_CASE("a Performer's random directions are kept with the weights, loaded with them and never trained") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = scattered_network("performer", task);
  const std::string name = "backbone.blocks.0.mixer.features.directions";
  const torch::Tensor directions = network->named_parameters()[name], before = directions.clone();
  const torch::Tensor query = network->named_parameters()["backbone.blocks.0.mixer.query.weight"];
  const torch::Tensor query_before = query.detach().clone();
  for (const torch::Tensor& trained : network->trainable_parameters()) CHECK(!trained.is_same(directions));
  SacOptions options;
  options.weight_decay = 0.1;
  Learner learner(learner_config(options), network);
  for (std::uint32_t step = 0; step < 3; ++step) learner.update(random_batch(task, step));
  CHECK(torch::equal(directions, before));
  CHECK(!torch::equal(query, query_before));

  torch::manual_seed(2);
  AgentNetwork other(kSmallNetwork, small_backbone("performer", 8), task);
  CHECK(!torch::equal(other.named_parameters()[name], directions));
  const torch::NoGradGuard no_grad;
  load_module_weights(other, module_weights(*network), "here");
  CHECK(torch::equal(other.named_parameters()[name], directions));
}

TEST_CASE("a learnt temperature moves towards the target entropy and stays in its bounds") {
  const TaskInfo task = vector_task(4, 3, 7);
  const EpisodeBatch batch = random_batch(task, 0);
  // A policy near uniform has more entropy than half of log 3: alpha falls. One that is sure has less: alpha rises.
  for (const bool sure : {false, true}) {
    CAPTURE(sure);
    torch::manual_seed(1);
    const auto network = std::make_shared<AgentNetwork>(kSmallNetwork, small_backbone("none", 8), task);
    if (sure) network->named_parameters()["actor.output.bias"].detach()[0].fill_(50);
    SacOptions options;
    options.temperature = Temperature::kLearnt;
    options.alpha = 0.1;
    options.alpha_min = 0.095;
    options.alpha_max = 0.105;
    options.learning_rate = 0.002;  // slow enough that the policy's entropy stays on its side of the target
    Learner learner(learner_config(options), network);
    const float bound = sure ? 0.105f : 0.095f;
    float before = static_cast<float>(alpha_of(learner));
    CHECK(before == doctest::Approx(0.1));
    for (int step = 0; step < 40; ++step) {
      const float used = named(learner.update(batch), "alpha").item<float>();
      CHECK(used == before);
      const float after = static_cast<float>(alpha_of(learner));
      CHECK(after >= 0.095f * (1 - 1e-6f));
      CHECK(after <= 0.105f * (1 + 1e-6f));
      const bool moved = sure ? after > before : after < before;
      const bool arrived = std::abs(after - bound) < 1e-6f;
      CHECK((moved || arrived));
      before = after;
    }
    CHECK(before == doctest::Approx(bound).epsilon(1e-5));
  }
  // Fixed: it stays.
  Learner learner(learner_config(SacOptions{}), scattered_network("none", task));
  learner.update(batch);
  CHECK(static_cast<float>(alpha_of(learner)) == doctest::Approx(0.1));
}

TEST_CASE("a first temperature outside its bounds is refused") {
  SacOptions options;
  options.alpha = 2;
  options.check();
  options.temperature = Temperature::kLearnt;
  CHECK_THROWS_AS(options.check(), UserError);
}

TEST_CASE("an update that is not finite changes neither weights nor temperature, and its first tensor is told") {
  const TaskInfo task = vector_task(4, 3, 7);
  const auto network = scattered_network("lstm", task);
  network->train();
  Learner learner(learner_config(SacOptions{.temperature = Temperature::kLearnt}), network);
  const EpisodeBatch batch = random_batch(task, 1);
  learner.update(batch);
  CHECK(learner.faults().count == 0);
  const auto weights = [&] {
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& parameter : network->trainable_parameters()) all.push_back(parameter.detach().clone());
    all.push_back(torch::tensor(alpha_of(learner)));
    return all;
  };
  const auto equal = [](const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const torch::Tensor& x, const torch::Tensor& y) { return torch::equal(x, y); });
  };
  const auto before = weights();

  // A gradient alone.
  const unsigned hook = network->named_parameters()["actor.hidden2.weight"].register_hook(
      [](const torch::Tensor& gradient) { return gradient / 0; });
  learner.update(batch);
  network->named_parameters()["actor.hidden2.weight"].remove_hook(hook);
  CHECK(equal(weights(), before));
  CHECK(learner.faults().count == 1);
  CHECK(learner.faults().first_update == 2);
  CHECK(learner.faults().first_tensor == "the gradient of actor.hidden2.weight");

  EpisodeBatch bad = batch;
  bad.reward_BT = batch.reward_BT.clone();
  bad.reward_BT[0][0] = std::numeric_limits<float>::infinity();
  learner.update(bad);
  CHECK(equal(weights(), before));
  CHECK(learner.faults().count == 2);
  CHECK(learner.faults().first_update == 2);  // still the first

  learner.update(batch);
  CHECK_FALSE(equal(weights(), before));
  CHECK(learner.faults().count == 2);
}

TEST_CASE("a network without kernels learns on a CPU by LibTorch's operations alone, and in the same way") {
  const TaskInfo task = image_task(3, 7);
  for (const std::string& backbone : all_backbones()) {
    CAPTURE(backbone);
    NetworkOptions options = kSmallNetwork;
    options.dropout = 0.1;
    const auto network = scattered_network(backbone, task, options);
    network->train();
    const EpisodeBatch batch = random_batch(task, 5);
    std::vector<double> totals;
    for (const bool kernels : {true, false}) {
      CAPTURE(kernels);
      network->use_kernels(kernels);
      network->dropout_seed_tick(torch::kCPU)[1] = 7;
      const SacLoss loss = sac_loss(*network, batch, torch::tensor(0.1), 0.9);
      const std::set<std::string> operations =
          operations_of(loss.outputs.empty() ? std::vector<torch::Tensor>{loss.total} : loss.outputs);
      const auto own = std::ranges::count_if(
          operations, [](const std::string& name) { return name.find("engram") != std::string::npos; });
      CHECK((own > 0) == kernels);
      totals.push_back(loss.total.item<double>());
    }
    CHECK(std::abs(totals[0] - totals[1]) <= 1e-4 * std::abs(totals[1]));
  }
}
