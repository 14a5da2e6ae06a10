// Random problems around fast weights, in double by the definition (kernels/fast_weights/passes/reference.h) and
// through the kernels with poisoned memory.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fast_weights/passes/passes.h"
#include "kernels/fast_weights/passes/reference.h"
#include "tests/kernels/block/block_test.h"

namespace engram::testing {

namespace passes = fast_weight_passes;

constexpr std::int64_t kPassesSeedTick[2] = {7, 11};
constexpr int kBehind = 8;  // columns of a projection that a pass has no part in

inline void poison_scratch(DeviceBytes& scratch, std::size_t bytes) {
  if (bytes > 0) poison(scratch, bytes);
}

inline int padded_to_vectors(int channels) { return (channels + 7) / 8 * 8; }

// Heads of `width` elements from heads of `padded`. Throws std::logic_error where the padding is not zero.
inline Numbers without_padding(const Numbers& of, int padded, int width) {
  for (std::size_t i = 0; i < of.size(); ++i)
    if (static_cast<int>(i % padded) >= width && of[i] != 0)
      throw std::logic_error("padding at " + std::to_string(i) + " is " + std::to_string(of[i]));
  return columns(of, padded, 0, width);
}
// And back; `filling` stands behind.
inline Numbers with_padding(const Numbers& of, int width, int padded, double filling = 0) {
  Numbers y(of.size() / width * padded, filling);
  for (std::size_t i = 0; i < of.size(); ++i) y[i / width * padded + i % width] = of[i];
  return y;
}

// ---- Features

struct PassesCase {
  int batch, steps, heads, channels;
  passes::Map map;
  passes::FeatureNorm norm;
  Dtype dtype;
  int nu = 1, directions = 0;
  bool convolution = false, bias = false, one = false, value_silu = true;
  double dropout = 0;
  unsigned seed = 0;
  bool window = false;  // reads queries and keys, which drop first, and the values' features

  bool reads_rows() const { return window && convolution; }  // beside the projection
  int features() const {
    if (map == passes::Map::kFavor) return 2 * directions;
    return map == passes::Map::kDpfp ? 2 * channels * nu : channels;
  }
  int widest() const { return std::max(features(), channels + (one ? 1 : 0)); }
  int padded() const { return padded_to_vectors(channels); }
  int features_padded() const { return padded_to_vectors(widest()); }
  int stride() const { return 3 * heads * padded() + kBehind; }
  std::size_t rows() const { return static_cast<std::size_t>(batch) * steps; }
  std::string name() const {
    return std::to_string(batch) + " x " + std::to_string(steps) + " rows of " + std::to_string(heads) + " heads of " +
           std::to_string(channels) + " map " + std::to_string(static_cast<int>(map)) + " norm " +
           std::to_string(static_cast<int>(norm)) + " nu " + std::to_string(nu) +
           (convolution ? " convolution " : " ") + (bias ? "bias " : "") + (one ? "one " : "") +
           (window ? "window " : "") + name_of(dtype) + " seed " + std::to_string(seed);
  }
  // `seed_tick`: where the dropouts are drawn.
  void fill(passes::FeaturePart (&part)[passes::kParts], const std::int64_t* seed_tick) const {
    const auto dropout_of = [&](int which) { return DropoutKey(seed_tick, 20 + which, dropout); };
    for (int which = 0; which < 2; ++which)
      part[which] = {map, norm, dropout_of(which), channels, features(), nu, false, window};
    part[2] = {value_silu ? passes::Map::kSilu : passes::Map::kIdentity,
               passes::FeatureNorm::kNone,
               dropout_of(2),
               channels,
               channels,
               0,
               one};
  }
};

struct PassesProblem {
  passes::FeaturesReference input;
  Numbers d_features;  // [B, T, 3, H, widest], zero behind each part's features
  passes::WindowGradient window;
};

inline PassesProblem make_passes(const PassesCase& c) {
  Rng rng(c.seed, Purpose::kTest, 12, static_cast<unsigned>(c.channels));
  PassesProblem p{{c.batch, c.steps, c.heads, {}, {}, {}, {}, {}}, {}, {}};
  c.fill(p.input.part, kPassesSeedTick);
  p.input.projected = normals(rng, c.rows() * 3 * c.heads * c.channels, c.dtype);
  if (c.convolution) p.input.convolution = normals(rng, 3 * c.heads * c.channels * 4, Dtype::kFloat32, 0.5);
  if (c.bias) p.input.bias = normals(rng, 3 * c.heads * c.channels, Dtype::kFloat32, 0.5);
  p.input.directions = normals(rng, c.directions * c.channels, Dtype::kFloat32);
  p.d_features = normals(rng, c.rows() * 3 * c.heads * c.widest(), c.dtype);
  for (std::size_t i = 0; i < p.d_features.size(); ++i) {
    const auto which = i / c.widest() / c.heads % 3;
    // The gradient of the ones is not read: it may be anything.
    const int read = which == 2 ? c.channels + (c.one ? 1 : 0) : c.features();
    if (static_cast<int>(i % c.widest()) >= read) p.d_features[i] = 0;
  }
  if (c.window) {
    const std::size_t part = c.rows() * c.heads * c.channels;
    Numbers read = normals(rng, (c.convolution ? 2 : 3) * part, c.dtype);
    p.window.value = normals(rng, part, c.dtype);
    (c.convolution ? p.window.rows : p.window.projected) = std::move(read);
  }
  return p;
}

struct PassesDevice {
  PassesCase c;
  DeviceBytes given, projected, convolution, bias, directions, d_features, window_value, of_window, window_rows,
      d_window_rows, features, d_projected, d_convolution, d_bias, scratch;
  DeviceBuffer<std::int64_t> seed_tick{std::vector<std::int64_t>{kPassesSeedTick[0], kPassesSeedTick[1]}};

