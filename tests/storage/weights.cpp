#include "storage/tensors/weights.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

TEST_CASE("weights of a module go out and back in, all or nothing") {
  torch::nn::Sequential module(torch::nn::Linear(3, 2), torch::nn::Linear(2, 1));
  torch::nn::Sequential other(torch::nn::Linear(3, 2), torch::nn::Linear(2, 1));
  TensorMap weights = module_weights(*module);
  CHECK(weights.size() == 4);
  load_module_weights(*other, weights, "here");
  for (const auto& [name, tensor] : module_weights(*other)) CHECK(torch::equal(tensor, weights.at(name)));

  const auto error = [&](const TensorMap& changed) {
    return message_of<UserError>([&] { load_module_weights(*other, changed, "here"); });
  };
  for (auto& [name, tensor] : weights) tensor = tensor + 1;
  TensorMap changed = weights;
  changed.erase("1.bias");
  CHECK(error(changed) == "here: tensor '1.bias' is missing");
  changed = weights;
  changed["extra"] = torch::ones({1});
  CHECK(mentions(error(changed), "'extra' is unknown"));
  changed = weights;
  changed["1.weight"] = torch::ones({2, 1});
  CHECK(mentions(error(changed), "[2, 1], this config needs Float [1, 2]"));
  for (const auto& [name, tensor] : module_weights(*other)) CHECK(torch::equal(tensor + 1, weights.at(name)));
}
