#include "memory/ops/vector_decay_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/fast_weights/vector_decay/vector_decay.h"
#include "memory/core/refusal.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// q, k, v and the logarithms of decays, and the lengths.
using Tensors = std::array<Tensor, 5>;

VectorDecay problem_of(double scale, const Tensors& x) {
  const Tensor &key_BTHK = x[1], &value_BTHV = x[2];
  return {.batch = static_cast<int>(key_BTHK.size(0)),
          .time = static_cast<int>(key_BTHK.size(1)),
          .heads = static_cast<int>(key_BTHK.size(2)),
          .key_width = static_cast<int>(key_BTHK.size(3)),
          .value_width = static_cast<int>(value_BTHV.size(3)),
          .scale = static_cast<float>(scale),
          .query_BTHK = x[0].const_data_ptr<float>(),
          .key_BTHK = key_BTHK.const_data_ptr<float>(),
          .value_BTHV = value_BTHV.const_data_ptr<float>(),
          .log_decay_BTHK = x[3].const_data_ptr<float>(),
          .length_B = x[4].const_data_ptr<std::int64_t>()};
}

template <std::size_t kCount>
std::array<Tensor, kCount> contiguous(std::array<Tensor, kCount> tensors) {
  for (Tensor& tensor : tensors) tensor = tensor.contiguous();
  return tensors;
}
// What was saved in this order.
template <std::size_t kCount>
std::array<Tensor, kCount> saved_tensors(const AutogradContext& context) {
  TORCH_CHECK(!torch::GradMode::is_enabled(), "a decay for each channel on a GPU has no second derivative");
  const variable_list saved = context.get_saved_variables();
  std::array<Tensor, kCount> tensors;
  std::copy_n(saved.begin(), kCount, tensors.begin());
  return tensors;
}

class VectorDecayFunction : public torch::autograd::Function<VectorDecayFunction> {
 public:
  static Tensor forward(AutogradContext* context, double scale, const Tensor& query_BTHK, const Tensor& key_BTHK,
                        const Tensor& value_BTHV, const Tensor& log_decay_BTHK, const Tensor& length_B) {
    const c10::cuda::CUDAGuard guard(value_BTHV.device());
    const Tensors x = contiguous<5>({query_BTHK, key_BTHK, value_BTHV, log_decay_BTHK, length_B});
    Tensor output_BTHV = torch::empty_like(x[2]);
    vector_decay_forward(problem_of(scale, x), output_BTHV.data_ptr<float>(), current_stream());
    context->save_for_backward({x.begin(), x.end()});
    context->saved_data["scale"] = scale;
    return output_BTHV;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensors x = saved_tensors<5>(*context);
    const c10::cuda::CUDAGuard guard(x[2].device());
    const Tensor d_output_BTHV = gradients[0].contiguous();
    std::array<Tensor, 4> d_x;
    for (std::size_t i = 0; i < d_x.size(); ++i) d_x[i] = torch::empty_like(x[i]);
    vector_decay_backward(problem_of(context->saved_data["scale"].toDouble(), x), d_output_BTHV.const_data_ptr<float>(),
                          {.query_BTHK = d_x[0].data_ptr<float>(),
                           .key_BTHK = d_x[1].data_ptr<float>(),
                           .value_BTHV = d_x[2].data_ptr<float>(),
                           .log_decay_BTHK = d_x[3].data_ptr<float>()},
                          current_stream());
    return {Tensor(), d_x[0], d_x[1], d_x[2], d_x[3], Tensor()};
  }
};

// q, k, v, the logarithms of decays, the lengths and the write strengths.
using DeltaTensors = std::array<Tensor, 6>;

VectorDelta delta_of(double scale, const DeltaTensors& x) {
  return {problem_of(scale, {x[0], x[1], x[2], x[3], x[4]}), x[5].const_data_ptr<float>()};
}

// Every step as two of the sum rule: one that decays and reads by the key, and one that writes and reads by the query.
// `first` [B, T, ...] are the former's, `second` the latter's -> [B, 2 T, ...].
Tensor two_steps(const Tensor& first, const Tensor& second) { return torch::stack({first, second}, 2).flatten(1, 2); }
Tensor first_of(const Tensor& both) { return both.unflatten(1, {-1, 2}).select(2, 0); }
Tensor second_of(const Tensor& both) { return both.unflatten(1, {-1, 2}).select(2, 1); }

