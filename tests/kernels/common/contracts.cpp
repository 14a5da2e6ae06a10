// What the kernels' launchers refuse, before they launch anything.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/block/elementwise.h"
#include "kernels/block/gradient_sums.h"
#include "kernels/block/pack.h"
#include "kernels/block/row_norm.h"
#include "kernels/block/small_product/small_product.h"
#include "kernels/common/cuda_support.h"
#include "kernels/fast_weights/delayed_memory/delayed_memory.h"
#include "kernels/fast_weights/delta_rule/chain.h"
#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "kernels/fast_weights/delta_rule/step.h"
#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"
#include "kernels/fast_weights/passes/passes.h"
#include "kernels/learner/advantages/advantages.h"
#include "kernels/learner/ppo_loss/ppo_loss.h"
#include "kernels/learner/sac_loss/sac_loss.h"
#include "kernels/recurrences/linear_recurrence/linear_recurrence.h"
#include "tests/kernels/heads/mlp_heads_case.h"
#include "tests/kernels/heads/narrow_heads_case.h"

using namespace engram;

namespace {

// Whether the call throws for what it was given. A failure of CUDA does not count: without a GPU every launch fails.
template <typename Call>
bool refused(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return std::string(error.what()).find("cudaError") == std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("a failed call throws what was tried and why") {
  CHECK_NOTHROW(check_cuda(cudaSuccess, "nothing"));
  CHECK_THROWS_WITH(check_cuda(cudaErrorInvalidValue, "a copy"), "a copy: cudaErrorInvalidValue: invalid argument");
}

TEST_CASE("the delta rule refuses shapes outside the contract") {
  CHECK_THROWS_WITH(delta_rule_saved_bytes({1, 8, 1, 51}, Dtype::kFloat32),
                    "delta rule: head width 51 is not an even number from 2 to 128");
  CHECK(refused([] { delta_rule_saved_bytes({1, 8, 1, 130}, Dtype::kFloat32); }));
  CHECK(refused([] { delta_rule_saved_bytes({0, 8, 1, 64}, Dtype::kFloat32); }));
  DeltaRuleStep step{};
  step.rows = step.heads = 1;
  step.width = 51;
  CHECK(refused([&] { delta_rule_step(step, nullptr); }));
  step.width = 50;
  float key_sum[50] = {};
  for (const DeltaRuleStepRows& rows : {DeltaRuleStepRows{50, 50, 49, nullptr}, DeltaRuleStepRows{50, 48, 50, nullptr},
                                        DeltaRuleStepRows{49, 50, 50, nullptr}, DeltaRuleStepRows{50, 50, 50, key_sum},
                                        DeltaRuleStepRows{50, 50, 56, key_sum}})  // the last of the delta rule
    CHECK(refused([&] { delta_rule_step(step, rows, nullptr); }));
}

TEST_CASE("sequences are cut into segments where they are few and long") {
  const auto segments = [](DeltaRuleShape shape) { return delta_rule_segments(shape, Dtype::kBfloat16); };
  CHECK(segments({64, 781, 2, 56}) == 1);  // the learner's
  CHECK(segments({1, 781, 2, 56}) == 1);
  CHECK(segments({8, 1024, 16, 128}) == 1);
  CHECK(segments({2, 4096, 8, 128}) == 1);
  CHECK(segments({1, 8192, 8, 128}) == 8);
  CHECK(segments({1, 2048, 8, 128}) == 4);
  CHECK(segments({1, 1900, 8, 128}) == 1);
  CHECK(segments({1, 8192, 2, 64}) == 16);
  CHECK(segments({1, 65536, 1, 64}) == 64);
  CHECK(delta_rule_segments({1, 8192, 8, 128}, Dtype::kFloat32) == 1);
  // As many as are asked for, but at most one a chunk, and no more than equal lengths fill.
  CHECK(segments({1, 640, 1, 64, 4}) == 4);
  CHECK(segments({1, 640, 1, 64, 100}) == 10);
  CHECK(segments({1, 640, 1, 64, 6}) == 5);
  CHECK(segments({1, 8192, 8, 128, 1}) == 1);
  CHECK(refused([] { delta_rule_segments({1, 640, 1, 64, -1}, Dtype::kFloat32); }));
  // Buffers have room for what joins segments: forward three states for all but one, backward one.
  constexpr std::size_t kJoint = 2 * 2 * 64 * 64 * sizeof(float);
  CHECK(delta_rule_saved_bytes({1, 781, 2, 56, 3}, Dtype::kBfloat16) ==
        delta_rule_saved_bytes({1, 781, 2, 56, 1}, Dtype::kBfloat16) + 3 * kJoint);
  CHECK(delta_rule_backward_scratch_bytes({1, 781, 2, 56, 3}, Dtype::kFloat32) ==
        delta_rule_backward_scratch_bytes({1, 781, 2, 56, 1}, Dtype::kFloat32) + kJoint);
}

TEST_CASE("a warpgroup walks the delta rule's chunks of aligned heads alone") {
  alignas(16) static constexpr char memory[32] = {};
  const DeltaRuleInput taken{{3, 100, 2, 56}, Dtype::kBfloat16, 1.0f,   3 * 112, memory,
                             memory,          memory + 16,      memory, nullptr};
  const auto reason = [&](auto change) {
    DeltaRuleInput input = taken;
    change(input);
    return supports_delta_rule_warpgroup_sizes(input).reason();
  };
  CHECK(reason([](DeltaRuleInput&) {}).empty());
  CHECK(reason([](DeltaRuleInput& input) { input.shape.width = 64; }).empty());
  CHECK(reason([](DeltaRuleInput& input) { input.shape.width = 8; }).empty());
  CHECK(reason([](DeltaRuleInput& input) { input.shape.width = 72, input.row_stride = 144; }).empty());
  CHECK(reason([](DeltaRuleInput& input) { input.shape.segments = 2; }) == "a sequence of narrow heads in 2 segments");
  CHECK(reason([](DeltaRuleInput& input) { input.shape.width = 128, input.shape.segments = 2; }).empty());
  CHECK(reason([](DeltaRuleInput& input) { input.shape.width = 50; }) == "rows aligned to 4 bytes, not 16");
  CHECK(reason([](DeltaRuleInput& input) { input.row_stride += 4; }) == "rows aligned to 8 bytes, not 16");
  CHECK(reason([](DeltaRuleInput& input) { input.k_BTHD = memory + 2; }) == "rows aligned to 4 bytes, not 16");
  CHECK(reason([](DeltaRuleInput& input) { input.dtype = Dtype::kFloat32; }) == "float32");
  CHECK(reason([](DeltaRuleInput& input) { input.write = FastWeightWrite::kSum; }) == "the sum rule");
  static constexpr float decay = 0;
  CHECK(reason([](DeltaRuleInput& input) { input.log_decay_BTH = &decay; }).empty());
  const auto pays = [&](DeltaRuleShape shape) {
    DeltaRuleInput input = taken;
    input.shape = shape;
    return delta_rule_warpgroup_pays(input);
  };
  CHECK(pays({1, 100, 1, 64}));
  CHECK(pays({8, 1024, 8, 128}));
  CHECK_FALSE(pays({7, 1024, 9, 128}));
  CHECK(pays({1, 8192, 8, 128}));  // in eight segments
  CHECK_FALSE(pays({1, 8192, 8, 128, 4}));
  CHECK(supports_delta_rule_warpgroup(taken, memory + 8).reason() ==
        "an output or a gradient of it that is not aligned to 16 bytes");
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

TEST_CASE("a step of the delayed fast weights refuses shapes outside the contract") {
  DelayedMemoryStep step{};
  const auto refuses = [&] { return refused([&] { delayed_memory_step(step, nullptr); }); };
  step.rows = step.heads = 1, step.width = 50, step.output_width = 49;
  CHECK_THROWS_WITH(delayed_memory_step(step, nullptr), "delayed memory: 1 rows of 1 heads of 50 elements, read as 49");
  step.output_width = 56;
  CHECK_THROWS_WITH(delayed_memory_step(step, nullptr), "delayed memory: a ring of no slots");
  step.slots = 4, step.rotary_width = 51;
  CHECK_THROWS_WITH(delayed_memory_step(step, nullptr),
                    "delayed memory: rotary width 51 is not an even number from 0 to 50");
  step.rotary_width = 52;
  CHECK(refuses());
  step.rotary_width = 50, step.output_width = 65;
  CHECK(refuses());
  step.width = step.output_width = 129;
  CHECK(refuses());
  step.width = step.output_width = 128, step.rows = 1 << 20, step.heads = 1 << 20;
  CHECK(refuses());
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
    const ReluBiasGradient gradient{1, columns, Dtype::kFloat32, nullptr, 0, nullptr, 0, nullptr, 0, nullptr};
    CHECK(refused([&] { relu_bias_backward(gradient, nullptr, nullptr); }));
  }
}

TEST_CASE("fast weights' passes refuse shapes outside the contract") {
  namespace passes = fast_weight_passes;
  const passes::FeaturePart part{passes::Map::kSilu, passes::FeatureNorm::kLength, {}, 50, 50, 1, false};
  const passes::Features good{
      {2, 8, 2, 56, 56, 344}, Dtype::kFloat32, {part, part, part}, nullptr, nullptr, nullptr, nullptr};
  const auto refuses = [&](auto change) {
    passes::Features features = good;
    change(features);
    return refused([&] { passes::features_backward_scratch_bytes(features); });
  };
  CHECK_FALSE(refuses([](passes::Features&) {}));
  CHECK(refuses([](passes::Features& f) { f.shape.padded = 50; }));
  CHECK(refuses([](passes::Features& f) { f.shape.features_padded = 136; }));
  CHECK(refuses([](passes::Features& f) { f.shape.projected_stride = 340; }));
  CHECK(refuses([](passes::Features& f) { f.shape.steps = 0; }));
  CHECK(refuses([](passes::Features& f) { f.part[1].channels = 48; }));
  CHECK(refuses([](passes::Features& f) { f.part[2].features = 51; }));
  CHECK(refuses([](passes::Features& f) { f.part[0].map = passes::Map::kDpfp, f.part[0].features = 100; }));
  CHECK(refuses([](passes::Features& f) { f.part[0].map = passes::Map::kFavor; }));  // without directions
  const float number = 0;
  CHECK(refuses([&](passes::Features& f) { f.bias = &number; }));  // without a convolution
  CHECK(refuses([&](passes::Features& f) { f.convolution = &number, f.part[1].drops_first = true; }));
  CHECK(refused([&] {
    passes::Features features = good;
    features.convolution = &number;
    passes::features_backward(features, {nullptr, &number}, nullptr, nullptr, nullptr);
  }));
  passes::Answer answer{{passes::AnswerNorm::kSum, passes::AnswerGate::kNone, 56, 1e-6f},
                        1,
                        2,
                        56,
                        56,
                        Dtype::kFloat32,
                        344,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr,
                        0,
                        nullptr,
                        0,
                        nullptr};
  CHECK_THROWS_WITH(passes::answer_forward(answer, nullptr, nullptr),
                    "answers of fast weights: 1 rows of 2 heads of 57 elements stored as 56, 56 of them then as 56, "
                    "projections 344 apart");
  answer.kind.norm = passes::AnswerNorm::kNone, answer.skip_H = &number, answer.values_stride = 4;
  CHECK_THROWS_WITH(passes::answer_forward(answer, nullptr, nullptr),
                    "answers of fast weights: 1 rows of 2 heads of 56 elements stored as 56, 56 of them then as 56, "
                    "projections 344 apart, with a skip of values 4 apart");
  const auto refuses_strengths = [](passes::Write write, int rows, int steps) {
    return refused([&] {
      passes::strengths_backward_scratch_bytes(
          {{write, passes::LogDecay::kNone, 1}, rows, steps, 2, Dtype::kFloat32, 8, {}, {}, {}, {}});
    });
  };
  CHECK(refuses_strengths(passes::Write::kSigmoid, 0, 1));
  CHECK_FALSE(refuses_strengths(passes::Write::kSigmoid, 10, 0));
  CHECK_FALSE(refuses_strengths(passes::Write::kExponential, 10, 5));
  CHECK(refuses_strengths(passes::Write::kExponential, 10, 4));
  CHECK(refuses_strengths(passes::Write::kExponential, 10, 0));
  const auto columns = [](passes::Write write, passes::LogDecay decay) {
    return passes::logit_columns({write, decay, 1}, 5);
  };
  CHECK(columns(passes::Write::kOne, passes::LogDecay::kFixed) == 0);
  CHECK(columns(passes::Write::kSigmoid, passes::LogDecay::kOfWrite) == 8);
  CHECK(columns(passes::Write::kSigmoid, passes::LogDecay::kScalar) == 16);
  CHECK(columns(passes::Write::kExponential, passes::LogDecay::kNone) == 8);
}

TEST_CASE("a mix of fast weights' answers with a window's refuses what is outside the contract") {
  namespace passes = fast_weight_passes;
  const float number = 0;
  const passes::Answer good{
      .kind = {passes::AnswerNorm::kNone, passes::AnswerGate::kNone, 50, 1e-5f, passes::Mix::kSum},
      .rows = 1,
      .heads = 2,
      .padded = 56,
      .features_padded = 56,
      .dtype = Dtype::kFloat32,
      .projected_stride = 400,
      .gate = nullptr,
      .answer = nullptr,
      .weight = nullptr,
      .one = nullptr,
      .skip_H = nullptr,
      .skip_scale = 0,
      .values = nullptr,
      .values_stride = 0,
      .window = &number};
  const auto call = [&](auto change) {
    return [=] {
      passes::Answer answer = good;
      change(answer);
      passes::answer_backward_scratch_bytes(answer);
    };
  };
  CHECK(refused(call([](passes::Answer& a) { a.padded = 50; })));
  CHECK(refused(call([](passes::Answer& a) { a.kind.channels = 130, a.padded = a.features_padded = 136; })));
  CHECK(refused(call([](passes::Answer& a) { a.projected_stride = 401; })));
  CHECK(refused(call([](passes::Answer& a) { a.rows = 0; })));
  CHECK(refused(call([](passes::Answer& a) { a.kind.mix = passes::Mix::kScalar; })));  // without gates
  CHECK_THROWS_WITH(call([](passes::Answer& a) { a.kind.mix = passes::Mix::kNone, a.kind.branch_norm = true; })(),
                    "answers of fast weights: branch_norm without a mix");
  CHECK_THROWS_WITH(call([](passes::Answer& a) { a.kind.gate = passes::AnswerGate::kSilu; })(),
                    "answers of fast weights: a mix with an output gate");
  CHECK_THROWS_WITH(call([&](passes::Answer& a) { a.skip_H = &number; })(),
                    "answers of fast weights: a mix with a skip");
  CHECK_THROWS_WITH(call([](passes::Answer& a) { a.window = nullptr; })(),
                    "answers of fast weights: a mix without a window");
}

TEST_CASE("the gates of fast weights' answers have columns in multiples of eight") {
  namespace passes = fast_weight_passes;
  const auto columns = [](passes::AnswerGate gate, passes::Mix mix, int heads) {
    return passes::gate_columns({passes::AnswerNorm::kNone, gate, 50, 1e-5f, mix}, heads, 56);
  };
  CHECK(columns(passes::AnswerGate::kNone, passes::Mix::kNone, 3) == 0);
  CHECK(columns(passes::AnswerGate::kSilu, passes::Mix::kNone, 3) == 168);
  CHECK(columns(passes::AnswerGate::kNone, passes::Mix::kSum, 3) == 0);
  CHECK(columns(passes::AnswerGate::kNone, passes::Mix::kScalar, 3) == 8);
  CHECK(columns(passes::AnswerGate::kNone, passes::Mix::kScalar, 5) == 16);
  CHECK(columns(passes::AnswerGate::kNone, passes::Mix::kVector, 3) == 168);
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

TEST_CASE("Hadamard memory refuses shapes outside the contract") {
  HadamardMemory memory{};
  memory.batch = 1, memory.time = 8, memory.width = 129;
  CHECK_THROWS_WITH(hadamard_memory_forward(memory, nullptr, nullptr, nullptr, nullptr),
                    "Hadamard memory: 1 rows of 8 steps with 129 rows and columns");
  CHECK(refused([&] { hadamard_memory_backward(memory, {}, {}, nullptr, nullptr); }));
  const auto refuses = [&] { return refused([&] { hadamard_memory_checkpoint_bytes(memory); }); };
  memory.width = 0;
  CHECK(refuses());
  memory.width = 128, memory.time = 0;
  CHECK(refuses());
  memory.time = (1 << 30) + 1;
  CHECK(refuses());
  memory.time = 9, memory.batch = 0;
  CHECK(refuses());
  memory.batch = 1 << 28;
  CHECK(refuses());
  memory.batch = 3;
  CHECK(hadamard_memory_checkpoint_bytes(memory) == std::size_t{3} * 2 * 128 * 128 * 5);
  CHECK(hadamard_memory_scratch_bytes(memory) == std::size_t{3} * 2 * 128 * 128 * 4);
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
