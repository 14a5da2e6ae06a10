// Discrete SAC in plain loops over doubles, with hand-derived gradients: what the tensor code is compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace engram::plain {

using Numbers = std::vector<double>;

struct Problem {
  int batch, steps, actions;  // B, T, A
  double alpha, gamma;
  std::vector<int> length;       // [B], valid steps of each episode
  std::vector<int> action;       // [B, T]
  Numbers reward, terminated;    // [B, T]
  Numbers logits;                // [B, T+1, A]
  Numbers q1, q2;                // [B, T, A], of rows 0 .. T-1
  Numbers target_q1, target_q2;  // [B, T, A], of rows 1 .. T
};

struct Solution {
  double critic1 = 0, critic2 = 0, actor = 0, total = 0, entropy = 0, mean_q = 0;
  Numbers target;      // [B, T], 0 in the padding
  Numbers d_logits;    // [B, T+1, A], of `total`, as d_q1 and d_q2
  Numbers d_q1, d_q2;  // [B, T, A]
};

inline double log_clamped(double probability) { return std::log(std::max(probability, 1e-8)); }

inline Numbers softmax(const double* logits, int actions) {
  const double highest = *std::max_element(logits, logits + actions);
  Numbers result(actions);
  double sum = 0;
  for (int a = 0; a < actions; ++a) sum += result[a] = std::exp(logits[a] - highest);
  for (double& value : result) value /= sum;
  return result;
}

inline Solution solve(const Problem& p) {
  const int A = p.actions, T = p.steps;
  Solution s;
  s.target.assign(p.batch * T, 0);
  s.d_logits.assign(p.batch * (T + 1) * A, 0);
  s.d_q1.assign(p.batch * T * A, 0);
  s.d_q2 = s.d_q1;
  double count = 0;
  for (const int length : p.length) count += length;

  for (int b = 0; b < p.batch; ++b)
    for (int t = 0; t < p.length[b]; ++t) {
      const int step = b * T + t;
      const double* const q1 = &p.q1[step * A];
      const double* const q2 = &p.q2[step * A];
      const Numbers next_policy = softmax(&p.logits[(b * (T + 1) + t + 1) * A], A);
      double value = 0;
      for (int a = 0; a < A; ++a)
        value += next_policy[a] * (std::min(p.target_q1[step * A + a], p.target_q2[step * A + a]) -
                                   p.alpha * log_clamped(next_policy[a]));
      const double target = p.reward[step] + (p.terminated[step] != 0 ? 0 : p.gamma * value);
      s.target[step] = target;

      const int taken = p.action[step];
      const double error1 = q1[taken] - target, error2 = q2[taken] - target;
      s.critic1 += error1 * error1 / count;
      s.critic2 += error2 * error2 / count;
      s.mean_q += q1[taken] / count;
      // total = 0.5 (L1 + L2) + actor
      s.d_q1[step * A + taken] = error1 / count;
      s.d_q2[step * A + taken] = error2 / count;

      const int row = b * (T + 1) + t;
      const Numbers policy = softmax(&p.logits[row * A], A);
      Numbers d_policy(A);
      double mean_d = 0;
      for (int a = 0; a < A; ++a) {
        const double cost = p.alpha * log_clamped(policy[a]) - std::min(q1[a], q2[a]);
        s.actor += policy[a] * cost / count;
        s.entropy -= policy[a] * log_clamped(policy[a]) / count;
        d_policy[a] = cost + (policy[a] > 1e-8 ? p.alpha : 0);
        mean_d += policy[a] * d_policy[a];
      }
      for (int a = 0; a < A; ++a) s.d_logits[row * A + a] = policy[a] * (d_policy[a] - mean_d) / count;
    }
  s.total = 0.5 * (s.critic1 + s.critic2) + s.actor;
  return s;
}

// A head: in -> hidden -> hidden -> out, relu between. Weights [out, in], row after row.
struct Head {
  int in, hidden, out;
  Numbers weight1, bias1, weight2, bias2, weight3, bias3;
};

inline Numbers affine(const Numbers& x, const Numbers& weight, const Numbers& bias) {
  Numbers y(bias);
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
  return y;
}

inline Numbers relu(Numbers x) {
  for (double& value : x) value = std::max(value, 0.0);
  return x;
}

inline Numbers forward(const Head& head, const Numbers& x) {
  const Numbers h1 = relu(affine(x, head.weight1, head.bias1));
  const Numbers h2 = relu(affine(h1, head.weight2, head.bias2));
  return affine(h2, head.weight3, head.bias3);
}

// Adds the layer's gradients for d_y, returns that of x.
inline Numbers affine_backward(const Numbers& x, const Numbers& weight, const Numbers& d_y, Numbers& d_weight,
                               Numbers& d_bias) {
  Numbers d_x(x.size(), 0);
  for (std::size_t o = 0; o < d_y.size(); ++o) {
    d_bias[o] += d_y[o];
    for (std::size_t i = 0; i < x.size(); ++i) {
      d_weight[o * x.size() + i] += d_y[o] * x[i];
      d_x[i] += d_y[o] * weight[o * x.size() + i];
    }
  }
  return d_x;
}

// Adds the head's gradients for d_y to `gradient`, returns that of x.
inline Numbers backward(const Head& head, const Numbers& x, const Numbers& d_y, Head& gradient) {
  const Numbers h1 = relu(affine(x, head.weight1, head.bias1));
  const Numbers h2 = relu(affine(h1, head.weight2, head.bias2));
  Numbers d_h2 = affine_backward(h2, head.weight3, d_y, gradient.weight3, gradient.bias3);
  for (std::size_t i = 0; i < h2.size(); ++i) d_h2[i] *= h2[i] > 0;
  Numbers d_h1 = affine_backward(h1, head.weight2, d_h2, gradient.weight2, gradient.bias2);
  for (std::size_t i = 0; i < h1.size(); ++i) d_h1[i] *= h1[i] > 0;
  return affine_backward(x, head.weight1, d_h1, gradient.weight1, gradient.bias1);
}

}  // namespace engram::plain
