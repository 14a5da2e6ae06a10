// What the kernels' launchers refuse, before they launch anything. Those of fast weights have a file of their own
// there.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/block/elementwise.h"
#include "kernels/block/gradient_sums.h"
#include "kernels/block/pack.h"
#include "kernels/block/row_norm.h"
#include "kernels/block/small_product/small_product.h"
#include "kernels/common/cuda_support.h"
#include "kernels/learner/advantages/advantages.h"
#include "kernels/learner/ppo_loss/ppo_loss.h"
#include "kernels/learner/sac_loss/sac_loss.h"
#include "kernels/recurrences/linear_recurrence/linear_recurrence.h"
#include "tests/kernels/common/refused.h"
#include "tests/kernels/heads/mlp_heads_case.h"
#include "tests/kernels/heads/narrow_heads_case.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("a failed call throws what was tried and why") {
  CHECK_NOTHROW(check_cuda(cudaSuccess, "nothing"));
  CHECK_THROWS_WITH(check_cuda(cudaErrorInvalidValue, "a copy"), "a copy: cudaErrorInvalidValue: invalid argument");
}

TEST_CASE("attention refuses shapes outside the contract") {
  CHECK_THROWS_WITH(attention_backward_scratch_bytes({1, 8, 1, 51}),
                    "attention: head width 51 is not an even number from 2 to 128");
  CHECK(refused([] { attention_backward_scratch_bytes({1, 8, 1, 130}); }));
  CHECK(refused([] { attention_backward_scratch_bytes({0, 8, 1, 64}); }));
  AttentionInput input{{1, 8, 1, 64},  Dtype::kFloat32, 1.0f,           4,       64, 64,
                       {nullptr, 192}, {nullptr, 192},  {nullptr, 192}, nullptr, {}};
  const auto forward = [&] { attention_forward(input, nullptr, nullptr, nullptr); };
  input.window = 0;
  CHECK_THROWS_WITH(forward(), "attention: window 0 is not at least 1");
  input.window = 4, input.rotary_width = 66;
  CHECK(refused(forward));
  input.rotary_width = 64, input.q.row_stride = 191;
  CHECK(refused(forward));
}

TEST_CASE("a step of attention refuses a ring of no slots") {
  AttentionStep step{};
  step.rows = step.heads = 1, step.width = 50, step.scale = 1;
  CHECK_THROWS_WITH(attention_step(step, nullptr), "attention: a ring of no slots");
  step.ring.slots = 1;
  for (const int output_width : {0, 49, 65}) {
    step.output_width = output_width;
    CHECK(refused([&] { attention_step(step, nullptr); }));
  }
  step.width = 51;
  CHECK(refused([&] { attention_step(step, nullptr); }));
}

TEST_CASE("passes by element refuse shapes outside the contract") {
  DropoutAdd dropout{0, 8, 8, 8, Dtype::kFloat32, {}, nullptr, nullptr};
  CHECK_THROWS_WITH(dropout_add(dropout, nullptr, nullptr), "dropout_add: 0 rows of 8 elements, 8 and 8 apart");
  dropout.rows = 1, dropout.width = 9;
  CHECK(refused([&] { dropout_add(dropout, nullptr, nullptr); }));
  CHECK_THROWS_WITH(swiglu_forward(1, 12, Dtype::kFloat32, nullptr, nullptr, nullptr),
                    "swiglu: 1 rows of inner width 12");
  CHECK(refused([] { swiglu_backward(0, 8, Dtype::kFloat32, nullptr, nullptr, nullptr, nullptr); }));
  for (const int columns : {4, 12, 1032}) {
    CAPTURE(columns);
    const ReluBiasGradient gradient{1, columns, Dtype::kFloat32, nullptr, 0, 0, nullptr, 0, nullptr, 0, nullptr};
    CHECK(refused([&] { relu_bias_backward(gradient, nullptr, nullptr); }));
    const ScaledAdd scaled{1, columns, Dtype::kFloat32, nullptr, nullptr};
    CHECK(refused([&] { scaled_add(scaled, nullptr, nullptr, nullptr); }));
    CHECK(refused([&] { scaled_add_backward(scaled, nullptr, nullptr, nullptr, nullptr); }));
  }
}

