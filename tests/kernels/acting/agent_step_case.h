// Random agents on the device: weights, memories and observations for tests and timings of kernels/acting/agent_step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/sample_action.h"
#include "kernels/acting/agent_step/agent_step.h"
#include "kernels/acting/agent_step/reference.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

inline std::string name_of(const AgentStepShape& s) {
  const char* const mixing = s.window == 0                          ? "none"
                             : s.mixing == AgentStepMixing::kVector ? "vector"
                             : s.mixing == AgentStepMixing::kScalar ? "scalar"
                                                                    : "sum";
  return joined("observation ", s.channels, "x", s.height, "x", s.columns, s.observation_is_uint8 ? " uint8" : " float",
                " width ", s.width, " inner ", s.inner_width, " layers ", s.layers, " heads ", s.heads, " window ",
                s.window, " mixing ", mixing, s.branch_norm ? " branch norm" : "", s.rope ? " rope" : "", " beta ",
                s.beta_factor, " hidden ", s.hidden_width, " actions ", s.actions);
}

// Matrices keep the size of what they map, so that every part of the network matters.
inline AgentStepHostWeights random_weights(const AgentStepShape& shape, Rng& rng) {
  const auto around = [&](std::size_t size, double mean, double deviation) {
    std::vector<float> x(size);
    for (float& value : x) value = static_cast<float>(mean + deviation * normal(rng));
    return x;
  };
  const auto matrix = [&](int outputs, int inputs, double gain = 1) {
    return around(static_cast<std::size_t>(outputs) * inputs, 0, gain / std::sqrt(inputs));
  };
  const int width = shape.width, hidden = shape.hidden_width, inner = shape.inner_width;
  AgentStepHostWeights w;
  int features = shape.channels;
  if (shape.image()) {
    w.convolution1 = matrix(8, shape.channels * 4, 2), w.convolution1_bias = around(8, 0, 0.2);
    w.convolution2 = matrix(16, 32, 1.5), w.convolution2_bias = around(16, 0, 0.2);
    features = 16 * (shape.height - 2) * (shape.columns - 2);
  }
  w.observation = matrix(width, features, 2), w.observation_bias = around(width, 0, 0.2);
  for (int i = 0; i < shape.layers; ++i) {
    AgentStepHostWeights::Layer layer;
    layer.mixer_norm = around(width, 1, 0.2), layer.mlp_norm = around(width, 1, 0.2);
    layer.head_norm = around(shape.head_width(), 1, 0.2);
    layer.query = matrix(width, width), layer.key = matrix(width, width), layer.value = matrix(width, width, 2);
    layer.beta = matrix(shape.heads, width), layer.mixer_gate = matrix(shape.gate_rows(), width);
    layer.output = matrix(width, width, 0.7);
    layer.gate = matrix(inner, width), layer.up = matrix(inner, width), layer.down = matrix(width, inner);
    w.layers.push_back(std::move(layer));
  }
  w.norm = around(width, 1, 0.2);
  w.hidden1 = matrix(hidden, width, 1.4), w.hidden1_bias = around(hidden, 0, 0.1);
  w.hidden2 = matrix(hidden, hidden, 1.4), w.hidden2_bias = around(hidden, 0, 0.1);
  w.output = matrix(shape.actions, hidden, 2), w.output_bias = around(shape.actions, 0, 0.1);
  return w;
}

// All keys of a network, their sites numbered in the order in which they are met.
inline void set_dropout(AgentStepRows& rows, int layers, const std::int64_t* seed_tick, double probability) {
  std::uint32_t site = 0;
  const auto next = [&] { return DropoutKey(seed_tick, site++, probability); };
  rows.encoder_dropout = next(), rows.input_dropout = next();
  for (int i = 0; i < layers; ++i) rows.dropout[i] = {next(), next(), next(), next(), next()};
}

// What rows draw their actions from.
inline std::vector<Rng> action_streams(int rows) {
  std::vector<Rng> streams;
  for (int row = 0; row < rows; ++row) streams.emplace_back(1, Purpose::kTest, row, 7);
  return streams;
}

