// The kernels that walk the chunks of the delta rule one after the other (kernels/fast_weights/delta_rule/chain.h):
// each against the recurrence, in every combination of forward and backward pass, at shapes that both take, without a
// decay and with one. On a failure `worst_element` says where.
#include <doctest/doctest.h>

#include <iterator>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/common/architecture.h"
#include "kernels/fast_weights/delta_rule/chain.h"
#include "tests/kernels/fast_weights/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

using enum DeltaRuleChain;

std::vector<DeltaRuleChain> chains_here() {
  return supports_hopper() ? std::vector{kSlices, kWarpgroup} : std::vector{kSlices};
}
const char* name_of(DeltaRuleChain chain) { return chain == kSlices ? "slices" : "a warpgroup"; }

constexpr DecayKind kDecays[] = {DecayKind::kOne, DecayKind::kMild, DecayKind::kMixed, DecayKind::kStrong,
                                 DecayKind::kForgetful};

// Lengths around those of blocks of 16 steps, of chunks of 64, and of the chunks that are in shared memory at once.
std::vector<Case> shapes() {
  std::vector<Case> cases;
  unsigned seed = 7000;
  for (const int time : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 257, 781, 2050, 8192})
    for (const int width : {16, 24, 40, 48, 56, 64, 72, 96, 128}) {
      // Of a few short rows an error is that of a few roundings.
      const int batch = time < 30 ? 16 : time > 2000 ? 1 : 3 + static_cast<int>(seed % 3);
      Case c{{batch, time, 1 + static_cast<int>(seed % 3), width, 1}};  // in one segment
      c.ragged = seed % 4 != 0;
      c.gap = seed % 3 == 0 ? 8 * (1 + width / 16) : 0;
      c.seed = seed++;
      cases.push_back(c);
    }
  return cases;
}

// Each with one kind of decay. The kinds, five, take turns, so that each of the nine widths meets them all.
std::vector<Case> with_decay(std::vector<Case> cases) {
  for (Case& c : cases) c.decay = kDecays[c.seed % std::size(kDecays)], c.seed += 1000;
  return cases;
}

std::vector<Case> edges() {
  std::vector<Case> cases;
  for (const Case& c : edge_cases())
    if (c.dtype == Dtype::kBfloat16 && c.shape.width != 50) cases.push_back(c);
  return cases;
}

std::vector<Case> decayed_edges() {
  std::vector<Case> cases;
  for (const DecayKind decay : kDecays)
    for (Case c : edges()) {
      c.decay = decay, c.seed += 2000;
      cases.push_back(c);
    }
  return cases;
}

void check_chains(const Case& c) {
  const Problem problem = make_problem(c);
  const auto expected = delta_rule_reference(problem.input);
  const auto gradient = delta_rule_reference_backward(problem.input, problem.output_gradient);
  const std::lock_guard lock(gpu_in_use);
  DeviceProblem device(c, problem);
  for (const DeltaRuleChain forward : chains_here())
    for (const DeltaRuleChain backward : chains_here()) {
      device.poison_all();
      device.forward_by(forward);
      device.backward_by(backward);
      check_delta_rule(c, joined(name_of(forward), ", then ", name_of(backward)), device.result(), expected, gradient);
    }
}

}  // namespace

// Few and small, to be run first, and under compute-sanitizer.
TEST_CASE("chains of the delta rule: small shapes, forward, then with every combination backward") {
  if (skip_without_gpu()) return;
  unsigned seed = 6900;
  for (const int width : {16, 56, 64, 72, 128})
    for (const int time : {16, 64, 130, 200}) {
      Case c{{2, time, 2, width}};
      c.ragged = time > 64;
      c.seed = seed++;
      for (const DecayKind decay : {DecayKind::kNone, DecayKind::kMixed, DecayKind::kForgetful}) {
        c.decay = decay;
        check_chains(c);
      }
    }
  // Wide heads in segments.
  for (const int width : {72, 128})
    for (const int segments : {2, 3, 6})
      for (const DecayKind decay : {DecayKind::kNone, DecayKind::kMixed, DecayKind::kForgetful}) {
        Case c{{3, 330, 2, width, segments}};
        c.decay = decay, c.gap = 8, c.seed = seed++;
        check_chains(c);
      }
  // With more heads than multiprocessors fewer chunks are in shared memory at once.
  for (const int width : {56, 64})
    for (const DecayKind decay : {DecayKind::kNone, DecayKind::kMild}) {
      Case c{{90, 330, 2, width}};
      c.decay = decay, c.seed = seed++;
      check_chains(c);
    }
}

TEST_CASE("chains of the delta rule: both passes equal the recurrence's at every shape") {
  if (skip_without_gpu()) return;
  check_each(shapes(), check_chains);
  check_each(with_decay(shapes()), check_chains);
}

TEST_CASE("chains of the delta rule: both passes equal the recurrence's at the edges of the inputs") {
  if (skip_without_gpu()) return;
  check_each(edges(), check_chains);
  check_each(decayed_edges(), check_chains);
}

TEST_CASE("the delta rule takes a warpgroup's chain where it is supported and pays, and slices elsewhere") {
  if (skip_without_gpu()) return;
  constexpr OtherRule kRules[] = {{FastWeightWrite::kDelta, DecayKind::kNone},
                                  {FastWeightWrite::kDelta, DecayKind::kMild},
                                  {FastWeightWrite::kSum, DecayKind::kMild}};
  for (const OtherRule& rule : kRules)
    for (const auto& [batch, width] : {std::pair{3, 50}, {3, 56}, {3, 72}, {31, 72}, {32, 72}})
      for (const int gap : {0, 4, 8}) {
        Case c{{batch, 200, 2, width}};
        c.gap = gap, c.write = rule.write, c.decay = rule.decay;
        INFO(c.name());
        DeviceProblem device(c, make_problem(c));
        const bool supported =
            rule.write == FastWeightWrite::kDelta && width % 8 == 0 && gap % 8 == 0 && supports_hopper();
        CHECK(static_cast<bool>(supports_delta_rule_warpgroup(device.input())) == supported);
        const auto run = [&](auto pass) {
          device.poison_all();
          pass();
          return device.result().bytes;
        };
        const auto by = [&](DeltaRuleChain chain) {
          return run([&] { device.forward_by(chain), device.backward_by(chain); });
        };
        const auto taken = run([&] { device.forward(), device.backward(); });
        CHECK(taken == by(supported && (width == 56 || batch == 32) ? kWarpgroup : kSlices));
        if (!supported) CHECK_THROWS_AS(device.forward_by(kWarpgroup), std::runtime_error);
        if (!supported) CHECK_THROWS_AS(device.backward_by(kWarpgroup), std::runtime_error);
      }
}
