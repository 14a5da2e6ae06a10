// The linear recurrence without a GPU: its definition, and what the threads of the kernels do, in turns.
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "kernels/recurrences/linear_recurrence/walk.h"
#include "tests/kernels/common/check_slopes.h"
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
  HostMemory memory;
  const auto steps = [&](Image& image) { return static_cast<Stored*>(image.tensor(memory)); };
  const auto states = [&](Image& image) { return static_cast<Value*>(image.tensor(memory)); };
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
  else if (c.number == RecurrenceNumber::kComplexBfloat16)
    run_kind<ComplexBfloat16Unit>(c, images);
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

TEST_CASE("the definition's gradient is the slope of its output, in both parts of complex numbers") {
  for (const bool constant : {false, true}) {
    RecurrenceCase c{3, 6, 2, RecurrenceNumber::kComplex64, constant};
    c.seed = 3;
    RecurrenceProblem p = make_recurrence(c);
    p.input.length_B = {6, 4, 0};
    const LinearRecurrenceReferenceOutput& d = p.output_gradient;
    const auto gradient = linear_recurrence_reference_backward(p.input, d);
    check_slopes({parts_of(p.input.a), parts_of(p.input.b_BTD), parts_of(p.input.h0_BD)},
                 {parts_of(gradient.a), parts_of(gradient.b_BTD), parts_of(gradient.h0_BD)}, [&] {
                   const auto output = linear_recurrence_reference(p.input);
                   return inner_product(output.h_BTD, d.h_BTD) + inner_product(output.last_BD, d.last_BD);
                 });
  }
}

TEST_CASE("the threads of a block, in turns, compute the definition's states and gradients") {
  for (const RecurrenceCase& c : recurrence_cases({1, 2, 15, 16, 17, 63, 65, 128, 257, 600}, {1, 2, 31, 34, 64}))
    check_recurrence(c, run_on_cpu);
}