  PassesDevice(const PassesCase& of, const PassesProblem& p)
      : c(of),
        given(upload(in_rows(p.input.projected), c.dtype)),
        d_features(upload(with_padding(p.d_features, c.widest(), c.features_padded()), c.dtype)) {
    if (c.window) window_value = upload(with_padding(p.window.value, c.channels, c.padded()), c.dtype);
    if (c.reads_rows()) d_window_rows = upload(with_padding(p.window.rows, c.channels, c.padded()), c.dtype);
    if (c.window && !c.reads_rows()) {
      // The values' columns and what is behind them hold nothing yet.
      Numbers entry = in_rows(p.window.projected);
      for (std::size_t i = 0; i < entry.size(); ++i)
        if (static_cast<int>(i % c.stride()) >= 2 * c.heads * c.padded()) entry[i] = std::nan("");
      of_window = upload(entry, c.dtype);
    }
    if (c.convolution) convolution = upload(p.input.convolution, Dtype::kFloat32);
    if (c.bias) bias = upload(p.input.bias, Dtype::kFloat32);
    if (c.directions > 0) directions = upload(p.input.directions, Dtype::kFloat32);
  }

  void run() {
    copy(projected, given);
    passes::Features input{{c.batch, c.steps, c.heads, c.padded(), c.features_padded(), c.stride()},
                           c.dtype,
                           {},
                           projected.data(),
                           c.convolution ? floats(convolution) : nullptr,
                           c.bias ? floats(bias) : nullptr,
                           c.directions > 0 ? floats(directions) : nullptr};
    c.fill(input.part, seed_tick.data());
    poison(features, c.rows() * 3 * c.heads * c.features_padded(), c.dtype);
    if (c.reads_rows()) {
      poison(window_rows, c.rows() * 2 * c.heads * c.padded(), c.dtype);
      input.window_rows = window_rows.data();
    }
    if (c.window && !c.reads_rows())
      copy(d_projected, of_window);
    else
      poison(d_projected, c.rows() * c.stride(), c.dtype);
    poison_scratch(scratch, passes::features_backward_scratch_bytes(input));
    passes::features_forward(input, features.data(), nullptr);
    passes::features_backward(
        input,
        {d_features.data(), c.window ? window_value.data() : nullptr, c.reads_rows() ? d_window_rows.data() : nullptr},
        d_projected.data(), scratch.data(), nullptr);
    if (!c.convolution) return;
    poison(d_convolution, 3 * c.heads * c.channels * 4, Dtype::kFloat32);
    add_up({passes::convolution_sum(input, scratch.data(), floats(d_convolution))}, nullptr);
    if (!c.bias) return;
    poison(d_bias, 3 * c.heads * c.channels, Dtype::kFloat32);
    add_up({passes::convolution_bias_sum(input, scratch.data(), floats(d_bias))}, nullptr);
  }