TEST_CASE("packing refuses shapes outside the contract") {
  PackedMatrix matrix{Dtype::kFloat32, 8, 8, nullptr, {}};
  const auto call = [&] { pack({matrix}, nullptr); };
  CHECK_THROWS_WITH(call(), "pack: 0 segments in 8 x 8");
  const PackGroups five{5, 5, 6}, seven{7, 7, 8}, nine{9, 3, 4};
  matrix.segments = {{nullptr, 1, five, seven}};
  CHECK_THROWS_WITH(call(), "pack: no segment at row 0 in 8 x 8");
  matrix.segments = {{nullptr, 5, {1, 1, 1}, seven}, {nullptr, 0, five, seven}};  // over each other
  CHECK_THROWS_WITH(call(), "pack: a segment of 6 x 8 at row 0 of 5 in 8 x 8");
  matrix.segments = {{nullptr, 0, nine, seven}};
  CHECK(refused(call));
  matrix.segments = {{nullptr, 0, five, nine}};
  CHECK(refused(call));
  matrix.segments = {{nullptr, 0, five, seven}}, matrix.rows = 0;
  CHECK(refused(call));
}

TEST_CASE("sums of gradients refuse shapes outside the contract") {
  const GradientSum good = vector_sum(nullptr, 3, 8, 7, nullptr);
  GradientSum sum = good;
  const auto call = [&] { add_up({good, sum}, nullptr); };
  sum.count = 0;
  CHECK_THROWS_WITH(call(), "add_up: 0 matrices of 1 x 7 elements in rows of 8");
  sum = good, sum.stride = 6;
  CHECK(refused(call));
  sum = good, sum.rows.count = 0;
  CHECK(refused(call));
  sum = good, sum.columns = {7, 4, 3};
  CHECK(refused(call));
  sum = good, sum.rows = {1 << 28, 1, 1};
  CHECK(refused(call));
}

TEST_CASE("a norm refuses shapes outside the contract") {
  RowNorm norm{NormKind::kRms, 1, 50, 56, 1e-5f, Dtype::kFloat32, nullptr, nullptr, nullptr};
  const auto forward = [&] { residual_norm_forward(norm, {{}, nullptr, 56, nullptr, nullptr}, nullptr, nullptr); };
  norm.rows = 0;
  CHECK_THROWS_WITH(forward(), "row_norm: 0 rows of 50 elements, 56 and 56 apart");
  norm.rows = 1, norm.stride = 50;
  CHECK(refused(forward));
  norm.width = 57, norm.stride = 56;
  CHECK(refused(forward));
  norm.width = 1025, norm.stride = 1032;
  CHECK(refused(forward));
  norm.width = 50, norm.stride = 56;
  CHECK(refused([&] { residual_norm_forward(norm, {{}, nullptr, 50, nullptr, nullptr}, nullptr, nullptr); }));
}

TEST_CASE("heads refuse shapes outside the contract") {
  CHECK_THROWS_WITH(mlp_heads_pack({0, 100, 112, kMlpHeadsHidden, 4, 1, 1}, {}, nullptr, nullptr),
                    "mlp_heads_pack: 0 rows are not 1 .. 2^31 - 1");
  for (const MlpHeadsShape& shape : testing::kMlpHeadsRefused) {
    const std::string name = testing::text(shape);
    INFO(name);
    MlpHeadsForward forward{};
    MlpHeadsBackward backward{};
    forward.shape = backward.shape = shape;
    CHECK(refused([&] { mlp_heads_forward(forward, nullptr); }));
    CHECK(refused([&] { mlp_heads_backward(backward, nullptr, nullptr); }));
  }
}

TEST_CASE("narrow heads refuse shapes outside the contract") {
  const auto hidden = [](int width) { return supports_narrow_heads_sizes({1, 100, 112, width, 4, 5, 3}).reason(); };
  CHECK(hidden(64).empty());
  CHECK(hidden(128).empty());
  CHECK(hidden(96) == "hidden width 96 is not 64 or 128");
  for (const MlpHeadsShape& shape : testing::narrow_heads_refused()) {
    const std::string name = testing::text(shape);
    INFO(name);
    NarrowHeadsForward forward{};
    NarrowHeadsBackward backward{};
    forward.shape = backward.shape = shape;
    CHECK_FALSE(supports_narrow_heads(shape));
    CHECK(refused([&] { narrow_heads_forward(forward, nullptr); }));
    CHECK(refused([&] { narrow_heads_backward(backward, nullptr, nullptr); }));
  }
  NarrowHeadsBackward of_none{};
  of_none.shape = {1, 100, 112, 64, 4, 2, 0};
  CHECK_THROWS_WITH(narrow_heads_backward(of_none, nullptr, nullptr), "narrow_heads_backward: no head was kept");
}

