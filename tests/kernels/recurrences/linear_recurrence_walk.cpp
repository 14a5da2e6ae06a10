// The linear recurrence without a GPU: its definition, and what the threads of the kernels do, in turns.
#include <doctest/doctest.h>

#include <complex>
#include <cstddef>
#include <vector>

#include "kernels/recurrences/linear_recurrence/walk.h"
#include "tests/kernels/common/threads_in_turns.h"
#include "tests/kernels/recurrences/linear_recurrence_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::recurrence;

namespace {

template <class Unit, bool kConstant>
void run_units(const RecurrenceCase& c, RecurrenceImages& images) {
  using Stored = typename Unit::Stored;
  using Value = typename Unit::Value;
  const auto steps = [](Image& image) { return static_cast<Stored*>(image.tensor(image.bytes.data())); };
  const auto states = [](Image& image) { return static_cast<Value*>(image.tensor(image.bytes.data())); };
  const Rows<Unit> rows{c.time,
                        c.width / Unit::kChannels,
                        kConstant ? nullptr : steps(images.a),
                        kConstant ? states(images.a) : nullptr,
                        states(images.h0),
                        c.ragged ? images.length_B.data() : nullptr};
  const ForwardProblem<Unit> forward{rows, steps(images.b), steps(images.h), states(images.last)};
  std::vector<Value> d_a_BU(static_cast<std::size_t>(c.batch) * rows.units);
  const BackwardProblem<Unit> backward{rows,
                                       steps(images.h),
                                       steps(images.d_h),
                                       states(images.d_last),
                                       kConstant ? nullptr : steps(images.d_a),
                                       steps(images.d_b),
                                       d_a_BU.data(),
                                       states(images.d_h0)};
  const unsigned blocks = static_cast<unsigned>(c.batch * rows.groups());
  using Forward = ForwardWalk<Unit, kConstant>;
  using Backward = BackwardWalk<Unit, kConstant>;
  for (unsigned block = 0; block < blocks; ++block)
    run_block<Forward, Shared<Value>>(
        forward, block, kThreads, [&](auto& threads) { walk_tiles<Forward, /*kBackward=*/false>(threads, c.time); });
  for (unsigned block = 0; block < blocks; ++block)
    run_block<Backward, Shared<Value>>(backward, block, kThreads, [&](auto& threads) {
      walk_tiles<Backward, /*kBackward=*/true>(threads, c.time);
      if constexpr (kConstant) add_up_constant(threads);
    });
  if constexpr (kConstant)
    for (int unit = 0; unit < rows.units; ++unit) {
      Value all = d_a_BU[unit];
      for (int row = 1; row < c.batch; ++row) all = sum(all, d_a_BU[static_cast<std::size_t>(row) * rows.units + unit]);
      states(images.d_a)[unit] = all;
    }
}

template <class Unit>
void run_kind(const RecurrenceCase& c, RecurrenceImages& images) {
  if (c.constant)
    run_units<Unit, true>(c, images);
  else
    run_units<Unit, false>(c, images);
}

void run_on_cpu(const RecurrenceCase& c, RecurrenceImages& images) {
  if (c.number == RecurrenceNumber::kFloat32)
    run_kind<FloatUnit>(c, images);
  else if (c.number == RecurrenceNumber::kComplex64)
    run_kind<ComplexUnit>(c, images);
  else if (c.width % 2 == 0 && !c.misaligned)
    run_kind<Bfloat16PairUnit>(c, images);
  else
    run_kind<Bfloat16Unit>(c, images);
}

}  // namespace

TEST_CASE("the definition of the linear recurrence: numbers by hand") {
  LinearRecurrenceReferenceInput input{1, 3, 1, false, {2, {0, 1}, 5}, {1, 1, 1}, {3}, {2}};
  const auto output = linear_recurrence_reference(input);
  CHECK(output.h_BTD == ComplexNumbers{7, {1, 7}, 0});
  CHECK(output.last_BD == ComplexNumbers{{1, 7}});
  input.length_B = {0};
  CHECK(linear_recurrence_reference(input).last_BD == ComplexNumbers{3});
  input.length_B = {3}, input.constant = true, input.a = {2};
  CHECK(linear_recurrence_reference(input).h_BTD == ComplexNumbers{7, 15, 31});
}

// Central differences of the definition's own forward pass: exact to about 1e-9 in double with this step.
TEST_CASE("the definition's gradient is the slope of its output, in both parts of complex numbers") {
  for (const bool constant : {false, true}) {
    RecurrenceCase c{3, 6, 2, RecurrenceNumber::kComplex64, constant};
    c.seed = 3;
    RecurrenceProblem p = make_recurrence(c);
    p.input.length_B = {6, 4, 0};
    const auto loss = [&] {
      const auto output = linear_recurrence_reference(p.input);
      double sum = 0;
      for (std::size_t i = 0; i < output.h_BTD.size(); ++i)
        sum += (std::conj(p.output_gradient.h_BTD[i]) * output.h_BTD[i]).real();
      for (std::size_t i = 0; i < output.last_BD.size(); ++i)
        sum += (std::conj(p.output_gradient.last_BD[i]) * output.last_BD[i]).real();
      return sum;
    };
    const auto gradient = linear_recurrence_reference_backward(p.input, p.output_gradient);
    const auto check = [&](ComplexNumbers& x, const ComplexNumbers& slope) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto slope_along = [&](std::complex<double> direction) {
          const std::complex<double> kept = x[i];
          x[i] = kept + 1e-5 * direction;
          const double above = loss();
          x[i] = kept - 1e-5 * direction;
          const double below = loss();
          x[i] = kept;
          return (above - below) / 2e-5;
        };
        CHECK(slope[i].real() == doctest::Approx(slope_along({1, 0})).epsilon(1e-6));
        CHECK(slope[i].imag() == doctest::Approx(slope_along({0, 1})).epsilon(1e-6));
      }
    };
    check(p.input.a, gradient.a);
    check(p.input.b_BTD, gradient.b_BTD);
    check(p.input.h0_BD, gradient.h0_BD);
  }
}

TEST_CASE("the threads of a block, in turns, compute the definition's states and gradients") {
  for (const RecurrenceCase& c : recurrence_cases({1, 2, 15, 16, 17, 63, 65, 128, 257, 600}, {1, 2, 31, 34, 64}))
    check_recurrence(c, run_on_cpu);
}
