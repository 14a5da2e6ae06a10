#include "memory/core/registry.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/error.h"
#include "base/text/suggest.h"
#include "tests/memory/support.h"

using namespace engram;

TEST_CASE("every backbone is built by its name, with the defaults of the experiments") {
  for (const char* name : {"transformer",
                           "deltanet",
                           "hqlt",
                           "hqlt_delayed_stream",
                           "hqlt_delayed_chunk",
                           "lstm",
                           "gru",
                           "none",
                           "rnn",
                           "frame_stack",
                           "expansion_span",
                           "stack",
                           "transformer++",
                           "fast_weights",
                           "linear_transformer",
                           "performer",
                           "dpfp",
                           "delta_2021",
                           "gated_deltanet",
                           "delta_product",
                           "kda",
                           "ind_rnn",
                           "lmu",
                           "retnet",
                           "gla",
                           "mamba2",
                           "mlstm"})
    CHECK(std::ranges::count(backbone_names(), name) == 1);
  for (const std::string& name : backbone_names()) {
    CAPTURE(name);
    BackboneConfig config(name);
    CHECK(config.name() == name);
    CHECK(config.width() == 100);
    CHECK_NOTHROW(config.check());
    auto model = make_backbone(config, 10);
    CHECK(model->width() == 100);
    model->eval();
    CHECK(model->forward(torch::zeros({2, 3, 100})).sizes() == torch::IntArrayRef({2, 3, 100}));
  }
}

TEST_CASE("an unknown name is refused with the nearest ones, or with some of all") {
  CHECK_THROWS_WITH_AS(BackboneConfig("deltenet"), "unknown backbone 'deltenet'; did you mean 'deltanet' or 'retnet'?",
                       UserError);
  CHECK_THROWS_WITH_AS(
      BackboneConfig("zzzzzz"),
      ("unknown backbone 'zzzzzz'; there are " + listed(backbone_names()) + "; engram list shows them").c_str(),
      UserError);
}

TEST_CASE("a backbone of a name that there is already is not added") {
  const std::size_t backbones = backbone_names().size();
  CHECK_THROWS_WITH_AS(add_backbone(backbone_entry<LstmOptions>()), "there is a backbone 'lstm' already", UserError);
  CHECK(backbone_names().size() == backbones);
}

TEST_CASE("options are bound to the config that made them") {
  BackboneConfig config("hqlt");
  OptionList options = config.options();
  options.set("memory.width", "60");
  options.set("memory.mixing", "scalar");
  options.set("memory.positions", "none");
  CHECK(config.width() == 60);
  CHECK(config.as<HqltOptions>()->mixing == Mixing::kScalar);
  CHECK(config.as<HqltOptions>()->positions == PositionCode::kNone);
  CHECK_THROWS_AS(options.set("memory.mixing", "mean"), UserError);
  CHECK_THROWS_AS(options.set("memory.windw", "3"), UserError);
  BackboneConfig copy = config;
  copy.options().set("memory.width", "62");
  CHECK(copy.width() == 62);
  CHECK(config.width() == 60);
}
