#include "kernels/fast_weights/delta_rule/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/machine/parallel_for.h"

namespace engram {
namespace {

// Calls function(row, head) for all of them, spread over the processor's threads.
template <typename Function>
void for_each_head(const DeltaRuleShape& shape, const Function& function) {
  parallel_for(static_cast<std::size_t>(shape.batch) * shape.heads,
               [&](std::size_t i) { function(static_cast<int>(i) / shape.heads, static_cast<int>(i) % shape.heads); });
}

// One head of one row at one step.
struct Place {
  std::size_t vector;  // offset into [B, T, H, D]
  std::size_t scalar;  // offset into [B, T, H]
};

Place place(const DeltaRuleShape& shape, int row, int t, int head) {
  const std::size_t scalar = (static_cast<std::size_t>(row) * shape.time + t) * shape.heads + head;
  return {scalar * shape.width, scalar};
}

// a_t
double decay(const DeltaRuleReferenceInput& input, const Place& at) {
  return input.log_decay_BTH.empty() ? 1.0 : std::exp(input.log_decay_BTH[at.scalar]);
}

// state_KV before the step becomes state_KV after it; error_V is e_t.
void write_step(const DeltaRuleReferenceInput& input, const Place& at, std::vector<double>& state_KV,
                std::vector<double>& error_V) {
  const int width = input.shape.width;
  const double* k = &input.k_BTHD[at.vector];
  if (!input.log_decay_BTH.empty()) {
    const double kept = decay(input, at);
    for (double& element : state_KV) element *= kept;
  }
  std::copy_n(&input.v_BTHD[at.vector], width, error_V.begin());
  if (input.write == FastWeightWrite::kDelta)
    for (int i = 0; i < width; ++i)
      for (int j = 0; j < width; ++j) error_V[j] -= state_KV[i * width + j] * k[i];
  for (int i = 0; i < width; ++i)
    for (int j = 0; j < width; ++j) state_KV[i * width + j] += input.beta_BTH[at.scalar] * k[i] * error_V[j];
}

}  // namespace

DeltaRuleReferenceOutput delta_rule_reference(const DeltaRuleReferenceInput& input) {
  const int width = input.shape.width;
  const std::size_t state_size = static_cast<std::size_t>(width) * width;
  DeltaRuleReferenceOutput output{std::vector<double>(input.q_BTHD.size()),
                                  std::vector<double>(input.initial_state_BHKV.size())};
  for_each_head(input.shape, [&](int row, int head) {
    const std::size_t state_offset = (static_cast<std::size_t>(row) * input.shape.heads + head) * state_size;
    std::vector<double> state(&input.initial_state_BHKV[state_offset],
                              &input.initial_state_BHKV[state_offset] + state_size);
    std::vector<double> error(width);
    for (int t = 0; t < input.length_B[row]; ++t) {
      const Place at = place(input.shape, row, t, head);
      write_step(input, at, state, error);
      for (int i = 0; i < width; ++i)
        for (int j = 0; j < width; ++j)
          output.output_BTHD[at.vector + j] += input.scale * state[i * width + j] * input.q_BTHD[at.vector + i];
    }
    std::copy(state.begin(), state.end(), &output.final_state_BHKV[state_offset]);
  });
  return output;
}

DeltaRuleReferenceGradient delta_rule_reference_backward(const DeltaRuleReferenceInput& input,
                                                         const DeltaRuleReferenceOutput& output_gradient) {
  constexpr int kSegment = 64;  // states are kept every kSegment steps and recomputed inside
  const int width = input.shape.width;
  const std::size_t state_size = static_cast<std::size_t>(width) * width;
  DeltaRuleReferenceGradient gradient{std::vector<double>(input.q_BTHD.size()),
                                      std::vector<double>(input.q_BTHD.size()),
                                      std::vector<double>(input.q_BTHD.size()),
                                      std::vector<double>(input.beta_BTH.size()),
                                      std::vector<double>(input.initial_state_BHKV.size()),
                                      std::vector<double>(input.log_decay_BTH.size())};
  const bool delta = input.write == FastWeightWrite::kDelta;
  for_each_head(input.shape, [&](int row, int head) {
    const std::size_t state_offset = (static_cast<std::size_t>(row) * input.shape.heads + head) * state_size;
    const int length = input.length_B[row];
    std::vector<double> error(width);
    std::vector<std::vector<double>> kept;
    std::vector<double> state(&input.initial_state_BHKV[state_offset],
                              &input.initial_state_BHKV[state_offset] + state_size);
    for (int t = 0; t < length; ++t) {
      if (t % kSegment == 0) kept.push_back(state);
      write_step(input, place(input.shape, row, t, head), state, error);
    }
    std::vector<double> d_state(&output_gradient.final_state_BHKV[state_offset],
                                &output_gradient.final_state_BHKV[state_offset] + state_size);
    std::vector<double> d_write(width), d_error(width);
    for (int segment = static_cast<int>(kept.size()) - 1; segment >= 0; --segment) {
      std::vector<std::vector<double>> states{kept[segment]}, errors;
      const int begin = segment * kSegment, end = std::min(length, begin + kSegment);
      for (int t = begin; t < end; ++t) {
        states.push_back(states.back());
        write_step(input, place(input.shape, row, t, head), states.back(), error);
        errors.push_back(error);
      }
      for (int t = end - 1; t >= begin; --t) {
        const Place at = place(input.shape, row, t, head);
        const std::vector<double>&before = states[t - begin], &after = states[t - begin + 1], &e = errors[t - begin];
        const double *q = &input.q_BTHD[at.vector], *k = &input.k_BTHD[at.vector];
        const double* d_o = &output_gradient.output_BTHD[at.vector];
        const double beta = input.beta_BTH[at.scalar];
        std::fill(d_write.begin(), d_write.end(), 0.0);
        for (int i = 0; i < width; ++i) {
          double d_q = 0, d_k = 0;
          for (int j = 0; j < width; ++j) {
            d_q += after[i * width + j] * d_o[j];
            d_state[i * width + j] += input.scale * q[i] * d_o[j];
            d_write[j] += d_state[i * width + j] * k[i];
            d_k += d_state[i * width + j] * beta * e[j];
          }
          gradient.q_BTHD[at.vector + i] = input.scale * d_q;
          gradient.k_BTHD[at.vector + i] = d_k;
        }
        for (int j = 0; j < width; ++j) {
          gradient.beta_BTH[at.scalar] += d_write[j] * e[j];
          d_error[j] = beta * d_write[j];
          gradient.v_BTHD[at.vector + j] = d_error[j];
        }
        const double kept = decay(input, at);
        for (int i = 0; delta && i < width; ++i) {
          double d_k = 0;
          for (int j = 0; j < width; ++j) {
            d_k += kept * before[i * width + j] * d_error[j];
            d_state[i * width + j] -= k[i] * d_error[j];
          }
          gradient.k_BTHD[at.vector + i] -= d_k;
        }
        if (input.log_decay_BTH.empty()) continue;
        for (std::size_t i = 0; i < state_size; ++i) {
          d_state[i] *= kept;
          gradient.log_decay_BTH[at.scalar] += d_state[i] * before[i];
        }
      }
    }
    std::copy(d_state.begin(), d_state.end(), &gradient.initial_state_BHKV[state_offset]);
  });
  return gradient;
}

}  // namespace engram
