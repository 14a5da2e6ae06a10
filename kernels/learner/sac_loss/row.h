// One row of the losses of sac_loss.h: one text for the kernel and for the loop on a CPU. A NaN in what is read reaches
// the result, which std::min, std::max, fminf and fmaxf do not promise. Computed in float.
//
// A Policy gives the probability of action a as policy(a).
#pragma once

#include <math.h>

#include "base/host_device.h"

namespace engram::sac_row {

constexpr float kLeastProbability = 1e-8f;

HOST_DEVICE inline float lesser(float a, float b) { return a < b || a != a ? a : b; }
HOST_DEVICE inline float clamped_log(float p) { return logf(p < kLeastProbability ? kLeastProbability : p); }

// The softmax of some logits: what they are shifted by, and the sum of their exponentials.
class Softmax {
 public:
  HOST_DEVICE Softmax(const float* logits, int actions) : logits_(logits), shift_(logits[0]), sum_(0) {
    for (int a = 1; a < actions; ++a) shift_ = shift_ < logits[a] ? logits[a] : shift_;
    for (int a = 0; a < actions; ++a) sum_ += expf(logits[a] - shift_);
  }
  HOST_DEVICE float operator()(int a) const { return expf(logits_[a] - shift_) / sum_; }

 private:
  const float* logits_;
  float shift_, sum_;
};

// sum_a p_a (min(Q1, Q2)_a - alpha log p_a)
template <class Policy>
HOST_DEVICE float soft_value(const Policy& policy, const float* q1, const float* q2, int actions, float alpha) {
  float value = 0;
  for (int a = 0; a < actions; ++a) {
    const float p = policy(a);
    value += p * (lesser(q1[a], q2[a]) - alpha * clamped_log(p));
  }
  return value;
}

// What p_a is multiplied with in the actor's loss, and the derivative of that loss by p_a, which is alpha more where
// the logarithm is not clamped.
struct ActorCost {
  float cost, slope;
};
HOST_DEVICE inline ActorCost actor_cost(float p, float q1, float q2, float alpha) {
  const float cost = alpha * clamped_log(p) - lesser(q1, q2);
  return {cost, cost + (p < kLeastProbability ? 0.0f : alpha)};
}

// A row's share of the actor's loss and of the entropy; mean_slope: sum_a p_a slope_a.
struct Actor {
  float loss = 0, entropy = 0, mean_slope = 0;
};
template <class Policy>
HOST_DEVICE Actor actor(const Policy& policy, const float* q1, const float* q2, int actions, float alpha) {
  Actor row;
  for (int a = 0; a < actions; ++a) {
    const float p = policy(a);
    const ActorCost of = actor_cost(p, q1[a], q2[a], alpha);
    row.loss += p * of.cost;
    row.entropy -= p * clamped_log(p);
    row.mean_slope += p * of.slope;
  }
  return row;
}

// Of the actor's loss by the logit of an action of probability p.
HOST_DEVICE inline float d_logit(float p, float q1, float q2, float alpha, float mean_slope) {
  return p * (actor_cost(p, q1, q2, alpha).slope - mean_slope);
}

}  // namespace engram::sac_row
