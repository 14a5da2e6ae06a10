#include "agents/act/network.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/agents/act/small_agent.h"

using namespace engram;

namespace {

torch::Tensor parameter(const AgentNetwork& network, const std::string& name) {
  return network.named_parameters()[name].detach();
}

// What a uniform distribution over +-bound has: nothing outside, the ends nearly reached, mean 0.
void check_uniform(const torch::Tensor& tensor, double bound) {
  CHECK(tensor.abs().max().item<double>() <= bound * (1 + 1e-6));
  CHECK(tensor.abs().max().item<double>() >= 0.95 * bound);
  // Five standard errors of the mean.
  CHECK(std::abs(tensor.mean().item<double>()) <= 5 * bound / std::sqrt(3.0 * static_cast<double>(tensor.numel())));
}

}  // namespace

TEST_CASE("the image encoder is conv 8, conv 16, linear") {
  torch::manual_seed(1);
  AgentNetwork network({}, small_backbone("none", 10), image_task(3, 7));
  network.eval();
  const auto pixels = torch::randint(256, {4, 2, 3, 5, 4}, torch::kUInt8);
  const auto none = torch::zeros({4, 2}, torch::kInt64);
  auto x = pixels.reshape({8, 3, 5, 4}).to(torch::kFloat32) / 255;
  x = torch::conv2d(x, parameter(network, "convolution1.weight"), parameter(network, "convolution1.bias")).relu();
  CHECK(x.sizes() == torch::IntArrayRef{8, 8, 4, 3});
  x = torch::conv2d(x, parameter(network, "convolution2.weight"), parameter(network, "convolution2.bias")).relu();
  CHECK(x.sizes() == torch::IntArrayRef{8, 16, 3, 2});
  x = torch::linear(x.flatten(1), parameter(network, "observation.weight"), parameter(network, "observation.bias"));
  CHECK(torch::allclose(network.encode(pixels, none, none.to(torch::kFloat32)), x.reshape({4, 2, 10}), 1e-5, 1e-6));
}

TEST_CASE("tokens have a table, and parts are read side by side, each by layers of its own name") {
  torch::manual_seed(4);
  TaskInfo task = image_task(3, 7);
  task.observation.parts = {{"cells", PartKind::kImage, {3, 4, 3}},
                            {"objects", PartKind::kTokens, {2, 2}, 5},
                            {"levels", PartKind::kVector, {2}}};
  CHECK(task.observation.text() == "image 3x4x3 + tokens 2x2 of 5 + vector 2");
  CHECK(task.observation.shape() == std::vector<std::int64_t>{42});
  AgentNetwork network({.token_width = 3}, small_backbone("none", 10), task);
  network.eval();
  const auto image = torch::randint(256, {6, 3, 4, 3}, torch::kUInt8);
  auto objects = torch::randint(5, {6, 2, 2}, torch::kUInt8);
  objects[0][0][1] = 5;  // none of the five
  const auto levels = torch::randint(256, {6, 2}, torch::kUInt8);
  auto pixels = image.to(torch::kFloat32) / 255;
  for (const std::string layer : {"cells_convolution1", "cells_convolution2"})
    pixels = torch::conv2d(pixels, parameter(network, layer + ".weight"), parameter(network, layer + ".bias")).relu();
  auto table = torch::cat({parameter(network, "objects_embedding.weight"), torch::zeros({1, 3})});
  CHECK(table.sizes() == torch::IntArrayRef{6, 3});
  const auto rows = table.index_select(0, objects.flatten().to(torch::kInt64)).reshape({6, 12});
  const auto all = torch::cat({pixels.flatten(1), rows, levels.to(torch::kFloat32) / 255}, 1);
  const auto expected =
      torch::linear(all, parameter(network, "observation.weight"), parameter(network, "observation.bias")).relu();
  const auto observation = torch::cat({image.flatten(1), objects.flatten(1), levels}, 1);
  const auto none = torch::zeros({6}, torch::kInt64);
  CHECK(torch::allclose(network.encode(observation, none, none.to(torch::kFloat32)), expected, 1e-5, 1e-6));

  // Tokens alone, as numbers of another type.
  task.observation = {ElementType::kFloat32, {{"objects", PartKind::kTokens, {2, 2}, 5}}};
  AgentNetwork tokens({.token_width = 3}, small_backbone("none", 10), task);
  tokens.eval();
  table = torch::cat({parameter(tokens, "embedding.weight"), torch::zeros({1, 3})});
  const auto read = torch::linear(table.index_select(0, objects.flatten().to(torch::kInt64)).reshape({6, 12}),
                                  parameter(tokens, "observation.weight"), parameter(tokens, "observation.bias"))
                        .relu();
  CHECK(torch::allclose(tokens.encode(objects.to(torch::kFloat32), none, none.to(torch::kFloat32)), read, 1e-5, 1e-6));
}

