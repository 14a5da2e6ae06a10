#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/fast_weights_definition.h"

using namespace engram;
using torch::Tensor;

namespace {

// Channels i and i + K/2 of step t turned by t * 10000^(-2i/K).
Tensor rope(const Tensor& x_TK) {
  Tensor turned_TK = x_TK.clone();
  const std::int64_t half = x_TK.size(1) / 2;
  for (std::int64_t t = 0; t < x_TK.size(0); ++t)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
      turned_TK[t][i] = x_TK[t][i] * std::cos(angle) - x_TK[t][i + half] * std::sin(angle);
      turned_TK[t][i + half] = x_TK[t][i + half] * std::cos(angle) + x_TK[t][i] * std::sin(angle);
    }
  return turned_TK;
}

// What one head's fast weights answer, [T, V], and what of keys and values [T, K], [T, V] attention sees at each step.
enum class Timing { kSynchronous, kDelayedStream, kDelayedChunk };

struct HeadInputs {
  Tensor query, key, value, beta;  // the fast weights': features; [T]
  Tensor window_query, window_key;
};

Tensor fast_answers(Timing timing, std::int64_t window, const HeadInputs& in) {
  const std::int64_t steps = in.query.size(0);
  if (timing == Timing::kSynchronous) return fast_weights(in.query, in.key, in.value, in.beta);
  Tensor state_VK = torch::zeros({in.value.size(1), in.key.size(1)}, in.query.options());
  const auto write = [&](std::int64_t u, std::int64_t t) {
    state_VK = state_VK + in.beta[t] * torch::outer(in.value[u] - state_VK.mv(in.key[u]), in.key[u]);
  };
  std::vector<Tensor> answers;
  for (std::int64_t t = 0; t < steps; ++t) {
    if (timing == Timing::kDelayedStream && t >= window) write(t - window, t);
    if (timing == Timing::kDelayedChunk && t > 0 && t % window == 0)
      for (std::int64_t u = t - window; u < t; ++u) write(u, u);
    answers.push_back(state_VK.mv(in.query[t]) / std::sqrt(static_cast<double>(in.query.size(1))));
  }
  return torch::stack(answers);
}

Tensor window_answers(Timing timing, std::int64_t window, const HeadInputs& in) {
  if (timing != Timing::kDelayedChunk) return window_attention(in.window_query, in.window_key, in.value, window);
  std::vector<Tensor> chunks;
  for (std::int64_t t = 0; t < in.query.size(0); t += window) {
    const auto chunk = [&](const Tensor& x) { return x.narrow(0, t, std::min(window, x.size(0) - t)); };
    chunks.push_back(window_attention(chunk(in.window_query), chunk(in.window_key), chunk(in.value), window));
  }
  return torch::cat(chunks);
}

}  // namespace

