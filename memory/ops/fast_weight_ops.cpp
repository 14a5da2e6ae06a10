#include "memory/ops/fast_weight_ops.h"

#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "memory/ops/cpu_fast_weights.h"
#include "memory/ops/ops_cuda.h"
#include "memory/ops/vector_decay_cuda.h"
#include "nn/cpu/layers.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr double kAttentionNormEpsilon = 1e-6;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 1 in the scale e^m of a state, and not 0 where that leaves float32: a query of zeros reads zero, not 0 / 0.
Tensor one_in_scale(const Tensor& log_scale) {
  constexpr double kLargest = 80;
  return (-log_scale.clamp_max(kLargest)).exp();
}

// What is read, divided as the attention norm asks. `norm`: z . q, scaled as q is; `floor`: 1 in the scale of the
// state.
Tensor divided(const FastWeightRule& rule, const Tensor& read, const Tensor& norm, const Tensor& floor) {
  if (rule.attention_norm == AttentionNorm::kSum) return read / (norm + kAttentionNormEpsilon);
  return read / (floor.defined() ? torch::maximum(norm.abs(), floor) : norm.abs().clamp_min(1));
}

// n chunks of C steps, M = B*H matrices.
class Chunks {
 public:
  Chunks(std::int64_t steps, std::int64_t longest, torch::ScalarType dtype)
      : steps_(steps), size_(std::min(steps, longest)), count_((steps + size_ - 1) / size_), dtype_(dtype) {}

  // [B, T, H, X] -> [n, M, C, X]; `filling` stands behind the last step.
  Tensor of(const Tensor& x_BTHX, double filling = 0) const {
    const std::int64_t missing = count_ * size_ - steps_;
    const Tensor own = x_BTHX.to(dtype_);
    const Tensor padded = missing == 0 ? own : torch::constant_pad_nd(own, {0, 0, 0, 0, 0, missing}, filling);
    return padded.unflatten(1, {count_, size_}).permute({1, 0, 3, 2, 4}).flatten(1, 2).contiguous();
  }
  // And back.
  Tensor joined(const Tensor& x_nMCX, std::int64_t heads) const {
    return x_nMCX.unflatten(1, {-1, heads}).permute({1, 0, 3, 2, 4}).flatten(1, 2).narrow(1, 0, steps_);
  }

 private:
  std::int64_t steps_, size_, count_;
  torch::ScalarType dtype_;
};

// [C, C]: later steps.
Tensor later(const Tensor& like_nMCX) {
  return torch::ones({like_nMCX.size(2), like_nMCX.size(2)},
                     like_nMCX.options().dtype(torch::kBool).requires_grad(false))
      .triu(1);
}

struct LogScales {
  Tensor start_nM11, all_nMC1;  // m before each chunk and at every step
};

// m from one number a head: F, the sum of log decays since the chunk began, g - F, and m before the first chunk.
LogScales log_scales(const Tensor& row_nMC1, const Tensor& column_nMC1, Tensor start_M11) {
  // The largest of a chunk's exponents up to each step; then also what earlier chunks leave, and 0.
  const Tensor largest_nMC1 =
      column_nMC1.transpose(2, 3).masked_fill(later(column_nMC1), -kInfinity).amax(3, /*keepdim=*/true);
  const Tensor zero = torch::zeros_like(start_M11);
  std::vector<Tensor> starts, scales;
  for (std::int64_t i = 0; i < row_nMC1.size(0); ++i) {
    starts.push_back(start_M11);
    scales.push_back(torch::maximum(row_nMC1[i] + torch::maximum(start_M11, largest_nMC1[i]), zero));
    start_M11 = scales.back().narrow(1, row_nMC1.size(2) - 1, 1);
  }
  return {torch::stack(starts), torch::stack(scales)};
}

