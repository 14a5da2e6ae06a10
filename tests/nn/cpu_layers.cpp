// The layers on the CPU in float32 against LibTorch's operations in double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "nn/cpu/image_encoder.h"
#include "nn/cpu/kernels.h"
#include "nn/cpu/layers.h"
#include "nn/device/plain_operations.h"
#include "nn/layers/dropout.h"

using namespace engram;
using torch::Tensor;

namespace {

// Float32's 6e-8, grown by sums of some hundred terms.
constexpr double kBound = 5e-6;

double difference(const Tensor& actual, const Tensor& expected) {
  const Tensor wide = expected.detach().to(torch::kFloat64);
  return ((actual.detach().to(torch::kFloat64) - wide).abs().max() / wide.abs().max().clamp_min(1e-30)).item<double>();
}

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

// Outputs and gradients of a random linear read-out of them must be those of `definition`; all inputs get gradients.
void check(const std::vector<Tensor>& inputs, const Function& function, const Function& definition) {
  const auto run = [&](const Function& of, torch::ScalarType dtype) {
    std::vector<Tensor> leaves;
    for (const Tensor& x : inputs)
      leaves.push_back(x.is_floating_point() ? x.detach().to(dtype).clone().requires_grad_() : x);
    std::vector<Tensor> outputs = of(leaves);
    torch::manual_seed(7);
    Tensor loss = torch::zeros({}, dtype);
    for (const Tensor& output : outputs)
      if (output.requires_grad()) loss = loss + (output * torch::randn(output.sizes()).to(dtype)).sum();
    loss.backward();
    for (const Tensor& leaf : leaves)
      if (leaf.is_floating_point()) outputs.push_back(leaf.grad());
    return outputs;
  };
  const std::vector<Tensor> actual = run(function, torch::kFloat32), expected = run(definition, torch::kFloat64);
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    REQUIRE(actual[i].defined() == expected[i].defined());
    if (!actual[i].defined()) continue;
    CHECK(actual[i].sizes() == expected[i].sizes());
    CHECK(difference(actual[i], expected[i]) < kBound);
  }
}

struct Threads {
  explicit Threads(int count) : before(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before); }
  int before;
};

}  // namespace

TEST_CASE("products of every instruction set are sums of products, whatever the sizes and strides") {
  torch::manual_seed(1);
  for (int set = 0; cpu::usable_kernels(set) != nullptr; ++set)
    for (const auto& [rows, columns, inner] : std::vector<std::array<std::int64_t, 3>>{
             {1, 1, 1}, {12, 32, 64}, {13, 33, 7}, {29, 5, 300}, {7, 16, 1}, {50, 48, 513}, {3, 100, 20}})
      for (int form = 0; form < 8; ++form) {
        const bool a_turned = form & 1, b_turned = form & 2, extras = form & 4;
        CAPTURE(set);
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(inner);
        CAPTURE(form);
        const Tensor a = a_turned ? torch::randn({inner, rows}).t() : torch::randn({rows, inner});
        const Tensor b = b_turned ? torch::randn({columns, inner}).t() : torch::randn({inner, columns});
        const Tensor c = torch::randn({rows, columns + 3}), positive = torch::randn({rows, columns + 3});
        const Tensor bias = torch::randn({columns}), inside = c.narrow(1, 0, columns);
        Tensor expected = a.to(torch::kFloat64).matmul(b.to(torch::kFloat64));
        if (extras) expected = torch::where(positive.narrow(1, 0, columns) > 0, (expected + inside + bias).relu(), 0.0);
        const Tensor behind = c.narrow(1, columns, 3).clone();
        std::vector<float> scratch(static_cast<std::size_t>(cpu::product_scratch(columns)));
        cpu::usable_kernels(set)->product({.rows = rows,
                                           .columns = columns,
                                           .inner = inner,
                                           .a = a.const_data_ptr<float>(),
                                           .a_row = a.stride(0),
                                           .a_inner = a.stride(1),
                                           .b = b.const_data_ptr<float>(),
                                           .b_inner = b.stride(0),
                                           .b_column = b.stride(1),
                                           .c = c.data_ptr<float>(),
                                           .c_row = columns + 3,
                                           .bias = extras ? bias.const_data_ptr<float>() : nullptr,
                                           .accumulate = extras,
                                           .relu = extras,
                                           .positive = extras ? positive.const_data_ptr<float>() : nullptr},
                                          scratch.data());
        CHECK(difference(inside, expected) < kBound);
        CHECK(torch::equal(c.narrow(1, columns, 3), behind));
      }
}

