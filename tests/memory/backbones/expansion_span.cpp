// Span-expanded attention against its definition in plain loops, against full attention and attention inside of chunks,
// and its choice of blocks against the published one.
#include "memory/backbones/attention/expansion_span.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr std::int64_t kWidth = 12, kHeads = 2, kHead = kWidth / kHeads;

using Vector = std::vector<double>;
// [head][step][channel]
using Sequences = std::vector<std::vector<Vector>>;

double dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// [T, D] -> by heads; turned by RoPE if asked for.
Sequences by_heads(const Tensor& x_TD, bool rope) {
  Sequences all(kHeads, std::vector<Vector>(static_cast<std::size_t>(x_TD.size(0)), Vector(kHead)));
  const auto x = x_TD.contiguous();
  const auto at = x.accessor<double, 2>();
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t t = 0; t < x_TD.size(0); ++t)
      for (std::int64_t i = 0; i < kHead; ++i) {
        const std::int64_t pair = i < kHead / 2 ? i + kHead / 2 : i - kHead / 2;
        const double angle =
            rope ? static_cast<double>(t) *
                       std::pow(10000.0, -2.0 * static_cast<double>(i % (kHead / 2)) / static_cast<double>(kHead))
                 : 0;
        const double sign = i < kHead / 2 ? -1 : 1;
        all[static_cast<std::size_t>(h)][static_cast<std::size_t>(t)][static_cast<std::size_t>(i)] =
            at[t][h * kHead + i] * std::cos(angle) + sign * at[t][h * kHead + pair] * std::sin(angle);
      }
  return all;
}

// What a query reads from the steps `seen`.
Vector read(const Vector& query, const std::vector<Vector>& keys, const std::vector<Vector>& values,
            const std::vector<std::size_t>& seen) {
  Vector result(values[0].size());
  double sum = 0;
  for (const std::size_t u : seen) {
    const double weight = std::exp(dot(query, keys[u]) / std::sqrt(static_cast<double>(query.size())));
    sum += weight;
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += weight * values[u][i];
  }
  for (double& number : result) number /= sum;
  return result;
}

struct Settings {
  std::int64_t chunk, block, retrieved;
  bool rope;
  Variant variant(int layers) const {
    return {"expansion_span",
            {{"width", std::to_string(kWidth)},
             {"layers", std::to_string(layers)},
             {"chunk", std::to_string(chunk)},
             {"block", std::to_string(block)},
             {"retrieved", std::to_string(retrieved)},
             {"positions", rope ? "rope" : "none"}}};
  }
};

std::vector<std::size_t> range(std::int64_t first, std::int64_t end) {
  std::vector<std::size_t> all(static_cast<std::size_t>(end - first));
  std::iota(all.begin(), all.end(), static_cast<std::size_t>(first));
  return all;
}

// The blocks that step t retrieves, scored by the queries of its chunk up to step `last`.
std::set<std::int64_t> chosen_blocks(const Sequences& q, const Sequences& k, const Sequences& v,
                                     const Settings& settings, std::int64_t t, std::int64_t last) {
  const std::int64_t first = t / settings.chunk * settings.chunk;
  std::vector<std::pair<double, std::int64_t>> scores;
  for (std::int64_t j = 0; (j + 1) * settings.block <= first; ++j) {
    const std::vector<std::size_t> steps = range(j * settings.block, (j + 1) * settings.block);
    double score = 0;
    for (std::size_t h = 0; h < kHeads; ++h)
      for (const std::size_t u : steps) {
        const Vector read_u = read(q[h][u], k[h], v[h], steps);
        for (std::int64_t w = first; w <= last; ++w)
          score += dot(q[h][static_cast<std::size_t>(w)], read_u) / static_cast<double>(settings.block);
      }
    scores.emplace_back(-score, j);
  }
  std::sort(scores.begin(), scores.end());
  std::set<std::int64_t> chosen;
  for (const auto& [score, j] : scores)
    if (static_cast<std::int64_t>(chosen.size()) < settings.retrieved) chosen.insert(j);
  return chosen;
}

struct Projected {
  Sequences q, k, v;
};
Projected project(const Tensor& x_TD, const Parameters& p, const std::string& block, bool rope) {
  const Tensor normed = plain_rms_norm(x_TD, p.at(block + "mixer_norm.weight"));
  const auto part = [&](const char* name, bool turned) {
    return by_heads(normed.matmul(p.at(block + "mixer." + name + ".weight").t()), turned);
  };
  return {part("query", rope), part("key", rope), part("value", false)};
}

