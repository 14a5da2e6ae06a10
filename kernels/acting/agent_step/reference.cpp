#include "kernels/acting/agent_step/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "kernels/acting/agent_step/layout.h"

namespace engram {
namespace {

using Vector = std::vector<double>;
using Weights = AgentStepHostWeights::Tensor;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double dot(const double* a, const double* b, int size) {
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

double to_bfloat16(double x) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  bits += 0x7fffu + (bits >> 16 & 1u);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

class Step {
 public:
  Step(const AgentStepShape& shape, const AgentStepHostWeights& weights, const AgentStepRows& rows, bool round_operands,
       std::int64_t row)
      : shape_(shape), weights_(weights), rows_(rows), round_(round_operands), row_(row) {}

  Vector run(const Vector& observation, AgentStepReferenceRow& state) const {
    const int width = shape_.width;
    Vector x = encode(observation);
    drop(x, rows_.encoder_dropout, row_);
    drop(x, rows_.input_dropout, row_);
    for (int i = 0; i < shape_.layers; ++i) {
      const AgentStepHostWeights::Layer& layer = weights_.layers[i];
      Vector mixed = product(layer.output, mix(i, normalised(x, layer.mixer_norm), state), width);
      drop(mixed, rows_.dropout[i].mixer, row_);
      for (int c = 0; c < width; ++c) x[c] += mixed[c];
      const Vector normed = normalised(x, layer.mlp_norm);
      Vector gate = product(layer.gate, normed, shape_.inner_width);
      const Vector up = product(layer.up, normed, shape_.inner_width);
      for (int c = 0; c < shape_.inner_width; ++c) gate[c] = silu(gate[c]) * up[c];
      Vector down = product(layer.down, gate, width);
      drop(down, rows_.dropout[i].mlp, row_);
      for (int c = 0; c < width; ++c) x[c] += down[c];
    }
    if (shape_.window > 0) ++state.position;
    const Vector hidden1 = biased_relu(product(weights_.hidden1, normalised(x, weights_.norm), shape_.hidden_width),
                                       weights_.hidden1_bias);
    const Vector hidden2 = biased_relu(product(weights_.hidden2, hidden1, shape_.hidden_width), weights_.hidden2_bias);
    Vector logits = product(weights_.output, hidden2, shape_.actions);
    for (int a = 0; a < shape_.actions; ++a) logits[a] += weights_.output_bias[a];
    return softmax(logits);
  }

 private:
  Vector product(const Weights& weights, const Vector& x, int outputs) const {
    const auto operand = [&](double value) { return round_ ? to_bfloat16(value) : value; };
    const int inputs = static_cast<int>(x.size());
    Vector rounded(x), y(outputs);
    for (double& value : rounded) value = operand(value);
    for (int i = 0; i < outputs; ++i)
      for (int j = 0; j < inputs; ++j) y[i] += operand(weights[static_cast<std::size_t>(i) * inputs + j]) * rounded[j];
    return y;
  }

  static Vector biased_relu(Vector x, const Weights& bias) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::max(x[i] + bias[i], 0.0);
    return x;
  }

  static Vector softmax(Vector x) {
    const double largest = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (double& value : x) sum += value = std::exp(value - largest);
    for (double& value : x) value /= sum;
    return x;
  }

  static double inverse_rms(const double* x, int size) { return 1 / std::sqrt(dot(x, x, size) / size + 1e-6); }
  static void normalise(double* x, int size, const Weights& weight) {
    const double factor = inverse_rms(x, size);
    for (int i = 0; i < size; ++i) x[i] *= factor * weight[i];
  }
  static Vector normalised(Vector x, const Weights& weight) {
    normalise(x.data(), static_cast<int>(x.size()), weight);
    return x;
  }

  // The rows of a tensor that belong to this environment: `first` is the first of them.
  static void drop(Vector& x, const DropoutKey& place, std::int64_t first, int parts = 1) {
    if (!place.drops()) return;
    const int channels = static_cast<int>(x.size()) / parts;
    for (int part = 0; part < parts; ++part)
      for (int c = 0; c < channels; ++c) {
        float factor[kDropoutGroup];
        place.draw(((first + part) * dropout_row(channels) + c) / kDropoutGroup, factor);
        x[part * channels + c] *= factor[c % kDropoutGroup];
      }
  }

  // 2 x 2 convolution and relu: x [channels, height, columns] -> [outputs, height - 1, columns - 1].
  static Vector convolution(const Vector& x, int channels, int height, int columns, int outputs, const Weights& weight,
                            const Weights& bias) {
    Vector y;
    for (int o = 0; o < outputs; ++o)
      for (int i = 0; i + 1 < height; ++i)
        for (int j = 0; j + 1 < columns; ++j) {
          double sum = bias[o];
          for (int c = 0; c < channels; ++c)
            for (int tap = 0; tap < 4; ++tap)
              sum += weight[(o * channels + c) * 4 + tap] * x[(c * height + i + tap / 2) * columns + j + tap % 2];
          y.push_back(std::max(sum, 0.0));
        }
    return y;
  }

  Vector encode(Vector x) const {
    if (!shape_.image()) return biased_relu(product(weights_.observation, x, shape_.width), weights_.observation_bias);
    x = convolution(x, shape_.channels, shape_.height, shape_.columns, kConvolution1, weights_.convolution1,
                    weights_.convolution1_bias);
    x = convolution(x, kConvolution1, shape_.height - 1, shape_.columns - 1, kConvolution2, weights_.convolution2,
                    weights_.convolution2_bias);
    x = product(weights_.observation, x, shape_.width);
    for (int c = 0; c < shape_.width; ++c) x[c] += weights_.observation_bias[c];
    return x;
  }

  // Input normalised, output the operand of Wo.
  Vector mix(int index, const Vector& x, AgentStepReferenceRow& state) const {
    const AgentStepHostWeights::Layer& layer = weights_.layers[index];
    const AgentStepRows::LayerDropout& dropout = rows_.dropout[index];
    const int width = shape_.width, heads = shape_.heads, size = shape_.head_width();
    Vector query = product(layer.query, x, width), key = product(layer.key, x, width),
           value = product(layer.value, x, width);
    const auto drop_query_and_key = [&](Vector& q, Vector& k) {
      drop(q, dropout.query, row_ * heads, heads);
      drop(k, dropout.key, row_ * heads, heads);
    };
    if (shape_.window > 0) drop_query_and_key(query, key);
    Vector fast_query = query, fast_key = key;
    for (Vector* x : {&fast_query, &fast_key, &value})
      for (double& c : *x) c = silu(c);
    if (shape_.window == 0) drop_query_and_key(fast_query, fast_key);
    drop(value, dropout.value, row_ * heads, heads);
    const Vector beta = product(layer.beta, x, heads), gate = product(layer.mixer_gate, x, shape_.gate_rows());
    Vector mixed(width);
    for (int h = 0; h < heads; ++h) {
      const int first = h * size;
      Vector fast =
          fast_weights(&fast_query[first], &fast_key[first], &value[first], shape_.beta_factor * sigmoid(beta[h]),
                       &state.layers[index].fast_weights_HKV[first * size]);
      Vector seen(size);
      if (shape_.window > 0) seen = window(h, &query[first], &key[first], &value[first], state, index);
      if (shape_.window > 0 && shape_.branch_norm)
        for (Vector* branch : {&fast, &seen}) {
          const double factor = inverse_rms(branch->data(), size);
          for (double& c : *branch) c *= factor;
        }
      for (int c = 0; c < size; ++c) {
        double fast_gate = 1, seen_gate = 1;
        if (shape_.gate_rows() == width && shape_.mixing == AgentStepMixing::kVector) {
          fast_gate = sigmoid(gate[first + c]);
          seen_gate = 1 - fast_gate;
        } else if (shape_.gate_rows() > 0) {
          fast_gate = sigmoid(gate[2 * h]);
          seen_gate = sigmoid(gate[2 * h + 1]);
        }
        mixed[first + c] = fast_gate * fast[c] + seen_gate * seen[c];
      }
      normalise(&mixed[first], size, layer.head_norm);
    }
    return mixed;
  }

  // Query and key before they are l2-normalised.
  Vector fast_weights(const double* query, const double* key, const double* value, double beta,
                      double* state_KV) const {
    const int size = shape_.head_width();
    Vector q(query, query + size), k(key, key + size), output(size);
    for (Vector* x : {&q, &k}) {
      const double factor = 1 / std::sqrt(dot(x->data(), x->data(), size) + 1e-6);
      for (double& c : *x) c *= factor;
    }
    for (int j = 0; j < size; ++j) {
      double predicted = 0;
      for (int i = 0; i < size; ++i) predicted += k[i] * state_KV[i * size + j];
      for (int i = 0; i < size; ++i) state_KV[i * size + j] += beta * k[i] * (value[j] - predicted);
      for (int i = 0; i < size; ++i) output[j] += q[i] * state_KV[i * size + j] / std::sqrt(size);
    }
    return output;
  }

  Vector window(int head, const double* query, const double* key, const double* value, AgentStepReferenceRow& state,
                int layer) const {
    const int size = shape_.head_width(), half = size / 2;
    Vector q(query, query + size), k(key, key + size);
    if (shape_.rope)
      for (Vector* x : {&q, &k})
        for (int i = 0; i < half; ++i) {
          const double angle = static_cast<double>(state.position) * std::pow(10000.0, -2.0 * i / size);
          const double low = (*x)[i], high = (*x)[i + half];
          (*x)[i] = low * std::cos(angle) - high * std::sin(angle);
          (*x)[i + half] = high * std::cos(angle) + low * std::sin(angle);
        }
    const std::int64_t slot = state.position % shape_.window;
    const auto at = [&](std::int64_t s) { return s * shape_.width + head * size; };
    Vector &keys = state.layers[layer].key_ring_SHK, &values = state.layers[layer].value_ring_SHK;
    std::copy_n(k.begin(), size, keys.begin() + at(slot));
    std::copy_n(value, size, values.begin() + at(slot));
    const std::int64_t slots = std::min<std::int64_t>(state.position + 1, shape_.window);
    Vector weight(slots), output(size);
    for (std::int64_t s = 0; s < slots; ++s) weight[s] = dot(q.data(), &keys[at(s)], size) / std::sqrt(size);
    weight = softmax(weight);
    for (std::int64_t s = 0; s < slots; ++s)
      for (int c = 0; c < size; ++c) output[c] += weight[s] * values[at(s) + c];
    return output;
  }

  const AgentStepShape& shape_;
  const AgentStepHostWeights& weights_;
  const AgentStepRows& rows_;
  bool round_;
  std::int64_t row_;
};

}  // namespace

AgentStepReferenceRow::AgentStepReferenceRow(const AgentStepShape& shape) : layers(shape.layers) {
  for (Layer& layer : layers) {
    layer.fast_weights_HKV.resize(static_cast<std::size_t>(shape.width) * shape.head_width());
    layer.key_ring_SHK.resize(static_cast<std::size_t>(shape.window) * shape.width);
    layer.value_ring_SHK.resize(layer.key_ring_SHK.size());
  }
}

std::vector<double> agent_step_reference(const AgentStepShape& shape, const AgentStepHostWeights& weights,
                                         const AgentStepRows& rows, bool round_operands, std::int64_t row,
                                         const std::vector<double>& observation, AgentStepReferenceRow& state) {
  return Step(shape, weights, rows, round_operands, row).run(observation, state);
}

}  // namespace engram