TEST_CASE("small products refuse what is outside the contract") {
  alignas(16) static char memory[32] = {};
  const SmallProduct taken{.rows = 70,
                           .inner = 64,
                           .columns = 48,
                           .a = memory,
                           .a_stride = 64,
                           .b = memory,
                           .b_stride = 48,
                           .b_transposed = false,
                           .bias = nullptr,
                           .relu = false,
                           .c = memory,
                           .c_stride = 48};
  CHECK(supports_small_product(taken));
  const auto reason = [&](auto change) {
    SmallProduct product = taken;
    change(product);
    CHECK(refused([&] { small_product(product, nullptr); }));
    return supports_small_product(product).reason();
  };
  using P = SmallProduct;
  CHECK(reason([](P& p) { p.rows = 0; }) == "0 rows are not 1 to 16384");
  CHECK(reason([](P& p) { p.rows = kSmallProductRows + 1; }) == "16385 rows are not 1 to 16384");
  CHECK(reason([](P& p) { p.inner = 60; }) == "60 inner elements are not 1 to 512 in multiples of 8");
  CHECK(reason([](P& p) { p.inner = p.a_stride = 520; }) == "520 inner elements are not 1 to 512 in multiples of 8");
  CHECK(reason([](P& p) { p.columns = 44; }) == "44 columns are not 1 to 1024 in multiples of 8");
  CHECK(reason([](P& p) { p.columns = 1032; }) == "1032 columns are not 1 to 1024 in multiples of 8");
  CHECK(reason([](P& p) {
          p.rows = kSmallProductRows;
          p.inner = p.a_stride = 512;
        }) == "402653184 multiplications are not 1 to 268435456");
  CHECK(reason([](P& p) { p.a_stride = 56; }) == "A's stride 56 is less than a row of 64 or no multiple of 8");
  CHECK(reason([](P& p) { p.b_transposed = true; }) == "B's stride 48 is less than a row of 64 or no multiple of 8");
  CHECK(reason([](P& p) { p.c_stride = 52; }) == "C's stride 52 is less than a row of 48 or no multiple of 8");
  CHECK(reason([](P& p) { p.a = memory + 2; }) == "A is not at a multiple of 16 bytes");
  CHECK(reason([](P& p) { p.b = memory + 8; }) == "B is not at a multiple of 16 bytes");
  CHECK(reason([](P& p) { p.bias = memory + 4; }) == "the bias is not at a multiple of 16 bytes");
  CHECK(reason([](P& p) { p.c = memory + 8; }) == "C is not at a multiple of 16 bytes");
}

TEST_CASE("small gradients refuse what is outside the contract, and have few parts") {
  alignas(16) static char memory[32] = {};
  const SmallGradient taken{.rows = 70,
                            .outputs = 64,
                            .inputs = 48,
                            .a = memory,
                            .a_stride = 64,
                            .b = memory,
                            .b_stride = 48,
                            .parts = reinterpret_cast<float*>(memory)};
  CHECK(supports_small_gradient(taken));
  const auto reason = [&](auto change) {
    SmallGradient gradient = taken;
    change(gradient);
    CHECK(refused([&] { small_gradient(gradient, nullptr); }));
    return supports_small_gradient(gradient).reason();
  };
  using G = SmallGradient;
  CHECK(reason([](G& g) { g.rows = 0; }) == "0 rows are not 1 to 16384");
  CHECK(reason([](G& g) { g.outputs = 60; }) == "60 outputs are not 1 to 1024 in multiples of 8");
  CHECK(reason([](G& g) { g.inputs = 1032; }) == "1032 inputs are not 1 to 1024 in multiples of 8");
  CHECK(reason([](G& g) {
          g.rows = kSmallProductRows;
          g.outputs = g.a_stride = 512;
        }) == "402653184 multiplications are not 1 to 268435456");
  CHECK(reason([](G& g) { g.a_stride = 56; }) == "A's stride 56 is less than a row of 64 or no multiple of 8");
  CHECK(reason([](G& g) { g.b = memory + 8; }) == "B is not at a multiple of 16 bytes");
  CHECK(reason([](G& g) { g.parts = nullptr, g.a = memory + 2; }) == "A is not at a multiple of 16 bytes");
  CHECK(small_gradient_part_rows(1) == 256);
  CHECK(small_gradient_parts(256) == 1);
  CHECK(small_gradient_parts(257) == 2);
  CHECK(small_gradient_part_rows(3776) == 256);
  CHECK(small_gradient_part_rows(8576) == 576);
  for (const std::int64_t rows : {4096, 4097, 8576, 16384}) CHECK(small_gradient_parts(rows) <= 16);
}