TEST_CASE("every instruction set computes the same to rounding, and drops the same") {
  torch::manual_seed(2);
  const std::int64_t seed_tick[2] = {-77, 5};
  const DropoutKey key(seed_tick, 3, 0.3);
  const std::int64_t rows = 37, channels = 43, groups = 6;
  const Tensor x = torch::randn({rows, channels}), weight = torch::randn({channels}),
               d = torch::randn({rows, channels});
  std::vector<Tensor> first;
  for (int set = 0; const cpu::Kernels* const kernels = cpu::usable_kernels(set); ++set) {
    CAPTURE(set);
    const auto numbers = [](const Tensor& tensor) { return tensor.data_ptr<float>(); };
    const auto empty = [&] { return torch::empty({rows, channels}); };
    const Tensor bits = torch::empty({rows, groups}, torch::kUInt8), dropped = empty(), d_dropped = empty();
    kernels->dropout(key, 4, rows, channels, numbers(x), numbers(d), numbers(dropped), bits.data_ptr<std::uint8_t>());
    kernels->dropout_backward(key.scale, rows, channels, numbers(d), bits.data_ptr<std::uint8_t>(), numbers(d_dropped));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < channels; ++c) {
        float factor[kDropoutGroup];
        key.draw((4 + r) * groups + c / kDropoutGroup, factor);
        const float own = factor[c % kDropoutGroup];
        REQUIRE(numbers(dropped)[r * channels + c] ==
                doctest::Approx(numbers(d)[r * channels + c] + own * numbers(x)[r * channels + c]).epsilon(1e-6));
        REQUIRE(numbers(d_dropped)[r * channels + c] == own * numbers(d)[r * channels + c]);
      }
    const Tensor normed = empty(), inverse = torch::empty({rows}), d_normed = empty();
    const Tensor d_weight = torch::zeros({channels}), sums = torch::ones({channels});
    kernels->rms_norm(rows, channels, numbers(x), numbers(weight), 1e-5F, 2, numbers(normed), numbers(inverse));
    kernels->rms_norm_backward(rows, channels, numbers(x), numbers(weight), 2, numbers(inverse), numbers(d),
                               numbers(d_normed), numbers(d_weight));
    kernels->add_column_sums(numbers(x), rows, channels, numbers(sums));
    const Tensor gate = 30 * torch::randn({rows, channels}, torch::kFloat32).sign() + x, up = d.clone(), y = empty();
    const Tensor gated = empty();
    kernels->swiglu(rows * channels, numbers(gate), numbers(up), numbers(gated));
    CHECK(difference(gated, torch::silu(gate.to(torch::kFloat64)) * up) < kBound);
    kernels->swiglu_backward(rows * channels, numbers(d), numbers(gate), numbers(up), numbers(y));
    CHECK(torch::equal(y, gated));
    const std::vector<Tensor> all = {dropped, normed, d_normed, d_weight, sums};
    if (first.empty()) first = all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(all[i], first[i]) < kBound);
    }
  }
}

