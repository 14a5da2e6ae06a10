#include "memory/ops/cpu_fast_weights.h"

#include <ATen/Parallel.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "nn/cpu/kernels.h"
#include "nn/cpu/rows.h"

namespace engram::cpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

float* numbers_at(const Tensor& x, std::int64_t at) { return static_cast<float*>(x.data_ptr()) + at; }

// In the order of the function's arguments, without gaps; the decays may be undefined.
struct Tensors {
  Tensor query_BTHK, key_BTHK, value_BTHV, write_BTH, log_decay_BTHX, state_BHKV;

  std::int64_t steps() const { return key_BTHK.size(1); }
  std::int64_t heads() const { return key_BTHK.size(2); }
  std::int64_t key_width() const { return key_BTHK.size(3); }
  std::int64_t value_width() const { return value_BTHV.size(3); }
  std::int64_t decay_width() const { return log_decay_BTHX.defined() ? log_decay_BTHX.size(3) : 0; }
  std::int64_t matrix() const { return key_width() * value_width(); }
  std::int64_t memories() const { return key_BTHK.size(0) * heads(); }  // M = B * H
  std::int64_t saved_states() const { return (steps() + kFastWeightsSaved - 1) / kFastWeightsSaved; }

  // Where memory m's numbers begin in a tensor of such vectors a step.
  std::int64_t first(std::int64_t m, std::int64_t width) const {
    return (m / heads() * steps() * heads() + m % heads()) * width;
  }
  FastWeights memory(bool delta, double scale, std::int64_t m) const {
    return {.delta = delta,
            .steps = steps(),
            .heads = heads(),
            .key_width = key_width(),
            .value_width = value_width(),
            .decay_width = decay_width(),
            .scale = static_cast<float>(scale),
            .query = numbers_at(query_BTHK, first(m, key_width())),
            .key = numbers_at(key_BTHK, first(m, key_width())),
            .value = numbers_at(value_BTHV, first(m, value_width())),
            .write = numbers_at(write_BTH, first(m, 1)),
            .log_decay = decay_width() > 0 ? numbers_at(log_decay_BTHX, first(m, decay_width())) : nullptr,
            .output = nullptr,
            .state = nullptr,
            .saved_state = nullptr,
            .update = nullptr,
            .first_state = numbers_at(state_BHKV, m * matrix())};
  }
};

// work(m, scratch) for each memory.
template <class Work>
void each_memory(const Tensors& tensors, bool delta, Work work) {
  const std::int64_t floats = fast_weights_scratch(tensors.key_width(), tensors.value_width(),
                                                   makes_states_again(delta, tensors.decay_width()));
  at::parallel_for(0, tensors.memories(), 1, [&](std::int64_t begin, std::int64_t end) {
    float* const scratch = scratch_of(floats).data();
    for (std::int64_t m = begin; m < end; ++m) work(m, scratch);
  });
}

class FastWeightsFunction : public torch::autograd::Function<FastWeightsFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                               const Tensor& write, const std::optional<Tensor>& log_decay, const Tensor& state,
                               bool delta, double scale, bool keeps) {
    const Tensors in{query.contiguous(),
                     key.contiguous(),
                     value.contiguous(),
                     write.contiguous(),
                     log_decay ? log_decay->contiguous() : Tensor(),
                     state.contiguous()};
    Tensor saved_MSKV, update_MTV;
    if (keeps) {
      saved_MSKV = torch::empty({in.memories(), in.saved_states(), in.key_width(), in.value_width()}, torch::kFloat32);
      update_MTV = torch::empty({in.memories(), in.steps(), in.value_width()}, torch::kFloat32);
    }
    const Tensor output = torch::empty(value.sizes(), torch::kFloat32), last = in.state_BHKV.detach().clone();
    each_memory(in, delta, [&](std::int64_t m, float* scratch) {
      FastWeights memory = in.memory(delta, scale, m);
      memory.output = numbers_at(output, in.first(m, in.value_width()));
      memory.state = numbers_at(last, m * in.matrix());
      if (keeps) {
        memory.saved_state = numbers_at(saved_MSKV, m * in.saved_states() * in.matrix());
        memory.update = numbers_at(update_MTV, m * in.steps() * in.value_width());
      }
      kernels().fast_weights(memory, scratch);
    });
    if (keeps) {
      context->save_for_backward({in.query_BTHK, in.key_BTHK, in.value_BTHV, in.write_BTH, in.log_decay_BTHX,
                                  in.state_BHKV, saved_MSKV, update_MTV});
      context->saved_data["delta"] = delta;
      context->saved_data["scale"] = scale;
    }
    return {output, last};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "fast weights on a CPU have no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensors in{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]};
    const bool delta = context->saved_data["delta"].toBool(), decays = in.decay_width() > 0;
    const double scale = context->saved_data["scale"].toDouble();
    const Tensor d_output = gradient[0].defined() ? gradient[0].contiguous() : torch::zeros_like(in.value_BTHV);
    const Tensor d_state =
        gradient[1].defined() ? gradient[1].clone(torch::MemoryFormat::Contiguous) : torch::zeros_like(in.state_BHKV);
    const Tensor d_query = torch::empty_like(in.query_BTHK), d_key = torch::empty_like(in.key_BTHK),
                 d_value = torch::empty_like(in.value_BTHV), d_write = torch::empty_like(in.write_BTH),
                 d_log_decay = decays ? torch::empty_like(in.log_decay_BTHX) : Tensor();
    each_memory(in, delta, [&](std::int64_t m, float* scratch) {
      FastWeights memory = in.memory(delta, scale, m);
      memory.saved_state = numbers_at(saved[6], m * in.saved_states() * in.matrix());
      memory.update = numbers_at(saved[7], m * in.steps() * in.value_width());
      kernels().fast_weights_backward(
          {.forward = memory,
           .d_output = numbers_at(d_output, in.first(m, in.value_width())),
           .d_state = numbers_at(d_state, m * in.matrix()),
           .d_query = numbers_at(d_query, in.first(m, in.key_width())),
           .d_key = numbers_at(d_key, in.first(m, in.key_width())),
           .d_value = numbers_at(d_value, in.first(m, in.value_width())),
           .d_write = numbers_at(d_write, in.first(m, 1)),
           .d_log_decay = decays ? numbers_at(d_log_decay, in.first(m, in.decay_width())) : nullptr},
          scratch);
    });
    return {d_query, d_key, d_value, d_write, d_log_decay, d_state, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

std::pair<Tensor, Tensor> fast_weights(const FastWeightsInput& input) {
  const auto learns = [](const Tensor& x) { return x.defined() && x.requires_grad(); };
  const bool keeps = torch::GradMode::is_enabled() &&
                     (learns(input.query_BTHK) || learns(input.key_BTHK) || learns(input.value_BTHV) ||
                      learns(input.write_BTH) || learns(input.log_decay_BTHX) || learns(input.state_BHKV));
  const variable_list out =
      FastWeightsFunction::apply(input.query_BTHK, input.key_BTHK, input.value_BTHV, input.write_BTH,
                                 given(input.log_decay_BTHX), input.state_BHKV, input.delta, input.scale, keeps);
  return {out[0], out[1]};
}

}  // namespace engram::cpu