class VectorDeltaFunction : public torch::autograd::Function<VectorDeltaFunction> {
 public:
  static Tensor forward(AutogradContext* context, double scale, const Tensor& query_BTHK, const Tensor& key_BTHK,
                        const Tensor& value_BTHV, const Tensor& log_decay_BTHK, const Tensor& length_B,
                        const Tensor& strength_BTH) {
    const c10::cuda::CUDAGuard guard(value_BTHV.device());
    DeltaTensors x = contiguous<6>({query_BTHK, key_BTHK, value_BTHV, log_decay_BTHK, length_B, strength_BTH});
    Tensor output_BTHV = torch::empty_like(x[2]);
    const Tensor error_BTHV = torch::empty_like(x[2]);
    vector_delta_forward(delta_of(scale, x), output_BTHV.data_ptr<float>(), error_BTHV.data_ptr<float>(),
                         current_stream());
    x[2] = error_BTHV;  // all that the backward pass needs of the values
    context->save_for_backward({x.begin(), x.end()});
    context->saved_data["scale"] = scale;
    return output_BTHV;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const DeltaTensors x = saved_tensors<6>(*context);
    const auto& [query_BTHK, key_BTHK, error_BTHV, log_decay_BTHK, length_B, strength_BTH] = x;
    const c10::cuda::CUDAGuard guard(key_BTHK.device());
    const double scale = context->saved_data["scale"].toDouble();
    const Tensor d_output_BTHV = gradients[0].contiguous(), d_written_BTHV = torch::empty_like(error_BTHV);
    vector_delta_backward(delta_of(scale, x), d_output_BTHV.const_data_ptr<float>(), d_written_BTHV.data_ptr<float>(),
                          current_stream());
    // u = b (v - r), with r what is read by the key: d_r = -b d_u, and d_v is the other way round.
    const Tensor strength_BTH1 = strength_BTH.unsqueeze(3), d_value_BTHV = strength_BTH1 * d_written_BTHV;
    const Tensor no_key = torch::zeros_like(key_BTHK), no_value = torch::zeros_like(error_BTHV);
    const Tensors steps = {two_steps(key_BTHK, scale * query_BTHK), two_steps(no_key, key_BTHK),
                           two_steps(no_value, strength_BTH1 * error_BTHV), two_steps(log_decay_BTHK, no_key),
                           2 * length_B};
    const Tensor d_read = two_steps(-d_value_BTHV, d_output_BTHV), d_query = torch::empty_like(steps[0]),
                 d_key = torch::empty_like(d_query), d_log_decay = torch::empty_like(d_query);
    vector_decay_backward(problem_of(1, steps), d_read.const_data_ptr<float>(),
                          {.query_BTHK = d_query.data_ptr<float>(),
                           .key_BTHK = d_key.data_ptr<float>(),
                           .value_BTHV = nullptr,
                           .log_decay_BTHK = d_log_decay.data_ptr<float>()},
                          current_stream());
    return {Tensor(),
            scale * second_of(d_query),
            first_of(d_query) + second_of(d_key),
            d_value_BTHV,
            first_of(d_log_decay),
            Tensor(),
            (error_BTHV * d_written_BTHV).sum(3)};
  }
};

}  // namespace

Support supports_vector_decay(const VectorDecayInput& input) {
  const Tensor &key_BTHK = input.key_BTHK, &value_BTHV = input.value_BTHV;
  for (const Tensor* const x : {&input.query_BTHK, &key_BTHK, &value_BTHV, &input.log_decay_BTHK}) {
    if (!x->is_cuda() || x->device() != key_BTHK.device()) return refusal("the tensors are not on one GPU");
    if (x->scalar_type() == torch::kFloat64) return refusal("they are in double precision");
    if (x->dim() != 4 || x->sizes() != (x == &value_BTHV ? value_BTHV : key_BTHK).sizes())
      return refusal("queries, keys and decays are not of one shape [B, T, H, K]");
    if (x->numel() == 0) return refusal("a tensor ", x->sizes(), " is empty");
    if (x->numel() > std::numeric_limits<int>::max() / 2) return refusal("a tensor ", x->sizes(), " is too long");
    if (x->size(3) > kMaxVectorDecayWidth)
      return refusal("a head has ", x->size(3), " channels, more than ", kMaxVectorDecayWidth);
  }
  if (value_BTHV.sizes().slice(0, 3) != key_BTHK.sizes().slice(0, 3))
    return refusal("keys ", key_BTHK.sizes(), " and values ", value_BTHV.sizes(), " are of different steps");
  if (input.write_BTH.sizes() != key_BTHK.sizes().slice(0, 3) || input.write_BTH.device() != key_BTHK.device())
    return refusal("write strengths ", input.write_BTH.sizes(), " beside keys ", key_BTHK.sizes());
  return {};
}

Tensor vector_decay(const VectorDecayInput& input, const Tensor& lengths_B) {
  const Support support = supports_vector_decay(input);
  TORCH_CHECK(support, "a decay for each channel: ", support.reason());
  const auto single = [](const Tensor& x) { return x.to(torch::kFloat32); };
  if (input.delta)
    return VectorDeltaFunction::apply(input.scale, single(input.query_BTHK), single(input.key_BTHK),
                                      single(input.value_BTHV), single(input.log_decay_BTHK), lengths_B,
                                      single(input.write_BTH));
  // What a step of the sum rule writes is one vector: its value times its write strength.
  return VectorDecayFunction::apply(input.scale, single(input.query_BTHK), single(input.key_BTHK),
                                    single(input.value_BTHV * input.write_BTH.unsqueeze(3)),
                                    single(input.log_decay_BTHK), lengths_B);
}

}  // namespace engram::cuda