  // [B, T, 3, H, C] as the kernels take it, NaN between the rows.
  Numbers in_rows(const Numbers& of) const {
    return with_padding(with_padding(of, c.channels, c.padded()), 3 * c.heads * c.padded(), c.stride(), std::nan(""));
  }

  // As the reference lists them.
  Numbers features_result() const {
    return without_padding(download(features, c.dtype), c.features_padded(), c.widest());
  }
  Numbers window_rows_result() const { return without_padding(download(window_rows, c.dtype), c.padded(), c.channels); }
  Numbers of_projection(const DeviceBytes& rows) const {
    return without_padding(columns(download(rows, c.dtype), c.stride(), 0, c.stride() - kBehind), c.padded(),
                           c.channels);
  }
};

// ---- Write strengths and decays

struct StrengthsCase {
  passes::StrengthKind kind;
  int rows, heads;
  Dtype dtype;
  int steps = 1;  // of a sequence
  bool write_bias = false;

  bool is_scaled() const { return kind.write == passes::Write::kExponential; }
  bool has_write() const { return passes::has_write_logit(kind); }
  bool has_decay() const { return kind.decay == passes::LogDecay::kScalar; }
  bool learns_decay() const { return has_decay() || kind.decay == passes::LogDecay::kOfWrite; }
  int logits() const { return passes::logit_columns(kind, heads); }
  int stride() const { return logits() + kBehind; }
  int decay_column() const { return has_write() ? heads : 0; }
  int used() const { return decay_column() + (has_decay() ? heads : 0); }
  std::string name() const {
    return std::to_string(rows) + " rows, " + std::to_string(steps) + " a sequence, of " + std::to_string(heads) +
           " heads, write " + std::to_string(static_cast<int>(kind.write)) + (write_bias ? " with a bias" : "") +
           " decay " + std::to_string(static_cast<int>(kind.decay)) + " " + name_of(dtype);
  }
};

struct StrengthsProblem {
  passes::StrengthsReference input;
  passes::StrengthsReferenceOutput d;
};

// Of Write::kExponential, where heads differ: numbers to both sides of what float holds the exponential of, one that
// outweighs all later ones, none that lift the scale above 1, and moderate ones.
inline double exponential_logit(const StrengthsCase& c, std::size_t item, double x) {
  const std::size_t head = item % c.heads, step = item / c.heads % c.steps;
  switch ((c.heads + head) % 4) {
    case 0:
      return 40 * x;
    case 1:
      return step == 0 ? 80 : x;
    case 2:
      return -80 + x;
    default:
      return x;
  }
}

inline StrengthsProblem make_strengths(const StrengthsCase& c) {
  Rng rng(5, Purpose::kTest, 13, static_cast<unsigned>(c.heads));
  const std::size_t size = static_cast<std::size_t>(c.rows) * c.heads;
  StrengthsProblem p{{c.kind, c.steps, c.heads, {}, {}, {}, {}, {}}, {}};
  if (c.has_write()) p.input.write_logits = normals(rng, size, c.dtype, c.is_scaled() ? 1 : 3);
  if (c.is_scaled())
    for (std::size_t i = 0; i < size; ++i)
      p.input.write_logits[i] = rounded(exponential_logit(c, i, p.input.write_logits[i]), c.dtype);
  if (c.has_decay()) {
    // With a scale, from decays that leave all to decays that leave nothing.
    p.input.decay_logits = normals(rng, size, c.dtype, c.is_scaled() ? 10 : 3);
    p.input.bias_H = normals(rng, c.heads, Dtype::kFloat32);
    p.input.log_rate_H = normals(rng, c.heads, Dtype::kFloat32);
  }
  if (c.write_bias) p.input.write_bias_H = normals(rng, c.heads, Dtype::kFloat32);
  p.d = {normals(rng, size, c.dtype), Numbers(size), {}};
  if (c.learns_decay()) p.d.log_decay = normals(rng, size, Dtype::kFloat32);
  return p;
}

struct StrengthsDevice {
  StrengthsCase c;
  DeviceBytes projected, bias, log_rate, write_bias, d_write, d_log_decay, write, log_decay, one, d_projected, d_bias,
      d_log_rate, d_write_bias, scratch;

