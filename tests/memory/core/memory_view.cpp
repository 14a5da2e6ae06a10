// What a step says of its memory is what it computed with.
#include "memory/core/memory_view.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "memory/backbones/hybrids/stack.h"
#include "memory/ops/ops.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr std::int64_t kViewedRows = 3, kViewedSteps = 13;

double setting(const Variant& variant, const std::string& key, double otherwise) {
  for (const auto& [name, value] : variant.settings)
    if (name == key) return std::stod(value);
  return otherwise;
}

// The layers as one-layer backbones; those of a stack differ.
std::vector<Variant> layers_of(const Variant& variant) {
  const bool attention_alone = variant.backbone == TransformerPlusPlusOptions::kName;
  if (!attention_alone && variant.backbone != StackOptions::kName)
    return std::vector<Variant>(
        static_cast<std::size_t>(setting(variant, "layers", variant.backbone == GruOptions::kName ? 1 : 3)), variant);
  std::string stack = attention_alone ? TransformerPlusPlusOptions().stack : "";
  for (const auto& [name, value] : variant.settings)
    if (name == "stack") stack = value;
  std::vector<Variant> layers;
  for (const std::string& entry : split_text(stack, ',')) {
    const NamedSettings parsed = parse_named_settings(entry);
    layers.push_back({parsed.name, parsed.settings});
  }
  return layers;
}

// Steps, up to the current one, that a head's attention can see at position `position` (0: the first step) of an
// episode.
std::int64_t visible(const Variant& variant, std::int64_t position, std::int64_t head) {
  const auto window = static_cast<std::int64_t>(setting(variant, "window", 64));
  if (variant.backbone == "shifted_sparse") {
    const auto group = static_cast<std::int64_t>(setting(variant, "group", 64));
    const bool shifted = head >= static_cast<std::int64_t>(setting(variant, "heads", 2)) / 2;
    return std::min(position, (position + (shifted ? group / 2 : 0)) % group) + 1;
  }
  if (variant.backbone == "expansion_span")
    return position % static_cast<std::int64_t>(setting(variant, "chunk", 64)) + 1;
  if (variant.backbone == "transformer" || variant.backbone == "attention") return position + 1;
  if (variant.backbone == "hqlt_delayed_chunk") return position % window + 1;
  return std::min(position + 1, window);
}

// Plays kViewedSteps steps of kViewedRows rows, the second of which begins again before step 4. check(layer, its view,
// position_B).
template <class Check>
void view_steps(SequenceModel& model, Check check) {
  MemoryState state = model.initial_state(kViewedRows), plain_state = model.initial_state(kViewedRows);
  std::vector<std::int64_t> position(kViewedRows, 0);
  for (std::int64_t t = 0; t < kViewedSteps; ++t) {
    if (t == 4) {
      const Tensor second = torch::tensor({false, true, false});
      state.reset_rows(second), plain_state.reset_rows(second);
      position[1] = 0;
    }
    const Tensor input = torch::randn({kViewedRows, model.width()}, torch::kFloat64);
    MemoryView view;
    const Tensor output = model.step(input, state, view);
    CHECK(relative_error(output, model.step(input, plain_state)) < 1e-12);
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      CHECK(relative_error(state.tensors[i].to(torch::kFloat64), plain_state.tensors[i].to(torch::kFloat64)) < 1e-12);
    for (std::size_t i = 0; i < view.layers.size(); ++i) check(i, view.layers[i], position);
    for (std::int64_t& p : position) ++p;
  }
}

// The member of their family: HQLT's beside the window, else the layer's own name.
std::string fast_weights_of(const Variant& layer) {
  for (const auto& [key, value] : layer.settings)
    if (key == "fast_weights") return value;
  return layer.backbone.starts_with("hqlt") ? "deltanet" : layer.backbone;
}

// Steps of whole blocks that it sees before those.
std::int64_t retrieved(const Variant& variant, std::int64_t position) {
  if (variant.backbone != "expansion_span") return 0;
  const auto number = [&](const char* key, double otherwise) {
    return static_cast<std::int64_t>(setting(variant, key, otherwise));
  };
  const std::int64_t chunk = number("chunk", 64), block = number("block", 32);
  return std::min(number("retrieved", 8) * block, position / chunk * chunk);
}

