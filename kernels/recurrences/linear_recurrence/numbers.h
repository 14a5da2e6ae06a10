// What the recurrence is computed with: numbers in float, and the units in which memory holds them. A unit is what one
// thread has of a step: a channel, or two of bfloat16, which halves the number of loads.
#pragma once

#include <cuda_bf16.h>

#include "base/host_device.h"

namespace engram::recurrence {

struct Real {
  float x;
};
HOST_DEVICE inline Real product(Real a, Real b) { return {a.x * b.x}; }
HOST_DEVICE inline Real product_plus(Real a, Real b, Real c) { return {a.x * b.x + c.x}; }
HOST_DEVICE inline Real sum(Real a, Real b) { return {a.x + b.x}; }
HOST_DEVICE inline Real conjugate(Real a) { return a; }

// Two channels that have nothing to do with each other.
struct alignas(8) RealPair {
  float x, y;
};
HOST_DEVICE inline RealPair product(RealPair a, RealPair b) { return {a.x * b.x, a.y * b.y}; }
HOST_DEVICE inline RealPair product_plus(RealPair a, RealPair b, RealPair c) {
  return {a.x * b.x + c.x, a.y * b.y + c.y};
}
HOST_DEVICE inline RealPair sum(RealPair a, RealPair b) { return {a.x + b.x, a.y + b.y}; }
HOST_DEVICE inline RealPair conjugate(RealPair a) { return a; }

struct alignas(8) Complex {
  float re, im;
};
HOST_DEVICE inline Complex product(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// In an order that becomes four fused multiplications and additions.
HOST_DEVICE inline Complex product_plus(Complex a, Complex b, Complex c) {
  return {(c.re + a.re * b.re) - a.im * b.im, (c.im + a.re * b.im) + a.im * b.re};
}
HOST_DEVICE inline Complex sum(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
HOST_DEVICE inline Complex conjugate(Complex a) { return {a.re, -a.im}; }

// Stored: of a step in a_BTD, b, h and their gradients; Value: the same in states and in registers. kLanes: threads
// beside each other, which hold the units of one step; kForwardSteps, kBackwardSteps: steps that a thread has of each
// tensor at a time, as many as its registers can hold twice.
struct FloatUnit {
  using Stored = float;
  using Value = Real;
  static constexpr int kChannels = 1, kLanes = 32, kForwardSteps = 16, kBackwardSteps = 8;
  HOST_DEVICE static Value one() { return {1}; }
  HOST_DEVICE static Value value(Stored x) { return {x}; }
  HOST_DEVICE static Stored stored(Value x) { return x.x; }
};

struct Bfloat16Unit {
  using Stored = __nv_bfloat16;
  using Value = Real;
  static constexpr int kChannels = 1, kLanes = 32, kForwardSteps = 16, kBackwardSteps = 8;
  HOST_DEVICE static Value one() { return {1}; }
  HOST_DEVICE static Value value(Stored x) { return {__bfloat162float(x)}; }
  HOST_DEVICE static Stored stored(Value x) { return __float2bfloat16(x.x); }
};

struct Bfloat16PairUnit {
  using Stored = __nv_bfloat162;
  using Value = RealPair;
  static constexpr int kChannels = 2, kLanes = 16, kForwardSteps = 16, kBackwardSteps = 8;
  HOST_DEVICE static Value one() { return {1, 1}; }
  HOST_DEVICE static Value value(Stored x) { return {__low2float(x), __high2float(x)}; }
  HOST_DEVICE static Stored stored(Value x) { return __floats2bfloat162_rn(x.x, x.y); }
};

struct ComplexUnit {
  using Stored = Complex;
  using Value = Complex;
  static constexpr int kChannels = 1, kLanes = 32, kForwardSteps = 8, kBackwardSteps = 4;
  HOST_DEVICE static Value one() { return {1, 0}; }
  HOST_DEVICE static Value value(Stored x) { return x; }
  HOST_DEVICE static Stored stored(Value x) { return x; }
};

struct ComplexBfloat16Unit {
  using Stored = __nv_bfloat162;
  using Value = Complex;
  static constexpr int kChannels = 1, kLanes = 32, kForwardSteps = 16, kBackwardSteps = 8;
  HOST_DEVICE static Value one() { return {1, 0}; }
  HOST_DEVICE static Value value(Stored x) { return {__low2float(x), __high2float(x)}; }
  HOST_DEVICE static Stored stored(Value x) { return __floats2bfloat162_rn(x.re, x.im); }
};

}  // namespace engram::recurrence