// N agents of one network. The memories start as NaN: all rows are fresh.
class DeviceAgents {
 public:
  DeviceAgents(const AgentStepShape& shape, Dtype operands, const AgentStepHostWeights& weights, int rows)
      : shape_(shape), stepper_(shape, operands, upload(weights)) {
    const std::size_t n = rows, vector = n * shape.window * shape.width;
    fresh_ = DeviceBuffer<std::uint8_t>(std::vector<std::uint8_t>(n, 1));
    position_ = DeviceBuffer<std::int64_t>(std::vector<std::int64_t>(n, 12345));
    observation_ = DeviceBytes(n * observation_bytes());
    action_ = DeviceBuffer<std::int32_t>(n);
    probabilities_ = DeviceBuffer<float>(n * shape.actions);
    diverged_ = DeviceBuffer<int>(std::vector<int>(1, 0));
    streams_ = DeviceBuffer<Rng>(action_streams(rows));
    for (int i = 0; i < shape.layers; ++i)
      for (const std::size_t size : {n * shape.width * shape.head_width(), vector, vector})
        memory_.emplace_back(unwritten(size));
    rows_.rows = rows;
    rows_.observation_N = observation_.data();
    rows_.fresh_N = fresh_.data();
    rows_.position_N = shape.window > 0 ? position_.data() : nullptr;
    for (int i = 0; i < shape.layers; ++i)
      rows_.layers[i] = {memory_[3 * i].data(), memory_[3 * i + 1].data(), memory_[3 * i + 2].data()};
    rows_.stream_N = streams_.data();
    rows_.action_N = action_.data();
    rows_.probabilities_NA = probabilities_.data();
    rows_.diverged = diverged_.data();
    stepper_.pack_weights(nullptr);
  }

  int elements() const { return shape_.image() ? shape_.channels * shape_.height * shape_.columns : shape_.channels; }
  std::size_t observation_bytes() const { return elements() * (shape_.observation_is_uint8 ? 1 : sizeof(float)); }

  // Draws every row's next observation; returns it as the network sees it.
  std::vector<Numbers> observe(Rng& rng) {
    std::vector<Numbers> seen(rows_.rows);
    Bytes bytes;
    for (auto& row : seen)
      for (int i = 0; i < elements(); ++i) {
        if (shape_.observation_is_uint8) {
          bytes.push_back(static_cast<unsigned char>(rng.below(256)));
          row.push_back(static_cast<float>(bytes.back()) / 255.0f);
        } else {
          row.push_back(rounded(normal(rng), Dtype::kFloat32));
          const Bytes own = encode({row.back()}, Dtype::kFloat32);
          bytes.insert(bytes.end(), own.begin(), own.end());
        }
      }
    check_cuda(cudaMemcpy(observation_.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "observe");
    return seen;
  }
  void forget(int row) { check_cuda(cudaMemset(fresh_.data() + row, 1, 1), "forget"); }
  void step(cudaStream_t stream = nullptr) { stepper_.step(rows_, stream); }
  void pack(cudaStream_t stream) { stepper_.pack_weights(stream); }

  AgentStepRows& rows() { return rows_; }
  std::vector<float> probabilities() const { return probabilities_.to_host(); }
  std::vector<std::int32_t> actions() const { return action_.to_host(); }
  std::vector<std::int64_t> positions() const { return position_.to_host(); }
  // Fast weights, key ring, value ring of layer 0, then of layer 1 ...
  std::vector<float> memory(int index) const { return memory_[index].to_host(); }
  bool diverged() const { return diverged_.to_host()[0] != 0; }

 private:
  const float* upload(const std::vector<float>& host) {
    if (host.empty()) return nullptr;
    weights_.emplace_back(host);
    return weights_.back().data();
  }
  AgentStepWeights upload(const AgentStepHostWeights& w) {
    AgentStepWeights d;
    d.convolution1 = upload(w.convolution1), d.convolution1_bias = upload(w.convolution1_bias);
    d.convolution2 = upload(w.convolution2), d.convolution2_bias = upload(w.convolution2_bias);
    d.observation = upload(w.observation), d.observation_bias = upload(w.observation_bias);
    for (const AgentStepHostWeights::Layer& l : w.layers)
      d.layers.push_back({upload(l.mixer_norm), upload(l.query), upload(l.key), upload(l.value), upload(l.beta),
                          upload(l.mixer_gate), upload(l.head_norm), upload(l.output), upload(l.mlp_norm),
                          upload(l.gate), upload(l.up), upload(l.down)});
    d.norm = upload(w.norm);
    d.hidden1 = upload(w.hidden1), d.hidden1_bias = upload(w.hidden1_bias);
    d.hidden2 = upload(w.hidden2), d.hidden2_bias = upload(w.hidden2_bias);
    d.output = upload(w.output), d.output_bias = upload(w.output_bias);
    return d;
  }

  AgentStepShape shape_;
  std::vector<DeviceBuffer<float>> weights_;
  AgentStepper stepper_;
  std::vector<DeviceBuffer<float>> memory_;
  DeviceBuffer<std::uint8_t> fresh_;
  DeviceBuffer<std::int64_t> position_;
  DeviceBytes observation_;
  DeviceBuffer<std::int32_t> action_;
  DeviceBuffer<float> probabilities_;
  DeviceBuffer<int> diverged_;
  DeviceBuffer<Rng> streams_;
  AgentStepRows rows_;
};

}  // namespace engram::testing
