#include "memory/core/backbone_options.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "memory/backbones/fast_weights/fast_weights.h"
#include "tests/memory/ops/definition.h"

using namespace engram;

TEST_CASE("a width that the heads do not divide is refused") {
  for (const char* name : {"transformer", "deltanet", "hqlt", "gtrxl"}) {
    BackboneConfig config(name);
    OptionList options = config.options();
    options.set("memory.width", "30");
    options.set("memory.heads", "4");
    CHECK_THROWS_WITH_AS(config.check(), "memory.width 30 is not divisible by memory.heads 4", UserError);
    CHECK_THROWS_AS(make_backbone(config, 10), UserError);
  }
}

TEST_CASE("the beta factor is 1 or 2, through the option list and without it") {
  DeltaNetOptions options;
  OptionList list("memory");
  options.list_options(list);
  list.set("memory.beta_factor", "1");
  CHECK(options.beta_factor == 1);
  for (const char* value : {"0", "3", "1.5"}) CHECK_THROWS_AS(list.set("memory.beta_factor", value), UserError);
  options.beta_factor = 3;
  CHECK_THROWS_WITH_AS(options.make(10), "memory.beta_factor = '3' is not allowed; it takes integer 1..2", UserError);
}

TEST_CASE("values out of bounds are refused by every backbone") {
  const auto refuses = [](auto options) {
    options.width = 0;
    CHECK_THROWS_AS(options.check(), UserError);
    options.width = 100;
    options.layers = 0;
    CHECK_THROWS_AS(options.check(), UserError);
  };
  refuses(TransformerOptions{});
  refuses(DeltaNetOptions{});
  refuses(HqltOptions{});
  refuses(LstmOptions{});
  refuses(GruOptions{});
  refuses(RnnOptions{});
  refuses(NoneOptions{});
  refuses(FastWeightsOptions{});
  refuses(MLstmOptions{});
  CHECK_THROWS_AS((HqltOptions{{.window = 0}}.check()), UserError);
  CHECK_THROWS_AS((TransformerOptions{.dropout = 1}.check()), UserError);
}

TEST_CASE("the MLPs' width is an option of the backbones that have some, and 0 is the published one") {
  for (const auto& [name, published] : {std::pair("transformer", 400),
                                        {"deltanet", 512},
                                        {"hqlt", 512},
                                        {"hqlt_delayed_stream", 512},
                                        {"hqlt_delayed_chunk", 512},
                                        {"fast_weights", 512},
                                        {"mlstm", 512},
                                        {"lstm", 0},
                                        {"gru", 0},
                                        {"none", 0}}) {
    CAPTURE(name);
    BackboneConfig config(name);
    OptionList options = config.options();
    CHECK(config.inner_width() == published);
    if (published == 0) {
      CHECK_THROWS_AS(options.set("memory.mlp_width", "7"), UserError);
      continue;
    }
    options.set("memory.mlp_width", "37");
    options.set("memory.layers", "2");
    CHECK(config.inner_width() == 37);
    // Of each layer: gate, up and down; the Transformer has up and down, with a bias each.
    const bool gated = std::string(name) != "transformer";
    const std::int64_t products = (gated ? 3 : 2) * 100 * 37;
    const ModelCost cost = make_backbone(config, 10)->cost();
    CHECK(cost.mlp_parameters == 2 * (products + (gated ? 0 : 137)));
    CHECK(cost.mlp_multiply_adds_per_step == 2 * products);
    options.set("memory.mlp_width", "0");
    CHECK(make_backbone(config, 10)->cost().mlp_multiply_adds_per_step == 2 * products / 37 * published);
    for (const char* value : {"-1", "65537", "1.5"}) CHECK_THROWS_AS(options.set("memory.mlp_width", value), UserError);
  }
}