TEST_CASE("the vector encoder joins embeddings of previous action and reward") {
  torch::manual_seed(2);
  const TaskInfo task = vector_task(4, 3, 7);
  const auto observation = torch::randn({5, 4}), reward = torch::randn({5});
  const auto action = torch::tensor({0, 1, 2, 3, 1}, torch::kInt64);

  AgentNetwork plain({}, small_backbone("none", 6), task);
  plain.eval();
  const auto alone =
      torch::linear(observation, parameter(plain, "observation.weight"), parameter(plain, "observation.bias")).relu();
  CHECK(torch::allclose(plain.encode(observation, action, reward), alone, 1e-5, 1e-6));
  CHECK_FALSE(plain.named_parameters().contains("joined.weight"));

  AgentNetwork network({.previous_action_width = 2, .previous_reward_width = 3}, small_backbone("none", 6), task);
  network.eval();
  CHECK(parameter(network, "previous_action.weight").sizes() == torch::IntArrayRef{4, 2});
  const auto seen =
      torch::linear(observation, parameter(network, "observation.weight"), parameter(network, "observation.bias"))
          .relu();
  const auto action_embedding = parameter(network, "previous_action.weight").index_select(0, action);
  const auto reward_embedding = torch::linear(reward.unsqueeze(1), parameter(network, "previous_reward.weight"),
                                              parameter(network, "previous_reward.bias"))
                                    .relu();
  const auto joined = torch::linear(torch::cat({seen, action_embedding, reward_embedding}, 1),
                                    parameter(network, "joined.weight"), parameter(network, "joined.bias"));
  CHECK(torch::allclose(network.encode(observation, action, reward), joined, 1e-5, 1e-6));
}

TEST_CASE("the mark of the first step is 1 where no action came before, alone and beside the action's embedding") {
  torch::manual_seed(4);
  const TaskInfo task = vector_task(4, 3, 7);
  const auto observation = torch::randn({4, 4}), reward = torch::zeros({4});
  const auto action = torch::tensor({0, 3, 2, 3}, torch::kInt64);  // 3: none
  const auto mark = torch::tensor({0, 1, 0, 1}, torch::kFloat32).unsqueeze(1);
  for (const int action_width : {0, 2}) {
    AgentNetwork network({.previous_action_width = action_width, .first_step_mark = true}, small_backbone("none", 6),
                         task);
    network.eval();
    CHECK(network.sees_previous_action());
    std::vector<torch::Tensor> parts{
        torch::linear(observation, parameter(network, "observation.weight"), parameter(network, "observation.bias"))
            .relu()};
    if (action_width > 0) parts.push_back(parameter(network, "previous_action.weight").index_select(0, action));
    parts.push_back(mark);
    const auto joined =
        torch::linear(torch::cat(parts, 1), parameter(network, "joined.weight"), parameter(network, "joined.bias"));
    CHECK(torch::allclose(network.encode(observation, action, reward), joined, 1e-5, 1e-6));
  }
}

TEST_CASE("the joint encoder takes tokens, numbers, the previous action and the mark as one vector through a norm") {
  torch::manual_seed(5);
  TaskInfo task = vector_task(2, 3, 7);
  task.observation.parts.push_back({"card", PartKind::kTokens, {2}, 4});
  AgentNetwork network({.encoder = Encoder::kJoint,
                        .previous_action_width = 1,
                        .previous_reward_width = 1,
                        .first_step_mark = true,
                        .hidden_width = 24},
                       small_backbone("none", 6), task);
  network.eval();
  CHECK(network.sees_previous_action());
  CHECK(network.sees_previous_reward());
  const auto observation = torch::tensor({{0.5, -2.0, 3.0, 0.0}, {1.5, 0.25, 1.0, 2.0}}, torch::kFloat32);
  const auto action = torch::tensor({3, 1}, torch::kInt64);  // 3: none
  const auto reward = torch::tensor({0.0, -0.5}, torch::kFloat32);
  // Two numbers, two cards of four, three actions, the reward, and whether the step is the first or not.
  const auto all = torch::tensor({{0.5, -2.0, 0., 0., 0., 1., 1., 0., 0., 0., 0., 0., 0., 0.0, 1., 0.},
                                  {1.5, 0.25, 0., 1., 0., 0., 0., 0., 1., 0., 0., 1., 0., -0.5, 0., 1.}},
                                 torch::kFloat64);
  const auto weight = [&](const char* name) { return parameter(network, name).to(torch::kFloat64); };
  CHECK(torch::allclose(weight("observation.weight").t().matmul(weight("observation.weight")),
                        torch::eye(16, torch::kFloat64), 1e-5, 1e-6));
  CHECK(torch::allclose(weight("joined.weight").matmul(weight("joined.weight").t()), torch::eye(6, torch::kFloat64),
                        1e-5, 1e-6));
  const auto hidden = all.matmul(weight("observation.weight").t()) + weight("observation.bias");
  const auto normal = (hidden - hidden.mean(1, true)) / (hidden.var(1, false, true) + 1e-5).sqrt();
  const auto joined = normal.matmul(weight("joined.weight").t()) + weight("joined.bias");
  const auto expected = torch::where(joined > 0, joined, 0.01 * joined).to(torch::kFloat32);
  CHECK(torch::allclose(network.encode(observation, action, reward), expected, 1e-5, 1e-6));
}