TEST_CASE("HQLT and its delayed variants equal their definitions, computed step by step from named parameters") {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const std::vector<std::pair<std::string, Timing>> backbones = {{"hqlt", Timing::kSynchronous},
                                                                 {"hqlt_delayed_stream", Timing::kDelayedStream},
                                                                 {"hqlt_delayed_chunk", Timing::kDelayedChunk}};
  for (const auto& [backbone, timing] : backbones)
    for (const auto& [mixing, positions, branch_norm, dropout, convolution, output_gate] :
         std::vector<std::tuple<std::string, std::string, bool, std::string, bool, bool>>{
             {"vector", "rope", false, "0", false, false},
             {"scalar", "rope", false, "0", false, false},
             {"sum", "rope", false, "0", false, false},
             {"vector", "none", false, "0", false, false},
             {"sum", "none", false, "0", false, false},
             {"vector", "rope", true, "0", false, false},
             {"scalar", "none", true, "0", false, false},
             {"sum", "rope", true, "0", false, false},
             {"vector", "rope", false, "0.3", false, false},
             {"scalar", "none", true, "0.3", false, false},
             {"sum", "rope", false, "0", false, true},
             {"vector", "rope", true, "0.3", false, true},
             {"vector", "none", false, "0", true, true},
             {"scalar", "rope", true, "0.3", true, false}}) {
      CAPTURE(backbone);
      CAPTURE(mixing);
      CAPTURE(positions);
      CAPTURE(branch_norm);
      CAPTURE(dropout);
      CAPTURE(convolution);
      CAPTURE(output_gate);
      auto model = make_model({backbone,
                               {{"width", "12"},
                                {"layers", "2"},
                                {"window", "4"},
                                {"mixing", mixing},
                                {"branch_norm", branch_norm ? "true" : "false"},
                                {"positions", positions},
                                {"convolution", convolution ? "true" : "false"},
                                {"output_gate", output_gate ? "true" : "false"},
                                {"dropout", dropout}}},
                              20, torch::kFloat64);
      enlarge_weights(*model);
      const Parameters p = parameters_by_name(*model);
      Tensor x_TD = torch::randn({20, 12}, torch::kFloat64);
      const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
      x_TD = dropped(*model, "input_dropout", x_TD);
      for (const std::string block : {"blocks.0.", "blocks.1."}) {
        const Tensor normed = plain_rms_norm(x_TD, p.at(block + "mixer_norm.weight"));
        const auto project = [&](const char* name) {
          return normed.matmul(p.at(block + "mixer." + name + ".weight").t());
        };
        const auto dropped_heads = [&](const char* name, const Tensor& x) {
          return dropped(*model, block + "mixer." + name + "_dropout", x.unflatten(1, {2, 6}));
        };
        // The channels of queries, keys and values are convolved each by its own four weights, the last the step's own.
        const auto convolved = [&](const char* name, std::int64_t first_channel) {
          const Tensor x_TC = project(name);
          if (!convolution) return x_TC;
          const Tensor weight_CW = p.at(block + "mixer.convolution.weight").narrow(0, first_channel, 12);
          Tensor y_TC = torch::zeros_like(x_TC);
          for (std::int64_t t = 0; t < x_TC.size(0); ++t)
            for (std::int64_t back = 0; back <= std::min<std::int64_t>(t, 3); ++back)
              y_TC[t] += weight_CW.select(1, 3 - back) * x_TC[t - back];
          return y_TC;
        };
        const Tensor query_THK = dropped_heads("query", convolved("query", 0)),
                     key_THK = dropped_heads("key", convolved("key", 12));
        const Tensor value_THV = dropped_heads("value", plain_silu(convolved("value", 24)));
        std::vector<Tensor> heads;
        for (std::int64_t h = 0; h < 2; ++h) {
          const Tensor query = query_THK.select(1, h), key = key_THK.select(1, h);
          const bool turned = positions == "rope";
          const HeadInputs in{fast_feature(query),          fast_feature(key),
                              value_THV.select(1, h),       2 * plain_sigmoid(project("beta").select(1, h)),
                              turned ? rope(query) : query, turned ? rope(key) : key};
          Tensor fast = fast_answers(timing, 4, in), window = window_answers(timing, 4, in);
          if (branch_norm) {
            const Tensor ones = torch::ones({6}, torch::kFloat64);
            fast = plain_rms_norm(fast, ones), window = plain_rms_norm(window, ones);
          }
          Tensor mixed = fast + window;
          if (mixing == "vector") {
            const Tensor gate = plain_sigmoid(project("gate").narrow(1, 6 * h, 6));
            mixed = gate * fast + (1 - gate) * window;
          } else if (mixing == "scalar") {
            const Tensor gates = plain_sigmoid(project("gate"));
            mixed = gates.narrow(1, 2 * h, 1) * fast + gates.narrow(1, 2 * h + 1, 1) * window;
          }
          heads.push_back(plain_rms_norm(mixed, p.at(block + "mixer.head_norm.weight")));
          if (output_gate) heads.back() = heads.back() * plain_silu(project("output_gate").narrow(1, 6 * h, 6));
        }
        x_TD = rest_of_block(*model, p, block, x_TD, heads);
      }
      CHECK(relative_error(output_TD, plain_rms_norm(x_TD, p.at("norm.weight"))) < 1e-11);
    }
}