TEST_CASE(
    "first weights: N(0, weight_std), and of the maps into the residual stream that or Kaiming's, / sqrt(2 layers)") {
  // U(-bound, bound), to five standard errors and more.
  const auto check_uniform = [](const torch::Tensor& weight, double bound) {
    const double count = static_cast<double>(weight.numel()), expected = bound / std::sqrt(3.0);
    CHECK(weight.abs().max().item<double>() <= bound * (1 + 1e-6));
    CHECK(weight.abs().max().item<double>() > bound * (1 - 20 / count));
    CHECK(std::abs(weight.mean().item<double>()) < 5 * expected / std::sqrt(count));
    CHECK(std::abs(weight.std().item<double>() / expected - 1) < 5 / std::sqrt(2 * count));
  };
  for (const std::string name : {"deltanet", "hqlt", "hqlt_delayed_stream", "hqlt_delayed_chunk"})
    for (const char* outputs : {"normal", "kaiming"})
      for (const std::string deviation : {"0.02", "0.006"}) {
        CAPTURE(name);
        CAPTURE(outputs);
        CAPTURE(deviation);
        torch::manual_seed(5);
        const auto model =
            make_model({name, {{"output_weights", outputs}, {"weight_std", deviation}}}, 10, torch::kFloat32);
        const Parameters p = parameters_by_name(*model);
        for (const std::string block : {"blocks.0.", "blocks.2."}) {
          for (const char* map : {"mixer.query", "mixer.beta", "mlp.gate", "mlp.up"})
            check_normal(p.at(block + map + ".weight"), std::stod(deviation));
          if (name != "deltanet") check_normal(p.at(block + "mixer.gate.weight"), std::stod(deviation));
          const torch::Tensor output = p.at(block + "mixer.output.weight"), down = p.at(block + "mlp.down.weight");
          if (outputs == std::string("normal")) {
            check_normal(output, std::stod(deviation) / std::sqrt(6.0));
            check_normal(down, std::stod(deviation) / std::sqrt(6.0));
          } else {
            check_uniform(output, 1 / std::sqrt(100.0) / std::sqrt(6.0));
            check_uniform(down, 1 / std::sqrt(512.0) / std::sqrt(6.0));
            CHECK(std::abs(output.std().item<double>() - 0.0236) < 0.0005);  // as measured of the authors' code
            CHECK(std::abs(down.std().item<double>() - 0.0104) < 0.0002);
          }
        }
      }
  BackboneConfig config("hqlt");
  OptionList options = config.options();
  for (const char* value : {"0", "-0.02", "1.5", "nan"})
    CHECK_THROWS_AS(options.set("memory.weight_std", value), UserError);
  CHECK_THROWS_AS(options.set("memory.output_weights", "orthogonal"), UserError);
}

TEST_CASE("what a backbone costs is its memory's part and its MLPs'") {
  const auto cost_of = [](const Variant& variant) { return make_model(variant, 20, torch::kFloat32)->cost(); };
  // LSTM and GRU are memory alone, the memoryless control an MLP alone.
  for (const char* name : {"lstm", "gru"}) CHECK(cost_of({name, {}}).mlp_parameters == 0);
  const ModelCost none = cost_of({"none", {}});
  CHECK(none.mlp_parameters == none.parameters);
  CHECK(none.mlp_multiply_adds_per_step == none.multiply_adds_per_step);
  // Of HQLT's layer: query, key, value, output and gate, two write strengths, norms of head and layer; a norm behind.
  const ModelCost hqlt = cost_of({"hqlt", {{"layers", "1"}}});
  CHECK(hqlt.parameters - hqlt.mlp_parameters == 5 * 100 * 100 + 2 * 100 + 50 + 3 * 100);
  CHECK(hqlt.mlp_parameters == 3 * 100 * 512);
  // One unit more costs its part alone.
  for (const char* name : {"transformer", "deltanet", "hqlt"}) {
    const ModelCost less = cost_of({name, {{"mlp_width", "40"}}}), more = cost_of({name, {{"mlp_width", "41"}}});
    CHECK(more.mlp_parameters > less.mlp_parameters);
    CHECK(more.parameters - more.mlp_parameters == less.parameters - less.mlp_parameters);
    CHECK(more.multiply_adds_per_step - more.mlp_multiply_adds_per_step ==
          less.multiply_adds_per_step - less.mlp_multiply_adds_per_step);
  }
}