// The block around span-expanded attention: x [T, D] -> [T, D].
Tensor defined_block(const Tensor& x_TD, const Parameters& p, const std::string& block, const Settings& settings) {
  const auto [q, k, v] = project(x_TD, p, block, settings.rope);
  Tensor read_TD = torch::zeros_like(x_TD);
  for (std::int64_t t = 0; t < x_TD.size(0); ++t) {
    std::vector<std::size_t> seen = range(t / settings.chunk * settings.chunk, t + 1);
    for (const std::int64_t j : chosen_blocks(q, k, v, settings, t, t))
      for (const std::size_t u : range(j * settings.block, (j + 1) * settings.block)) seen.push_back(u);
    for (std::size_t h = 0; h < kHeads; ++h) {
      const Vector out = read(q[h][static_cast<std::size_t>(t)], k[h], v[h], seen);
      for (std::size_t i = 0; i < out.size(); ++i)
        read_TD[t][static_cast<std::int64_t>(h) * kHead + static_cast<std::int64_t>(i)] = out[i];
    }
  }
  const Tensor mixed = x_TD + read_TD.matmul(p.at(block + "mixer.output.weight").t());
  return mixed + swiglu(plain_rms_norm(mixed, p.at(block + "mlp_norm.weight")), p, block + "mlp.");
}

std::shared_ptr<SequenceModel> made(const Variant& variant, std::int64_t max_steps) {
  auto model = enlarged_model(variant, max_steps, 3);
  return model;
}

}  // namespace

TEST_CASE("span-expanded attention equals its definition, computed number by number") {
  const torch::NoGradGuard no_grad;
  for (const Settings settings : {Settings{6, 3, 2, true}, Settings{4, 4, 1, false}, Settings{8, 2, 5, true}}) {
    CAPTURE(settings.chunk);
    auto model = made(settings.variant(2), 41);
    const Parameters p = parameters_by_name(*model);
    const Tensor input_TD = torch::randn({41, kWidth}, torch::kFloat64);
    Tensor x_TD = input_TD;
    for (const char* block : {"blocks.0.", "blocks.1."}) x_TD = defined_block(x_TD, p, block, settings);
    const Tensor expected_TD = plain_rms_norm(x_TD, p.at("norm.weight"));
    CHECK(relative_error(model->forward(input_TD.unsqueeze(0))[0], expected_TD) < 1e-10);
  }
}

TEST_CASE("the last step of a chunk retrieves the blocks that the paper retrieves for the whole chunk") {
  const Settings settings{6, 3, 2, true};
  auto model = made(settings.variant(1), 60);
  const Tensor input_TD = torch::randn({60, kWidth}, torch::kFloat64);
  const auto [q, k, v] = project(input_TD, parameters_by_name(*model), "blocks.0.", settings.rope);
  MemoryState state = model->initial_state(1);
  int changes = 0;
  for (std::int64_t t = 0; t < 60; ++t) {
    MemoryView view;
    model->step(input_TD.narrow(0, t, 1), state, view);
    std::set<std::int64_t> retrieved;
    const std::int64_t first = t / settings.chunk * settings.chunk;
    for (std::int64_t u = 0; u < first; ++u)
      if (view.layers[0].attention_BHA[0][0][t - u].item<double>() > 0) retrieved.insert(u / settings.block);
    const std::set<std::int64_t> of_chunk =
        chosen_blocks(q, k, v, settings, t, std::min<std::int64_t>(first + settings.chunk, 60) - 1);
    if (t == first + settings.chunk - 1) CHECK(retrieved == of_chunk);
    changes += retrieved != of_chunk;
  }
  CHECK(changes > 5);  // earlier steps, which do not know the queries to come, differ
}

TEST_CASE("with all blocks retrieved it is full attention, without any attention inside of chunks") {
  const torch::NoGradGuard no_grad;
  const Tensor input_BTD = torch::randn({2, 50, kWidth}, torch::kFloat64);
  auto all = made(Settings{10, 5, 8, true}.variant(2), 50);
  auto attention = made({"stack", {{"width", "12"}, {"stack", "attention,attention"}}}, 50);
  CHECK(relative_error(all->forward(input_BTD), attention->forward(input_BTD)) < 1e-10);

  // One layer, since the next one's chunks would see what the first made of them; no positions, to begin anywhere.
  auto none = made(Settings{10, 5, 0, false}.variant(1), 50);
  const Tensor chunks_BTD = none->forward(input_BTD.reshape({10, 10, kWidth})).reshape(input_BTD.sizes());
  CHECK(relative_error(none->forward(input_BTD), chunks_BTD) < 1e-10);
  CHECK(relative_error(all->forward(input_BTD), chunks_BTD) > 0.01);
}

TEST_CASE("a step beyond the chunk's reach is recalled if its block is retrieved, and only then") {
  const torch::NoGradGuard no_grad;
  const Settings settings{4, 4, 1, true};
  auto model = made(settings.variant(1), 40);
  const Tensor input_TD = torch::randn({40, kWidth}, torch::kFloat64);
  const Parameters p = parameters_by_name(*model);
  const auto [q, k, v] = project(input_TD, p, "blocks.0.", settings.rope);
  const Tensor output_TD = model->forward(input_TD.unsqueeze(0))[0];
  for (std::int64_t block = 0; block < 9; ++block) {
    // Small enough to leave the choices as they are.
    Tensor changed_TD = input_TD.clone();
    changed_TD[block * 4 + 1] += 1e-7;
    const Tensor difference_T = (model->forward(changed_TD.unsqueeze(0))[0] - output_TD).abs().amax(1);
    for (std::int64_t t = block * 4 + 4; t < 40; ++t)
      CHECK((difference_T[t].item<double>() > 0) == chosen_blocks(q, k, v, settings, t, t).contains(block));
  }
}

