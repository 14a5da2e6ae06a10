// The loss of PPO in plain loops over doubles: what tensors, loops and kernels are compared with; and problems for it.
// Gradients are found without a formula: of a function of complex numbers, with x + ih in place of x, the imaginary
// part is h times its slope, to all digits where h is tiny.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace engram::plain_ppo {

using Numbers = std::vector<double>;
using Complex = std::complex<double>;

struct Options {
  double clip = 0.2, value_clip = 0, value_error_bound = 0;  // 0: none, of the latter two
  double value_weight = 0.5, entropy_weight = 0.01;
  double mean = 0.3, deviation = 1.7, kl_weight = 0;
};

struct Problem {
  int batch, steps, actions;  // B, T, A
  Options options;
  std::vector<std::int64_t> length, action;  // [B], [B, T]
  Numbers logits, value;                     // [B, T+1, A], [B, T+1]
  Numbers log_prob, old_value, advantage;    // [B, T]
};

// What one step adds to the means.
template <class Number>
struct Terms {
  Number total = 0, actor = 0, critic = 0, entropy = 0, kl = 0, value = 0;
  double clipped = 0;
};

inline double real_of(double x) { return x; }
inline double real_of(const Complex& x) { return x.real(); }
template <class Number>
Number clip(Number x, double least, double most) {
  return real_of(x) < least ? Number(least) : real_of(x) > most ? Number(most) : x;
}

// [A] -> [A]
template <class Number>
std::vector<Number> log_softmax(std::vector<Number> x) {
  double greatest = real_of(x[0]);
  for (const Number& logit : x) greatest = real_of(logit) > greatest ? real_of(logit) : greatest;
  Number sum = 0;
  for (const Number& logit : x) sum += std::exp(logit - greatest);
  for (Number& logit : x) logit = logit - greatest - std::log(sum);
  return x;
}

template <class Number>
Terms<Number> terms(const Problem& p, std::size_t step, const std::vector<Number>& logits, Number value) {
  const Options& o = p.options;
  Terms<Number> of;
  const std::vector<Number> log_policy = log_softmax(logits);
  const Number change = log_policy[p.action[step]] - p.log_prob[step], ratio = std::exp(change);
  const double advantage = (p.advantage[step] - o.mean) / o.deviation;
  const Number free = ratio * advantage, clipped = clip(ratio, 1 - o.clip, 1 + o.clip) * advantage;
  of.actor = -(real_of(free) <= real_of(clipped) ? free : clipped);
  of.clipped = std::abs(real_of(ratio) - 1) > o.clip ? 1 : 0;
  of.kl = ratio - 1.0 - change;
  for (const Number& log_p : log_policy) of.entropy -= std::exp(log_p) * log_p;

  const double old = p.old_value[step], target = p.advantage[step] + old;
  of.value = value;
  of.critic = (value - target) * (value - target);
  if (o.value_clip > 0) {
    const Number held = old + clip(value - old, -o.value_clip, o.value_clip);
    const Number error = (held - target) * (held - target);
    if (real_of(error) > real_of(of.critic)) of.critic = error;
  }
  if (o.value_error_bound > 0 && real_of(of.critic) > o.value_error_bound) of.critic = o.value_error_bound;
  of.total = of.actor + o.value_weight * of.critic - o.entropy_weight * of.entropy + o.kl_weight * of.kl;
  return of;
}

struct Solution {
  Terms<double> means;
  Numbers d_logits, d_value;  // of the total; [B, T+1, A], [B, T+1]
};

inline void add_part(Terms<double>& sum, const Terms<double>& x, double part) {
  for (const auto member :
       {&Terms<double>::total, &Terms<double>::actor, &Terms<double>::critic, &Terms<double>::entropy,
        &Terms<double>::kl, &Terms<double>::value, &Terms<double>::clipped})
    sum.*member += x.*member * part;
}

