#include "nn/without_storage.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <thread>

#include "memory/registry.h"

using namespace engram;

TEST_CASE("without storage tensors have shapes and no numbers, in this thread and for so long") {
  {
    const WithoutStorage mode;
    const torch::nn::Linear map(1 << 20, 1 << 20);  // four terabytes
    CHECK(map->weight.is_meta());
    CHECK(map->weight.numel() == std::int64_t{1} << 40);
    CHECK((map->weight + torch::ones({1 << 20})).is_meta());
    CHECK_THROWS_AS(map->weight.sum().item<float>(), c10::Error);
    CHECK(torch::tensor({3.0f}).item<float>() == 3);  // on a device by name
    bool other_is_meta = true;
    std::thread([&] { other_is_meta = torch::ones({2}).is_meta(); }).join();
    CHECK_FALSE(other_is_meta);
  }
  CHECK(torch::ones({2}).sum().item<float>() == 2);
}

TEST_CASE("every backbone is made without storage, as it is with it") {
  for (const std::string& name : backbone_names()) {
    CAPTURE(name);
    const BackboneConfig config(name);
    const auto made = make_backbone(config, 50);
    const auto shapes = [&] {
      const WithoutStorage mode;
      return make_backbone(config, 50);
    }();
    const ModelCost cost = made->cost(), counted = shapes->cost();
    CHECK(counted.parameters == cost.parameters);
    CHECK(counted.state_bytes == cost.state_bytes);
    CHECK(counted.multiply_adds_per_step == cost.multiply_adds_per_step);
    CHECK(counted.mlp_parameters == cost.mlp_parameters);
    const auto parameters = made->named_parameters(), without = shapes->named_parameters();
    REQUIRE(without.size() == parameters.size());
    for (const auto& item : parameters) {
      CHECK(without[item.key()].sizes() == item.value().sizes());
      CHECK(without[item.key()].is_meta());
    }
  }
}

TEST_CASE("what looks at its numbers when it is made is made with them") {
  int made = 0;
  const double sum = shapes_of([&] {
    ++made;
    return torch::ones({3}).sum().item<double>();
  });
  CHECK(sum == 3);
  CHECK(made == 2);
}
