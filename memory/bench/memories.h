// The delta rule and attention as engram bench kernels runs them: the kernels on memory of their own, their check, and
// the same by LibTorch's operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/reference.h"
#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "kernels/fast_weights/delta_rule/reference.h"
#include "memory/bench/kernel_case.h"
#include "memory/ops/fast_weight_ops.h"
#include "memory/ops/ops.h"
#include "nn/device/cuda_support.h"

namespace engram {

// ---- The delta rule ----

// Of the fast weights' rules.
struct BenchRule {
  FastWeightWrite write = FastWeightWrite::kDelta;
  bool decays = false;

  std::string text() const {
    return write == FastWeightWrite::kDelta ? decays ? "gated delta" : "delta" : decays ? "decaying sum" : "sum";
  }
};

// Operations of a recurrence step: S^T k, which the sum rule leaves out, the write and the read, 2 W^2 each, and W^2
// for a decay; backward twice as many products with S or its gradient. Bytes: q, k, v, beta in and the output out;
// backward these and the output's gradient in, four gradients out; decays and their gradients in float.
inline ForwardBackward delta_flops(const KernelShape& s, const BenchRule& rule = {}) {
  const double square = 1.0 * s.width * s.width;
  const double forward =
      ((rule.write == FastWeightWrite::kDelta ? 6 : 4) + (rule.decays ? 1 : 0)) * square * s.vectors();
  return {forward, 2 * forward};
}
inline ForwardBackward delta_bytes(const KernelShape& s, const BenchRule& rule = {}) {
  const double decays = rule.decays ? sizeof(float) * s.vectors() : 0;
  return {(4.0 * s.padded + 1) * s.vectors() * kElementBytes + decays,
          (7.0 * s.padded + 2) * s.vectors() * kElementBytes + 2 * decays};
}

class DeltaRule {
 public:
  DeltaRule(const KernelShape& shape, std::int64_t columns, const BenchRule& rule = {})
      : shape(shape), rule(rule), in(zero_vectors(shape, columns)), gradient(zero_vectors(shape, columns)) {
    in.q.narrow(3, 0, shape.width).copy_(l2_normalize(random_vectors(shape)));
    in.k.narrow(3, 0, shape.width).copy_(l2_normalize(random_vectors(shape)));
    in.v.narrow(3, 0, shape.width).copy_(random_vectors(shape));
    beta = (2 * random_vectors(shape).select(3, 0).sigmoid()).to(torch::kBFloat16).contiguous();
    d_beta = torch::empty_like(beta);
    if (rule.decays) {
      log_decay = -0.1 * torch::rand(beta.sizes(), on_gpu(torch::kFloat32));
      d_log_decay = torch::empty_like(log_decay);
    }
    output = torch::empty_like(random_padded(shape));
    d_output = random_padded(shape);
    saved = scratch_bytes(delta_rule_saved_bytes(kernel_shape(), Dtype::kBfloat16), beta);
    scratch = scratch_bytes(delta_rule_backward_scratch_bytes(kernel_shape(), Dtype::kBfloat16), beta);
  }

  void forward(cudaStream_t stream) const { delta_rule_forward(input(), output.data_ptr(), saved.data_ptr(), stream); }
  void backward(cudaStream_t stream) const {
    delta_rule_backward(input(), saved.data_ptr(), d_output.data_ptr(),
                        {gradient.q.data_ptr(), gradient.k.data_ptr(), gradient.v.data_ptr(), d_beta.data_ptr(),
                         rule.decays ? d_log_decay.data_ptr<float>() : nullptr},
                        scratch.data_ptr(), stream);
  }