  StrengthsDevice(const StrengthsCase& of, const StrengthsProblem& p)
      : c(of), d_write(upload(p.d.write, c.dtype)), d_log_decay(upload(p.d.log_decay, Dtype::kFloat32)) {
    Numbers rows(static_cast<std::size_t>(c.rows) * c.stride(), std::nan(""));
    for (int row = 0; row < c.rows; ++row)
      for (int head = 0; head < c.heads; ++head) {
        const std::size_t to = static_cast<std::size_t>(row) * c.stride() + head;
        const std::size_t from = static_cast<std::size_t>(row) * c.heads + head;
        if (c.has_write()) rows[to] = p.input.write_logits[from];
        if (c.has_decay()) rows[to + c.decay_column()] = p.input.decay_logits[from];
      }
    projected = upload(rows, c.dtype);
    if (c.write_bias) write_bias = upload(p.input.write_bias_H, Dtype::kFloat32);
    if (!c.has_decay()) return;
    bias = upload(p.input.bias_H, Dtype::kFloat32);
    log_rate = upload(p.input.log_rate_H, Dtype::kFloat32);
  }

  void run() {
    const std::size_t size = static_cast<std::size_t>(c.rows) * c.heads;
    const passes::Strengths input{.kind = c.kind,
                                  .rows = c.rows,
                                  .steps = c.steps,
                                  .heads = c.heads,
                                  .dtype = c.dtype,
                                  .projected_stride = c.stride(),
                                  .logits = projected.data(),
                                  .bias_H = floats(bias),
                                  .log_rate_H = floats(log_rate),
                                  .write_bias_H = c.write_bias ? floats(write_bias) : nullptr};
    poison(write, size, c.dtype), poison(log_decay, size, Dtype::kFloat32), poison(one, size, Dtype::kFloat32);
    poison(d_projected, static_cast<std::size_t>(c.rows) * c.stride(), c.dtype);
    poison_scratch(scratch, passes::strengths_backward_scratch_bytes(input));
    passes::strengths_forward(input, write.data(), floats(log_decay), c.is_scaled() ? floats(one) : nullptr, nullptr);
    if (c.logits() == 0) return;
    passes::strengths_backward(input, c.is_scaled() ? write.data() : nullptr, d_write.data(),
                               c.learns_decay() ? floats(d_log_decay) : nullptr, d_projected.data(), scratch.data(),
                               nullptr);
    if (c.write_bias) {
      poison(d_write_bias, c.heads, Dtype::kFloat32);
      add_up({passes::write_bias_sum(input, scratch.data(), floats(d_write_bias))}, nullptr);
    }
    if (!c.has_decay()) return;
    poison(d_bias, c.heads, Dtype::kFloat32), poison(d_log_rate, c.heads, Dtype::kFloat32);
    const auto sums = passes::strengths_sums(input, scratch.data(), floats(d_bias), floats(d_log_rate));
    add_up({sums.begin(), sums.end()}, nullptr);
  }

  // Columns of the projection's gradient.
  Numbers logits_result(int first, int count) const {
    return columns(download(d_projected, c.dtype), c.stride(), first, count);
  }
};

// ---- The answer

constexpr std::array kAnswerGates{passes::AnswerGate::kNone, passes::AnswerGate::kSilu, passes::AnswerGate::kSigmoid};

struct AnswerCase {
  passes::AnswerNorm norm;
  passes::AnswerGate gate;
  int rows, heads, channels;
  int features_padded;  // at least
  Dtype dtype;
  bool scaled = false;  // with AnswerNorm::kAtLeastOne: 1 is a number of its own for every row and head
  bool skip = false;    // with AnswerNorm::kNone
  passes::Mix mix = passes::Mix::kNone;
  bool branch_norm = false;