inline Solution solve(const Problem& p) {
  constexpr double kTiny = 1e-30;
  Solution s;
  s.d_logits.assign(p.logits.size(), 0);
  s.d_value.assign(p.value.size(), 0);
  double count = 0;
  for (const std::int64_t length : p.length) count += static_cast<double>(length);
  for (int b = 0; b < p.batch; ++b)
    for (std::int64_t t = 0; t < p.length[b]; ++t) {
      const std::size_t row = b * (p.steps + 1) + t, step = b * p.steps + t, first = row * p.actions;
      const Numbers logits(p.logits.begin() + first, p.logits.begin() + first + p.actions);
      add_part(s.means, terms<double>(p, step, logits, p.value[row]), 1 / count);
      const std::vector<Complex> same(logits.begin(), logits.end());
      const Complex value = p.value[row];
      for (int a = 0; a < p.actions; ++a) {
        std::vector<Complex> moved = same;
        moved[a] += Complex(0, kTiny);
        s.d_logits[first + a] = terms<Complex>(p, step, moved, value).total.imag() / kTiny / count;
      }
      s.d_value[row] = terms<Complex>(p, step, same, value + Complex(0, kTiny)).total.imag() / kTiny / count;
    }
  return s;
}

// Whether a step is so near to where the slope of a term jumps that in float it may fall on the other side.
inline bool near_kink(const Problem& p, std::size_t step, const Numbers& logits, double value) {
  constexpr double kNear = 1e-3;
  const Options& o = p.options;
  const auto near = [](double a, double b) { return std::abs(a - b) < kNear; };
  const double ratio = std::exp(log_softmax(logits)[p.action[step]] - p.log_prob[step]);
  const double old = p.old_value[step], target = p.advantage[step] + old;
  const double held = old + clip(value - old, -o.value_clip, o.value_clip);
  const double error = (value - target) * (value - target), held_error = (held - target) * (held - target);
  return near(std::abs(ratio - 1), o.clip) || (o.value_clip > 0 && near(std::abs(value - old), o.value_clip)) ||
         (o.value_clip > 0 && held != value && near(error, held_error)) ||
         (o.value_error_bound > 0 && (near(error, o.value_error_bound) || near(held_error, o.value_error_bound)));
}

// A valid step of `p`: what was played when the policy was some distance away, in numbers that float32 holds.
inline void draw_step(Problem& p, std::size_t row, std::size_t step, double logit_scale, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const auto draw = [&](double scale) { return static_cast<double>(static_cast<float>(scale * normal(random))); };
  const std::size_t first = row * p.actions;
  Numbers logits(p.actions);
  do {
    for (double& logit : logits) logit = draw(logit_scale);
    p.action[step] = random() % p.actions;
    p.log_prob[step] = static_cast<float>(log_softmax(logits)[p.action[step]] + draw(0.3));
    p.value[row] = draw(1);
    p.old_value[step] = static_cast<float>(p.value[row] + draw(0.3));
    p.advantage[step] = draw(1.5);
  } while (near_kink(p, step, logits, p.value[row]));
  for (int a = 0; a < p.actions; ++a) p.logits[first + a] = logits[a];
}

// Ragged episodes, the first with all steps and the second with one; padding is NaN, with an action that does not
// exist.
inline Problem random_problem(int batch, int steps, int actions, const Options& options, unsigned seed,
                              double logit_scale = 1) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::mt19937 random(seed);
  const std::size_t all = static_cast<std::size_t>(batch) * steps, rows = all + batch;
  Problem p{batch, steps, actions, options, {}, {}, {}, {}, {}, {}, {}};
  p.action.assign(all, 1'000'000'000);
  p.logits.assign(rows * actions, kNone);
  p.value.assign(rows, kNone);
  p.log_prob = p.old_value = p.advantage = Numbers(all, kNone);
  for (int b = 0; b < batch; ++b) {
    p.length.push_back(b == 0 ? steps : b == 1 ? 1 : 1 + random() % steps);
    for (std::int64_t t = 0; t < p.length[b]; ++t)
      draw_step(p, b * (steps + 1) + t, b * steps + t, logit_scale, random);
  }
  return p;
}

// Each option on and off, and all together.
inline std::vector<Options> all_options() {
  return {{},
          {.clip = 0.05},
          {.value_clip = 0.2},
          {.value_error_bound = 2},
          {.entropy_weight = 0},
          {.value_weight = 0, .kl_weight = 0.7},
          {.clip = 0.1,
           .value_clip = 0.1,
           .value_error_bound = 1,
           .value_weight = 2,
           .entropy_weight = 0.3,
           .mean = -0.4,
           .deviation = 0.6,
           .kl_weight = 3}};
}

}  // namespace engram::plain_ppo
