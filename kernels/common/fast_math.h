// Exponentials and what is made of them by a GPU's special functions: within some units in the last place, and 0 below
// 2^-126, in a few instructions where exact ones cost a dozen. On a CPU they are the standard library's.
#pragma once

#include <cmath>

#include "base/host_device.h"

namespace engram {

// 2^x
HOST_DEVICE inline float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

// 1 / x
HOST_DEVICE inline float fast_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / x;
#endif
}

HOST_DEVICE inline float fast_sigmoid(float x) {
#if defined(__CUDA_ARCH__)
  return fast_reciprocal(1 + fast_exp2(-1.4426950408889634f * x));
#else
  return 1 / (1 + std::exp(-x));
#endif
}

}  // namespace engram
