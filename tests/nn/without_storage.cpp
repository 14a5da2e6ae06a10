#include "nn/device/without_storage.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "memory/core/counted_backbone.h"

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
    if (is_added_backbone(name)) continue;
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

TEST_CASE("an operation that knows no meta device gives its shape, and one that writes says that it cannot") {
  const WithoutStorage mode;
  const torch::Tensor even = torch::arange(6).remainder(2) == 0;
  const torch::Tensor chosen = torch::where(even, torch::ones({3, 6}), torch::zeros({}));
  CHECK(chosen.is_meta());
  CHECK(chosen.sizes() == torch::IntArrayRef({3, 6}));
  CHECK((torch::complex(torch::ones({4}), torch::ones({4})).scalar_type() == torch::kComplexFloat));
  CHECK(torch::randperm(5).is_meta());
}

namespace {

// Of another program: it looks at what it draws.
struct LookingOptions : NoneOptions {
  static constexpr const char* kName = "looking";
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const {
    if (torch::ones({2}).sum().item<float>() != 2) throw std::logic_error("it sees no numbers");
    return NoneOptions::make(max_steps);
  }
};

}  // namespace

TEST_CASE("a backbone that a program has added is counted with its numbers, engram's own without") {
  const auto is_meta = [](const char* name) {
    const BackboneConfig config(name);
    const auto made = made_to_count(config, [&] { return make_backbone(config, 9); });
    CHECK(made->cost().parameters > 0);
    return made->parameters().front().is_meta();
  };
  add_backbone(backbone_entry<LookingOptions>());
  CHECK_FALSE(is_meta("looking"));
  CHECK(is_meta("none"));
}