TEST_CASE("fast weights, short convolutions and attention are the same to rounding in every instruction set") {
  torch::manual_seed(8);
  const std::int64_t steps = 70, width = 21, saved = (steps + cpu::kFastWeightsSaved - 1) / cpu::kFastWeightsSaved;
  const auto random = [&] { return 0.3 * torch::randn({steps, width}); };
  const Tensor query = random(), key = random(), value = random(), write = torch::rand({steps}), d = random(),
               log_decay = -random().abs(), before = 0.3 * torch::randn({width, width});
  const auto numbers = [](const Tensor& tensor) { return tensor.data_ptr<float>(); };
  std::vector<Tensor> first;
  for (int set = 0; const cpu::Kernels* const kernels = cpu::usable_kernels(set); ++set) {
    CAPTURE(set);
    std::vector<float> scratch(static_cast<std::size_t>(
        std::max(cpu::fast_weights_scratch(width, width, /*states_again=*/true), cpu::product_scratch(steps))));
    const auto zeros = [&](std::int64_t rows) { return torch::zeros({rows, width}); };
    std::vector<Tensor> all;
    for (const bool delta : {true, false})
      for (const std::int64_t decay_width : {std::int64_t{0}, std::int64_t{1}, width}) {
        const Tensor output = zeros(steps), state = before.clone(), kept = torch::zeros({saved, width, width}),
                     update = zeros(steps), d_state = zeros(width), d_query = zeros(steps), d_key = zeros(steps),
                     d_value = zeros(steps), d_write = torch::zeros({steps}), d_log_decay = zeros(steps);
        const cpu::FastWeights rule{.delta = delta,
                                    .steps = steps,
                                    .heads = 1,
                                    .key_width = width,
                                    .value_width = width,
                                    .decay_width = decay_width,
                                    .scale = 0.5F,
                                    .query = numbers(query),
                                    .key = numbers(key),
                                    .value = numbers(value),
                                    .write = numbers(write),
                                    .log_decay = numbers(log_decay),
                                    .output = numbers(output),
                                    .state = numbers(state),
                                    .saved_state = numbers(kept),
                                    .update = numbers(update),
                                    .first_state = numbers(before)};
        kernels->fast_weights(rule, scratch.data());
        kernels->fast_weights_backward({.forward = rule,
                                        .d_output = numbers(d),
                                        .d_state = numbers(d_state),
                                        .d_query = numbers(d_query),
                                        .d_key = numbers(d_key),
                                        .d_value = numbers(d_value),
                                        .d_write = numbers(d_write),
                                        .d_log_decay = numbers(d_log_decay)},
                                       scratch.data());
        all.insert(all.end(), {output, state, kept, d_state, d_query, d_key, d_value, d_write, d_log_decay});
      }

    const Tensor convolved = zeros(steps - 3), d_x = zeros(steps), d_weight = zeros(4), d_bias = torch::zeros({width});
    const cpu::ShortConvolution convolution{.steps = steps - 3,
                                            .channels = width,
                                            .width = 4,
                                            .x = numbers(query),
                                            .weight = numbers(value),
                                            .bias = numbers(key)};
    kernels->short_convolution(convolution, numbers(convolved));
    kernels->short_convolution_backward(convolution, numbers(d), numbers(d_x), numbers(d_weight), numbers(d_bias));
    all.insert(all.end(), {convolved, d_x, d_weight, d_bias});

    const std::int64_t seed_tick[2] = {9, 4};
    const cpu::AttentionRows rows{.queries = steps,
                                  .keys = steps,
                                  .first_query = 0,
                                  .first_key = 0,
                                  .window = 30,
                                  .scale = 0.7F,
                                  .dropout = DropoutKey(seed_tick, 2, 0.2),
                                  .dropout_row = 11,
                                  .channels = steps};
    const Tensor scores = query.matmul(key.t()), again = scores.clone(), d_weights = d.matmul(value.t());
    const Tensor log_sum = torch::zeros({steps}), dot = d.sum(1);
    kernels->attention_weights(rows, numbers(scores), numbers(log_sum));
    kernels->attention_weights_backward(rows, numbers(log_sum), numbers(dot), numbers(again), numbers(d_weights));
    CHECK(difference(again, scores) < kBound);
    all.insert(all.end(), {scores, log_sum, d_weights});
    if (first.empty()) first = all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(all[i], first[i]) < kBound);
    }
  }
}