TEST_CASE("where observations repeat, forward, step and any split retrieve the same blocks, of a tie the earliest") {
  const torch::NoGradGuard no_grad;
  constexpr std::int64_t kSteps = 90;
  for (const Settings settings : {Settings{6, 3, 2, true}, Settings{6, 3, 2, false}, Settings{8, 2, 5, true}})
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      CAPTURE(settings.chunk);
      CAPTURE(settings.rope);
      CAPTURE(dtype);
      auto model = made(settings.variant(2), kSteps);
      model->to(dtype);
      // A T-maze: what is seen at the start, then the corridor, then the junction.
      const Tensor seen = torch::randn({3, kWidth}, dtype);
      Tensor input_BTD = seen[1].expand({2, kSteps, kWidth}).clone();
      input_BTD.select(1, 0).copy_(seen[0]);
      input_BTD.select(1, kSteps - 1).copy_(seen[2]);
      input_BTD[1][0] = seen[2];
      const Tensor whole_BTD = model->forward(input_BTD);
      const double tolerance = dtype == torch::kFloat64 ? 1e-10 : 1e-4;

      MemoryState state = model->initial_state(2);
      for (std::int64_t t = 0; t < kSteps; ++t)
        CHECK(relative_error(model->step(input_BTD.select(1, t), state), whole_BTD.select(1, t)) < tolerance);
      for (const std::int64_t first : {1, 5, 37, 64}) {
        const auto before = model->forward(input_BTD.narrow(1, 0, first), lengths({first, first}));
        const std::int64_t rest = kSteps - first;
        const auto after = model->forward(input_BTD.narrow(1, first, rest), before.final_state, lengths({rest, rest}));
        CHECK(relative_error(torch::cat({before.output_BTD, after.output_BTD}, 1), whole_BTD) < tolerance);
      }

      // In a corridor without an end all blocks tie.
      MemoryState corridor = model->initial_state(1);
      for (std::int64_t t = 0; t < kSteps; ++t) {
        MemoryView view;
        model->step(seen.narrow(0, 1, 1), corridor, view);
        const std::int64_t first = t / settings.chunk * settings.chunk;
        std::set<std::int64_t> retrieved, earliest;
        for (std::int64_t u = 0; u < first; ++u) {
          if (view.layers[0].attention_BHA[0][0][t - u].item<double>() > 0) retrieved.insert(u);
          if (u < settings.retrieved * settings.block) earliest.insert(u);
        }
        CHECK(retrieved == earliest);
      }
    }
}

TEST_CASE("span-expanded attention has the state and the products of its definition") {
  auto model = make_model({"expansion_span", {{"layers", "1"}}}, 780, torch::kFloat32);
  const ModelCost cost = model->cost();
  CHECK(cost.parameters == 4 * 100 * 100 + 3 * 100 * 512 + 3 * 100);
  // 25 blocks of 32 steps: keys, values, summaries; the queries of a block, the sum, the position.
  CHECK(cost.state_bytes == 4 * 100 * (2 * 800 + 25 + 32 + 1) + 8);
  CHECK(cost.multiply_adds_per_step - cost.mlp_multiply_adds_per_step ==
        4 * 100 * 100 + 2 * 100 * (64 + 8 * 32) + 2 * 100 * 32 + 100 * 25);
  check_normal(parameters_by_name(*model).at("blocks.0.mixer.query.weight"), 0.02);
}

TEST_CASE("what contradicts itself, and longer episodes than it was built for, are refused") {
  CHECK_THROWS_AS((ExpansionSpanOptions{.chunk = 50, .block = 32}.check()), UserError);
  CHECK_THROWS_AS((ExpansionSpanOptions{{.width = 30}, /*layers=*/2, /*heads=*/4}.check()), UserError);
  CHECK_THROWS_AS((ExpansionSpanOptions{{.width = 6}}.check()), UserError);  // RoPE of an odd head
  CHECK_THROWS_AS((ExpansionSpanOptions{.block = 0}.check()), UserError);
  CHECK_THROWS_AS((ExpansionSpanOptions{.retrieved = -1}.check()), UserError);
  auto model = make_model(Settings{4, 4, 1, true}.variant(1), 10, torch::kFloat32);
  CHECK_NOTHROW(model->forward(torch::randn({1, 12, kWidth}), lengths({10})));
  CHECK_THROWS_WITH_AS(model->forward(torch::randn({1, 12, kWidth}), lengths({11})),
                       "a sequence of 11 steps exceeds the cache of expansion_span, 10 steps; build it for longer "
                       "episodes",
                       UserError);
}
