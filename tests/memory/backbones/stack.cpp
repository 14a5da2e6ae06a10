// Hybrids by a list: what the layers of attention compute, that layers keep their own settings, and what is refused.
#include "memory/backbones/hybrids/stack.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

namespace {

// Channels i and i + K/2 of the vector at position p turned by p * 10000^(-2i/K): x [T, K].
Tensor turned(const Tensor& x_TK) {
  const std::int64_t half = x_TK.size(1) / 2;
  Tensor result = x_TK.clone();
  for (std::int64_t t = 0; t < x_TK.size(0); ++t)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
      result[t][i] = x_TK[t][i] * std::cos(angle) - x_TK[t][i + half] * std::sin(angle);
      result[t][i + half] = x_TK[t][i] * std::sin(angle) + x_TK[t][i + half] * std::cos(angle);
    }
  return result;
}

// attend(q, k, v, head): one head's attention, [T, K] of each -> [T, K].
using Attend = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&, std::int64_t)>;

// A block around softmax attention: x [T, D] -> [T, D].
Tensor attention_block(const Tensor& x, const Parameters& p, const std::string& name, std::int64_t heads, bool rope,
                       const Attend& attend) {
  const Tensor normed = plain_rms_norm(x, p.at(name + "mixer_norm.weight"));
  const auto projected = [&](const char* part, std::int64_t head) {
    const Tensor all = normed.matmul(p.at(name + "mixer." + part + ".weight").t());
    return all.chunk(heads, 1)[static_cast<std::size_t>(head)];
  };
  std::vector<Tensor> outputs;
  for (std::int64_t h = 0; h < heads; ++h) {
    const Tensor q = projected("query", h), k = projected("key", h);
    outputs.push_back(attend(rope ? turned(q) : q, rope ? turned(k) : k, projected("value", h), h));
  }
  const Tensor mixed = x + torch::cat(outputs, 1).matmul(p.at(name + "mixer.output.weight").t());
  return mixed + swiglu(plain_rms_norm(mixed, p.at(name + "mlp_norm.weight")), p, name + "mlp.");
}

