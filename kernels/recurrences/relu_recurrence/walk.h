// What one thread does with a channel of a row, forward and backward, compiled for the GPU and for the CPU, where a
// test compares it with the definition.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace engram::relu_recurrence {

constexpr int kAhead = 8;  // steps that are asked for together

// A channel of a row: its step t stands at t * stride of every sequence.
struct Channel {
  int time;
  std::int64_t stride;
  float weight, h0;
};

HOST_DEVICE inline void forward(const Channel& channel, const float* b, float* h) {
  const auto fetch = [&](int begin, float(&steps)[kAhead]) {
    for (int i = 0; i < kAhead; ++i) steps[i] = begin + i < channel.time ? b[(begin + i) * channel.stride] : 0;
  };
  float next[kAhead], steps[kAhead], state = channel.h0;
  fetch(0, next);
  for (int begin = 0; begin < channel.time; begin += kAhead) {
    for (int i = 0; i < kAhead; ++i) steps[i] = next[i];
    fetch(begin + kAhead, next);
    for (int i = 0; i < kAhead; ++i) {
      const float sum = steps[i] + channel.weight * state;
      state = sum < 0 ? 0 : sum;
      if (begin + i < channel.time) h[(begin + i) * channel.stride] = state;
    }
  }
}

struct ChannelGradient {
  float weight, h0;
};

// d_b may not be d_h.
HOST_DEVICE inline ChannelGradient backward(const Channel& channel, const float* h, const float* d_h, float* d_b) {
  // h_t, and the gradient that comes in, of the kAhead steps up to `end`.
  const auto fetch = [&](int end, float(&states)[kAhead], float(&gradients)[kAhead]) {
    for (int i = 0; i < kAhead; ++i) {
      const int t = end - 1 - i;
      states[i] = t >= 0 ? h[t * channel.stride] : channel.h0;
      gradients[i] = t >= 0 ? d_h[t * channel.stride] : 0;
    }
  };
  float states[kAhead], gradients[kAhead], next_states[kAhead], next_gradients[kAhead];
  ChannelGradient d{0, 0};  // h0: so far of h_t from the steps after it
  fetch(channel.time, next_states, next_gradients);
  for (int end = channel.time; end > 0; end -= kAhead) {
    for (int i = 0; i < kAhead; ++i) states[i] = next_states[i], gradients[i] = next_gradients[i];
    fetch(end - kAhead, next_states, next_gradients);
    for (int i = 0; i < kAhead; ++i) {
      const int t = end - 1 - i;
      if (t < 0) continue;
      const float g = states[i] <= 0 ? 0 : gradients[i] + d.h0;
      d_b[t * channel.stride] = g;
      d.weight += g * (i + 1 < kAhead ? states[(i + 1) % kAhead] : next_states[0]);
      d.h0 = channel.weight * g;
    }
  }
  return d;
}

}  // namespace engram::relu_recurrence
