#include "memory/ops/ops_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

constexpr std::int64_t kMaxWidth = 128;

bool has_kernel_dtype(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat32 || tensor.scalar_type() == torch::kBFloat16;
}

// What both kernels want of queries, keys and values [B, H, width].
Support supports_vectors(const Tensor& query_BHK, const Tensor& key_BHK, const Tensor& value_BHV) {
  if (!query_BHK.is_cuda()) return Support::no("the tensors are not on a GPU");
  const std::int64_t width = query_BHK.size(2);
  if (width % 2 != 0 || width > kMaxWidth)
    return Support::no("head width " + std::to_string(width) + " is not an even number up to " +
                       std::to_string(kMaxWidth));
  if (value_BHV.size(2) != width)
    return Support::no("values of " + std::to_string(value_BHV.size(2)) + " channels beside keys of " +
                       std::to_string(width));
  if (!has_kernel_dtype(query_BHK) || key_BHK.scalar_type() != query_BHK.scalar_type() ||
      value_BHV.scalar_type() != query_BHK.scalar_type())
    return Support::no("queries, keys and values are not all float32 or all bfloat16");
  return {};
}

Support supports_step_state(const Tensor& state_BHKV) {
  if (state_BHKV.scalar_type() != torch::kFloat32 || !state_BHKV.is_contiguous() ||
      reinterpret_cast<std::uintptr_t>(state_BHKV.data_ptr()) % 16 != 0)
    return Support::no("the fast weights are not float32, contiguous and aligned to 16 bytes");
  return {};
}

Tensor run_step(bool delta, const Tensor& query_BHD, const Tensor& key_BHD, const Tensor& value_BHD,
                const Tensor& write_BH, const Tensor& log_decay_BH, const Tensor& state_BHDD) {
  const Tensor query = query_BHD.contiguous(), key = key_BHD.contiguous(), value = value_BHD.contiguous();
  const Tensor write = write_BH.contiguous(), output_BHD = torch::empty_like(value);
  const Tensor log_decay = log_decay_BH.defined() ? log_decay_BH.contiguous() : log_decay_BH;
  const std::int64_t width = query.size(2);
  engram::delta_rule_step({.rows = static_cast<int>(query.size(0)),
                           .heads = static_cast<int>(query.size(1)),
                           .width = static_cast<int>(width),
                           .dtype = kernel_dtype(query),
                           .scale = 1.0f / std::sqrt(static_cast<float>(width)),
                           .q_NHD = query.data_ptr(),
                           .k_NHD = key.data_ptr(),
                           .v_NHD = value.data_ptr(),
                           .beta_NH = write.data_ptr(),
                           .state_NHKV = state_BHDD.data_ptr<float>(),
                           .output_NHD = output_BHD.data_ptr(),
                           .write = delta ? FastWeightWrite::kDelta : FastWeightWrite::kSum,
                           .log_decay_NH = log_decay.defined() ? log_decay.data_ptr<float>() : nullptr},
                          current_stream());
  return output_BHD;
}

class ChunkedFastWeightsFunction : public torch::autograd::Function<ChunkedFastWeightsFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& write, const std::optional<Tensor>& given_log_decay, const Tensor& lengths_B,
                        bool delta, double scale) {
    const c10::cuda::CUDAGuard guard(query.device());
    const Tensor log_decay = given_log_decay.value_or(Tensor());
    Tensors in{query.contiguous(),
               key.contiguous(),
               value.contiguous(),
               write.contiguous(),
               log_decay.defined() ? log_decay.contiguous() : log_decay,
               lengths_B.to(torch::kInt32)};
    const DeltaRuleInput input = in.input(delta, scale);
    const Tensor output_BTHD = torch::empty_like(in.value);
    const Tensor saved = scratch_bytes(delta_rule_saved_bytes(input.shape, input.dtype), in.query);
    delta_rule_forward(input, output_BTHD.data_ptr(), saved.data_ptr(), current_stream());
    context->save_for_backward({in.query, in.key, in.value, in.write, in.log_decay, in.length_B, saved});
    context->saved_data["delta"] = delta;
    context->saved_data["scale"] = scale;
    context->saved_data["learns_decay"] = log_decay.defined() && log_decay.requires_grad();
    return output_BTHD;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "fast weights on a GPU have no second derivative");
    const variable_list kept = context->get_saved_variables();
    const Tensors in{kept[0], kept[1], kept[2], kept[3], kept[4], kept[5]};
    const c10::cuda::CUDAGuard guard(in.query.device());
    const DeltaRuleInput input =
        in.input(context->saved_data["delta"].toBool(), context->saved_data["scale"].toDouble());
    const Tensor d_output = gradient[0].contiguous();
    const Tensor d_query = torch::empty_like(in.query), d_key = torch::empty_like(in.key),
                 d_value = torch::empty_like(in.value), d_write = torch::empty_like(in.write);
    const Tensor d_log_decay =
        context->saved_data["learns_decay"].toBool() ? torch::empty_like(in.log_decay) : Tensor();
    const Tensor scratch = scratch_bytes(delta_rule_backward_scratch_bytes(input.shape, input.dtype), in.query);
    delta_rule_backward(input, kept[6].data_ptr(), d_output.data_ptr(),
                        {.q_BTHD = d_query.data_ptr(),
                         .k_BTHD = d_key.data_ptr(),
                         .v_BTHD = d_value.data_ptr(),
                         .beta_BTH = d_write.data_ptr(),
                         .log_decay_BTH = d_log_decay.defined() ? d_log_decay.data_ptr<float>() : nullptr},
                        scratch.data_ptr(), current_stream());
    return {d_query, d_key, d_value, d_write, d_log_decay, Tensor(), Tensor(), Tensor()};
  }

 private:
  struct Tensors {
    Tensor query, key, value, write, log_decay, length_B;

    DeltaRuleInput input(bool delta, double scale) const {
      const auto size = [this](std::int64_t dimension) { return static_cast<int>(query.size(dimension)); };
      return {.shape = {size(0), size(1), size(2), size(3)},
              .dtype = kernel_dtype(query),
              .scale = static_cast<float>(scale),
              .row_stride = query.size(2) * query.size(3),
              .q_BTHD = query.data_ptr(),
              .k_BTHD = key.data_ptr(),
              .v_BTHD = value.data_ptr(),
              .beta_BTH = write.data_ptr(),
              .length_B = length_B.data_ptr<int>(),
              .write = delta ? FastWeightWrite::kDelta : FastWeightWrite::kSum,
              .log_decay_BTH = log_decay.defined() ? log_decay.data_ptr<float>() : nullptr};
    }
  };
};

}  // namespace