// What the view of a layer must hold; raises `strongest` to the greatest write strength.
void check_view(const Variant& layer, const LayerView& view, const std::vector<std::int64_t>& position,
                double& strongest) {
  CAPTURE(layer.label());
  const bool hybrid = layer.backbone.starts_with("hqlt");
  const std::string member = fast_weights_of(layer);
  const bool other_rule = std::ranges::any_of(
      layer.settings, [](const auto& setting) { return setting.first == "rule" && setting.second != "delta"; });
  const bool fast_weights =
      member.find("delta") != std::string::npos || member == "kda" || (member == "fast_weights" && !other_rule);
  const std::vector<std::string> attending{"transformer", "gtrxl",          "window",
                                           "attention",   "shifted_sparse", "expansion_span"};
  const bool attention = hybrid || std::ranges::count(attending, layer.backbone) > 0;
  const bool two_gates = layer.has("mixing", "scalar");
  const bool gated = hybrid && !layer.has("mixing", "sum");
  const auto heads = static_cast<std::int64_t>(setting(layer, "heads", 2));
  CHECK(view.attention_BHA.defined() == attention);
  CHECK(view.write_strength_BH.defined() == fast_weights);
  CHECK(view.fast_gate_BH.defined() == gated);
  CHECK(view.window_gate_BH.defined() == two_gates);
  CHECK(view.states.empty() == (attention || fast_weights));
  for (std::int64_t row = 0; attention && row < kViewedRows; ++row) {
    const Tensor weights_HA = view.attention_BHA[row];
    REQUIRE(weights_HA.size(0) == heads);
    const std::int64_t at = position[static_cast<std::size_t>(row)];
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t seen = visible(layer, at, head);
      const Tensor weights_A = weights_HA[head], before_A = weights_A.narrow(0, seen, weights_A.size(0) - seen);
      CHECK((weights_A.narrow(0, 0, seen) > 0).all().item<bool>());
      CHECK((before_A > 0).sum().item<std::int64_t>() == retrieved(layer, at));
      CHECK((before_A >= 0).all().item<bool>());
      if (at + 1 < weights_A.size(0))
        CHECK((weights_A.narrow(0, at + 1, weights_A.size(0) - at - 1) == 0).all().item<bool>());
    }
    CHECK((weights_HA.sum(1) - 1).abs().max().item<double>() < 1e-12);
  }
  // Of those that are published with a write strength of at most 1.
  const bool at_most_one = member == "delta_2021" || member == "gated_deltanet" || member == "kda";
  if (fast_weights) {
    const Tensor& beta = view.write_strength_BH;
    REQUIRE(beta.sizes() == std::vector<std::int64_t>{kViewedRows, heads});
    CHECK((beta >= 0).all().item<bool>());
    CHECK((beta <= setting(layer, "beta_factor", at_most_one ? 1 : 2)).all().item<bool>());
    strongest = std::max(strongest, beta.max().item<double>());
    if (layer.backbone == "hqlt_delayed_stream")  // nothing leaves the window before it is full
      for (std::int64_t row = 0; row < kViewedRows; ++row)
        CHECK((beta[row] > 0).all().item<bool>() ==
              (position[static_cast<std::size_t>(row)] >= static_cast<std::int64_t>(setting(layer, "window", 64))));
  }
  for (const Tensor& gate : {view.fast_gate_BH, view.window_gate_BH}) {
    if (!gate.defined()) continue;
    REQUIRE(gate.sizes() == std::vector<std::int64_t>{kViewedRows, heads});
    CHECK((gate > 0).all().item<bool>());
    CHECK((gate < 1).all().item<bool>());
  }
}

}  // namespace

