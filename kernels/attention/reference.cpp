#include "kernels/attention/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/machine/parallel_for.h"

namespace engram {
namespace {

// Calls function(row, head) for all of them, spread over the processor's threads.
template <typename Function>
void for_each_head(const AttentionShape& shape, const Function& function) {
  parallel_for(static_cast<std::size_t>(shape.batch) * shape.heads,
               [&](std::size_t i) { function(static_cast<int>(i) / shape.heads, static_cast<int>(i) % shape.heads); });
}

double dot(const double* x, const double* y, int size) {
  double sum[4] = {};
  for (int i = 0; i < size; ++i) sum[i % 4] += x[i] * y[i];
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

// y += factor * x
void add_scaled(double* y, double factor, const double* x, int size) {
  for (int i = 0; i < size; ++i) y[i] += factor * x[i];
}

// Turns x_W from position 0 to `position`.
void turn(double* x_W, int rotary_width, double position) {
  const int half = rotary_width / 2;
  for (int i = 0; i < half; ++i) {
    const double angle = position * std::pow(10000.0, -2.0 * i / rotary_width);
    const double c = std::cos(angle), s = std::sin(angle), a = x_W[i], b = x_W[i + half];
    x_W[i] = a * c - b * s;
    x_W[i + half] = b * c + a * s;
  }
}

// One head of one row: turned queries and keys, the keys of `past` steps before the first.
struct Head {
  int row, head, length, past;
  std::int64_t position;
  std::vector<double> q_TW, k_UW, v_UW;  // U = past + length
};

std::size_t offset(const AttentionReferenceInput& in, int row, int t, int head) {
  return ((static_cast<std::size_t>(row) * in.shape.time + t) * in.shape.heads + head) * in.shape.width;
}

std::size_t ring_offset(const AttentionReferenceInput& in, int row, std::int64_t position, int head) {
  const std::size_t slot = position % in.slots;
  return ((static_cast<std::size_t>(row) * in.slots + slot) * in.shape.heads + head) * in.shape.width;
}

Head make_head(const AttentionReferenceInput& in, int row, int head) {
  const int width = in.shape.width;
  Head x{row, head, static_cast<int>(in.length_B[row]), 0, in.position_B.empty() ? 0 : in.position_B[row], {}, {}, {}};
  if (!in.past_key_BSHW.empty()) x.past = static_cast<int>(std::min<std::int64_t>(x.position, in.slots));
  const auto append = [width](std::vector<double>& to, const double* from) { to.insert(to.end(), from, from + width); };
  for (int u = -x.past; u < 0; ++u) {
    append(x.k_UW, &in.past_key_BSHW[ring_offset(in, row, x.position + u, head)]);
    append(x.v_UW, &in.past_value_BSHW[ring_offset(in, row, x.position + u, head)]);
  }
  for (int t = 0; t < x.length; ++t) {
    const std::size_t at = offset(in, row, t, head);
    append(x.q_TW, &in.q_BTHW[at]);
    append(x.k_UW, &in.k_BTHW[at]);
    append(x.v_UW, &in.v_BTHW[at]);
    const auto position = static_cast<double>(x.position + t);
    turn(&x.q_TW[static_cast<std::size_t>(t) * width], in.rotary_width, position);
    turn(&x.k_UW[static_cast<std::size_t>(x.past + t) * width], in.rotary_width, position);
  }
  return x;
}

// The weights of query t over the keys first(t) .. past + t of `x`, and dropout's factors.
struct Weights {
  int first;
  std::vector<double> p, factor;
};

Weights weights(const AttentionReferenceInput& in, const Head& x, int t) {
  const int width = in.shape.width, last = x.past + t;
  const std::int64_t reach = in.chunked ? t % in.window + 1 : in.window;
  Weights w{static_cast<int>(std::max<std::int64_t>(0, last - reach + 1)), {}, {}};
  double largest = -INFINITY, sum = 0;
  for (int u = w.first; u <= last; ++u) {
    w.p.push_back(in.scale * dot(&x.q_TW[static_cast<std::size_t>(t) * width],
                                 &x.k_UW[static_cast<std::size_t>(u) * width], width));
    largest = std::max(largest, w.p.back());
  }
  for (double& p : w.p) sum += p = std::exp(p - largest);
  for (double& p : w.p) p /= sum;
  w.factor.assign(w.p.size(), 1.0);
  if (in.dropout.drops()) {
    const std::int64_t row = (static_cast<std::int64_t>(x.row) * in.shape.heads + x.head) * in.shape.time + t;
    for (int u = w.first; u <= last; ++u) {
      const std::int64_t channel = in.slots > 0 ? (x.position - x.past + u) % in.slots : u;
      float factor[kDropoutGroup];
      in.dropout.draw((row * dropout_row(in.slots > 0 ? in.slots : in.shape.time) + channel) / kDropoutGroup, factor);
      w.factor[u - w.first] = factor[channel % kDropoutGroup];
    }
  }
  return w;
}

}  // namespace

AttentionReferenceOutput attention_reference(const AttentionReferenceInput& input) {
  const int width = input.shape.width;
  AttentionReferenceOutput output;
  output.output_BTHW.resize(input.q_BTHW.size());
  const std::size_t ring_size = static_cast<std::size_t>(input.shape.batch) * input.slots * input.shape.heads * width;
  output.ring_key_BSHW.resize(ring_size);
  output.ring_value_BSHW.resize(ring_size);
  for_each_head(input.shape, [&](int row, int head) {
    const Head x = make_head(input, row, head);
    for (int t = 0; t < x.length; ++t) {
      const Weights w = weights(input, x, t);
      double* o = &output.output_BTHW[offset(input, row, t, head)];
      for (std::size_t i = 0; i < w.p.size(); ++i)
        add_scaled(o, w.p[i] * w.factor[i], &x.v_UW[(w.first + i) * width], width);
    }
    const int steps = x.past + x.length;
    for (int u = std::max(0, steps - input.slots); u < steps; ++u) {
      const std::size_t at = ring_offset(input, row, x.position - x.past + u, head);
      std::copy_n(&x.k_UW[static_cast<std::size_t>(u) * width], width, &output.ring_key_BSHW[at]);
      std::copy_n(&x.v_UW[static_cast<std::size_t>(u) * width], width, &output.ring_value_BSHW[at]);
    }
  });
  return output;
}

AttentionReferenceGradient attention_reference_backward(const AttentionReferenceInput& input,
                                                        const std::vector<double>& d_output_BTHW) {
  const int width = input.shape.width;
  const std::size_t size = input.q_BTHW.size();
  AttentionReferenceGradient gradient{std::vector<double>(size), std::vector<double>(size), std::vector<double>(size)};
  for_each_head(input.shape, [&](int row, int head) {
    const Head x = make_head(input, row, head);
    std::vector<double> d_k(x.k_UW.size()), d_v(x.v_UW.size()), d_p;
    for (int t = 0; t < x.length; ++t) {
      const Weights w = weights(input, x, t);
      const std::size_t at = offset(input, row, t, head);
      const double *d_o = &d_output_BTHW[at], *q = &x.q_TW[static_cast<std::size_t>(t) * width];
      double* d_q = &gradient.q_BTHW[at];
      double mean = 0;
      d_p.assign(w.p.size(), 0.0);
      for (std::size_t i = 0; i < w.p.size(); ++i) {
        const std::size_t u = (w.first + i) * width;
        d_p[i] = w.factor[i] * dot(d_o, &x.v_UW[u], width);
        add_scaled(&d_v[u], w.p[i] * w.factor[i], d_o, width);
        mean += w.p[i] * d_p[i];
      }
      for (std::size_t i = 0; i < w.p.size(); ++i) {
        const std::size_t u = (w.first + i) * width;
        const double d_score = input.scale * w.p[i] * (d_p[i] - mean);
        add_scaled(d_q, d_score, &x.k_UW[u], width);
        add_scaled(&d_k[u], d_score, q, width);
      }
      turn(d_q, input.rotary_width, -static_cast<double>(x.position + t));
    }
    for (int t = 0; t < x.length; ++t) {
      const std::size_t at = offset(input, row, t, head), u = static_cast<std::size_t>(x.past + t) * width;
      turn(&d_k[u], input.rotary_width, -static_cast<double>(x.position + t));
      std::copy_n(&d_k[u], width, &gradient.k_BTHW[at]);
      std::copy_n(&d_v[u], width, &gradient.v_BTHW[at]);
    }
  });
  return gradient;
}

}  // namespace engram