TEST_CASE("a linear map, norms and SwiGLU are LibTorch's, with their gradients, on one thread and on several") {
  for (const int count : {1, 3}) {
    const Threads threads(count);
    CAPTURE(count);
    torch::manual_seed(3);
    const Tensor x = torch::randn({5, 107, 20});
    check(
        {x, torch::randn({9, 20}), torch::randn({9})},
        [](const auto& in) -> std::vector<Tensor> { return {cpu::linear(in[0], in[1], in[2])}; },
        [](const auto& in) -> std::vector<Tensor> { return {torch::linear(in[0], in[1], in[2])}; });
    check(
        {x, torch::randn({70, 20})},
        [](const auto& in) -> std::vector<Tensor> { return {cpu::linear(in[0], in[1], {})}; },
        [](const auto& in) -> std::vector<Tensor> { return {torch::linear(in[0], in[1])}; });
    check(
        {x, torch::randn({20})},
        [](const auto& in) -> std::vector<Tensor> { return {cpu::rms_norm(in[0], in[1], 1e-5)}; },
        [](const auto& in) -> std::vector<Tensor> { return {torch::rms_norm(in[0], {20}, in[1], 1e-5)}; });
    check(
        {x}, [](const auto& in) -> std::vector<Tensor> { return {cpu::rms_norm(in[0], {}, 1e-7, 0.25)}; },
        [](const auto& in) -> std::vector<Tensor> { return {0.25 * torch::rms_norm(in[0], {20}, {}, 1e-7)}; });
    check(
        {x, torch::randn({50, 20}), torch::randn({50, 20}), torch::randn({20, 50})},
        [](const auto& in) -> std::vector<Tensor> { return {cpu::swiglu(in[0], in[1], in[2], in[3])}; },
        [](const auto& in) -> std::vector<Tensor> {
          return {torch::linear(torch::silu(torch::linear(in[0], in[1])) * torch::linear(in[0], in[2]), in[3])};
        });
  }
}

TEST_CASE("all heads at once are each by itself; target heads get no gradient") {
  torch::manual_seed(4);
  const std::int64_t width = 20, hidden = 33, actions = 5;
  std::vector<Tensor> inputs{torch::randn({4, 130, width})};
  for (int head = 0; head < 4; ++head)
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{
             {hidden, width}, {hidden}, {hidden, hidden}, {hidden}, {actions, hidden}, {actions}})
      inputs.push_back(0.5 * torch::randn(shape));
  const auto weights = [](const std::vector<Tensor>& in, std::size_t head) {
    const Tensor* const w = &in[1 + head * 6];
    return cpu::HeadWeights{w[0], w[1], w[2], w[3], w[4], w[5]};
  };
  check(
      inputs,
      [&](const auto& in) {
        return cpu::heads(in[0], {weights(in, 0), weights(in, 1)}, {weights(in, 2), weights(in, 3)});
      },
      [&](const auto& in) {
        std::vector<Tensor> outputs;
        for (std::size_t head = 0; head < 4; ++head) {
          const cpu::HeadWeights w = weights(in, head);
          const Tensor h = torch::linear(torch::linear(in[0], w.weight1, w.bias1).relu(), w.weight2, w.bias2).relu();
          const Tensor output = torch::linear(h, w.weight3, w.bias3);
          outputs.push_back(head < 2 ? output : output.detach());
        }
        return outputs;
      });
}

TEST_CASE("an image is encoded as by LibTorch's convolutions, with their gradients") {
  torch::manual_seed(5);
  for (const auto& [channels, rows, columns] :
       std::vector<std::array<std::int64_t, 3>>{{3, 5, 5}, {1, 3, 7}, {4, 8, 3}}) {
    CAPTURE(rows);
    const std::int64_t features = 16 * (rows - 2) * (columns - 2);
    check(
        {torch::randint(256, {130, channels * rows * columns}, torch::kUInt8), torch::randn({8, channels, 2, 2}),
         torch::randn({8}), torch::randn({16, 8, 2, 2}), torch::randn({16}), torch::randn({20, features}),
         torch::randn({20})},
        [&](const auto& in) -> std::vector<Tensor> {
          return {cpu::encode_image(in[0], {channels, rows, columns}, {in[1], in[2], in[3], in[4], in[5], in[6]})};
        },
        [&](const auto& in) -> std::vector<Tensor> {
          const Tensor image = in[0].reshape({-1, channels, rows, columns}).to(torch::kFloat64) / 255;
          const Tensor first = torch::conv2d(image, in[1], in[2]).relu();
          return {torch::linear(torch::conv2d(first, in[3], in[4]).relu().flatten(1), in[5], in[6])};
        });
  }
}