TEST_CASE("attention weights by age give the output of attention and are the softmax of its scores") {
  constexpr std::int64_t kHeads = 2, kWidth = 4;
  for (const std::int64_t window : {1, 5, 20}) {
    CAPTURE(window);
    torch::manual_seed(3);
    const auto options = torch::TensorOptions().dtype(torch::kFloat64);
    const KeyValueRing ring{torch::zeros({kViewedRows, window, kHeads, kWidth}, options),
                            torch::zeros({kViewedRows, window, kHeads, kWidth}, options)};
    std::vector<Tensor> keys, values;
    for (std::int64_t t = 0; t < kViewedSteps; ++t) {
      const Tensor query = torch::randn({kViewedRows, kHeads, kWidth}, options);
      keys.push_back(torch::randn({kViewedRows, kHeads, kWidth}, options));
      values.push_back(torch::randn({kViewedRows, kHeads, kWidth}, options));
      const Tensor position = torch::full({kViewedRows}, t, torch::kInt64);
      Tensor weights;
      const Tensor output = WindowStepPlan(window, window, position, torch::kFloat64)
                                .attend(query, keys.back(), values.back(), ring, nullptr, &weights);
      REQUIRE(weights.sizes() == std::vector<std::int64_t>{kViewedRows, kHeads, window});
      Tensor expected = torch::zeros_like(output), scores = torch::full_like(weights, -1e300);
      for (std::int64_t age = 0; age < std::min(window, t + 1); ++age) {
        const auto past = static_cast<std::size_t>(t - age);
        expected += weights.select(2, age).unsqueeze(2) * values[past];
        scores.select(2, age).copy_((query * keys[past]).sum(-1) / 2);  // sqrt(kWidth)
      }
      CHECK(relative_error(expected, output) < 1e-12);
      CHECK(relative_error(weights, scores.softmax(-1)) < 1e-12);
    }
  }
}

TEST_CASE("a viewed step equals a step, and every backbone says all that it has") {
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    torch::manual_seed(5);
    const auto model = make_model(variant, kViewedSteps, torch::kFloat64);
    model->eval();
    enlarge_weights(*model);
    CHECK(model->shows_memory() == (variant.backbone != "none"));
    if (!model->shows_memory()) {
      MemoryState state = model->initial_state(1);
      MemoryView view;
      CHECK_THROWS_AS(model->step(torch::zeros({1, model->width()}, torch::kFloat64), state, view), std::logic_error);
      continue;
    }
    // A backbone that is no stack of layers shows its whole state as one.
    const bool whole =
        std::ranges::count(std::vector<std::string>{"ffm", "shm", "lmu", "frame_stack"}, variant.backbone) > 0;
    const std::vector<Variant> layers = whole ? std::vector<Variant>{variant} : layers_of(variant);
    double strongest = 0;
    std::size_t seen = 0;
    view_steps(*model, [&](std::size_t i, const LayerView& view, const std::vector<std::int64_t>& position) {
      check_view(layers.at(i), view, position, strongest);
      ++seen;
    });
    CHECK(seen == kViewedSteps * layers.size());
    if (fast_weights_of(variant) == "deltanet" && setting(variant, "window", 64) < kViewedSteps)
      CHECK(strongest > setting(variant, "beta_factor", 2) / 2);
  }
}

TEST_CASE("write strengths and gates are those of the weights") {
  for (const char* const name : {"deltanet", "hqlt", "hqlt_delayed_chunk"}) {
    CAPTURE(name);
    const Variant variant{name, {{"width", "12"}, {"layers", "2"}}};
    const auto model = make_model(variant, kViewedSteps, torch::kFloat64);
    enlarge_weights(*model);
    const torch::NoGradGuard no_grad;
    for (auto& item : model->named_parameters()) {
      const bool first = item.key().starts_with("blocks.0.");
      if (item.key().ends_with("beta.weight") || item.key().ends_with("gate.weight")) item.value().mul_(first ? 0 : 1);
    }
    view_steps(*model, [&](std::size_t i, const LayerView& layer, const auto&) {
      const bool silenced = i == 0;  // sigmoid(0) = 1/2, of a factor of 2
      CHECK(((layer.write_strength_BH - 1).abs() < 1e-12).all().item<bool>() == silenced);
      if (variant.backbone != "deltanet")
        CHECK(((layer.fast_gate_BH - 0.5).abs() < 1e-12).all().item<bool>() == silenced);
    });
  }
}

