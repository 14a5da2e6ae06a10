// The definition of fast weights by plain loops in double precision, head by head and step by step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory/backbones/fast_weights/fast_weights.h"
#include "tests/memory/ops/definition.h"

namespace fast_weights_definition {

using namespace engram;
using torch::Tensor;

inline constexpr std::int64_t kHeads = 2, kChannels = 6;

inline double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

using Numbers = std::vector<double>;
inline Numbers numbers(const Tensor& x) {
  const Tensor flat = x.contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

inline Numbers feature(const FastWeightsOptions& options, const Numbers& x, const Tensor& directions) {
  const std::size_t n = x.size();
  Numbers y;
  switch (options.feature_map) {
    case FeatureMap::kSilu:
      for (const double v : x) y.push_back(v * sigmoid(v));
      break;
    case FeatureMap::kRelu:
      for (const double v : x) y.push_back(std::max(v, 0.0));
      break;
    case FeatureMap::kElu:
      for (const double v : x) y.push_back(v > 0 ? v + 1 : std::exp(v));
      break;
    case FeatureMap::kIdentity:
      y = x;
      break;
    case FeatureMap::kDpfp: {
      Numbers r;
      for (const double v : x) r.push_back(std::max(v, 0.0));
      for (const double v : x) r.push_back(std::max(-v, 0.0));
      for (int nu = 1; nu <= options.dpfp_nu; ++nu)
        for (std::size_t i = 0; i < 2 * n; ++i)
          y.push_back(r[i] * r[(i + 2 * n - static_cast<std::size_t>(nu)) % (2 * n)]);
      break;
    }
    case FeatureMap::kFavor: {
      double square = 0;
      for (const double v : x) square += v * v / std::sqrt(static_cast<double>(n));
      for (const double sign : {1.0, -1.0})
        for (std::int64_t f = 0; f < directions.size(0); ++f) {
          double along = 0;
          for (std::size_t c = 0; c < n; ++c)
            along += directions[f][static_cast<std::int64_t>(c)].item<double>() * x[c] / std::pow(n, 0.25);
          y.push_back(std::exp(-square / 2) / std::sqrt(2.0) * std::exp(sign * along) /
                      std::sqrt(static_cast<double>(directions.size(0))));
        }
      break;
    }
  }
  double divisor = 1, sum = 0;
  if (options.key_norm == KeyNorm::kL2) {
    for (const double v : y) sum += v * v;
    divisor = std::sqrt(sum + 1e-6);
  } else if (options.key_norm == KeyNorm::kSum) {
    for (const double v : y) sum += v;
    divisor = sum + 1e-6;
  }
  for (double& v : y) v /= divisor;
  return y;
}

inline double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// One head over time. q, k: features; decay: a number, or one a key channel; write: b. Nothing is scaled: S and z are
// what the equations say.
class Head {
 public:
  Head(const FastWeightsOptions& options, std::size_t keys, std::size_t values)
      : options_(options), s_(keys, Numbers(values)), z_(keys) {}

  Numbers step(const Numbers& q, const Numbers& k, const Numbers& v, const Numbers& decay, double write) {
    const std::size_t keys = k.size(), values = v.size();
    const auto a = [&](std::size_t i) { return decay.size() == 1 ? decay[0] : decay[i]; };
    for (std::size_t i = 0; i < keys; ++i) {
      z_[i] *= a(i);
      for (double& entry : s_[i]) entry *= a(i);
    }
    Numbers target = v;
    if (options_.rule == FastRule::kDelta) {
      const double divisor = options_.attention_norm == AttentionNorm::kSum ? dot(z_, k) + 1e-6 : 1;
      for (std::size_t j = 0; j < values; ++j)
        for (std::size_t i = 0; i < keys; ++i) target[j] -= s_[i][j] * k[i] / divisor;
    }
    for (std::size_t i = 0; i < keys; ++i) {
      z_[i] += options_.rule == FastRule::kDelta ? k[i] : write * k[i];
      for (std::size_t j = 0; j < values; ++j) s_[i][j] += write * k[i] * target[j];
    }
    const double root = std::sqrt(static_cast<double>(keys)), seen = dot(z_, q);
    double divisor = root;
    if (options_.attention_norm == AttentionNorm::kSum) divisor = seen + 1e-6;
    if (options_.attention_norm == AttentionNorm::kAtLeastOne) divisor = root * std::max(std::abs(seen) / root, 1.0);
    Numbers read(values);
    for (std::size_t j = 0; j < values; ++j)
      for (std::size_t i = 0; i < keys; ++i) read[j] += s_[i][j] * q[i] / divisor;
    return read;
  }

 private:
  FastWeightsOptions options_;
  std::vector<Numbers> s_;
  Numbers z_;
};

// What each head [T, C] reads: the state's answers before they are normalised. query, key, value [T, D] as projected,
// the value with its silu, of n Householder steps [T, n D] one beside the other; `name`: the mixer's.
inline std::vector<Tensor> reads(const FastWeightsOptions& options, const Tensor& normed_TD, const Tensor& query,
                                 const Tensor& key, const Tensor& value, const Parameters& p, const std::string& name) {
  const auto map = [&](const std::string& weight) { return normed_TD.matmul(p.at(name + weight).t()); };
  const Tensor directions = p.contains(name + "features.directions") ? p.at(name + "features.directions") : Tensor();
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const auto own = [&](const Tensor& x_TD, std::int64_t t, std::int64_t step = 0) {
      return numbers(x_TD[t].narrow(0, (step * kHeads + h) * kChannels, kChannels));
    };
    std::unique_ptr<Head> head;
    std::vector<Tensor> read;
    for (std::int64_t t = 0; t < normed_TD.size(0); ++t) {
      const Numbers q = feature(options, own(query, t), directions);
      const auto keys = static_cast<std::int64_t>(q.size());
      Numbers decay{1};
      double step_size = 0;
      if (options.decay == Decay::kFixed) decay = {1 - std::pow(2.0, -5.0 - static_cast<double>(h))};
      if (options.decay == Decay::kScalar) {
        step_size =
            softplus(map("decay.map.weight")[t][h].item<double>() + p.at(name + "decay.bias")[h].item<double>());
        decay = {std::exp(-std::exp(p.at(name + "decay.log_rate")[h].item<double>()) * step_size)};
      }
      if (options.decay == Decay::kVector || options.decay == Decay::kVectorStep) {
        const Tensor logit =
            normed_TD[t].matmul(p.at(name + "decay.down.weight").t()).matmul(p.at(name + "decay.up.weight").t()) +
            p.at(name + "decay.bias");
        decay = numbers(logit.narrow(0, h * keys, keys));
        for (double& a : decay)
          a = options.decay == Decay::kVector
                  ? std::pow(sigmoid(a), 1 / 16.0)
                  : std::exp(-std::exp(p.at(name + "decay.log_rate")[h].item<double>()) * softplus(a));
      }
      if (!head) head = std::make_unique<Head>(options, q.size(), kChannels);
      Numbers answer;
      for (std::int64_t step = 0; step < options.householder_steps; ++step) {
        const auto beta = [&] {
          const std::int64_t row = step * kHeads + h;
          const double bias = options.write_bias ? p.at(name + "beta_bias")[row].item<double>() : 0;
          return map("beta.weight")[t][row].item<double>() + bias;
        };
        double write = 1;
        if (options.write_strength == WriteStrength::kSigmoid) write = options.beta_factor * sigmoid(beta());
        if (options.write_strength == WriteStrength::kExponential) write = std::exp(beta());
        if (options.write_strength == WriteStrength::kStep) write = step_size;
        if (options.rule == FastRule::kGatedSum) decay = {1 - write};
        answer = head->step(q, feature(options, own(key, t, step), directions), own(value, t, step),
                            step == 0 ? decay : Numbers{1}, write);
      }
      read.push_back(torch::tensor(answer, torch::kFloat64));
    }
    heads.push_back(torch::stack(read));
  }
  return heads;
}

}  // namespace fast_weights_definition
