// What the mixers of the block add to its stream at first, against the table of docs/backbones/README.md.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "memory/core/all_backbones.h"
#include "memory/core/layer.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr std::int64_t kFirstRows = 32, kFirstSteps = 64;

// The root mean square of Mixer(RMSNorm(x)) of the first layer, x ~ N(0, 1).
double added_by(const LayerSpec& spec) {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const std::unique_ptr<Layer> layer = spec.make(0);
  layer->module()->eval();
  std::vector<Tensor> state, final_state;
  for (std::vector<std::int64_t> shape : layer->state_shapes()) {
    shape.insert(shape.begin(), kFirstRows);
    state.push_back(torch::zeros(shape));
  }
  const Span span{kFirstSteps, torch::full({kFirstRows}, kFirstSteps, torch::kInt64),
                  torch::zeros({kFirstRows}, torch::kInt64), 0, torch::kFloat32};
  const Tensor x_BTD = torch::randn({kFirstRows, kFirstSteps, spec.width});
  const Tensor added_BTD = layer->forward(RmsNorm(spec.width).forward(x_BTD), *layer->plan(span), state, final_state);
  return std::sqrt(added_BTD.square().mean().item<double>());
}

std::map<std::string, double> measured() {
  AttentionLayerOptions attention;
  attention.layers = 2;
  std::map<std::string, double> all{{"transformer++", added_by(attention.layer(kFirstSteps))}};
  AllBackbones::for_each([&]<class Options>() {
    if constexpr (requires(Options options) { options.layer(kFirstSteps); })
      all[Options::kName] = added_by(Options{}.layer(kFirstSteps));
  });
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
    REQUIRE(figures.contains(name));
    // The number of a page has two digits; another library may draw other weights.
    CHECK(std::abs(std::stod(figures.at(name)) / added - 1) < 0.1);
  }
  CHECK(figures.size() == mixers.size());
}