TEST_CASE("a memory without attention and write strengths shows its state, a number a channel") {
  // Of a layer with these parts of the state: the names and numbers that are shown.
  using Shown = std::vector<std::pair<std::string, Tensor>>;
  const auto length = [](const Tensor& rows) { return rows.square().sum(-1).sqrt().flatten(1); };
  const auto vectors = [](const std::vector<Tensor>& state) { return Shown{{"state", state[0]}}; };
  const auto rows = [&](const std::vector<Tensor>& state) { return Shown{{"state", length(state[0])}}; };
  const auto cells = [](const std::vector<Tensor>& state) {
    Shown shown{{"hidden", state[0]}};
    if (state.size() > 1) shown.emplace_back("cell", state[1]);
    return shown;
  };
  const auto slstm = [](const std::vector<Tensor>& state) {
    return Shown{{"hidden", state[0].flatten(1)}, {"cell", (state[1] / state[2]).flatten(1)}};
  };
  const auto lmu = [](const std::vector<Tensor>& state) { return Shown{{"hidden", state[0]}, {"memory", state[1]}}; };
  struct Case {
    Variant variant;
    std::size_t parts;  // tensors of the state of each layer
    std::function<Shown(const std::vector<Tensor>&)> shown;
  };
  const std::pair<std::string, std::string> width{"width", "12"}, layers{"layers", "2"};
  const std::vector<Case> cases = {{{"rnn", {width, layers}}, 1, cells},
                                   {{"gru", {width, layers}}, 1, cells},
                                   {{"ind_rnn", {width, layers}}, 1, cells},
                                   {{"lmu", {width}}, 2, lmu},
                                   {{"lstm", {width, layers}}, 2, cells},
                                   {{"slstm", {width, layers}}, 4, slstm},
                                   {{"min_gru", {width, layers}}, 1, vectors},
                                   {{"rg_lru", {width, layers}}, 2, vectors},
                                   {{"lru", {width, layers}}, 1, rows},
                                   {{"s5", {width, layers}}, 1, rows},
                                   {{"retnet", {width, layers}}, 1, rows},
                                   {{"ffm", {width}}, 1, rows},
                                   {{"shm", {width}}, 1, rows},
                                   {{"frame_stack", {width}}, 1, rows}};
  for (const auto& [variant, parts, shown] : cases) {
    CAPTURE(variant.label());
    torch::manual_seed(7);
    const auto model = make_model(variant, kViewedSteps, torch::kFloat64);
    model->eval();
    enlarge_weights(*model);
    MemoryState state = model->initial_state(kViewedRows);
    MemoryView view, first;
    for (std::int64_t t = 0; t < kViewedSteps; ++t) {
      model->step(torch::randn({kViewedRows, 12}, torch::kFloat64), state, view);
      if (t == 0) first = view;
    }
    const std::vector<std::string> cell_names{"rnn", "gru", "lstm", "ind_rnn"};
    const bool cell = std::ranges::count(cell_names, variant.backbone) > 0;
    std::vector<Tensor> all;
    for (const Tensor& tensor : state.tensors)
      if (tensor.is_floating_point()) all.push_back(tensor);
    REQUIRE(all.size() == (cell ? parts : parts * view.layers.size()));
    for (std::size_t layer = 0; layer < view.layers.size(); ++layer) {
      std::vector<Tensor> own;
      for (std::size_t i = 0; i < parts; ++i)
        own.push_back(cell ? all[i].select(1, static_cast<std::int64_t>(layer)) : all[layer * parts + i]);
      const Shown expected = shown(own);
      const std::vector<StateView>& states = view.layers[layer].states;
      REQUIRE(states.size() == expected.size());
      for (std::size_t i = 0; i < states.size(); ++i) {
        CHECK(states[i].name == expected[i].first);
        CHECK(relative_error(states[i].value_BC, expected[i].second) < 1e-12);
        // What was shown of an earlier step has not changed since.
        CHECK(relative_error(states[i].value_BC, first.layers[layer].states[i].value_BC) > 1e-3);
      }
    }
  }
}
