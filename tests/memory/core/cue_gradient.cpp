// The gradient that reaches a cue, against hand-made sums and finite differences.
#include "memory/core/cue_gradient.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "memory/ops/ops.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

namespace {

std::shared_ptr<SequenceModel> fresh(const Variant& variant, std::int64_t steps, torch::ScalarType dtype) {
  torch::manual_seed(1);
  auto model = make_model(variant, steps, dtype);
  model->eval();
  return model;
}

const Variant::Settings kSmall = {{"width", "12"}, {"layers", "1"}};

}  // namespace

TEST_CASE("without memory exactly nothing reaches a cue that is over, and all of it one that is not") {
  auto model = fresh({"none", kSmall}, 300, torch::kFloat32);
  for (const std::int64_t delay : {1, 16, 250}) {
    const CueGradient result = cue_gradient(*model, torch::randn({3, 2 + delay, 12}), 2);
    CHECK(result.share == 0);
    CHECK(std::isnan(result.fast_rms));
    CHECK(std::isnan(result.window_rms));
  }
  CHECK(cue_gradient(*model, torch::randn({3, 2, 12}), 2).share == doctest::Approx(1));
}

TEST_CASE("attention passes the cue its part of the gradient while it is seen, and none after") {
  // A window of 8 steps holds the last step of the cue up to a delay of 7; one layer has no other way back.
  Variant::Settings settings = kSmall;
  settings.insert(settings.end(), {{"window", "8"}, {"mixing", "sum"}});
  for (const char* name : {"hqlt", "hqlt_delayed_stream"}) {
    CAPTURE(name);
    auto model = fresh({name, settings}, 40, torch::kFloat64);
    enlarge_weights(*model);
    for (auto& item : model->named_parameters())
      if (item.key().find("beta") != std::string::npos) item.value().detach().fill_(-1000);  // nothing is written
    const auto share = [&](std::int64_t delay) {
      return cue_gradient(*model, torch::rand({4, 2 + delay, 12}, torch::kFloat64), 2).share;
    };
    CHECK(share(0) == doctest::Approx(1));
    CHECK(share(7) > 1e-4);
    CHECK(share(7) < 1);
    CHECK(share(8) == 0);
    CHECK(share(30) == 0);
  }
}

TEST_CASE("the share is that of finite differences of the read-out") {
  constexpr std::int64_t kSteps = 5, kWidth = 12;
  for (const char* name : {"deltanet", "hqlt", "transformer", "lstm", "gru"}) {
    CAPTURE(name);
    auto model = fresh({name, kSmall}, kSteps, torch::kFloat64);
    enlarge_weights(*model);
    const Tensor input_1TD = torch::randn({1, kSteps, kWidth}, torch::kFloat64);
    torch::manual_seed(9);
    const double share = cue_gradient(*model, input_1TD, 2).share;
    torch::manual_seed(9);
    const Tensor read_out_1D = torch::randn({1, kWidth}, torch::kFloat64);
    const torch::NoGradGuard no_grad;
    const auto loss = [&](const Tensor& input) {
      return (model->forward(input).select(1, -1) * read_out_1D).sum().item<double>();
    };
    double cue = 0, all = 0;
    for (std::int64_t t = 0; t < kSteps; ++t)
      for (std::int64_t d = 0; d < kWidth; ++d) {
        Tensor moved = input_1TD.clone();
        moved[0][t][d] += 1e-5;
        const double above = loss(moved);
        moved[0][t][d] -= 2e-5;
        const double slope = (above - loss(moved)) / 2e-5;
        all += slope * slope;
        if (t < 2) cue += slope * slope;
      }
    CHECK(share == doctest::Approx(std::sqrt(cue / all)).epsilon(1e-6));
    CHECK(share > 0);
    CHECK(share < 1);
  }
}

TEST_CASE("what fast weights and window gave is shown as it goes into the mix") {
  // Of the first step: attention sees its value alone, and the fast weights give beta (k . q) v / sqrt(width of a
  // head).
  for (const char* mixing : {"vector", "scalar", "sum"}) {
    CAPTURE(mixing);
    Variant::Settings settings = kSmall;
    settings.emplace_back("mixing", mixing);
    auto model = fresh({"hqlt", settings}, 4, torch::kFloat64);
    enlarge_weights(*model);
    const Parameters p = parameters_by_name(*model);
    const Tensor x_D = torch::randn({12}, torch::kFloat64);
    const Tensor normed = plain_rms_norm(x_D, p.at("blocks.0.mixer_norm.weight"));
    const auto project = [&](const char* name) {
      return p.at("blocks.0.mixer." + std::string(name) + ".weight").mv(normed);
    };
    const Tensor value_HV = plain_silu(project("value")).view({2, 6});
    const Tensor query_HK = fast_feature(project("query").view({2, 6}));
    const Tensor key_HK = fast_feature(project("key").view({2, 6}));
    const Tensor beta_H = 2 * plain_sigmoid(project("beta"));
    const Tensor fast_HV = (beta_H * (key_HK * query_HK).sum(-1)).unsqueeze(1) * value_HV / std::sqrt(6.0);
    MemoryState state = model->initial_state(1);
    MemoryView view;
    model->step(x_D.unsqueeze(0), state, view);
    CHECK(relative_error(view.layers[0].window_output_BHV[0], value_HV) < 1e-12);
    CHECK(relative_error(view.layers[0].fast_output_BHV[0], fast_HV) < 1e-12);
    const CueGradient result = cue_gradient(*model, x_D.view({1, 1, 12}), 1);
    CHECK(result.fast_rms == doctest::Approx(fast_HV.square().mean().sqrt().item<double>()));
    CHECK(result.window_rms == doctest::Approx(value_HV.square().mean().sqrt().item<double>()));
  }
}

TEST_CASE("a cue of no steps or more than there are, and dropout, are refused") {
  auto model = fresh({"lstm", kSmall}, 10, torch::kFloat32);
  CHECK_THROWS_AS(cue_gradient(*model, torch::randn({1, 3, 12}), 0), std::invalid_argument);
  CHECK_THROWS_AS(cue_gradient(*model, torch::randn({1, 3, 12}), 4), std::invalid_argument);
  model->train();
  CHECK_THROWS_AS(cue_gradient(*model, torch::randn({1, 3, 12}), 2), std::invalid_argument);
}
