// What the kernels of the delta rule are compiled for.
#pragma once

#include "kernels/fast_weights/delta_rule/delta_rule.h"

namespace engram::delta_rule {

template <bool kIsDelta, bool kDecays>
struct Rule {
  static constexpr bool kDelta = kIsDelta, kDecay = kDecays;
};
using PlainDelta = Rule<true, false>;
using GatedDelta = Rule<true, true>;
using Sum = Rule<false, true>;  // without a decay it has decays of 1: not worth kernels of its own

// Calls function(rule).
template <typename Function>
void dispatch_rule(FastWeightWrite write, bool decays, Function&& function) {
  if (write == FastWeightWrite::kSum)
    function(Sum{});
  else if (decays)
    function(GatedDelta{});
  else
    function(PlainDelta{});
}

}  // namespace engram::delta_rule
