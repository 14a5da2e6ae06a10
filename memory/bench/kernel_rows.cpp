#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/bench/delayed_memory.h"
#include "memory/bench/gated_rnn.h"
#include "memory/bench/hadamard_memory.h"
#include "memory/bench/kernel_row.h"
#include "memory/bench/memories.h"
#include "memory/bench/mixer.h"
#include "memory/bench/recurrence.h"
#include "memory/bench/vector_decay.h"

namespace engram {
namespace {

using torch::Tensor;

// The row of a class with shape, check, forward, backward, plain_inputs and plain_output.
template <class Operation>
KernelRow row_of(std::string name, ForwardBackward flops, ForwardBackward bytes, ForwardBackward bound,
                 std::shared_ptr<Operation> operation) {
  const std::vector<Tensor> inputs = leaves(operation->plain_inputs());
  const Tensor d_output = plain(operation->d_output, operation->shape);
  return {.operation = std::move(name),
          .shape = operation->shape.text(),
          .flops = flops,
          .bytes = bytes,
          .bound = bound,
          .check = [operation] { return operation->check(); },
          .forward = [operation](cudaStream_t stream) { operation->forward(stream); },
          .backward = [operation](cudaStream_t stream) { operation->backward(stream); },
          .torch_forward =
              [operation, inputs] {
                const torch::NoGradGuard no_grad;
                operation->plain_output(inputs);
              },
          .torch_forward_and_backward =
              [operation, inputs, d_output] {
                torch::autograd::grad({operation->plain_output(inputs)}, inputs, {d_output});
              }};
}

KernelRow delta_rule_row(const KernelShape& shape, std::int64_t columns, const BenchRule& rule = {}) {
  // The gradient of a decay is a difference of large sums.
  constexpr ForwardBackward kDecayBound{kBfloat16Bound.forward, 0.025};
  return row_of(rule.text() + (columns > 0 ? " rule, learner's layout" : " rule"), delta_flops(shape, rule),
                delta_bytes(shape, rule), rule.decays ? kDecayBound : kBfloat16Bound,
                std::make_shared<DeltaRule>(shape, columns, rule));
}

KernelRow attention_row(const KernelShape& shape, int window, std::int64_t columns) {
  const Vectors in = zero_vectors(shape, columns);
  for (const Tensor& x : {in.q, in.k, in.v}) x.narrow(3, 0, shape.width).copy_(random_vectors(shape));
  const auto attention = std::make_shared<Attention>(shape, window, in, zero_vectors(shape, columns));
  const std::string name =
      attention->window < shape.time ? "window attention, " + std::to_string(window) : "full causal attention";
  return row_of(name + (columns > 0 ? ", learner's layout" : ""), attention_flops(shape, attention->window),
                attention_bytes(shape), kBfloat16Bound, attention);
}

KernelRow mixer_row(const KernelShape& shape, int window) {
  // Two memories, each within its bound, and the rounding of what passes between three kernels.
  constexpr ForwardBackward kMixerBound{0.007, 0.012};
  return row_of("synchronous HQLT mixer, " + std::to_string(window), mixer_flops(shape, window), mixer_bytes(shape),
                kMixerBound, std::make_shared<HqltMixer>(shape, window));
}

// ---- A step of the delta rule ----

// Bytes: the state in and out as float, and the vectors.
KernelRow delta_step_row(int rows, int heads, int width, const BenchRule& rule = {}) {
  struct Step {
    KernelShape shape;
    BenchRule rule;
    Tensor q, k, v, beta, state, output, plain_state, log_decay;
  };
  const KernelShape s{rows, 1, heads, width, width};
  const auto step = std::make_shared<Step>();
  const Vectors x{random_padded(s), random_padded(s), random_padded(s)};
  *step = {s,
           rule,
           l2_normalize(x.q.to(torch::kFloat32)).to(torch::kBFloat16),
           l2_normalize(x.k.to(torch::kFloat32)).to(torch::kBFloat16),
           x.v,
           (2 * random_vectors(s).select(3, 0).sigmoid()).to(torch::kBFloat16).contiguous(),
           torch::randn({rows, heads, width, width}, on_gpu(torch::kFloat32)),
           torch::empty_like(x.v),
           torch::zeros({rows, heads, width, width}, on_gpu(torch::kFloat32)),
           rule.decays ? -0.1 * torch::rand({rows, 1, heads}, on_gpu(torch::kFloat32)) : Tensor()};
  const auto forward = [step](cudaStream_t stream) {
    const KernelShape& s = step->shape;
    delta_rule_step({s.batch, s.heads, s.width, Dtype::kBfloat16, s.scale(), step->q.data_ptr(), step->k.data_ptr(),
                     step->v.data_ptr(), step->beta.data_ptr(), step->state.data_ptr<float>(), step->output.data_ptr(),
                     step->rule.write, step->rule.decays ? step->log_decay.data_ptr<float>() : nullptr},
                    stream);
  };
  // LibTorch's operations take a single type, that of the state.
  const auto row = [&](const Tensor& x) { return x.select(1, 0).to(torch::kFloat32); };
  const std::vector<Tensor> plain_inputs{row(step->q), row(step->k), row(step->v), row(step->beta),
                                         rule.decays ? step->log_decay.select(1, 0).unsqueeze(2) : Tensor()};
  const double states = 1.0 * rows * heads * width * width, vectors = 1.0 * rows * heads * (4 * width + 1);
  return {.operation = rule.text() + " step",
          .shape = "N " + std::to_string(rows) + " " + std::to_string(heads) + " x " + std::to_string(width),
          .flops = {6 * states, NAN},
          .bytes = {2 * sizeof(float) * states + kElementBytes * vectors, NAN},
          .bound = kBfloat16Bound,
          .check =
              [step, forward] {
                const KernelShape& s = step->shape;
                const auto some = [&](const Tensor& x) { return all_heads_checked(x, s); };
                const int rows = s.checked_rows();
                DeltaRuleReferenceInput reference{{rows, 1, s.heads, s.width},
                                                  s.scale(),
                                                  numbers(some(step->q)),
                                                  numbers(some(step->k)),
                                                  numbers(some(step->v)),
                                                  numbers(some(step->beta)),
                                                  std::vector<int>(rows, 1),
                                                  numbers(some(step->state)),
                                                  step->rule.write};
                if (step->rule.decays) reference.log_decay_BTH = numbers(some(step->log_decay));
                forward(current_stream());
                const auto expected = delta_rule_reference(reference);
                WorstError error(s);
                for (const auto& [actual, wanted] : {std::pair(&step->output, &expected.output_BTHD),
                                                     std::pair(&step->state, &expected.final_state_BHKV)})
                  error.compare(some(*actual), tensor_of(*wanted, some(*actual).sizes()));
                return ForwardBackward{error.get(), NAN};
              },
          .forward = forward,
          .backward = {},
          .torch_forward =
              [step, plain_inputs] {
                const auto& x = plain_inputs;
                plain_fast_weight_step({step->rule.write == FastWeightWrite::kDelta},
                                       {x[0], x[1], x[2], x[3], step->rule.decays ? x[4] : torch::Tensor()},
                                       {step->plain_state, {}, {}});
              },
          .torch_forward_and_backward = {}};
}

// ---- A step of attention ----

// A full ring of float32. Bytes: the ring, and the vectors.
KernelRow attention_step_row(int rows, int heads, int width, int slots) {
  struct Step {
    KernelShape shape;
    int slots;
    Vectors in;
    Tensor key_BSHK, value_BSHV, position_B, output;
  };
  const KernelShape s{rows, 1, heads, width, width};
  const auto ring = [=] { return torch::randn({rows, slots, heads, width}, on_gpu(torch::kFloat32)); };
  const auto step = std::make_shared<Step>();
  *step = {s,
           slots,
           {random_padded(s), random_padded(s), random_padded(s)},
           ring(),
           ring(),
           torch::full({rows}, slots, on_gpu(torch::kInt64)),
           torch::empty({rows, 1, heads, width}, on_gpu(torch::kBFloat16))};
  const auto forward = [step](cudaStream_t stream) {
    const KernelShape& s = step->shape;
    const auto rows_of = [&](const Tensor& x) { return AttentionRows{x.data_ptr(), s.part()}; };
    attention_step({.rows = s.batch,
                    .heads = s.heads,
                    .width = s.width,
                    .dtype = Dtype::kBfloat16,
                    .scale = s.scale(),
                    .rotary_width = 0,
                    .head_stride = s.width,
                    .q = rows_of(step->in.q),
                    .k = rows_of(step->in.k),
                    .v = rows_of(step->in.v),
                    .position_N = step->position_B.data_ptr<std::int64_t>(),
                    .ring = {Dtype::kFloat32, step->slots, step->key_BSHK.data_ptr(), step->value_BSHV.data_ptr()},
                    .chunked = false,
                    .output_width = s.width,
                    .output_NHP = step->output.data_ptr(),
                    .dropout = {}},
                   stream);
  };
  const double keys = 1.0 * rows * slots * heads * width;
  return {.operation = "attention step, " + std::to_string(slots) + " slots",
          .shape = "N " + std::to_string(rows) + " " + std::to_string(heads) + " x " + std::to_string(width),
          .flops = {4 * keys, NAN},
          .bytes = {2 * sizeof(float) * keys + 4 * kElementBytes * rows * heads * width, NAN},
          .bound = kBfloat16Bound,
          .check =
              [step, forward] {
                const KernelShape& s = step->shape;
                const auto some = [&](const Tensor& x) { return all_heads_checked(x, s); };
                const int rows = s.checked_rows();
                AttentionReferenceInput reference;
                reference.shape = {rows, 1, s.heads, s.width};
                reference.scale = s.scale();
                reference.window = reference.slots = step->slots;
                reference.rotary_width = 0;
                reference.q_BTHW = numbers(some(step->in.q));
                reference.k_BTHW = numbers(some(step->in.k));
                reference.v_BTHW = numbers(some(step->in.v));
                reference.length_B.assign(rows, 1);
                reference.past_key_BSHW = numbers(some(step->key_BSHK));
                reference.past_value_BSHW = numbers(some(step->value_BSHV));
                reference.position_B.assign(rows, step->slots);
                forward(current_stream());
                WorstError error(s);
                error.compare(some(step->output),
                              tensor_of(attention_reference(reference).output_BTHW, some(step->output).sizes()));
                return ForwardBackward{error.get(), NAN};
              },
          .forward = forward,
          .backward = {},
          .torch_forward =
              [step, keys = step->key_BSHK.clone(), values = step->value_BSHV.clone(),
               row_B = torch::arange(rows, on_gpu(torch::kInt64))] {
                const auto vectors = [](const Tensor& x) { return x.select(1, 0).to(torch::kFloat32); };
                const Tensor slot_B = step->position_B.remainder(step->slots);
                Tensor(keys).index_put_({row_B, slot_B}, vectors(step->in.k));
                Tensor(values).index_put_({row_B, slot_B}, vectors(step->in.v));
                at::scaled_dot_product_attention(vectors(step->in.q).unsqueeze(2), keys.transpose(1, 2),
                                                 values.transpose(1, 2));
              },
          .torch_forward_and_backward = {}};
}

}  // namespace

std::vector<std::function<KernelRow()>> kernel_rows() {
  constexpr int kWindow = 64, kFull = 781;
  constexpr BenchRule kGatedDelta{FastWeightWrite::kDelta, true}, kSum{FastWeightWrite::kSum, false},
      kDecayingSum{FastWeightWrite::kSum, true};
  constexpr KernelShape kStored{64, 781, 2, 50, 56}, kPlain{64, 781, 2, 50, 50}, kLong{1, 8192, 8, 128, 128};
  std::vector<std::function<KernelRow()>> rows = {
      [=] { return delta_rule_row(kStored, 3 * kStored.part()); },
      [=] { return delta_rule_row(kPlain, 0); },
      [=] { return attention_row(kStored, kWindow, projected_columns(kStored)); },
      [=] { return attention_row(kPlain, kWindow, 0); },
      [=] { return attention_row(kStored, kFull, projected_columns(kStored)); },
      [=] { return attention_row(kPlain, kFull, 0); },
      [=] { return mixer_row(kStored, kWindow); },
      [=] { return delta_rule_row(kLong, 0); },
  };
  for (const BenchRule& rule : {kGatedDelta, kSum, kDecayingSum}) {
    rows.push_back([=] { return delta_rule_row(kStored, 3 * kStored.part(), rule); });
    rows.push_back([=] { return delta_rule_row(kLong, 0, rule); });
    rows.push_back([=] { return delta_step_row(4096, 2, 50, rule); });
  }
  // As flash-linear-attention and FlashQLA are measured.
  for (const BenchRule& rule : {BenchRule{}, kGatedDelta})
    for (const int heads : {8, 16, 32})
      rows.push_back([=] { return delta_rule_row({8, 1024, heads, 128, 128}, 0, rule); });
  for (const int n : {1, 64, 1024, 4096}) rows.push_back([n] { return delta_step_row(n, 2, 50); });
  for (const int n : {1, 64, 1024, 4096}) rows.push_back([n] { return attention_step_row(n, 2, 50, kWindow); });
  for (const auto& row : delayed_memory_rows()) rows.push_back(row);
  for (const auto& row : gated_rnn_rows()) rows.push_back(row);
  for (const auto& row : recurrence_rows()) rows.push_back(row);
  for (const auto& row : hadamard_memory_rows()) rows.push_back(row);
  for (const auto& row : vector_decay_rows()) rows.push_back(row);
  return rows;
}

}  // namespace engram
