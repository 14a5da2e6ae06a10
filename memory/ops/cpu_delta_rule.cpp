#include "memory/ops/cpu_delta_rule.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "nn/cpu/kernels.h"
#include "nn/cpu/layers.h"
#include "nn/cpu/rows.h"

namespace engram::cpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

float* numbers_at(const Tensor& x, std::int64_t at) { return static_cast<float*>(x.data_ptr()) + at; }

// All of [B, T, H, ...], without gaps.
struct DeltaRuleTensors {
  Tensor query_BTHK, key_BTHK, value_BTHV, beta_BTH;
  Tensor saved_MSKV, update_MTV;  // of M = B * H rules; undefined: not kept

  std::int64_t batch() const { return query_BTHK.size(0); }
  std::int64_t steps() const { return query_BTHK.size(1); }
  std::int64_t heads() const { return query_BTHK.size(2); }
  std::int64_t key_width() const { return query_BTHK.size(3); }
  std::int64_t value_width() const { return value_BTHV.size(3); }
  std::int64_t rules() const { return batch() * heads(); }
  std::int64_t scratch() const { return delta_rule_scratch(key_width(), value_width()); }

  // Where rule m's numbers begin in a tensor like the keys, values and betas.
  std::int64_t first(std::int64_t m, std::int64_t width) const {
    return (m / heads() * steps() * heads() + m % heads()) * width;
  }
  DeltaRule rule(std::int64_t m) const {
    const std::int64_t K = key_width(), V = value_width(), H = heads();
    return {.steps = steps(),
            .key_width = K,
            .value_width = V,
            .key_stride = H * K,
            .value_stride = H * V,
            .beta_stride = H,
            .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(K))),
            .query = numbers_at(query_BTHK, first(m, K)),
            .key = numbers_at(key_BTHK, first(m, K)),
            .value = numbers_at(value_BTHV, first(m, V)),
            .beta = numbers_at(beta_BTH, first(m, 1)),
            .output = nullptr,
            .state = nullptr,
            .saved_state = saved_MSKV.defined() ? numbers_at(saved_MSKV, m * saved_MSKV.size(1) * K * V) : nullptr,
            .update = update_MTV.defined() ? numbers_at(update_MTV, m * steps() * V) : nullptr};
  }
};

// work(m, scratch) for each rule.
template <class Work>
void each_rule(const DeltaRuleTensors& tensors, Work work) {
  at::parallel_for(0, tensors.rules(), 1, [&](std::int64_t begin, std::int64_t end) {
    float* const scratch = scratch_of(tensors.scratch()).data();
    for (std::int64_t m = begin; m < end; ++m) work(m, scratch);
  });
}

class DeltaRuleFunction : public torch::autograd::Function<DeltaRuleFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                               const Tensor& beta, const Tensor& state, bool keeps) {
    DeltaRuleTensors in{query.contiguous(), key.contiguous(), value.contiguous(), beta.contiguous(), {}, {}};
    const std::int64_t K = in.key_width(), V = in.value_width(), steps = in.steps();
    if (keeps) {
      in.saved_MSKV = torch::empty({in.rules(), (steps + kDeltaSaved - 1) / kDeltaSaved, K, V}, torch::kFloat32);
      in.update_MTV = torch::empty({in.rules(), steps, V}, torch::kFloat32);
    }
    const Tensor output = torch::empty(value.sizes(), torch::kFloat32);
    const Tensor last = state.detach().clone(torch::MemoryFormat::Contiguous);
    each_rule(in, [&](std::int64_t m, float* scratch) {
      DeltaRule rule = in.rule(m);
      rule.output = numbers_at(output, in.first(m, V));
      rule.state = numbers_at(last, m * K * V);
      kernels().delta_rule(rule, scratch);
    });
    if (keeps)
      context->save_for_backward(
          {in.query_BTHK, in.key_BTHK, in.value_BTHV, in.beta_BTH, in.saved_MSKV, in.update_MTV});
    return {output, last};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const DeltaRuleTensors in{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]};
    const std::int64_t K = in.key_width(), V = in.value_width();
    const Tensor d_output = gradient[0].defined() ? gradient[0].contiguous() : torch::zeros_like(in.value_BTHV);
    const Tensor d_state = gradient[1].defined() ? gradient[1].clone(torch::MemoryFormat::Contiguous)
                                                 : torch::zeros({in.batch(), in.heads(), K, V}, torch::kFloat32);
    const Tensor d_query = torch::empty_like(in.query_BTHK), d_key = torch::empty_like(in.key_BTHK),
                 d_value = torch::empty_like(in.value_BTHV), d_beta = torch::empty_like(in.beta_BTH);
    each_rule(in, [&](std::int64_t m, float* scratch) {
      kernels().delta_rule_backward({.forward = in.rule(m),
                                     .d_output = numbers_at(d_output, in.first(m, V)),
                                     .d_state = numbers_at(d_state, m * K * V),
                                     .d_query = numbers_at(d_query, in.first(m, K)),
                                     .d_key = numbers_at(d_key, in.first(m, K)),
                                     .d_value = numbers_at(d_value, in.first(m, V)),
                                     .d_beta = numbers_at(d_beta, in.first(m, 1))},
                                    scratch);
    });
    return {d_query, d_key, d_value, d_beta, d_state, Tensor()};
  }
};

}  // namespace

bool supports_delta_rule(const Tensor& query_BTHK, const Tensor& key_BTHK, const Tensor& value_BTHV,
                         const Tensor& beta_BTH, const Tensor& state_BHKV) {
  for (const Tensor* x : {&query_BTHK, &key_BTHK, &value_BTHV, &beta_BTH, &state_BHKV})
    if (!takes(*x)) return false;
  return true;
}

std::pair<Tensor, Tensor> delta_rule(const Tensor& query_BTHK, const Tensor& key_BTHK, const Tensor& value_BTHV,
                                     const Tensor& beta_BTH, const Tensor& state_BHKV) {
  bool keeps = false;
  for (const Tensor* x : {&query_BTHK, &key_BTHK, &value_BTHV, &beta_BTH, &state_BHKV})
    keeps = keeps || x->requires_grad();
  const variable_list out = DeltaRuleFunction::apply(query_BTHK, key_BTHK, value_BTHV, beta_BTH, state_BHKV,
                                                     keeps && torch::GradMode::is_enabled());
  return {out[0], out[1]};
}

}  // namespace engram::cpu
