// What the mixers of the block add to its stream at first, against the table of docs/backbones/README.md.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/core/first_scale.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

std::map<std::string, double> measured() {
  std::map<std::string, double> all;
  for (const std::string& name : backbone_names())
    if (const auto scale = first_scale(BackboneConfig(name))) all[name] = *scale;
  return all;
}

// The table's figures as they are written.
std::map<std::string, std::string> written() {
  std::ifstream file(ENGRAM_SOURCE_DIR "/docs/backbones/README.md");
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  const auto begin = text.find("**Mixers do not begin alike.**");
  REQUIRE(begin != std::string::npos);
  const std::string section = text.substr(begin, text.find("\n## ", begin) - begin);
  const std::regex cell(R"(`([^`|]+)` \| ([0-9.e-]+) \|)");
  std::map<std::string, std::string> figures;
  for (std::sregex_iterator match(section.begin(), section.end(), cell), end; match != end; ++match)
    figures[(*match)[1]] = (*match)[2];
  return figures;
}

}  // namespace

TEST_CASE("what mixers add to a unit stream at first weights is what the page of all backbones says") {
  const std::map<std::string, double> mixers = measured();
  const std::map<std::string, std::string> figures = written();
  for (const auto& [name, added] : mixers) {
    CAPTURE(name);
    CHECK(figures.contains(name));
    if (!figures.contains(name)) continue;
    // The number of a page has two digits; another library may draw other weights.
    CHECK(std::abs(std::stod(figures.at(name)) / added - 1) < 0.1);
  }
  CHECK(figures.size() == mixers.size());
  CHECK_FALSE(mixers.contains("gru"));  // which adds to no stream
}

TEST_CASE("measuring and rescaling draw nothing from the default generator, and leave dropout as it is") {
  torch::manual_seed(3);
  const Tensor drawn = torch::rand({4});
  torch::manual_seed(3);
  first_scale(BackboneConfig("hqlt"));
  CHECK(torch::equal(torch::rand({4}), drawn));

  // With common first values the same weights are drawn, the output map's times one number.
  const auto made = [](const char* first_values) {
    torch::manual_seed(4);
    BackboneConfig config("min_gru");
    config.options().set("memory.first_values", first_values);
    return make_backbone(config, 8);
  };
  const auto published = made("published"), common = made("common");
  CHECK(common->is_training());
  for (const auto& parameter : published->named_parameters()) {
    const Tensor other = common->named_parameters()[parameter.key()];
    if (parameter.key().find("mixer.output.weight") == std::string::npos) {
      CHECK(torch::equal(other, parameter.value()));
      continue;
    }
    const Tensor factor = other / parameter.value();
    CHECK(factor.max().item<float>() == doctest::Approx(factor.min().item<float>()).epsilon(1e-4));
    CHECK(factor.mean().item<float>() > 5);  // 0.08 / 0.0094
  }
}

TEST_CASE("with common first values every layer of every memory adds as much to a stream that it has not seen") {
  std::size_t memories = 0;
  const auto check = [&](const std::string& name, const Variant::Settings& settings, double tolerance) {
    const std::string label = Variant{name, settings}.label();
    CAPTURE(label);
    BackboneConfig config(name);
    OptionList options = config.options();
    for (const auto& [key, value] : settings) options.set("memory." + key, value);
    if (!first_scale(config)) {
      CHECK_THROWS_AS(options.set("memory.first_values", "common"), UserError);
      return;
    }
    ++memories;
    options.set("memory.first_values", "common");
    torch::manual_seed(2);
    for (const double scale : make_backbone(config, kScaleSteps)->added_scales(/*seed=*/7))
      CHECK(std::abs(scale / kCommonScale - 1) < tolerance);
  };
  for (const std::string& name : backbone_names()) check(name, {}, 0.05);
  CHECK(memories == measured().size());
  // Of 12 channels, single ones count for more.
  for (const Variant& variant : small_variants()) check(variant.backbone, variant.settings, 0.2);
}