  passes::AnswerKind kind() const { return {norm, gate, channels, 1e-5f, mix, branch_norm}; }
  bool mixes() const { return mix != passes::Mix::kNone; }
  int gate_columns() const { return passes::gate_columns(gate, heads, padded()); }
  bool gated() const { return gate_columns() > 0; }
  int mix_columns() const { return passes::mix_columns(mix, heads, padded()); }
  bool mix_gated() const { return mix_columns() > 0; }
  // A mix's gates of a head, and as they are padded; of Mix::kScalar all heads' together.
  int mix_width() const { return mix == passes::Mix::kScalar ? 2 * heads : channels; }
  int mix_padded() const { return mix == passes::Mix::kScalar ? mix_columns() : padded(); }
  int answer() const { return channels + (norm == passes::AnswerNorm::kNone ? 0 : 1); }
  int padded() const { return padded_to_vectors(channels); }
  int answer_padded() const { return std::max(features_padded, padded_to_vectors(answer())); }
  int stride() const { return gate_columns() + mix_columns() + kBehind; }
  std::size_t items() const { return static_cast<std::size_t>(rows) * heads; }
  int values_stride() const { return heads * answer_padded() + kBehind; }
  std::string name() const {
    return std::to_string(rows) + " rows of " + std::to_string(heads) + " heads of " + std::to_string(channels) +
           " in " + std::to_string(answer_padded()) + " norm " + std::to_string(static_cast<int>(norm)) + " gate " +
           std::to_string(static_cast<int>(gate)) + (scaled ? " scaled " : " ") + (skip ? "skip " : "") + "mix " +
           std::to_string(static_cast<int>(mix)) + (branch_norm ? " branch norm " : " ") + name_of(dtype);
  }
};

struct AnswerProblem {
  passes::AnswerReference input;
  Numbers d_out;
  Numbers d_values;  // of the memory, which the skip's are added to
};

// Small enough for the RMS norm's epsilon to be felt, without which the norm's channel would have no gradient.
inline AnswerProblem make_answer(const AnswerCase& c) {
  Rng rng(6, Purpose::kTest, 14, static_cast<unsigned>(c.channels));
  AnswerProblem p{{c.kind(), {}, {}, {}, {}, {}, 0.3f, {}}, {}, {}};
  p.input.answer = normals(rng, c.items() * c.answer(), c.dtype, 0.02);
  if (c.norm != passes::AnswerNorm::kNone)
    for (std::size_t i = c.channels; i < p.input.answer.size(); i += c.answer())
      p.input.answer[i] = c.norm == passes::AnswerNorm::kSum ? rounded(0.5 + std::abs(normal(rng)), c.dtype)
                                                             : rounded(1.5 * normal(rng), c.dtype);
  if (c.gated()) p.input.gate = normals(rng, c.items() * c.channels, c.dtype);
  if (c.mix_gated())
    p.input.mix_gate = normals(rng, c.rows * c.mix_columns() / c.mix_padded() * c.mix_width(), c.dtype);
  if (c.mixes()) p.input.window = normals(rng, c.items() * c.channels, c.dtype, 0.03);
  p.input.weight = normals(rng, c.channels, Dtype::kFloat32);
  p.d_out = normals(rng, c.items() * c.channels, c.dtype);
  for (std::size_t i = 0; c.scaled && i < c.items(); ++i)
    p.input.one.push_back(rounded(std::exp(-3 * rng.uniform()), Dtype::kFloat32));
  if (c.skip) {
    p.input.skip_H = normals(rng, c.heads, Dtype::kFloat32);
    p.input.values = normals(rng, c.items() * c.channels, c.dtype, 0.05);
    p.d_values = normals(rng, c.items() * c.channels, c.dtype);
  }
  return p;
}

struct AnswerDevice {
  AnswerCase c;
  DeviceBytes answer, gates, weight, one, skip, values, window, d_out, out, d_answer, d_gates, d_weight, d_skip,
      d_values, d_window, scratch;

