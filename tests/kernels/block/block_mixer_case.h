// Random problems around the memories of a block, in double by the definition and through the kernels with poisoned
// memory.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/block/mixer.h"
#include "tests/kernels/block/block_test.h"

namespace engram::testing {

struct MixerCase {
  std::int64_t rows;
  int heads, width;
  MixKind kind;
  Dtype dtype;
  double dropout = 0;
  unsigned seed = 0;
  bool branch_norm = false;

  // A projection's row: q, k, v, gate, beta.
  int padded() const { return (width + 7) / 8 * 8; }
  int gate() const { return 3 * heads * padded(); }
  int gate_columns() const { return mixer_gate_columns(kind, heads, padded()); }
  int beta() const { return gate() + gate_columns(); }
  int stride() const { return beta() + (heads + 7) / 8 * 8; }
  bool window() const { return kind != MixKind::kFast; }
  MixerShape shape() const { return {rows, heads, width, padded()}; }
  std::int64_t items() const { return rows * heads; }
  std::string name() const {
    const char* const names[] = {"fast", "sum", "scalar", "vector"};
    return std::to_string(rows) + " rows of " + std::to_string(heads) + " heads of " + std::to_string(width) + " " +
           names[static_cast<int>(kind)] + (branch_norm ? " branch norm " : " ") + name_of(dtype) + " seed " +
           std::to_string(seed);
  }
};

constexpr std::int64_t kMixerSeedTick[2] = {7, 11};

// One rounding of the result; in float the differences dy - y (y . dy) of a head lose a bit or two.
inline double gradient_tolerance(const MixerCase& c) {
  return c.dtype == Dtype::kFloat32 ? 1e-5 : rounded_once(c.dtype);
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// factor silu(x), and that divided by its length
inline Numbers value_feature(const Numbers& x, const Numbers& factor) {
  Numbers y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(factor[i] * x[i] * sigmoid(x[i]));
  return y;
}
inline Numbers unit_feature(const Numbers& x, const Numbers& factor) {
  Numbers y = value_feature(x, factor);
  double square = 1e-6;
  for (const double element : y) square += element * element;
  for (double& element : y) element /= std::sqrt(square);
  return y;
}

// ---- features

struct FeaturesProblem {
  Numbers projected, d_features, d_beta, window_value, d_projected;  // the last as the window leaves it
};

// All of one row after the other, heads of `width` without padding.
struct FeaturesResult {
  Numbers projected;  // as the forward pass leaves q, k and v
  Numbers features, beta, d_q, d_k, d_v, d_beta, behind_beta;
};

inline FeaturesProblem make_features(const MixerCase& c) {
  Rng rng(c.seed, Purpose::kTest, 10, static_cast<unsigned>(c.width));
  FeaturesProblem p;
  const int heads = 3 * c.heads;
  p.projected = normals(rng, c.rows * c.stride(), c.dtype);
  p.d_projected = normals(rng, c.rows * c.stride(), c.dtype);
  for (std::size_t i = 0; i < p.projected.size(); ++i) {
    const int column = static_cast<int>(i % c.stride());
    if (column < c.gate() && column % c.padded() >= c.width) p.projected[i] = p.d_projected[i] = 0;
  }
  p.d_features = normal_rows(rng, c.rows * heads, c.width, c.padded(), c.dtype);
  p.window_value = normal_rows(rng, c.items(), c.width, c.padded(), c.dtype);
  p.d_beta = normals(rng, c.items(), c.dtype);
  return p;
}

constexpr double kBetaFactor = 2;

inline FeaturesResult features_reference(const MixerCase& c, const FeaturesProblem& p) {
  FeaturesResult r;
  Numbers projected[3], d[3];
  for (std::int64_t item = 0; item < c.items(); ++item) {
    const std::int64_t row = item / c.heads, head = item % c.heads;
    for (int which = 0; which < 3; ++which) {
      const std::int64_t column = (which * c.heads + head) * c.padded(), at = row * c.stride() + column;
      Numbers factor(c.width, 1);
      const DropoutKey dropout(kMixerSeedTick, 20 + which, c.dropout);
      if (dropout.drops())
        for (int i = 0; i < c.width; i += kDropoutGroup) {
          float drawn[kDropoutGroup];
          dropout.draw((item * dropout_row(c.width) + i) / kDropoutGroup, drawn);
          for (int j = 0; j < kDropoutGroup && i + j < c.width; ++j) factor[i + j] = drawn[j];
        }
      // Before silu where a window reads what is left, else behind it. The kernel goes on with what it drops in
      // registers; for the window it is stored, rounded, and the backward pass reads that.
      const bool before = c.window() && which < 2;
      Numbers x = part(p.projected, at, c.width), stored = x;
      for (int i = 0; before && i < c.width; ++i) x[i] *= factor[i], stored[i] = rounded(x[i], c.dtype);
      projected[which].insert(projected[which].end(), stored.begin(), stored.end());
      const Numbers behind = before ? Numbers(c.width, 1) : factor;
      const auto feature = [&](const Numbers& in) {
        return which < 2 ? unit_feature(in, behind) : value_feature(in, behind);
      };
      const Numbers y = feature(x);
      r.features.insert(r.features.end(), y.begin(), y.end());
      Numbers dy = part(p.d_features, row * 3 * c.heads * c.padded() + column, c.width);
      if (c.window() && which == 2)
        for (int i = 0; i < c.width; ++i) dy[i] += p.window_value[item * c.padded() + i];
      Numbers dx = numeric_gradient(feature, stored, dy);
      for (int i = 0; before && i < c.width; ++i) dx[i] = factor[i] * (dx[i] + p.d_projected[at + i]);
      d[which].insert(d[which].end(), dx.begin(), dx.end());
    }
    const double x = p.projected[row * c.stride() + c.beta() + head];
    const auto beta = [](const Numbers& in) { return Numbers{kBetaFactor * sigmoid(in[0])}; };
    r.beta.push_back(beta({x})[0]);
    r.d_beta.push_back(numeric_gradient(beta, {x}, {p.d_beta[item]})[0]);
  }
  for (const Numbers& which : projected) r.projected.insert(r.projected.end(), which.begin(), which.end());
  r.d_q = d[0], r.d_k = d[1], r.d_v = d[2];
  return r;
}

struct FeaturesDevice {
  MixerCase c;
  DeviceBytes given_projected, given_d_projected, projected, d_features, d_beta, window_value, d_projected, features,
      beta;
  DeviceBuffer<std::int64_t> seed_tick{std::vector<std::int64_t>{kMixerSeedTick[0], kMixerSeedTick[1]}};

  FeaturesDevice(const MixerCase& of, const FeaturesProblem& p)
      : c(of),
        given_projected(upload(p.projected, c.dtype)),
        d_features(upload(p.d_features, c.dtype)),
        d_beta(upload(p.d_beta, c.dtype)),
        window_value(upload(p.window_value, c.dtype)) {
    // The backward pass adds to what the window left in the columns of q and k; all else is new.
    Numbers entry(c.rows * c.stride(), std::nan(""));
    if (c.window())
      for (std::size_t i = 0; i < entry.size(); ++i)
        if (static_cast<int>(i % c.stride()) < 2 * c.heads * c.padded()) entry[i] = p.d_projected[i];
    given_d_projected = upload(entry, c.dtype);
  }

  void run() {
    copy(projected, given_projected), copy(d_projected, given_d_projected);
    poison(features, c.items() * 3 * c.padded(), c.dtype), poison(beta, c.items(), c.dtype);
    const auto dropout = [&](int which) { return DropoutKey(seed_tick.data(), 20 + which, c.dropout); };
    const MixerFeatures input{c.shape(),  c.dtype,    c.stride(), c.beta(),   static_cast<float>(kBetaFactor),
                              dropout(0), dropout(1), dropout(2), c.window(), projected.data()};
    mixer_features_forward(input, features.data(), beta.data(), nullptr);
    mixer_features_backward(
        input, {d_features.data(), d_beta.data(), c.window() ? window_value.data() : nullptr, d_projected.data()},
        nullptr);
  }

  FeaturesResult result() const {
    const Numbers in = download(projected, c.dtype), out = download(features, c.dtype),
                  d = download(d_projected, c.dtype);
    // [rows, heads, padded] of the columns from `first` on, without padding.
    const auto heads = [&](const Numbers& of, int stride, int first, int count) {
      return columns(columns(of, stride, first, count * c.padded()), c.padded(), 0, c.width);
    };
    FeaturesResult r;
    for (int which = 0; which < 3; ++which) {
      const Numbers own = heads(in, c.stride(), which * c.heads * c.padded(), c.heads);
      r.projected.insert(r.projected.end(), own.begin(), own.end());
    }
    // The reference lists q, k, v of one head after the other.
    for (std::int64_t item = 0; item < c.items(); ++item)
      for (int which = 0; which < 3; ++which) {
        const Numbers own = part(out, ((item / c.heads * 3 + which) * c.heads + item % c.heads) * c.padded(), c.width);
        r.features.insert(r.features.end(), own.begin(), own.end());
      }
    r.beta = download(beta, c.dtype);
    r.d_q = heads(d, c.stride(), 0, c.heads);
    r.d_k = heads(d, c.stride(), c.heads * c.padded(), c.heads);
    r.d_v = heads(d, c.stride(), 2 * c.heads * c.padded(), c.heads);
    r.d_beta = columns(d, c.stride(), c.beta(), c.heads);
    r.behind_beta = columns(d, c.stride(), c.beta() + c.heads, c.stride() - c.beta() - c.heads);
    return r;
  }
};

// ---- mix

struct MixProblem {
  Numbers projected, fast, window, weight, d_out;
};

struct MixResult {
  Numbers out, d_fast, d_window, d_gate, d_weight;
};

constexpr double kMixEpsilon = 1e-5;

inline MixProblem make_mix(const MixerCase& c) {
  Rng rng(c.seed, Purpose::kTest, 11, static_cast<unsigned>(c.width));
  MixProblem p;
  p.projected = normals(rng, c.rows * c.stride(), c.dtype);
  if (c.kind == MixKind::kVector)
    for (std::size_t i = 0; i < p.projected.size(); ++i) {
      const int column = static_cast<int>(i % c.stride()) - c.gate();
      if (column >= 0 && column < c.gate_columns() && column % c.padded() >= c.width) p.projected[i] = 0;
    }
  p.fast = normal_rows(rng, c.items(), c.width, c.padded(), c.dtype, c.branch_norm ? 0.25 : 1);
  p.window = normal_rows(rng, c.items(), c.width, c.padded(), c.dtype);
  p.weight = normals(rng, c.width, Dtype::kFloat32);
  p.d_out = normal_rows(rng, c.items(), c.width, c.padded(), c.dtype);
  return p;
}

// x / sqrt(mean x^2 + epsilon)
inline Numbers divided_by_rms(Numbers x) {
  double square = 0;
  for (const double element : x) square += element * element;
  for (double& element : x)
    element /= std::sqrt(square / static_cast<double>(x.size()) + static_cast<float>(kMixEpsilon));
  return x;
}

// One head; inputs: fast, window, gate, weight beside each other.
inline Numbers mix_head(MixKind kind, bool branch_norm, int width, const Numbers& in) {
  const int gate_size = kind == MixKind::kVector ? width : kind == MixKind::kScalar ? 2 : 0;
  const double *gate = &in[2 * width], *weight = gate + gate_size;
  Numbers fast = part(in, 0, width), window = part(in, width, width), m(width);
  if (branch_norm) fast = divided_by_rms(fast), window = divided_by_rms(window);
  double square = 0;
  const double a = kind == MixKind::kScalar ? sigmoid(gate[0]) : 1, b = kind == MixKind::kScalar ? sigmoid(gate[1])
                                                                        : kind == MixKind::kFast ? 0
                                                                                                 : 1;
  for (int i = 0; i < width; ++i) {
    const double g = kind == MixKind::kVector ? sigmoid(gate[i]) : 0;
    m[i] = kind == MixKind::kVector ? g * fast[i] + (1 - g) * window[i] : a * fast[i] + b * window[i];
    square += m[i] * m[i];
  }
  const double deviation = std::sqrt(square / width + static_cast<float>(kMixEpsilon));
  for (int i = 0; i < width; ++i) m[i] *= weight[i] / deviation;
  return m;
}

inline MixResult mix_reference(const MixerCase& c, const MixProblem& p) {
  MixResult r;
  r.d_weight.resize(c.width);
  for (std::int64_t item = 0; item < c.items(); ++item) {
    const std::int64_t row = item / c.heads, head = item % c.heads, gate = row * c.stride() + c.gate();
    Numbers in = part(p.fast, item * c.padded(), c.width);
    const auto append = [](Numbers& to, const Numbers& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(in, part(p.window, item * c.padded(), c.width));
    if (c.kind == MixKind::kVector) append(in, part(p.projected, gate + head * c.padded(), c.width));
    if (c.kind == MixKind::kScalar) append(in, part(p.projected, gate + 2 * head, 2));
    const std::size_t gate_size = in.size() - 2 * c.width;
    append(in, p.weight);
    const auto function = [&](const Numbers& x) { return mix_head(c.kind, c.branch_norm, c.width, x); };
    append(r.out, function(in));
    const Numbers d = numeric_gradient(function, in, part(p.d_out, item * c.padded(), c.width));
    append(r.d_fast, part(d, 0, c.width));
    if (c.window()) append(r.d_window, part(d, c.width, c.width));
    append(r.d_gate, part(d, 2 * c.width, static_cast<std::int64_t>(gate_size)));
    for (int i = 0; i < c.width; ++i) r.d_weight[i] += d[2 * c.width + gate_size + i];
  }
  return r;
}

struct MixDevice {
  MixerCase c;
  DeviceBytes projected, fast, window, weight, d_out, out, d_projected, d_fast, d_window, d_weight, scratch;

  MixDevice(const MixerCase& of, const MixProblem& p)
      : c(of),
        projected(upload(p.projected, c.dtype)),
        fast(upload(p.fast, c.dtype)),
        window(upload(p.window, c.dtype)),
        weight(upload(p.weight, Dtype::kFloat32)),
        d_out(upload(p.d_out, c.dtype)) {}

  void run() {
    const std::int64_t size = c.items() * c.padded();
    for (DeviceBytes* bytes : {&out, &d_fast, &d_window}) poison(*bytes, size, c.dtype);
    poison(d_projected, c.rows * c.stride(), c.dtype), poison(d_weight, c.width, Dtype::kFloat32);
    poison(scratch, mixer_mix_backward_scratch_bytes(c.shape()));
    const std::size_t gate = c.gate() * dtype_bytes(c.dtype);
    const MixerMix input{c.shape(),      c.dtype,
                         c.kind,         c.branch_norm,
                         c.stride(),     projected.data() + gate,
                         fast.data(),    c.window() ? window.data() : nullptr,
                         floats(weight), static_cast<float>(kMixEpsilon)};
    mixer_mix_forward(input, out.data(), nullptr);
    mixer_mix_backward(input, {d_out.data(), d_projected.data() + gate, d_fast.data(), d_window.data()}, scratch.data(),
                       nullptr);
    add_up({mixer_mix_sum(c.shape(), scratch.data(), floats(d_weight))}, nullptr);
  }

  // As the reference lists it; throws std::logic_error where padding is not zero.
  MixResult result() const {
    const auto heads = [&](const Numbers& of) {
      for (std::size_t i = 0; i < of.size(); ++i)
        if (static_cast<int>(i % c.padded()) >= c.width && of[i] != 0)
          throw std::logic_error("padding at " + std::to_string(i) + " is " + std::to_string(of[i]));
      return columns(of, c.padded(), 0, c.width);
    };
    MixResult r{
        heads(download(out, c.dtype)), heads(download(d_fast, c.dtype)), {}, {}, download(d_weight, Dtype::kFloat32)};
    if (c.window()) r.d_window = heads(download(d_window, c.dtype));
    const Numbers gate = columns(download(d_projected, c.dtype), c.stride(), c.gate(), c.gate_columns());
    if (c.kind == MixKind::kVector) r.d_gate = heads(gate);
    if (c.kind == MixKind::kScalar) {
      r.d_gate = columns(gate, c.gate_columns(), 0, 2 * c.heads);
      for (const double x : columns(gate, c.gate_columns(), 2 * c.heads, c.gate_columns() - 2 * c.heads))
        if (x != 0) throw std::logic_error("a gate's padding is " + std::to_string(x));
    }
    return r;
  }
};

}  // namespace engram::testing
