#include "memory/backbone_options.h"

#include "base/error.h"
#include "tests/memory/support.h"

using namespace engram;

TEST_CASE("a width that the heads do not divide is refused") {
  for (const char* name : {"transformer", "deltanet", "hqlt"}) {
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
  refuses(NoneOptions{});
  CHECK_THROWS_AS((HqltOptions{.window = 0}.check()), UserError);
  CHECK_THROWS_AS((TransformerOptions{.dropout = 1}.check()), UserError);
}
