// What the launchers of fast weights' kernels refuse, before they launch anything.
#include <doctest/doctest.h>

#include <cstddef>

#include "kernels/fast_weights/delayed_memory/delayed_memory.h"
#include "kernels/fast_weights/delta_rule/chain.h"
#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "kernels/fast_weights/delta_rule/step.h"
#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"
#include "kernels/fast_weights/passes/passes.h"
#include "tests/kernels/common/refused.h"

using namespace engram;
using namespace engram::testing;

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
  // Behind a convolution queries and keys drop first, both, and a window reads rows of its own.
  float read = 0;
  const auto beside = [&](passes::Features& f) {
    f.convolution = &number, f.part[0].drops_first = f.part[1].drops_first = true, f.window_rows = &read;
  };
  CHECK_FALSE(refuses(beside));
  CHECK(refuses([&](passes::Features& f) { beside(f), f.part[0].drops_first = false; }));
  CHECK(refuses([&](passes::Features& f) { beside(f), f.part[1].drops_first = false; }));
  CHECK(refuses([&](passes::Features& f) { beside(f), f.part[2].drops_first = true; }));
  CHECK(refuses([&](passes::Features& f) { beside(f), f.window_rows = nullptr; }));
  CHECK(refuses([&](passes::Features& f) { beside(f), f.convolution = nullptr; }));
  const auto refuses_gradient = [&](auto change, const passes::FeaturesGradient& gradient) {
    passes::Features features = good;
    change(features);
    return refused([&] { passes::features_backward(features, gradient, nullptr, nullptr, nullptr); });
  };
  CHECK(refuses_gradient(beside, {nullptr, &number, nullptr}));
  CHECK(refuses_gradient([&](passes::Features& f) { f.convolution = &number; }, {nullptr, &number}));
  CHECK(refuses_gradient([&](passes::Features& f) { f.convolution = &number; }, {nullptr, nullptr, &number}));
  CHECK(refuses_gradient([](passes::Features&) {}, {nullptr, nullptr, &number}));
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
      .mix_gate = nullptr,
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
  CHECK(refused(call([](passes::Answer& a) { a.kind.gate = passes::AnswerGate::kSilu; })));
  CHECK_THROWS_WITH(call([](passes::Answer& a) { a.kind.mix = passes::Mix::kNone, a.kind.branch_norm = true; })(),
                    "answers of fast weights: branch_norm without a mix");
  CHECK_THROWS_WITH(call([&](passes::Answer& a) { a.skip_H = &number; })(),
                    "answers of fast weights: a mix with a skip");
  CHECK_THROWS_WITH(call([](passes::Answer& a) { a.window = nullptr; })(),
                    "answers of fast weights: a mix without a window");
}

TEST_CASE("the gates of fast weights' answers have columns in multiples of eight") {
  namespace passes = fast_weight_passes;
  CHECK(passes::gate_columns(passes::AnswerGate::kNone, 3, 56) == 0);
  CHECK(passes::gate_columns(passes::AnswerGate::kSilu, 3, 56) == 168);
  CHECK(passes::mix_columns(passes::Mix::kNone, 3, 56) == 0);
  CHECK(passes::mix_columns(passes::Mix::kSum, 3, 56) == 0);
  CHECK(passes::mix_columns(passes::Mix::kScalar, 3, 56) == 8);
  CHECK(passes::mix_columns(passes::Mix::kScalar, 5, 56) == 16);
  CHECK(passes::mix_columns(passes::Mix::kVector, 3, 56) == 168);
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
