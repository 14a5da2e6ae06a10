#include "base/named_config.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/named_registry.h"
#include "base/type_list.h"

using namespace engram;

namespace {

struct AnyShape : AnyNamedOptions<AnyShape> {
  static constexpr const char* kSection = "shape";
};

template <class Options>
struct ShapeOf final : AnyShape, Options {
  std::unique_ptr<AnyShape> copy() const override { return std::make_unique<ShapeOf>(*this); }
  void list(OptionList& list) override { Options::list_options(list); }
  void check_all() const override { check_bounds<Options>(*this, kSection); }
};

struct Circle {
  static constexpr const char* kName = "circle";
  int radius = 1;
  void list_options(OptionList& list) { list.add("radius", radius, {1, 9}, "in cells"); }
};

struct Square {
  static constexpr const char* kName = "square";
  int side = 2;
  void list_options(OptionList& list) { list.add("side", side, {1, 9}, "in cells"); }
};

NamedRegistry<NamedEntry<AnyShape>> shapes() {
  NamedRegistry<NamedEntry<AnyShape>> all("shape");
  TypeList<Circle, Square>::for_each([&]<class Options>() {
    all.add({Options::kName, defaults_of<AnyShape, ShapeOf<Options>>});
  });
  return all;
}

NamedConfig<AnyShape> shape(const std::string& name) { return {name, shapes().defaults(name)}; }

}  // namespace

TEST_CASE("a config of a name has the options of that name, and a copy has its own") {
  NamedConfig<AnyShape> config = shape("square");
  const NamedConfig<AnyShape> before = config;
  config.options().set("shape.side", "5");
  CHECK(config.as<Square>()->side == 5);
  CHECK(config.as<Circle>() == nullptr);
  CHECK(value_text(before.values(), "shape.side") == "2");
  config = shape("circle");
  CHECK(config.name() == "circle");
  CHECK(value_text(config.values(), "shape.radius") == "1");
  CHECK_NOTHROW(config.check());
}

TEST_CASE("a registry refuses a name that it has, and one that it has not") {
  NamedRegistry<NamedEntry<AnyShape>> all = shapes();
  CHECK(all.names() == std::vector<std::string>{"circle", "square"});
  CHECK_THROWS_WITH_AS(all.add({"circle", defaults_of<AnyShape, ShapeOf<Circle>>}), "there is a shape 'circle' already",
                       UserError);
  CHECK_THROWS_WITH_AS(all.defaults("sqare"), "unknown shape 'sqare'; did you mean 'square'?", UserError);
}