Support supports_chunked_fast_weights(torch::Device device, torch::ScalarType dtype) {
  if (!device.is_cuda()) return Support::no("the tensors are not on a GPU");
  if (dtype != torch::kFloat32 && dtype != torch::kBFloat16)
    return Support::no("queries, keys and values are not float32 or bfloat16");
  return {};
}

Tensor chunked_fast_weights(const ChunkedFastWeights& in) {
  // The function takes no undefined tensor.
  const auto log_decay = in.log_decay_BTH.defined() ? std::optional<Tensor>(in.log_decay_BTH) : std::optional<Tensor>();
  return ChunkedFastWeightsFunction::apply(in.query_BTHD, in.key_BTHD, in.value_BTHD, in.write_BTH, log_decay,
                                           in.lengths_B, in.delta, in.scale);
}

Support supports_fast_weight_step(const Tensor& query_BHD, const Tensor& state_BHDD) {
  if (!query_BHD.is_cuda()) return Support::no("the tensors are not on a GPU");
  if (!has_kernel_dtype(query_BHD)) return Support::no("queries, keys and values are not float32 or bfloat16");
  return supports_step_state(state_BHDD);
}

Tensor fast_weight_step(bool delta, const Tensor& query_BHD, const Tensor& key_BHD, const Tensor& value_BHD,
                        const Tensor& write_BH, const Tensor& log_decay_BH, const Tensor& state_BHDD) {
  // One type for all that the kernel takes in one type: the widest, so that nothing is rounded.
  bool narrow = true;
  for (const Tensor& x : {query_BHD, key_BHD, value_BHD, write_BH})
    narrow = narrow && x.scalar_type() == torch::kBFloat16;
  const auto dtype = narrow ? torch::kBFloat16 : torch::kFloat32;
  const Tensor output_BHD =
      run_step(delta, query_BHD.to(dtype), key_BHD.to(dtype), value_BHD.to(dtype), write_BH.to(dtype),
               log_decay_BH.defined() ? log_decay_BH.to(torch::kFloat32) : log_decay_BH, state_BHDD);
  return output_BHD.to(value_BHD.scalar_type());
}

Support supports_attention_step(const Tensor& query_BHK, const Tensor& key_BHK, const Tensor& value_BHV,
                                const KeyValueRing& ring) {
  if (const Support vectors = supports_vectors(query_BHK, key_BHK, value_BHV); !vectors) return vectors;
  if (!has_kernel_dtype(ring.key_BSHK) || ring.value_BSHV.scalar_type() != ring.key_BSHK.scalar_type() ||
      !ring.key_BSHK.is_contiguous() || !ring.value_BSHV.is_contiguous())
    return Support::no("the ring is not contiguous and float32 or bfloat16");
  return {};
}

Tensor attention_step(const Tensor& query_BHK, const Tensor& key_BHK, const Tensor& value_BHV, const Tensor& position_B,
                      const KeyValueRing& ring, const DropoutKey& weight_dropout) {
  const Tensor query = query_BHK.contiguous(), key = key_BHK.contiguous(), value = value_BHV.contiguous();
  const std::int64_t heads = query.size(1), width = query.size(2);
  const Tensor output_BHV = torch::empty_like(query);
  engram::attention_step({.rows = static_cast<int>(query.size(0)),
                          .heads = static_cast<int>(heads),
                          .width = static_cast<int>(width),
                          .dtype = kernel_dtype(query),
                          .scale = 1.0f / std::sqrt(static_cast<float>(width)),
                          .rotary_width = 0,
                          .head_stride = width,
                          .q = {query.data_ptr(), heads * width},
                          .k = {key.data_ptr(), heads * width},
                          .v = {value.data_ptr(), heads * width},
                          .position_N = position_B.data_ptr<std::int64_t>(),
                          .ring = {.dtype = kernel_dtype(ring.key_BSHK),
                                   .slots = static_cast<int>(ring.key_BSHK.size(1)),
                                   .key_BSHW = ring.key_BSHK.data_ptr(),
                                   .value_BSHW = ring.value_BSHV.data_ptr()},
                          .chunked = false,
                          .output_width = static_cast<int>(width),
                          .output_NHP = output_BHV.data_ptr(),
                          .dropout = weight_dropout},
                         current_stream());
  return output_BHV;
}

}  // namespace engram::cuda