TEST_CASE("what is not a number stays so through every layer, forwards and backwards") {
  torch::manual_seed(8);
  // The first input's last number is none; then neither are the output and the last input's gradient.
  const auto check_spreads = [](const Function& layer, std::vector<Tensor> inputs) {
    inputs[0].view(-1)[-1] = NAN;
    for (Tensor& x : inputs)
      if (x.is_floating_point()) x.requires_grad_();
    const Tensor output = layer(inputs)[0];
    output.sum().backward();
    CHECK(output.isnan().any().item<bool>());
    CHECK(inputs.back().grad().isnan().any().item<bool>());
  };
  const Tensor weight = torch::randn({20, 20}), bias = torch::randn({20});
  check_spreads([](const auto& in) -> std::vector<Tensor> { return {cpu::linear(in[0], in[1], {})}; },
                {torch::randn({9, 20}), weight.clone()});
  check_spreads([](const auto& in) -> std::vector<Tensor> { return {cpu::rms_norm(in[0], in[1], 1e-5)}; },
                {torch::randn({9, 20}), bias.clone()});
  check_spreads([](const auto& in) -> std::vector<Tensor> { return {cpu::swiglu(in[0], in[1], in[2], in[3])}; },
                {torch::randn({9, 20}), weight.clone(), weight.clone(), weight.clone()});
  check_spreads(
      [&](const auto& in) {
        return cpu::heads(in[0], {{in[1], bias, in[2], bias, in[3], bias}}, {});
      },
      {torch::randn({9, 20}), weight.clone(), weight.clone(), weight.clone()});
  const Tensor image = torch::randint(256, {9, 3 * 5 * 5}, torch::kUInt8);
  check_spreads(
      [&](const auto& in) -> std::vector<Tensor> {
        return {cpu::encode_image(image, {3, 5, 5}, {in[1], in[0], in[2], torch::zeros({16}), in[3], bias})};
      },
      {torch::randn({8}), torch::randn({8, 3, 2, 2}), torch::randn({16, 8, 2, 2}), torch::randn({20, 16 * 9})});
}

TEST_CASE("dropout in float32 drops what it drops in float64, with and without a sum, backwards too") {
  struct Module : torch::nn::Module {
    std::shared_ptr<Dropout> dropout = register_module("dropout", std::make_shared<Dropout>(0.4));
  } module;
  const auto clock = seed_dropout(module, 11);
  clock->tick();
  torch::manual_seed(6);
  check(
      {torch::randn({3, 50, 21})},
      [&](const auto& in) -> std::vector<Tensor> { return {module.dropout->forward(in[0])}; },
      [&](const auto& in) -> std::vector<Tensor> { return {module.dropout->forward(in[0])}; });
  check(
      {torch::randn({3, 50, 21}), torch::randn({3, 50, 21})},
      [&](const auto& in) -> std::vector<Tensor> { return {module.dropout->add(in[0], in[1])}; },
      [&](const auto& in) -> std::vector<Tensor> { return {module.dropout->add(in[0], in[1])}; });
}

TEST_CASE("loops that are off leave this thread's operations to LibTorch until the scope ends") {
  const Tensor x = torch::ones({2, 3});
  CHECK(cpu::takes(x));
  {
    const PlainOperations off(true);
    CHECK_FALSE(cpu::takes(x));
    {
      const PlainOperations inner(false);
      CHECK_FALSE(cpu::takes(x));
    }
    CHECK_FALSE(cpu::takes(x));
    std::thread([&] { CHECK(cpu::takes(x)); }).join();
  }
  CHECK(cpu::takes(x));
}