// What becomes of a chunk's queries, keys and state by decays and, with log_write, by write strengths e^g and the scale
// e^m: a step s reaches the step t >= s times e^(F_t - F_s + g_s - m_t), F the sum of log decays since the chunk began,
// and the state at the beginning reaches t times e^(F_t + m_0 - m_t). No exponent is above 0.
class ChunkDecay {
 public:
  // log_decay_nMCX: X is 1 or K; undefined without decay. log_write_nMC1: undefined without. log_scale_M: m before the
  // first chunk.
  ChunkDecay(const Tensor& log_decay_nMCX, const Tensor& log_write_nMC1, const Tensor& log_scale_M) {
    if (log_decay_nMCX.defined()) {
      row_ = log_decay_nMCX.cumsum(2);
      column_ = -row_;
    }
    if (log_write_nMC1.defined()) scale(log_write_nMC1, log_scale_M.view({-1, 1, 1}));
    if (!row_.defined()) return;
    const bool channels = row_.size(3) > 1;
    const Tensor later_steps = later(row_);
    ratio_ = channels ? row_.unsqueeze(3) + column_.unsqueeze(2) : row_ + column_.transpose(2, 3);
    ratio_ = ratio_.masked_fill(channels ? later_steps.unsqueeze(2) : later_steps, -kInfinity).exp();
  }

  Tensor from_start(const Tensor& x_nMCK) const { return row_.defined() ? x_nMCK * since_start(row_) : x_nMCK; }
  Tensor to_end(const Tensor& x_nMCK) const { return row_.defined() ? x_nMCK * (last_row() + column_).exp() : x_nMCK; }
  // Of the state, over each whole chunk: [n, M, X, 1]; undefined: 1.
  Tensor over_chunk() const { return row_.defined() ? since_start(last_row()).transpose(2, 3) : row_; }

  // x_t . y_s with the factor from s to t in each channel, for the steps s <= t, or s < t.
  Tensor products(const Tensor& x_nMCK, const Tensor& y_nMCK, bool strictly_before) const {
    return lower_products(x_nMCK, y_nMCK).tril(strictly_before ? -1 : 0);
  }
  // The same with anything finite in the place of the other steps.
  Tensor lower_products(const Tensor& x_nMCK, const Tensor& y_nMCK) const {
    if (ratio_.defined() && ratio_.dim() == 5)
      return torch::matmul(ratio_ * y_nMCK.unsqueeze(2), x_nMCK.unsqueeze(4)).squeeze(4);
    const Tensor products_nMCC = torch::matmul(x_nMCK, y_nMCK.transpose(2, 3));
    return ratio_.defined() ? products_nMCC * ratio_ : products_nMCC;
  }

  // m at every step; undefined without log_write.
  const Tensor& log_scale_nMC1() const { return scales_.all_nMC1; }

 private:
  // Takes write strengths into the columns and m out of the rows.
  void scale(const Tensor& log_write_nMC1, const Tensor& start_M11) {
    if (!row_.defined()) row_ = column_ = torch::zeros_like(log_write_nMC1);
    column_ = column_ + log_write_nMC1;
    scales_ = log_scales(row_, column_, start_M11);
    row_ = row_ - scales_.all_nMC1;
  }

  Tensor last_row() const { return row_.narrow(2, row_.size(2) - 1, 1); }
  Tensor since_start(const Tensor& row) const {
    return (scales_.start_nM11.defined() ? row + scales_.start_nM11 : row).exp();
  }

  Tensor row_, column_;  // [n, M, C, X]: F - m and g - F
  LogScales scales_;     // undefined without log_write
  Tensor ratio_;         // factors from s to t, 0 where s > t: [n, M, C, C], with a decay per channel [n, M, C, C, K]
};

// A memory at the beginning of each chunk [n, M, K, V], what is added to it at each step [n, M, C, V], and the memory
// in the end.
struct Carried {
  Tensor start_nMKV, update_nMCV, end_MKV;
};

// By chunk, with one gradient for all; none of an undefined one.
std::vector<Tensor> unbound(const Tensor& x_n) { return x_n.defined() ? x_n.unbind() : std::vector<Tensor>(); }

