// Rotary positions: frequencies in fixed point, so that the angle of any position is exact modulo a full turn.
#pragma once

#include <vector_types.h>

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace engram::attention {

constexpr int kMaxPairs = 64;

// turns[i]: what one step turns the pair of channels i, i + pairs by, in 2^-64 of a full turn.
struct Frequencies {
  int pairs;
  std::uint64_t turns[kMaxPairs];
};

inline Frequencies make_frequencies(int rotary_width) {
  Frequencies f{rotary_width / 2, {}};
  for (int i = 0; i < f.pairs; ++i)
    f.turns[i] = static_cast<std::uint64_t>(
        std::ldexp(std::pow(10000.0, -2.0 * i / rotary_width) / 6.283185307179586476925286766559, 64));
  return f;
}

// `turns` * 2^-64 of a full turn, -pi to pi. Unsigned arithmetic wraps where angles do.
HOST_DEVICE inline float radians(std::uint64_t turns) {
  return static_cast<float>(static_cast<std::int32_t>(turns >> 32)) * (6.28318531f * 0x1p-32f);
}

struct Rotation {
  float cosine, sine;

  // The rotation by `turns` * 2^-64 of a full turn; unsigned arithmetic wraps where angles do.
  HOST_DEVICE static Rotation by(std::uint64_t turns) {
    const float half_turns = static_cast<float>(static_cast<std::int32_t>(turns >> 32)) * 0x1p-31f;
    Rotation r;
#if defined(__CUDA_ARCH__)
    sincospif(half_turns, &r.sine, &r.cosine);
#else
    r.sine = static_cast<float>(std::sin(3.141592653589793 * half_turns));
    r.cosine = static_cast<float>(std::cos(3.141592653589793 * half_turns));
#endif
    return r;
  }
  // The rotation by an angle of a few turns, with an error of about 2^-19: by the special function unit.
  HOST_DEVICE static Rotation near(float radians) {
    Rotation r;
#if defined(__CUDA_ARCH__)
    __sincosf(radians, &r.sine, &r.cosine);
#else
    r.sine = std::sin(radians);
    r.cosine = std::cos(radians);
#endif
    return r;
  }
  __device__ Rotation then(const Rotation& next) const {
    return {cosine * next.cosine - sine * next.sine, sine * next.cosine + cosine * next.sine};
  }
  __device__ float2 turn(float x, float y) const { return {x * cosine - y * sine, y * cosine + x * sine}; }
  HOST_DEVICE float2 turn_back(float x, float y) const { return {x * cosine + y * sine, y * cosine - x * sine}; }
};

}  // namespace engram::attention