  AnswerDevice(const AnswerCase& of, const AnswerProblem& p)
      : c(of),
        answer(upload(with_padding(p.input.answer, c.answer(), c.answer_padded()), c.dtype)),
        weight(upload(p.input.weight, Dtype::kFloat32)),
        one(upload(p.input.one, Dtype::kFloat32)),
        d_out(upload(with_padding(p.d_out, c.channels, c.padded()), c.dtype)) {
    if (c.skip) {
      skip = upload(p.input.skip_H, Dtype::kFloat32);
      values = upload(in_rows(p.input.values), c.dtype);
      d_values = upload(in_rows(p.d_values), c.dtype);
    }
    if (c.mixes()) window = upload(with_padding(p.input.window, c.channels, c.padded()), c.dtype);
    // Rows of the output gate, the mix's gates, and NaN.
    Numbers rows(static_cast<std::size_t>(c.rows) * c.stride(), std::nan(""));
    const auto put = [&](const Numbers& block, int columns, int first) {
      for (std::size_t i = 0; i < block.size(); ++i) rows[i / columns * c.stride() + first + i % columns] = block[i];
    };
    if (c.gated()) put(with_padding(p.input.gate, c.channels, c.padded()), c.gate_columns(), 0);
    if (c.mix_gated())
      put(with_padding(p.input.mix_gate, c.mix_width(), c.mix_padded()), c.mix_columns(), c.gate_columns());
    gates = upload(rows, c.dtype);
  }

  void run() {
    const passes::Answer input{.kind = c.kind(),
                               .rows = c.rows,
                               .heads = c.heads,
                               .padded = c.padded(),
                               .features_padded = c.answer_padded(),
                               .dtype = c.dtype,
                               .projected_stride = c.stride(),
                               .gate = c.gated() ? gates.data() : nullptr,
                               .mix_gate = c.mix_gated() ? behind_gate(gates) : nullptr,
                               .answer = answer.data(),
                               .weight = floats(weight),
                               .one = c.scaled ? floats(one) : nullptr,
                               .skip_H = c.skip ? floats(skip) : nullptr,
                               .skip_scale = 0.3f,
                               .values = c.skip ? values.data() : nullptr,
                               .values_stride = c.values_stride(),
                               .window = c.mixes() ? window.data() : nullptr};
    poison(out, c.items() * c.padded(), c.dtype), poison(d_answer, c.items() * c.answer_padded(), c.dtype);
    poison(d_gates, static_cast<std::size_t>(c.rows) * c.stride(), c.dtype);
    poison(d_window, c.items() * c.padded(), c.dtype);
    poison(d_weight, c.channels, Dtype::kFloat32), poison(scratch, passes::answer_backward_scratch_bytes(input));
    passes::answer_forward(input, out.data(), nullptr);
    passes::answer_backward(input,
                            {d_out.data(), d_gates.data(), behind_gate(d_gates), d_answer.data(), d_window.data()},
                            scratch.data(), nullptr);
    add_up({passes::answer_sum(input, scratch.data(), floats(d_weight))}, nullptr);
    if (!c.skip) return;
    poison(d_skip, c.heads, Dtype::kFloat32);
    add_up({passes::skip_sum(input, scratch.data(), floats(d_skip))}, nullptr);
    passes::add_skipped(input, d_answer.data(), d_values.data(), nullptr);
  }

  // Values [rows, H, C] as the kernels take them, NaN between the rows.
  Numbers in_rows(const Numbers& of) const {
    return with_padding(with_padding(of, c.channels, c.answer_padded()), c.heads * c.answer_padded(), c.values_stride(),
                        std::nan(""));
  }

  Numbers values_result() const {
    return without_padding(columns(download(d_values, c.dtype), c.values_stride(), 0, c.values_stride() - kBehind),
                           c.answer_padded(), c.channels);
  }
  Numbers out_result() const { return without_padding(download(out, c.dtype), c.padded(), c.channels); }
  Numbers answer_result() const { return without_padding(download(d_answer, c.dtype), c.answer_padded(), c.answer()); }
  Numbers window_result() const { return without_padding(download(d_window, c.dtype), c.padded(), c.channels); }
  Numbers gate_result() const {
    return without_padding(columns(download(d_gates, c.dtype), c.stride(), 0, c.gate_columns()), c.padded(),
                           c.channels);
  }
  Numbers mix_gate_result() const {
    return without_padding(columns(download(d_gates, c.dtype), c.stride(), c.gate_columns(), c.mix_columns()),
                           c.mix_padded(), c.mix_width());
  }

 private:
  // The first column of the mix's gates.
  void* behind_gate(DeviceBytes& rows) const { return rows.data() + c.gate_columns() * dtype_bytes(c.dtype); }
};

}  // namespace engram::testing