// Without a prediction: the updates are known.
Carried carry(const ChunkDecay& decay, const Tensor& key_nMCK, const Tensor& update_nMCV, Tensor state_MKV) {
  const std::vector<Tensor> written = torch::matmul(decay.to_end(key_nMCK).transpose(2, 3), update_nMCV).unbind(),
                            kept = unbound(decay.over_chunk());
  std::vector<Tensor> starts;
  for (std::size_t i = 0; i < written.size(); ++i) {
    starts.push_back(state_MKV);
    state_MKV = written[i] + (kept.empty() ? state_MKV : state_MKV * kept[i]);
  }
  return {torch::stack(starts), update_nMCV, state_MKV};
}

// u_t = b_t (v_t - p_t^T a_t S_{t-1}), p the prediction's keys: with the updates before t in the chunk taken out of
// S_{t-1}, the triangular system (I + L) u = b (v - p^T S), S the chunk's first state (UT transform; Yang et al. 2024).
Carried carry_delta(const ChunkDecay& decay, const Tensor& key_nMCK, const Tensor& prediction_nMCK,
                    const Tensor& value_nMCV, const Tensor& write_nMC1, Tensor state_MKV) {
  const Tensor erased_nMCK = prediction_nMCK * write_nMC1;
  const auto updates =
      torch::linalg_solve_triangular(decay.lower_products(erased_nMCK, key_nMCK),
                                     torch::cat({value_nMCV * write_nMC1, decay.from_start(erased_nMCK)}, 3),
                                     /*upper=*/false, /*left=*/true, /*unitriangular=*/true)
          .split_with_sizes({value_nMCV.size(3), key_nMCK.size(3)}, 3);
  const std::vector<Tensor> own = updates[0].unbind(), of_state = updates[1].unbind(),
                            end = decay.to_end(key_nMCK).transpose(2, 3).unbind(), kept = unbound(decay.over_chunk());
  std::vector<Tensor> starts, all;
  for (std::size_t i = 0; i < own.size(); ++i) {
    starts.push_back(state_MKV);
    all.push_back(torch::baddbmm(own[i], of_state[i], state_MKV, /*beta=*/1, /*alpha=*/-1));
    state_MKV = torch::baddbmm(kept.empty() ? state_MKV : state_MKV * kept[i], end[i], all.back());
  }
  return {torch::stack(starts), torch::stack(all), state_MKV};
}

// Whether the loops for a CPU take the tensors and have the rule, and are not behind chunks: sums without a decay a
// channel are products of matrices there, which are faster where a state is wider than a processor's first cache, or
// its keys than its values (128 keys, on one core with AVX-512).
bool loops_serve(const FastWeightRule& rule, const FastWeightInput& input, const FastWeightState& state) {
  for (const Tensor* const x : {&input.query, &input.key, &input.value, &input.write, &input.log_decay,
                                &state.weights_BHKV, &state.key_sum_BHK})
    if (x->defined() && !cpu::takes(*x)) return false;
  if (rule.log_write || (rule.delta && rule.attention_norm != AttentionNorm::kNone)) return false;
  if (rule.delta || (input.log_decay.defined() && input.log_decay.size(3) > 1)) return true;
  constexpr std::int64_t kFirstCacheFloats = 8192;
  const std::int64_t keys = input.key.size(3), values = input.value.size(3);
  return keys <= 2 * values && keys * (values + 1) <= kFirstCacheFloats;
}

// What the loops for a CPU are given: behind a row's end nothing is written and nothing decays. An attention norm of
// the sum rule is one more channel of the values, of ones, which its state has, too.
cpu::FastWeightsInput input_of_loops(const FastWeightRule& rule, const FastWeightInput& input,
                                     const FastWeightState& state, const Tensor& lengths_B) {
  const Tensor behind_BT1 =
      (torch::arange(input.key.size(1), lengths_B.options()) >= lengths_B.unsqueeze(1)).unsqueeze(2);
  const bool normed = rule.attention_norm != AttentionNorm::kNone;
  return {
      .delta = rule.delta,
      .scale = read_scale(rule.attention_norm, input.key.size(3)),
      .query_BTHK = input.query,
      .key_BTHK = input.key,
      .value_BTHV = normed ? torch::constant_pad_nd(input.value, {0, 1}, /*value=*/1) : input.value,
      .write_BTH = input.write.masked_fill(behind_BT1, 0),
      .log_decay_BTHX =
          input.log_decay.defined() ? input.log_decay.masked_fill(behind_BT1.unsqueeze(3), 0) : input.log_decay,
      .state_BHKV = normed ? torch::cat({state.weights_BHKV, state.key_sum_BHK.unsqueeze(3)}, 3) : state.weights_BHKV};
}