  DeltaRuleReferenceInput reference_input() const {
    const int rows = shape.checked_rows(), heads = shape.checked_heads();
    const std::size_t states = static_cast<std::size_t>(rows) * heads * shape.width * shape.width;
    return {{rows, shape.time, heads, shape.width},
            shape.scale(),
            numbers(checked(in.q, shape)),
            numbers(checked(in.k, shape)),
            numbers(checked(in.v, shape)),
            numbers(checked(beta, shape)),
            std::vector<int>(rows, shape.time),
            std::vector<double>(states),
            rule.write,
            rule.decays ? numbers(checked(log_decay, shape)) : std::vector<double>()};
  }
  // Errors of the gradients, given that of the output.
  void compare_gradients(const DeltaRuleReferenceInput& reference, std::vector<double> d_output_BTHD,
                         WorstError& error) const {
    const auto expected = delta_rule_reference_backward(
        reference, {std::move(d_output_BTHD), std::vector<double>(reference.initial_state_BHKV.size())});
    error.compare(gradient.q, expected.q_BTHD);
    error.compare(gradient.k, expected.k_BTHD);
    error.compare(gradient.v, expected.v_BTHD);
    error.compare(d_beta, expected.beta_BTH);
    if (rule.decays) error.compare(d_log_decay, expected.log_decay_BTH);
  }
  ForwardBackward check() const {
    forward(current_stream());
    backward(current_stream());
    const DeltaRuleReferenceInput reference = reference_input();
    WorstError forward_error(shape), backward_error(shape);
    forward_error.compare(output, delta_rule_reference(reference).output_BTHD);
    compare_gradients(reference, numbers(checked(d_output, shape)), backward_error);
    return {forward_error.get(), backward_error.get()};
  }

  // The inputs of plain_output.
  std::vector<torch::Tensor> plain_inputs() const {
    std::vector<torch::Tensor> x{plain(in.q, shape), plain(in.k, shape), plain(in.v, shape), beta};
    if (rule.decays) x.push_back(log_decay.unsqueeze(3));
    return x;
  }
  torch::Tensor plain_output(const std::vector<torch::Tensor>& x) const {
    const torch::Tensor state = torch::zeros({shape.batch, shape.heads, shape.width, shape.width}, beta.options());
    const torch::Tensor lengths = torch::full({shape.batch}, shape.time, on_gpu(torch::kInt64));
    return fast_weights({rule.write == FastWeightWrite::kDelta},
                        {x[0], x[1], x[2], x[3], rule.decays ? x[4] : torch::Tensor()}, {state, {}, {}}, lengths)
        .output_BTHV;
  }

  const KernelShape shape;
  const BenchRule rule;
  const Vectors in, gradient;
  torch::Tensor beta, log_decay, output, d_output, d_beta, d_log_decay, saved, scratch;

 private:
  DeltaRuleShape kernel_shape() const { return {shape.batch, shape.time, shape.heads, shape.padded}; }
  DeltaRuleInput input() const {
    return {.shape = kernel_shape(),
            .dtype = Dtype::kBfloat16,
            .scale = shape.scale(),
            .row_stride = in.q.stride(1),
            .q_BTHD = in.q.data_ptr(),
            .k_BTHD = in.k.data_ptr(),
            .v_BTHD = in.v.data_ptr(),
            .beta_BTH = beta.data_ptr(),
            .length_B = nullptr,
            .write = rule.write,
            .log_decay_BTH = rule.decays ? log_decay.data_ptr<float>() : nullptr};
  }
};

// ---- Attention ----

// Pairs of query and key: two products of 2 W forward, five backward (the scores again). Bytes: q, k, v, output;
// backward these and the output's gradient in, three gradients out.
inline ForwardBackward attention_flops(const KernelShape& s, int window) {
  const double pairs = (1.0 * s.time * window - 0.5 * window * (window - 1.0)) * s.batch * s.heads;
  return {4 * s.width * pairs, 10 * s.width * pairs};
}
inline ForwardBackward attention_bytes(const KernelShape& s) {
  return {4 * s.padded * s.vectors() * kElementBytes, 8 * s.padded * s.vectors() * kElementBytes};
}

class Attention {
 public:
  // q, k and v lie anywhere, their gradients in the same way.
  Attention(const KernelShape& shape, int window, Vectors in, Vectors gradient)
      : shape(shape),
        window(std::min(window, shape.time)),
        in(std::move(in)),
        gradient(std::move(gradient)),
        rotary_(torch::arange(shape.time, on_gpu(torch::kInt64)), shape.width, torch::kBFloat16) {
    if (window < shape.time) {
      const torch::Tensor position_B = torch::zeros({shape.batch}, on_gpu(torch::kInt64));
      plan_.emplace(window, shape.time, /*max_position=*/0, position_B, torch::full_like(position_B, shape.time),
                    torch::kBFloat16);
      const torch::Tensor empty =
          torch::zeros({shape.batch, window, shape.heads, shape.width}, on_gpu(torch::kBFloat16));
      ring_ = {empty, empty};
    }
    output = torch::empty_like(random_padded(shape));
    d_output = random_padded(shape);
    saved = scratch_bytes(attention_saved_bytes(kernel_shape(), Dtype::kBfloat16, /*dropout=*/false), output);
    scratch = scratch_bytes(attention_backward_scratch_bytes(kernel_shape()), output);
  }

