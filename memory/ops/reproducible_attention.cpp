#include "memory/ops/reproducible_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "memory/ops/ops.h"
#include "nn/device/autocast.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The kernels read vectors of 16 bytes; of a mask LibTorch itself aligns rows to 16 numbers.
constexpr std::int64_t kChannels = 8, kMaskRow = 16;
// A grid has no more blocks in its third dimension, which counts sequences.
constexpr std::int64_t kMostSequences = 65535;

Tensor padded_to(std::int64_t multiple, const Tensor& x) {
  const std::int64_t behind = (multiple - x.size(-1) % multiple) % multiple;
  return behind == 0 ? x : torch::constant_pad_nd(x, {0, behind});
}

std::optional<Tensor> optional_of(const Tensor& x) { return x.defined() ? std::optional<Tensor>(x) : std::nullopt; }

// [N, H, Q, U] in `dtype`, with aligned rows.
Tensor bias_of(const Tensor& mask, torch::ScalarType dtype, torch::IntArrayRef shape_NHQU) {
  if (!mask.defined()) return {};
  const Tensor bias = mask.scalar_type() == torch::kBool ? attention_bias(mask, dtype) : mask.to(dtype);
  return padded_to(kMaskRow, bias).narrow(-1, 0, bias.size(-1)).expand(shape_NHQU);
}

// Of channels that are a multiple of kChannels, in memory one behind the other.
class Attention : public torch::autograd::Function<Attention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& query_NHQK, const Tensor& key_NHUK,
                        const Tensor& value_NHUV, const std::optional<Tensor>& bias_NHQU, bool causal, double scale) {
    const auto [output_NHQV, log_sum, seed, offset] =
        at::_scaled_dot_product_efficient_attention(query_NHQK, key_NHUK, value_NHUV, bias_NHQU,
                                                    /*compute_log_sumexp=*/true, /*dropout_p=*/0, causal, scale);
    context->save_for_backward(
        {query_NHQK, key_NHUK, value_NHUV, bias_NHQU.value_or(Tensor()), output_NHQV, log_sum, seed, offset});
    context->saved_data["causal"] = causal;
    context->saved_data["scale"] = scale;
    return output_NHQV;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const auto by_steps = [](const Tensor& x) { return x.transpose(1, 2); };
    const Tensor &query_NHQK = saved[0], &key_NHUK = saved[1], &value_NHUV = saved[2];
    const auto [d_query, d_key, d_value, none] = at::_efficient_attention_backward(
        by_steps(gradient[0]), by_steps(query_NHQK), by_steps(key_NHUK), by_steps(value_NHUV), optional_of(saved[3]),
        by_steps(saved[4]), /*cu_seqlens_q=*/std::nullopt, /*cu_seqlens_k=*/std::nullopt, query_NHQK.size(2),
        key_NHUK.size(2), /*logsumexp=*/saved[5], /*dropout_p=*/0, /*philox_seed=*/saved[6], /*philox_offset=*/saved[7],
        /*custom_mask_type=*/context->saved_data["causal"].toBool() ? 1 : 0, /*bias_requires_grad=*/false,
        context->saved_data["scale"].toDouble(), /*num_splits_key=*/1);
    return {by_steps(d_query), by_steps(d_key), by_steps(d_value), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor reproducible_attention(const Tensor& query_NHQK, const Tensor& key_NHUK, const Tensor& value_NHUV,
                              const Tensor& mask, bool causal) {
  TORCH_CHECK(!mask.defined() || (!mask.requires_grad() && !causal), "a mask that learns, or beside a causal one");
  const torch::ScalarType dtype = product_dtype(query_NHQK.device(), query_NHQK.scalar_type());
  const double scale = 1 / std::sqrt(static_cast<double>(query_NHQK.size(3)));
  const Tensor bias_NHQU =
      bias_of(mask, dtype, {query_NHQK.size(0), query_NHQK.size(1), query_NHQK.size(2), key_NHUK.size(2)});
  if (dtype == torch::kFloat64 || query_NHQK.numel() == 0)
    return std::get<0>(at::_scaled_dot_product_attention_math(query_NHQK, key_NHUK, value_NHUV, optional_of(bias_NHQU),
                                                              /*dropout_p=*/0, causal));

  const auto prepared = [&](const Tensor& x) {
    const Tensor padded = padded_to(kChannels, x.to(dtype));
    return padded.stride(-1) == 1 ? padded : padded.contiguous();
  };
  const Tensor query = prepared(query_NHQK), key = prepared(key_NHUK), value = prepared(value_NHUV);
  std::vector<Tensor> outputs;
  for (std::int64_t first = 0; first < query.size(0); first += kMostSequences) {
    const std::int64_t count = std::min(kMostSequences, query.size(0) - first);
    // A view of all of them would cost a copy in the backward pass.
    const auto part = [&](const Tensor& x) {
      return !x.defined() || x.size(0) == count ? x : x.narrow(0, first, count);
    };
    outputs.push_back(
        Attention::apply(part(query), part(key), part(value), optional_of(part(bias_NHQU)), causal, scale));
  }
  const Tensor output = outputs.size() == 1 ? outputs[0] : torch::cat(outputs);
  const std::int64_t channels = value_NHUV.size(3);
  return output.size(3) == channels ? output : output.narrow(3, 0, channels);
}

}  // namespace engram::cuda