FastWeightResult by_loops(const FastWeightRule& rule, const cpu::FastWeightsInput& input) {
  const auto [output, last] = cpu::fast_weights(input);
  if (rule.attention_norm == AttentionNorm::kNone) return {output, {last, {}, {}}};
  const std::int64_t width = output.size(3) - 1;
  return {divided(rule, output.narrow(3, 0, width), output.narrow(3, width, 1), {}),
          {last.narrow(3, 0, width).contiguous(), last.select(3, width).contiguous(), {}}};
}

}  // namespace

double read_scale(AttentionNorm norm, std::int64_t key_width) {
  return norm == AttentionNorm::kSum ? 1 : 1 / std::sqrt(static_cast<double>(key_width));
}

FastWeightResult fast_weights(const FastWeightRule& rule, const FastWeightInput& input, const FastWeightState& state,
                              const Tensor& lengths_B) {
  const std::int64_t steps = input.key.size(1), heads = input.key.size(2), key_width = input.key.size(3);
  const bool vector_decay = input.log_decay.defined() && input.log_decay.size(3) > 1;
  const auto dtype = at::toOpMathType(input.value.scalar_type());
  const ComputeIn products(input.key.device(), dtype);
  if (loops_serve(rule, input, state)) return by_loops(rule, input_of_loops(rule, input, state, lengths_B));
  const Chunks chunks(steps, vector_decay ? kVectorDecayChunk : kFastWeightChunk, dtype);
  const auto matrices = [&](const Tensor& x_BHX) { return x_BHX.to(dtype).flatten(0, 1); };

  // Behind a row's end nothing is written and nothing decays.
  const Tensor behind_BT11 =
      (torch::arange(steps, lengths_B.options()) >= lengths_B.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
  const auto masked = [&](const Tensor& x_BTHX, double filling) {
    return chunks.of(x_BTHX.masked_fill(behind_BT11, filling), filling);
  };
  const Tensor log_decay = input.log_decay.defined() ? masked(input.log_decay, 0) : Tensor();
  const Tensor write_nMC1 = masked(input.write.unsqueeze(3), rule.log_write ? -kInfinity : 0);
  const ChunkDecay decay =
      rule.log_write ? ChunkDecay(log_decay, write_nMC1, matrices(state.log_scale_BH)) : ChunkDecay(log_decay, {}, {});

  const Tensor query = chunks.of(input.query) * read_scale(rule.attention_norm, key_width), key = chunks.of(input.key);
  const Tensor value = chunks.of(input.value), first = matrices(state.weights_BHKV);
  const Tensor scores_nMCC = decay.products(query, key, /*strictly_before=*/false);
  const Tensor read_nMCK = decay.from_start(query);
  const auto read = [&](const Carried& memory) {
    return torch::matmul(read_nMCK, memory.start_nMKV) + torch::matmul(scores_nMCC, memory.update_nMCV);
  };

  FastWeightResult result;
  Carried sum;  // z
  if (rule.attention_norm != AttentionNorm::kNone) {
    Tensor weight = torch::ones_like(write_nMC1);  // of a key in z; log_write's is in `decay`
    if (rule.delta) weight = chunks.of(torch::ones_like(input.write).unsqueeze(3).masked_fill(behind_BT11, 0));
    if (!rule.delta && !rule.log_write) weight = write_nMC1;
    sum = carry(decay, key, weight, matrices(state.key_sum_BHK).unsqueeze(2));
    result.state.key_sum_BHK = sum.end_MKV.view(state.key_sum_BHK.sizes()).to(state.key_sum_BHK.scalar_type());
  }
  Carried memory;
  if (rule.delta) {
    Tensor prediction = key;
    if (sum.end_MKV.defined())
      prediction = key / (torch::matmul(decay.from_start(key), sum.start_nMKV) +
                          torch::matmul(decay.products(key, key, /*strictly_before=*/true), sum.update_nMCV) +
                          kAttentionNormEpsilon);
    memory = carry_delta(decay, key, prediction, value, write_nMC1, first);
  } else {
    memory = carry(decay, key, rule.log_write ? value : value * write_nMC1, first);
  }
  Tensor output = read(memory);
  if (sum.end_MKV.defined())
    output = divided(rule, output, read(sum), rule.log_write ? one_in_scale(decay.log_scale_nMC1()) : Tensor());

  result.output_BTHV = chunks.joined(output, heads).to(input.value.scalar_type());
  result.state.weights_BHKV = memory.end_MKV.view(state.weights_BHKV.sizes()).to(state.weights_BHKV.scalar_type());
  if (rule.log_write) {
    const Tensor& scale = decay.log_scale_nMC1();
    result.state.log_scale_BH =
        scale[-1].select(1, -1).view(state.log_scale_BH.sizes()).to(state.log_scale_BH.scalar_type());
  }
  return result;
}

namespace {

constexpr std::int64_t kMaxKernelWidth = 128;

// The kernels take keys and values of one, even width. An attention norm is one more channel of the values, of ones.
std::int64_t kernel_width(const FastWeightRule& rule, std::int64_t key_width, std::int64_t value_width) {
  const std::int64_t read_width = value_width + (rule.attention_norm == AttentionNorm::kNone ? 0 : 1);
  return (std::max(key_width, read_width) + 1) / 2 * 2;
}

std::int64_t decay_channels(const FastWeightInput& input) {
  return input.log_decay.defined() ? input.log_decay.size(-1) : 0;
}

cuda::VectorDecayInput vector_decay_of(const FastWeightRule& rule, const FastWeightInput& input) {
  return {rule.delta,     read_scale(rule.attention_norm, input.key.size(3)),
          input.query,    input.key,
          input.value,    input.write,
          input.log_decay};
}

Tensor head_scalars(const Tensor& log_decay) { return log_decay.defined() ? log_decay.squeeze(-1) : log_decay; }

}  // namespace

Support supports_fast_weights(const FastWeightRule& rule, std::int64_t decay_channels, std::int64_t key_width,
                              std::int64_t value_width) {
  if (decay_channels > 1 && rule.attention_norm != AttentionNorm::kNone)
    return Support::no("beside an attention norm they have a decay per key channel");
  if (rule.delta && rule.attention_norm != AttentionNorm::kNone)
    return Support::no("their delta rule has an attention norm");
  const std::int64_t width =
      decay_channels > 1 ? std::max(key_width, value_width) : kernel_width(rule, key_width, value_width);
  if (width > kMaxKernelWidth)
    return Support::no("a head has " + std::to_string(width) + " channels, more than " +
                       std::to_string(kMaxKernelWidth));
  return {};
}

Support supports_fast_weight_step(const FastWeightRule& rule, std::int64_t decay_channels, std::int64_t key_width,
                                  std::int64_t value_width) {
  if (decay_channels > 1) return Support::no("they have a decay per key channel");
  if (Support own = supports_fast_weights(rule, decay_channels, key_width, value_width); !own) return own;
  if (rule.attention_norm != AttentionNorm::kNone) return Support::no("their step has an attention norm");
  if (key_width != value_width)
    return Support::no("values of " + std::to_string(value_width) + " channels beside keys of " +
                       std::to_string(key_width));
  if (key_width % 2 != 0) return Support::no("a head has " + std::to_string(key_width) + " channels, an odd number");
  return {};
}

Support supports_fresh_fast_weights(const FastWeightRule& rule, const FastWeightInput& input) {
  if (PlainOperations::on()) return Support::no("kernels are off");
  const std::int64_t channels = decay_channels(input);
  if (Support own = supports_fast_weights(rule, channels, input.key.size(3), input.value.size(3)); !own) return own;
  if (channels > 1) return cuda::supports_vector_decay(vector_decay_of(rule, input));
  const auto device = input.value.device();
  return cuda::supports_chunked_fast_weights(device, product_dtype(device, input.value.scalar_type()));
}

ScaledWrites scaled_writes(const FastWeightInput& input) {
  const auto dtype = at::toOpMathType(input.write.scalar_type());
  // In double: in float the roundings of sums over a chunk's steps would be seen.
  const Tensor log_write_BTH1 = input.write.to(torch::kFloat64).unsqueeze(3);
  const Tensor log_decay_BTH1 =
      input.log_decay.defined() ? input.log_decay.to(torch::kFloat64) : torch::zeros_like(log_write_BTH1);
  Tensor scale_BTH1;
  {
    const torch::NoGradGuard no_grad;
    const Chunks chunks(log_write_BTH1.size(1), kFastWeightChunk, torch::kFloat64);
    const Tensor row_nMC1 = chunks.of(log_decay_BTH1).cumsum(2);
    const Tensor column_nMC1 = chunks.of(log_write_BTH1, -kInfinity) - row_nMC1;
    const LogScales scales = log_scales(row_nMC1, column_nMC1, torch::zeros_like(row_nMC1[0].narrow(1, 0, 1)));
    scale_BTH1 = chunks.joined(scales.all_nMC1, log_write_BTH1.size(2));
  }
  const Tensor before_BTH1 = torch::constant_pad_nd(scale_BTH1, {0, 0, 0, 0, 1, -1});
  ScaledWrites scaled{input, one_in_scale(scale_BTH1).to(dtype)};
  scaled.input.write = (log_write_BTH1 - scale_BTH1).to(dtype).exp().squeeze(3);
  scaled.input.log_decay = (log_decay_BTH1 + before_BTH1 - scale_BTH1).to(dtype);
  return scaled;
}

Tensor fresh_fast_weights(const FastWeightRule& rule, const FastWeightInput& given, const Tensor& lengths_B) {
  const Support support = supports_fresh_fast_weights(rule, given);
  TORCH_CHECK(support, "fast weights by kernels: ", support.reason());
  if (decay_channels(given) > 1)
    return cuda::vector_decay(vector_decay_of(rule, given), lengths_B).to(given.value.scalar_type());
  const ScaledWrites scaled = rule.log_write ? scaled_writes(given) : ScaledWrites{given, {}};
  const FastWeightInput& input = scaled.input;
  const std::int64_t key_width = input.key.size(3), value_width = input.value.size(3);
  const auto dtype = product_dtype(input.value.device(), input.value.scalar_type());
  const std::int64_t width = kernel_width(rule, key_width, value_width);
  const auto padded = [&](const Tensor& x) {
    const Tensor own = x.to(dtype);
    return own.size(3) == width ? own : torch::constant_pad_nd(own, {0, width - own.size(3)});
  };
  Tensor value = input.value;
  if (rule.attention_norm != AttentionNorm::kNone) value = torch::constant_pad_nd(value.to(dtype), {0, 1}, /*value=*/1);
  const Tensor log_decay = input.log_decay.defined() ? input.log_decay.to(torch::kFloat32) : input.log_decay;
  const Tensor read = cuda::chunked_fast_weights({rule.delta, read_scale(rule.attention_norm, key_width),
                                                  padded(input.query), padded(input.key), padded(value),
                                                  input.write.to(dtype), head_scalars(log_decay), lengths_B});
  Tensor output = read.narrow(3, 0, value_width);
  if (rule.attention_norm != AttentionNorm::kNone) {
    const auto wide = at::toOpMathType(dtype);
    // After the lengths both are zero: what is divided by there must not make numbers of no meaning.
    const Tensor behind_BT11 =
        (torch::arange(read.size(1), lengths_B.options()) >= lengths_B.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
    const Tensor norm = read.narrow(3, value_width, 1).to(wide).masked_fill(behind_BT11, 1);
    output = divided(rule, output.to(wide), norm, scaled.one_BTH1);
  }
  return output.to(input.value.scalar_type());
}

Tensor fast_weight_step(const FastWeightRule& rule, const FastWeightInput& input, const FastWeightState& state) {
  if (supports_fast_weight_step(rule, decay_channels(input), input.key.size(2), input.value.size(2)) &&
      cuda::supports_fast_weight_step(input.value, state.weights_BHKV))
    return cuda::fast_weight_step(rule.delta, input.query, input.key, input.value, input.write,
                                  head_scalars(input.log_decay), state.weights_BHKV);
  return plain_fast_weight_step(rule, input, state);
}

Tensor plain_fast_weight_step(const FastWeightRule& rule, const FastWeightInput& input, const FastWeightState& state) {
  const std::int64_t key_width = state.weights_BHKV.size(2), value_width = state.weights_BHKV.size(3);
  const auto dtype = state.weights_BHKV.scalar_type();
  const ComputeIn products(state.weights_BHKV.device(), dtype);
  // M = B*H matrices, in place.
  Tensor weights_MKV = state.weights_BHKV.view({-1, key_width, value_width});
  const auto rows = [&](const Tensor& x, std::int64_t columns) { return x.to(dtype).reshape({-1, 1, columns}); };
  const Tensor query_M1K = rows(input.query, key_width), key_M1K = rows(input.key, key_width),
               value_M1V = rows(input.value, value_width);
  const bool normed = rule.attention_norm != AttentionNorm::kNone;
  Tensor sum_M1K = normed ? state.key_sum_BHK.view({-1, 1, key_width}) : Tensor();
  const auto along_sum = [&](const Tensor& x_M1K) { return (sum_M1K * x_M1K).sum(2, true); };

  Tensor write_M11 = rows(input.write, 1), floor_M11;
  Tensor log_decay_M1X = input.log_decay.defined() ? rows(input.log_decay, input.log_decay.size(-1)) : Tensor();
  if (rule.log_write) {
    Tensor scale_M11 = state.log_scale_BH.view({-1, 1, 1});
    const Tensor kept = log_decay_M1X.defined() ? scale_M11 + log_decay_M1X : scale_M11.clone();
    const Tensor after = torch::maximum(kept, write_M11).clamp_min(0);
    log_decay_M1X = kept - after;
    write_M11 = (write_M11 - after).exp();
    scale_M11.copy_(after);
    floor_M11 = one_in_scale(after);
  }
  if (log_decay_M1X.defined()) {
    const Tensor kept_M1X = log_decay_M1X.exp();
    weights_MKV.mul_(kept_M1X.transpose(1, 2));
    if (normed) sum_M1K.mul_(kept_M1X);
  }

  Tensor update_M1V = value_M1V;
  if (rule.delta && normed)
    update_M1V = value_M1V - torch::bmm(key_M1K, weights_MKV) / (along_sum(key_M1K) + kAttentionNormEpsilon);
  else if (rule.delta)
    update_M1V = torch::baddbmm(value_M1V, key_M1K, weights_MKV, /*beta=*/1, /*alpha=*/-1);
  weights_MKV.baddbmm_(key_M1K.transpose(1, 2), update_M1V * write_M11);
  if (normed) sum_M1K.add_(rule.delta ? key_M1K : key_M1K * write_M11);

  const double divisor = 1 / read_scale(rule.attention_norm, key_width);
  Tensor output_M1V = torch::bmm(query_M1K, weights_MKV).div_(divisor);
  if (normed) output_M1V = divided(rule, output_M1V, along_sum(query_M1K) / divisor, floor_M11);
  return output_M1V.view(input.value.sizes()).to(input.value.scalar_type());
}

}  // namespace engram
