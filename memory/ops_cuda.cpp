#include "memory/ops_cuda.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/delta_rule/delta_rule.h"
#include "nn/cuda_support.h"

namespace engram::cuda {

using torch::Tensor;

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

}  // namespace

Support supports_delta_rule_step(const Tensor& query_BHK, const Tensor& key_BHK, const Tensor& value_BHV,
                                 const Tensor& beta_BH, const Tensor& state_BHKV) {
  if (const Support vectors = supports_vectors(query_BHK, key_BHK, value_BHV); !vectors) return vectors;
  if (beta_BH.scalar_type() != query_BHK.scalar_type())
    return Support::no("write strengths have another type than queries");
  if (state_BHKV.scalar_type() != torch::kFloat32 || !state_BHKV.is_contiguous() ||
      reinterpret_cast<std::uintptr_t>(state_BHKV.data_ptr()) % 16 != 0)
    return Support::no("the fast weights are not float32, contiguous and aligned to 16 bytes");
  return {};
}

Tensor delta_rule_step(const Tensor& query_BHK, const Tensor& key_BHK, const Tensor& value_BHV, const Tensor& beta_BH,
                       const Tensor& state_BHKV) {
  const Tensor query = query_BHK.contiguous(), key = key_BHK.contiguous(), value = value_BHV.contiguous();
  const Tensor beta = beta_BH.contiguous(), output_BHV = torch::empty_like(value);
  const std::int64_t width = query.size(2);
  engram::delta_rule_step({.rows = static_cast<int>(query.size(0)),
                           .heads = static_cast<int>(query.size(1)),
                           .width = static_cast<int>(width),
                           .dtype = kernel_dtype(query),
                           .scale = 1.0f / std::sqrt(static_cast<float>(width)),
                           .q_NHD = query.data_ptr(),
                           .k_NHD = key.data_ptr(),
                           .v_NHD = value.data_ptr(),
                           .beta_NH = beta.data_ptr(),
                           .state_NHKV = state_BHKV.data_ptr<float>(),
                           .output_NHD = output_BHV.data_ptr()},
                          current_stream());
  return output_BHV;
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
