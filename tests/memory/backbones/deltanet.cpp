#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

TEST_CASE("DeltaNet equals its definition, computed step by step from its named parameters") {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  for (const auto& [factor, dropout] : {std::pair{1, "0"}, {2, "0"}, {2, "0.3"}}) {
    auto model = make_model(
        {"deltanet", {{"width", "12"}, {"layers", "2"}, {"beta_factor", std::to_string(factor)}, {"dropout", dropout}}},
        20, torch::kFloat64);
    enlarge_weights(*model);
    const Parameters p = parameters_by_name(*model);
    Tensor x_TD = torch::randn({20, 12}, torch::kFloat64);
    const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
    x_TD = dropped(*model, "input_dropout", x_TD);
    for (const std::string block : {"blocks.0.", "blocks.1."}) {
      const Tensor normed = plain_rms_norm(x_TD, p.at(block + "mixer_norm.weight"));
      const auto project = [&](const std::string& name) {
        return normed.matmul(p.at(block + "mixer." + name + ".weight").t());
      };
      const auto activated = [&](const std::string& name) {
        return dropped(*model, block + "mixer." + name + "_dropout", plain_silu(project(name)).unflatten(1, {2, 6}));
      };
      const Tensor query_THK = activated("query"), key_THK = activated("key"), value_THV = activated("value");
      std::vector<Tensor> heads;
      for (std::int64_t h = 0; h < 2; ++h) {
        const Tensor read = fast_weights(unit_length(query_THK.select(1, h)), unit_length(key_THK.select(1, h)),
                                         value_THV.select(1, h), factor * plain_sigmoid(project("beta").select(1, h)));
        heads.push_back(plain_rms_norm(read, p.at(block + "mixer.head_norm.weight")));
      }
      x_TD = rest_of_block(*model, p, block, x_TD, heads);
    }
    CHECK(relative_error(output_TD, plain_rms_norm(x_TD, p.at("norm.weight"))) < 1e-11);
  }
}

TEST_CASE("DeltaNet has the parameters of its definition, initialised as defined") {
  torch::manual_seed(2);
  auto model = make_model({"deltanet", {}}, 10, torch::kFloat32);
  const Parameters p = parameters_by_name(*model);
  for (const std::string block : {"blocks.0.", "blocks.1.", "blocks.2."}) {
    for (const char* name : {"mixer.query", "mixer.key", "mixer.value", "mixer.beta", "mlp.gate", "mlp.up"})
      check_normal(p.at(block + name + ".weight"), 0.02);
    for (const char* name : {"mixer.output", "mlp.down"})
      check_normal(p.at(block + name + ".weight"), 0.02 / std::sqrt(6.0));
    for (const char* name : {"mixer_norm", "mixer.head_norm", "mlp_norm"})
      CHECK((p.at(block + name + ".weight") == 1).all().item<bool>());
  }
  // d = 100, 2 heads of 50, MLP 512: q, k, v, o; beta; head norm; two norms; SwiGLU. One more norm.
  const std::int64_t block = 4 * 100 * 100 + 100 * 2 + 50 + 2 * 100 + 3 * 100 * 512;
  const ModelCost cost = model->cost();
  CHECK(cost.parameters == 3 * block + 100);
  CHECK(p.size() == 3 * 11 + 1);
  CHECK(cost.state_bytes == 3 * 2 * 50 * 50 * 4);
  CHECK(cost.multiply_adds_per_step == 3 * (4 * 100 * 100 + 100 * 2 + 3 * 2 * 50 * 50 + 3 * 100 * 512));
}

TEST_CASE("weights come from torch's default generator") {
  const auto first_weight = [](int seed) {
    torch::manual_seed(seed);
    return parameters_by_name(*make_model({"deltanet", {}}, 10, torch::kFloat32)).at("blocks.0.mixer.query.weight");
  };
  CHECK(torch::equal(first_weight(1), first_weight(1)));
  CHECK(!torch::equal(first_weight(1), first_weight(2)));
}