TEST_CASE("dropout acts in training mode alone") {
  torch::manual_seed(3);
  AgentNetwork network({.dropout = 0.5}, small_backbone("none", 200), vector_task(4, 3, 7));
  const auto observation = torch::ones({1, 4}), reward = torch::zeros({1});
  const auto action = torch::zeros({1}, torch::kInt64);
  const auto dropped = [&] { return (network.encode(observation, action, reward) == 0).sum().item<int>(); };
  network.eval();
  const int zeros = dropped();  // those that relu made
  network.train();
  CHECK(dropped() > zeros + 20);
}

TEST_CASE("the heads start as the reference's") {
  torch::manual_seed(4);
  // 100 inputs, 256 units: the bound of the first layer tells outputs from inputs.
  AgentNetwork network({}, small_backbone("none", 100), vector_task(4, 3, 7));
  for (const std::string head : {"actor", "critic1", "critic2", "target_critic1", "target_critic2"}) {
    CHECK(parameter(network, head + ".hidden1.weight").sizes() == torch::IntArrayRef{256, 100});
    check_uniform(parameter(network, head + ".hidden1.weight"), 1.0 / 16);
    check_uniform(parameter(network, head + ".hidden2.weight"), 1.0 / 16);
    CHECK((parameter(network, head + ".hidden1.bias") == 0.1f).all().item<bool>());
    CHECK((parameter(network, head + ".hidden2.bias") == 0.1f).all().item<bool>());
    check_uniform(parameter(network, head + ".output.weight"), head == "actor" ? 1e-3 : 3e-3);
  }
  CHECK_FALSE(torch::equal(parameter(network, "critic1.hidden1.weight"), parameter(network, "critic2.hidden1.weight")));
}

TEST_CASE("targets start as the critics, follow them by tau, and are never trained") {
  torch::manual_seed(5);
  AgentNetwork network({.hidden_width = 8}, small_backbone("none", 4), vector_task(4, 3, 7));
  const auto hidden = torch::randn({6, 4});
  CHECK(torch::equal(network.head("critic1", hidden), network.head("target_critic1", hidden)));
  CHECK(torch::equal(network.head("critic2", hidden), network.head("target_critic2", hidden)));

  std::map<std::string, torch::Tensor> before;
  for (const auto& item : network.named_parameters()) before[item.key()] = item.value().detach().clone();
  std::set<std::string> untrained;
  for (const auto& item : network.named_parameters())
    if (!item.value().requires_grad()) untrained.insert(item.key());
  CHECK(untrained.size() == 12);
  for (const std::string& name : untrained) CHECK(name.starts_with("target_critic"));
  CHECK(network.trainable_parameters().size() == network.parameters().size() - 12);

  scatter_weights(network, 1);
  for (const auto& item : network.named_parameters())
    if (item.key().starts_with("target")) item.value().detach().copy_(before[item.key()]);
  network.update_targets(0.25);
  for (const std::string& name : untrained) {
    const auto critic = parameter(network, name.substr(std::string("target_").size()));
    CHECK(torch::allclose(parameter(network, name), 0.75 * before[name] + 0.25 * critic, 1e-5, 1e-6));
  }
}

TEST_CASE("an image too small for the encoder is refused") {
  TaskInfo task = image_task(3, 7);
  task.observation.parts = single_part({3, 2, 5});
  CHECK_THROWS_AS(AgentNetwork({}, small_backbone("none", 4), task), UserError);
}
