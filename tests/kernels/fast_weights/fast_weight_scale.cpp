// The scale of write strengths without a bound, without a GPU: what the lanes of a warp do, in turns.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/fast_weights/passes/scale_walk.h"
#include "tests/kernels/fast_weights/fast_weight_passes_case.h"

using namespace engram;
using namespace engram::testing;
using passes::LogDecay;
using passes::Write;

namespace {

template <class T>
struct HostMaths {
  using Number = T;
  static T sigmoid(T x) { return 1 / (1 + std::exp(-x)); }
  static T exp(T x) { return std::exp(x); }
  static T exp2(T x) { return std::exp2(x); }
  static T log1p(T x) { return std::log1p(x); }
};

// What scaled_kernel does of every sequence and head, the lanes between two barriers in an order that is not that of
// their numbers. Returns what the definition does; what no lane has stored is NaN.
template <class T>
passes::StrengthsReferenceOutput walked(const StrengthsCase& c, const StrengthsProblem& p) {
  using Maths = HostMaths<T>;
  const Numbers nothing(p.d.write.size(), std::nan(""));
  passes::StrengthsReferenceOutput out{nothing, nothing, nothing};
  const auto number = [](const Numbers& x, std::size_t i) { return x.empty() ? T(0) : static_cast<T>(x[i]); };
  for (int first = 0; first < c.rows; first += c.steps)
    for (int head = 0; head < c.heads; ++head) {
      const auto at = [&](int step) { return static_cast<std::size_t>(first + step) * c.heads + head; };
      const auto logs = [&](int step) {
        return passes::strength<Maths>(c.kind, head,
                                       {number(p.input.write_logits, at(step)), number(p.input.decay_logits, at(step)),
                                        number(p.input.bias_H, head), number(p.input.log_rate_H, head)});
      };
      const auto store = [&](int step, const passes::ScaledStrength<T>& own) {
        out.write[at(step)] = own.write, out.log_decay[at(step)] = own.log_decay, out.one[at(step)] = own.one;
      };
      std::vector<passes::ScaleWalk<Maths>> lanes;
      for (int lane = 0; lane < passes::kScaleTile; ++lane) lanes.emplace_back(lane, c.steps);
      const auto each = [&](const auto& work) {
        for (int lane = passes::kScaleTile - 1; lane >= 0; --lane) work(lanes[lane]);
      };
      passes::Strength<T> tile[passes::kScaleTile];
      each([&](auto& lane) { lane.fetch(0, logs); });
      for (int begin = 0; begin < c.steps; begin += passes::kScaleTile) {
        each([&](auto& lane) { lane.publish(tile); });
        each([&](auto& lane) {
          lane.fetch(begin + passes::kScaleTile, logs);
          lane.finish(begin, tile, store);
        });
      }
    }
  return out;
}

}  // namespace

TEST_CASE("the lanes of a warp find the scale of write strengths without a bound, and nothing leaves its range") {
  for (const LogDecay decay : {LogDecay::kNone, LogDecay::kFixed, LogDecay::kScalar})
    for (const int heads : {1, 2, 3, 8})
      for (const int steps : {1, 2, 31, 32, 33, 64, 118, 781}) {
        const StrengthsCase c{{Write::kExponential, decay, 1}, 3 * steps, heads, Dtype::kFloat32, steps};
        const std::string name = c.name();
        INFO(name);
        const StrengthsProblem p = make_strengths(c);
        const auto expected = passes::strengths_reference(p.input, c.rows), exact = walked<double>(c, p),
                   single = walked<float>(c, p);
        CHECK(exact.write == expected.write);
        CHECK(exact.log_decay == expected.log_decay);
        CHECK(exact.one == expected.one);
        CHECK(relative_error(single.write, expected.write) <= rounded_once(Dtype::kFloat32));
        CHECK(relative_error(single.log_decay, expected.log_decay) <= rounded_once(Dtype::kFloat32));
        CHECK(relative_error(single.one, expected.one) <= rounded_once(Dtype::kFloat32));
        for (std::size_t i = 0; i < single.write.size(); ++i) {
          REQUIRE((0 <= single.write[i] && single.write[i] <= 1));
          REQUIRE(single.log_decay[i] <= 0);
          REQUIRE((0 < single.one[i] && single.one[i] <= 1));
        }
      }
}

TEST_CASE("the scale of write strengths without a bound: numbers by hand") {
  // Fixed decays of 31/32; a sequence of four steps and the first of the next.
  const double kept = std::log1p(-1.0 / 32);
  passes::StrengthsReference input{
      {Write::kExponential, LogDecay::kFixed, 1}, 4, 1, {-90, 100, 2, 100, 1}, {}, {}, {}, {}};
  const auto out = passes::strengths_reference(input, 5);
  CHECK(out.write[0] == doctest::Approx(std::exp(-90.0)));
  CHECK(out.log_decay[0] == doctest::Approx(kept));
  CHECK(out.write[1] == 1);
  CHECK(out.log_decay[1] == doctest::Approx(kept - 100));
  CHECK(out.log_decay[2] == 0);  // what is kept outweighs what is written
  CHECK(out.write[3] == 1);      // and here it does not
  CHECK(out.one == Numbers{1, std::exp(-80.0), std::exp(-80.0), std::exp(-80.0), std::exp(-1.0)});
}