std::string refusal(const std::string& stack) {
  BackboneConfig config("stack");
  config.options().set("memory.stack", stack);
  try {
    config.check();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("layers of attention are what their definition says") {
  for (const bool rope : {true, false}) {
    CAPTURE(rope);
    torch::manual_seed(4);
    const torch::NoGradGuard no_grad;
    const std::string positions = rope ? "" : ":positions=none";
    auto model = make_model(
        {"stack", {{"width", "12"}, {"stack", "window:window=6:heads=3" + positions + ",attention" + positions}}}, 40,
        torch::kFloat64);
    enlarge_weights(*model);
    const Parameters p = parameters_by_name(*model);
    const Tensor input = torch::randn({2, 40, 12}, torch::kFloat64);
    const Tensor output = model->forward(input);
    for (std::int64_t b = 0; b < 2; ++b) {
      const auto last = [](std::int64_t window) {
        return [window](const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t) {
          return window_attention(q, k, v, window);
        };
      };
      const Tensor first = attention_block(input[b], p, "blocks.0.", 3, rope, last(6));
      const Tensor second = attention_block(first, p, "blocks.1.", 2, rope, last(40));
      CHECK(relative_error(output[b], plain_rms_norm(second, p.at("norm.weight"))) < 1e-10);
    }
  }
}

TEST_CASE("shifted sparse attention is attention in groups, which half of the heads begin half a group earlier") {
  constexpr std::int64_t kSteps = 45, kHeads = 4;
  for (const std::int64_t group : {2, 10, 100}) {
    CAPTURE(group);
    torch::manual_seed(6);
    const torch::NoGradGuard no_grad;
    auto model = make_model({"stack",
                             {{"width", "24"},
                              {"heads", std::to_string(kHeads)},
                              {"stack", "shifted_sparse:group=" + std::to_string(group)}}},
                            kSteps, torch::kFloat64);
    enlarge_weights(*model);
    const Parameters p = parameters_by_name(*model);
    const Tensor input = torch::randn({kSteps, 24}, torch::kFloat64);
    // Each group on its own, causal inside.
    const auto by_groups = [&](const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t head) {
      std::vector<Tensor> outputs;
      for (std::int64_t first = 0, end = head < kHeads / 2 ? group : group / 2; first < kSteps;
           first = end, end += group) {
        const std::int64_t count = std::min(end, kSteps) - first;
        const auto part = [&](const Tensor& x) { return x.narrow(0, first, count); };
        outputs.push_back(window_attention(part(q), part(k), part(v), count));
      }
      return torch::cat(outputs);
    };
    const Tensor expected = attention_block(input, p, "blocks.0.", kHeads, true, by_groups);
    CHECK(relative_error(model->forward(input.unsqueeze(0))[0], plain_rms_norm(expected, p.at("norm.weight"))) < 1e-10);
  }
}

TEST_CASE("a stack of one kind is the backbone of that name, weights and all") {
  for (const char* name : {"deltanet", "hqlt", "hqlt_delayed_stream", "expansion_span"}) {
    CAPTURE(name);
    const auto made = [&](const Variant& variant) {
      torch::manual_seed(5);
      return make_model(variant, 30, torch::kFloat32);
    };
    auto alone = made({name, {{"width", "12"}, {"layers", "3"}}});
    auto stack = made({"stack", {{"width", "12"}, {"stack", std::string(name) + "," + name + "," + name}}});
    const Tensor input = torch::randn({2, 30, 12});
    CHECK(torch::equal(alone->forward(input), stack->forward(input)));
    CHECK(alone->cost().state_bytes == stack->cost().state_bytes);
    CHECK(alone->cost().multiply_adds_per_step == stack->cost().multiply_adds_per_step);
  }
}

TEST_CASE("first weights of a stack are those of as many layers") {
  auto model = make_model({"stack", {{"width", "96"}, {"stack", "window,deltanet,attention,hqlt:weight_std=0.1"}}}, 10,
                          torch::kFloat32);
  const Parameters p = parameters_by_name(*model);
  check_normal(p.at("blocks.0.mixer.query.weight"), 0.02);
  check_normal(p.at("blocks.0.mixer.output.weight"), 0.02 / std::sqrt(8.0));
  check_normal(p.at("blocks.1.mlp.down.weight"), 0.02 / std::sqrt(8.0));
  check_normal(p.at("blocks.3.mixer.key.weight"), 0.1);
}

TEST_CASE("a stack's state and cost are the sums of its layers'") {
  auto model =
      make_model({"stack", {{"width", "12"}, {"stack", "deltanet,window:window=6,attention"}}}, 40, torch::kFloat32);
  // Fast weights of two heads of 6 x 6, keys and values of 6 and of 40 steps, the position.
  CHECK(model->cost().state_bytes == 4 * (2 * 36 + 2 * 6 * 12 + 2 * 40 * 12) + 8);
  const auto memory = model->cost().multiply_adds_per_step - model->cost().mlp_multiply_adds_per_step;
  CHECK(memory == (4 * 144 + 24 + 3 * 12 * 6) + (4 * 144 + 2 * 12 * 6) + (4 * 144 + 2 * 12 * 40));
  auto shifted = make_model({"stack", {{"width", "12"}, {"stack", "shifted_sparse:group=6"}}}, 40, torch::kFloat32);
  CHECK(shifted->cost().state_bytes == 4 * 2 * 6 * 12 + 8);
  CHECK(shifted->cost().multiply_adds_per_step - shifted->cost().mlp_multiply_adds_per_step == 4 * 144 + 2 * 12 * 6);
}

TEST_CASE("what is wrong with a layer is said with its place") {
  CHECK(refusal("deltanet,window:window=32,hqlt:mixing=sum,attention").empty());
  CHECK(refusal("deltanet,windw") == "memory.stack, layer 2, 'windw': unknown layer 'windw'; did you mean 'window'?");
  CHECK(refusal("deltanet,").starts_with("memory.stack, layer 2, '': unknown layer ''"));
  CHECK(refusal("hqlt:window").starts_with("memory.stack, layer 1, 'hqlt:window': 'window' in"));
  CHECK(refusal("hqlt:window=0").starts_with("memory.stack, layer 1, 'hqlt:window=0': window = '0' is not allowed"));
  CHECK(refusal("window:width=12") == "memory.stack, layer 1, 'window:width=12': 'width' is the whole stack's");
  CHECK(refusal("shifted_sparse:group=7") ==
        "memory.stack, layer 1, 'shifted_sparse:group=7': memory.group 7 is not even");
  CHECK(refusal("shifted_sparse:heads=5") ==
        "memory.stack, layer 1, 'shifted_sparse:heads=5': memory.heads 5 has no halves to shift one of");
  CHECK(refusal("shifted_sparse:window=8").starts_with("memory.stack, layer 1, 'shifted_sparse:window=8': "));
  CHECK(refusal("expansion_span:chunk=30:block=12") ==
        "memory.stack, layer 1, 'expansion_span:chunk=30:block=12': memory.chunk 30 is not divisible by memory.block "
        "12");
  CHECK(refusal("window:heads=3") ==
        "memory.stack, layer 1, 'window:heads=3': memory.width 100 is not divisible by memory.heads 3");
}