  void forward(cudaStream_t stream) const { attention_forward(input(), output.data_ptr(), saved.data_ptr(), stream); }
  void backward(cudaStream_t stream) const {
    const auto rows = [](const torch::Tensor& x) { return AttentionMutableRows{x.data_ptr(), x.stride(1)}; };
    attention_backward(input(), {output.data_ptr(), saved.data_ptr(), d_output.data_ptr()},
                       {shape.padded, rows(gradient.q), rows(gradient.k), rows(gradient.v)}, scratch.data_ptr(),
                       stream);
  }

  AttentionReferenceInput reference_input() const {
    const int rows = shape.checked_rows();
    AttentionReferenceInput reference;
    reference.shape = {rows, shape.time, shape.checked_heads(), shape.width};
    reference.scale = shape.scale();
    reference.window = window;
    reference.rotary_width = shape.width;
    reference.q_BTHW = numbers(checked(in.q, shape));
    reference.k_BTHW = numbers(checked(in.k, shape));
    reference.v_BTHW = numbers(checked(in.v, shape));
    reference.length_B.assign(rows, shape.time);
    return reference;
  }
  void compare_gradients(const AttentionReferenceInput& reference, const std::vector<double>& d_output_BTHW,
                         WorstError& error) const {
    const auto expected = attention_reference_backward(reference, d_output_BTHW);
    error.compare(gradient.q, expected.q_BTHW);
    error.compare(gradient.k, expected.k_BTHW);
    error.compare(gradient.v, expected.v_BTHW);
  }
  ForwardBackward check() const {
    forward(current_stream());
    backward(current_stream());
    const AttentionReferenceInput reference = reference_input();
    WorstError forward_error(shape), backward_error(shape);
    forward_error.compare(output, attention_reference(reference).output_BTHW);
    compare_gradients(reference, numbers(checked(d_output, shape)), backward_error);
    return {forward_error.get(), backward_error.get()};
  }

  std::vector<torch::Tensor> plain_inputs() const {
    return {plain(in.q, shape), plain(in.k, shape), plain(in.v, shape)};
  }
  // A window by blocks, which see each other's keys through a bias; all steps by LibTorch's fused causal attention.
  torch::Tensor plain_output(const std::vector<torch::Tensor>& x) const {
    const torch::Tensor query_BTHW = rotary_.turn(x[0]), key_BTHW = rotary_.turn(x[1]);
    if (plan_) return plan_->attend(query_BTHW, key_BTHW, x[2], ring_).output_BTHV;
    return at::scaled_dot_product_attention(query_BTHW.transpose(1, 2), key_BTHW.transpose(1, 2), x[2].transpose(1, 2),
                                            /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true)
        .transpose(1, 2);
  }

  const KernelShape shape;
  const int window;
  const Vectors in, gradient;
  torch::Tensor output, d_output, saved, scratch;

 private:
  AttentionShape kernel_shape() const { return {shape.batch, shape.time, shape.heads, shape.padded}; }
  AttentionInput input() const {
    const auto rows = [](const torch::Tensor& x) { return AttentionRows{x.data_ptr(), x.stride(1)}; };
    return {kernel_shape(), Dtype::kBfloat16, shape.scale(), window,  shape.width, shape.padded,
            rows(in.q),     rows(in.k),       rows(in.v),    nullptr, {}};
  }

  Rotary rotary_;
  std::optional<WindowPlan> plan_;  // where there is a window
  KeyValueRing ring_;
};

}  // namespace engram