TEST_CASE("HQLT with other fast weights equals its definition, and says what its kernels and its options do not take") {
  torch::manual_seed(4);
  const torch::NoGradGuard no_grad;
  const std::string of_deltanet = make_model({"hqlt", {{"width", "12"}}}, 20, torch::kFloat32)
                                      ->supports_learning(torch::kBFloat16, torch::kCUDA)
                                      .reason();
  for (const std::string entry :
       {"fast_weights", "linear_transformer", "performer:favor_features=5", "delta_2021", "gated_deltanet", "kda",
        "mlstm", "fast_weights:rule=sum:decay=vector:key_norm=none", "fast_weights:rule=gated_sum:beta_factor=1"}) {
    CAPTURE(entry);
    auto model = make_model(
        {"hqlt", {{"width", "12"}, {"layers", "2"}, {"window", "4"}, {"dropout", "0"}, {"fast_weights", entry}}}, 20,
        torch::kFloat64);
    enlarge_weights(*model);
    const Parameters p = parameters_by_name(*model);
    FastWeightsOptions options = parse_fast_weights(entry);
    options.width = 12;
    Tensor x_TD = torch::randn({20, 12}, torch::kFloat64);
    const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
    for (const std::string block : {"blocks.0.", "blocks.1."}) {
      const Tensor normed = plain_rms_norm(x_TD, p.at(block + "mixer_norm.weight"));
      const auto project = [&](const char* name) {
        return normed.matmul(p.at(block + "mixer." + name + ".weight").t());
      };
      const Tensor query = project("query"), key = project("key"), value = plain_silu(project("value"));
      const std::vector<Tensor> fast =
          fast_weights_definition::reads(options, normed, query, key, value, p, block + "mixer.");
      std::vector<Tensor> heads;
      for (std::int64_t h = 0; h < 2; ++h) {
        const auto own = [h](const Tensor& x) { return x.narrow(1, 6 * h, 6); };
        const Tensor window = window_attention(rope(own(query)), rope(own(key)), own(value), 4);
        const Tensor gate = plain_sigmoid(own(project("gate")));
        heads.push_back(plain_rms_norm(gate * fast[static_cast<std::size_t>(h)] + (1 - gate) * window,
                                       p.at(block + "mixer.head_norm.weight")));
      }
      x_TD = x_TD + torch::cat(heads, 1).matmul(p.at(block + "mixer.output.weight").t());
      x_TD = x_TD + swiglu(plain_rms_norm(x_TD, p.at(block + "mlp_norm.weight")), p, block + "mlp.");
    }
    CHECK(relative_error(output_TD, plain_rms_norm(x_TD, p.at("norm.weight"))) < 1e-9);
    const std::string reason = model->supports_learning(torch::kBFloat16, torch::kCUDA).reason();
    std::string expected = of_deltanet;
    if (options.decay == Decay::kVector || entry == "kda") expected = "only its fast weights have kernels";
    CHECK(reason == expected);
  }

  // The defaults are deltanet's, whose settings are HQLT's own.
  CHECK(make_model({"hqlt", {{"fast_weights", "deltanet"}}}, 10, torch::kFloat32)->cost().parameters ==
        make_model({"hqlt", {}}, 10, torch::kFloat32)->cost().parameters);
  const auto refusal = [](const Variant::Settings& settings) {
    try {
      make_model({"hqlt", settings}, 10, torch::kFloat32);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(
      refusal({{"fast_weights", "gla"}, {"beta_factor", "1"}}) ==
      "memory.beta_factor 1 is of memory.fast_weights deltanet, not of gla, which takes beta_factor=1 after its name");
  CHECK(refusal({{"fast_weights", "glaa"}})
            .starts_with("memory.fast_weights glaa: unknown fast weights 'glaa'; did you mean 'gla'?"));
  CHECK(refusal({{"fast_weights", "mamba2:convolution=false"}})
            .starts_with("memory.fast_weights mamba2:convolution=false: unknown key 'convolution'"));
  CHECK(
      refusal({{"fast_weights", "delta_product"}}) ==
      "memory.fast_weights delta_product: memory.householder_steps 2 does not go with the one key a step of a window");
  CHECK(refusal({{"fast_weights", "retnet:rule=delta"}}) ==
        "memory.fast_weights retnet:rule=delta: memory.rule delta needs memory.write_strength sigmoid, not one");
}

TEST_CASE("HQLT has the parameters of its definition, initialised as defined") {
  torch::manual_seed(2);
  // Beside DeltaNet's block: a gate per channel, two a head, or none.
  const std::int64_t block = 4 * 100 * 100 + 100 * 2 + 50 + 2 * 100 + 3 * 100 * 512;
  for (const auto& [mixing, gate] :
       {std::pair<std::string, std::int64_t>{"vector", 100 * 100}, {"scalar", 100 * 4}, {"sum", 0}}) {
    CAPTURE(mixing);
    auto model = make_model({"hqlt", {{"mixing", mixing}}}, 10, torch::kFloat32);
    const ModelCost cost = model->cost();
    CHECK(cost.parameters == 3 * (block + gate) + 100);
    // Fast weights and a window of 64 keys and values in each layer, and the position.
    CHECK(cost.state_bytes == 3 * 4 * (2 * 50 * 50 + 2 * 64 * 100) + 8);
    CHECK(cost.multiply_adds_per_step ==
          3 * (4 * 100 * 100 + 100 * 2 + gate + 3 * 2 * 50 * 50 + 2 * 64 * 100 + 3 * 100 * 512));
    const Parameters p = parameters_by_name(*model);
    if (gate > 0) check_normal(p.at("blocks.1.mixer.gate.weight"), 0.02);
    for (const char* name : {"mixer.query", "mixer.key", "mixer.value", "mixer.beta", "mlp.gate", "mlp.up"})
      check_normal(p.at("blocks.2." + std::string(name) + ".weight"), 0.02);
    for (const char* name : {"mixer.output", "mlp.down"})
      check_normal(p.at("blocks.0." + std::string(name) + ".weight"), 0.02 / std::sqrt(6.0));
  }
}

TEST_CASE("HQLT's convolution has four weights of each query, key and value channel, which begin as its maps do") {
  const auto cost = [](const char* convolution) {
    return make_model({"hqlt", {{"convolution", convolution}}}, 10, torch::kFloat32)->cost();
  };
  CHECK(cost("true").parameters - cost("false").parameters == 3 * 4 * 300);
  CHECK(cost("true").multiply_adds_per_step - cost("false").multiply_adds_per_step == 3 * 4 * 300);
  CHECK(cost("true").state_bytes - cost("false").state_bytes == 3 * 4 * 3 * 300);
  torch::manual_seed(2);
  auto model = make_model({"hqlt", {{"convolution", "true"}, {"weight_std", "0.006"}}}, 10, torch::kFloat32);
  check_normal(parameters_by_name(*model).at("blocks.1.mixer.convolution.weight"), 0.006);
}

TEST_CASE("HQLT's output gate has a map of its own, which begins as the others do") {
  const auto cost = [](const char* gate) {
    return make_model({"hqlt", {{"output_gate", gate}}}, 10, torch::kFloat32)->cost();
  };
  CHECK(cost("true").parameters - cost("false").parameters == 3 * 100 * 100);
  CHECK(cost("true").multiply_adds_per_step - cost("false").multiply_adds_per_step == 3 * 100 * 100);
  CHECK(cost("true").state_bytes == cost("false").state_bytes);
  torch::manual_seed(2);
  auto model = make_model({"hqlt", {{"output_gate", "true"}, {"weight_std", "0.006"}}}, 10, torch::kFloat32);
  check_normal(parameters_by_name(*model).at("blocks.1.mixer.output_gate.weight"), 0.006);
}

TEST_CASE("the delayed variants have HQLT's parameters and initial weights; a chunk keeps its write strengths") {
  const auto made = [](const char* backbone) {
    torch::manual_seed(3);
    return make_model({backbone, {}}, 10, torch::kFloat32);
  };
  const auto hqlt = made("hqlt");
  for (const char* backbone : {"hqlt_delayed_stream", "hqlt_delayed_chunk"}) {
    CAPTURE(backbone);
    const auto delayed = made(backbone);
    const Parameters expected = parameters_by_name(*hqlt), parameters = parameters_by_name(*delayed);
    REQUIRE(parameters.size() == expected.size());
    for (const auto& [name, value] : expected) CHECK(torch::equal(parameters.at(name), value));
    CHECK(delayed->cost().multiply_adds_per_step == hqlt->cost().multiply_adds_per_step);
    const std::int64_t strengths = backbone == std::string("hqlt_delayed_chunk") ? 3 * 64 * 2 * 4 : 0;
    CHECK(delayed->cost().state_bytes == hqlt->cost().state_bytes + strengths);
  }
}

TEST_CASE("rotary positions ask for an even head width") {
  CHECK_THROWS_WITH_AS(
      make_model({"hqlt", {{"width", "30"}, {"heads", "2"}}}, 10, torch::kFloat32),
      "memory.positions rope needs an even head width, but memory.width 30 / memory.heads 2 is 15; change "
      "them or take memory.positions none",
      UserError);
  CHECK_NOTHROW(make_model({"hqlt", {{"width", "30"}, {"heads", "2"}, {"positions", "none"}}}, 10, torch::kFloat32));
}