TEST_CASE("the linear recurrence refuses shapes outside the contract") {
  LinearRecurrence recurrence{0, 8, 4, RecurrenceNumber::kFloat32, false, nullptr, nullptr, nullptr};
  const auto forward = [&] { linear_recurrence_forward(recurrence, nullptr, nullptr, nullptr, nullptr); };
  const auto backward = [&] { linear_recurrence_backward(recurrence, {}, {}, nullptr, nullptr); };
  CHECK_THROWS_WITH(forward(), "linear recurrence: 0 rows of 8 steps of 4 channels: all must be positive");
  CHECK(refused(backward));
  recurrence.batch = 1, recurrence.time = 0;
  CHECK(refused(forward));
  recurrence.time = 1 << 30, recurrence.width = 0;
  CHECK(refused(forward));
  recurrence.width = 1, recurrence.time += 1;
  CHECK_THROWS_WITH(forward(),
                    "linear recurrence: 1 rows of 1073741825 steps of 1 channels: more than 1073741824 steps");
  recurrence.time = 1, recurrence.batch = 1 << 20, recurrence.width = 1 << 16;
  CHECK(refused(forward));
  recurrence.batch = 1, recurrence.width = 1 << 30, recurrence.number = RecurrenceNumber::kComplex64;
  CHECK(refused(backward));
  recurrence.width = 3, recurrence.batch = 5;
  CHECK(linear_recurrence_backward_scratch_bytes(recurrence) == 0);
  recurrence.constant = true;
  CHECK(linear_recurrence_backward_scratch_bytes(recurrence) == 5 * 3 * 8);
  LinearRecurrenceStep step{};
  step.rows = 1 << 16, step.width = 1 << 16;
  CHECK_THROWS_WITH(linear_recurrence_step(step, nullptr), "linear recurrence step: 65536 rows of 65536 channels");
  step.rows = 0;
  CHECK(refused([&] { linear_recurrence_step(step, nullptr); }));
}

TEST_CASE("losses refuse shapes outside the contract") {
  SacLossInput input{};
  const auto loss = [&] { sac_loss(input, {}, nullptr, nullptr); };
  input.batch = input.time = 1, input.actions = 4, input.stride = 3;
  CHECK_THROWS_WITH(loss(), "sac_loss: 1 episodes of 1 steps, 4 actions in rows of 3");
  input.stride = 40, input.actions = 33;
  CHECK(refused(loss));
  input.actions = 4, input.time = 0;
  CHECK(refused(loss));
}

TEST_CASE("the losses of PPO and its advantages refuse shapes outside the contract") {
  PpoLossInput input{};
  const auto loss = [&] { ppo_loss(input, {}, nullptr, nullptr); };
  input.batch = input.time = 1, input.actions = 4, input.stride = 3, input.value_stride = 1;
  CHECK_THROWS_WITH(loss(), "ppo_loss: 1 episodes of 1 steps, 4 actions in rows of 3, values in rows of 1");
  input.stride = 300, input.actions = 257;
  CHECK(refused(loss));
  input.actions = 4, input.value_stride = 0;
  CHECK(refused(loss));
  input.value_stride = 1, input.time = 0;
  CHECK(refused(loss));
  AdvantageInput episodes{};
  episodes.batch = 2;
  CHECK_THROWS_WITH(estimate_advantages(episodes, nullptr, nullptr), "estimate_advantages: 2 episodes of 0 steps");
}
