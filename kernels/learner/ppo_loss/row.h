// One row of the losses of ppo_loss.h: one text for the kernel and for the loop on a CPU. A NaN in what is read reaches
// the result, which std::min, std::max, fminf and fmaxf do not promise. Computed in float.
#pragma once

#include <math.h>

#include "base/host_device.h"

namespace engram {

// 0 means none of value_clip and value_error_bound.
struct PpoRowWeights {
  float clip, value_clip, value_error_bound, value_weight, entropy_weight;
};

struct PpoRowScales {
  float mean, deviation, kl_weight;
};

namespace ppo_row {

HOST_DEVICE inline float lesser(float a, float b) { return a < b || a != a ? a : b; }
HOST_DEVICE inline float limited(float x, float bound) { return x < -bound ? -bound : x > bound ? bound : x; }

// The softmax of some logits and its logarithm: what they are shifted by, and the sum of their exponentials.
class Policy {
 public:
  HOST_DEVICE Policy(const float* logits, int actions) : logits_(logits), shift_(logits[0]) {
    for (int a = 1; a < actions; ++a) shift_ = shift_ < logits[a] ? logits[a] : shift_;
    float sum = 0;
    for (int a = 0; a < actions; ++a) sum += expf(logits[a] - shift_);
    log_sum_ = logf(sum);
  }
  HOST_DEVICE float log(int a) const { return logits_[a] - shift_ - log_sum_; }
  HOST_DEVICE float operator()(int a) const { return expf(log(a)); }

 private:
  const float* logits_;
  float shift_, log_sum_;
};

HOST_DEVICE inline float entropy(const Policy& policy, int actions) {
  float sum = 0;
  for (int a = 0; a < actions; ++a) sum -= policy(a) * policy.log(a);
  return sum;
}

// What the action taken adds to the losses, and the derivative of its share of `total` by log pi of it.
struct Actor {
  float loss, kl, slope;
  bool clipped;
};
HOST_DEVICE inline Actor actor(float log_prob, float old_log_prob, float advantage, const PpoRowWeights& weights,
                               const PpoRowScales& scales) {
  const float change = log_prob - old_log_prob;
  const float excess = expm1f(change);  // r - 1, with all digits where it is small
  const float normalised = (advantage - scales.mean) / scales.deviation;
  const float free = (1 + excess) * normalised, bounded = (1 + limited(excess, weights.clip)) * normalised;
  // d r / d log pi = r, but where the bounded product is the lesser one, which stands still.
  const float surrogate_slope = bounded < free ? 0.0f : -free;
  return {.loss = -lesser(free, bounded),
          .kl = excess - change,
          .slope = surrogate_slope + scales.kl_weight * excess,
          .clipped = fabsf(excess) > weights.clip};
}

// The error that the critic minimises, and its derivative by V.
struct Critic {
  float loss, slope;
};
HOST_DEVICE inline Critic critic(float value, float old_value, float advantage, const PpoRowWeights& weights) {
  const float target = advantage + old_value, error = value - target;
  Critic row{error * error, 2 * error};
  const float change = value - old_value;
  if (weights.value_clip > 0 && fabsf(change) > weights.value_clip) {
    const float bounded = old_value + limited(change, weights.value_clip) - target;
    if (bounded * bounded > row.loss) row = {bounded * bounded, 0};
  }
  if (weights.value_error_bound > 0 && row.loss > weights.value_error_bound) row = {weights.value_error_bound, 0};
  return row;
}

// A row's shares of the losses, and the derivatives of its share of `total`.
struct Row {
  float total, actor, critic, entropy, kl, d_log_prob, d_value;
  bool clipped;
};
HOST_DEVICE inline Row row(const Policy& policy, int actions, int taken, float old_log_prob, float value,
                           float old_value, float advantage, const PpoRowWeights& weights, const PpoRowScales& scales) {
  const Actor of_action = actor(policy.log(taken), old_log_prob, advantage, weights, scales);
  const Critic of_value = critic(value, old_value, advantage, weights);
  const float in_nats = entropy(policy, actions);
  return {.total = of_action.loss + weights.value_weight * of_value.loss - weights.entropy_weight * in_nats +
                   scales.kl_weight * of_action.kl,
          .actor = of_action.loss,
          .critic = of_value.loss,
          .entropy = in_nats,
          .kl = of_action.kl,
          .d_log_prob = of_action.slope,
          .d_value = weights.value_weight * of_value.slope,
          .clipped = of_action.clipped};
}

// Of a row's share of `total` by the logit of action a.
HOST_DEVICE inline float d_logit(const Policy& policy, int a, int taken, const Row& row, float entropy_weight) {
  const float p = policy(a);
  return row.d_log_prob * ((a == taken ? 1.0f : 0.0f) - p) + entropy_weight * p * (policy.log(a) + row.entropy);
}

}  // namespace ppo_row
}  // namespace engram
