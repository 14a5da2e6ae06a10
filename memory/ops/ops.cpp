#include "memory/ops/ops.h"

#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "memory/ops/cpu_attention.h"
#include "memory/ops/ops_cuda.h"
#include "memory/ops/reproducible_attention.h"
#include "nn/cpu/layers.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "nn/fused/norm.h"

namespace engram {
namespace {

using torch::Tensor;
namespace functional = torch::nn::functional;

// [B, reach + n * block, H, K] -> [B * n, reach + block, H, K]: n blocks of steps, each behind the `reach` <= `block`
// steps before it.
Tensor plain_overlapping_blocks(const Tensor& all_BUHK, std::int64_t reach, std::int64_t block) {
  return all_BUHK.unfold(1, reach + block, block).permute({0, 1, 4, 2, 3}).flatten(0, 1);
}
// The same with a gradient of its own: unfold's looks for the blocks of every element.
class OverlappingBlocks : public torch::autograd::Function<OverlappingBlocks> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& all_BUHK, std::int64_t reach,
                        std::int64_t block) {
    context->saved_data["shape"] = all_BUHK.sizes().vec();
    context->saved_data["reach"] = reach;
    context->saved_data["block"] = block;
    return plain_overlapping_blocks(all_BUHK, reach, block).contiguous();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradient) {
    const std::int64_t reach = context->saved_data["reach"].toInt(), block = context->saved_data["block"].toInt();
    const Tensor all_BUHK = torch::empty(context->saved_data["shape"].toIntVector(), gradient[0].options());
    const std::int64_t steps = all_BUHK.size(1) - reach;
    const Tensor blocks_BnUHK = gradient[0].unflatten(0, {all_BUHK.size(0), steps / block});
    const auto from = [&](std::int64_t first) {
      return all_BUHK.narrow(1, first, steps).unflatten(1, {steps / block, block});
    };
    all_BUHK.narrow(1, 0, reach).zero_();
    from(reach).copy_(blocks_BnUHK.narrow(2, reach, block));
    from(0).narrow(2, 0, reach).add_(blocks_BnUHK.narrow(2, 0, reach));
    return {all_BUHK, Tensor(), Tensor()};
  }
};

Tensor overlapping_blocks(const Tensor& all_BUHK, std::int64_t reach, std::int64_t block) {
  return PlainOperations::on() ? plain_overlapping_blocks(all_BUHK, reach, block)
                               : OverlappingBlocks::apply(all_BUHK, reach, block);
}

// Rolling by half the width swaps the halves.
Tensor swapped(const Tensor& vectors) { return vectors.roll(vectors.size(-1) / 2, -1); }
Tensor plain_turn(const Tensor& vectors, const Tensor& cos, const Tensor& sin) {
  const Tensor own = vectors.to(cos.scalar_type());
  return torch::addcmul(own * cos, swapped(own), sin).to(vectors.scalar_type());
}
// The same in fewer operations, and by the opposite angle its gradient. The angles' type is that of the sum, which is
// rounded once.
class TurnFunction : public torch::autograd::Function<TurnFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& vectors, const Tensor& cos,
                        const Tensor& sin) {
    context->save_for_backward({cos, sin});
    return turned(vectors, cos, sin, /*sign=*/1);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradient) {
    const torch::autograd::variable_list angles = context->get_saved_variables();
    return {turned(gradient[0], angles[0], angles[1], /*sign=*/-1), Tensor(), Tensor()};
  }

 private:
  static Tensor turned(const Tensor& vectors, const Tensor& cos, const Tensor& sin, int sign) {
    Tensor turned = torch::empty_like(vectors);
    return torch::addcmul_out(turned, vectors * cos, swapped(vectors), sin, sign);
  }
};

// softmax(q k^T / sqrt(K) + bias) v, all [N, H, ., .]; without a bias causal, Q = U. `weights_NHQU`, unless null, gets
// the softmax.
Tensor softmax_attention(const Tensor& query_NHQK, const Tensor& key_NHUK, const Tensor& value_NHUV,
                         const Tensor& bias_NhQU, const Dropout* weight_dropout, Tensor* weights_NHQU = nullptr) {
  const bool drops = weight_dropout != nullptr && weight_dropout->key(query_NHQK.device()).drops();
  if (!drops && weights_NHQU == nullptr)
    return dot_product_attention(query_NHQK, key_NHUK, value_NHUV, bias_NhQU, /*causal=*/!bias_NhQU.defined());
  const Tensor score_NHQU =
      torch::matmul(query_NHQK, key_NHUK.transpose(2, 3)) / std::sqrt(static_cast<double>(query_NHQK.size(3)));
  const Tensor bias = bias_NhQU.defined()
                          ? bias_NhQU
                          : attention_bias(torch::ones({query_NHQK.size(2), key_NHUK.size(2)},
                                                       query_NHQK.options().dtype(torch::kBool).requires_grad(false))
                                               .tril_(),
                                           query_NHQK.scalar_type());
  const Tensor weights = (score_NHQU + bias).softmax(-1);
  if (weights_NHQU != nullptr) *weights_NHQU = weights;
  return torch::matmul(drops ? weight_dropout->forward(weights) : weights, value_NHUV);
}

}  // namespace

Tensor attention_bias(const Tensor& visible, torch::ScalarType dtype) {
  return torch::zeros(visible.sizes(), visible.options().dtype(dtype))
      .masked_fill_(visible.logical_not(), -std::numeric_limits<double>::infinity());
}

Tensor dot_product_attention(const Tensor& query_NHQK, const Tensor& key_NHUK, const Tensor& value_NHUV,
                             const Tensor& mask, bool causal) {
  if (query_NHQK.is_cuda()) return cuda::reproducible_attention(query_NHQK, key_NHUK, value_NHUV, mask, causal);
  return at::scaled_dot_product_attention(query_NHQK, key_NHUK, value_NHUV,
                                          mask.defined() ? std::optional<Tensor>(mask) : std::nullopt,
                                          /*dropout_p=*/0, causal);
}

Tensor pick_steps(const Tensor& x_BSHX, const Tensor& index_BI) {
  const Tensor index = index_BI.unsqueeze(2).unsqueeze(3);
  return x_BSHX.gather(1, index.expand({-1, -1, x_BSHX.size(2), x_BSHX.size(3)}));
}

RingPlan::RingPlan(std::int64_t slots, const Tensor& position_B, const Tensor& lengths_B) {
  if (!lengths_B.defined()) return;
  // The youngest step p = slot (mod slots) of each row, counted from the beginning of its episode.
  const Tensor position_B1 = position_B.unsqueeze(1), last_B1 = position_B1 + lengths_B.unsqueeze(1) - 1;
  const Tensor youngest_BS = last_B1 - (last_B1 - torch::arange(slots, position_B.options())).remainder(slots);
  step_BS_ = (youngest_BS - position_B1).clamp_min(0);
  store_BS11_ = (youngest_BS >= position_B1).unsqueeze(2).unsqueeze(3);
}

WindowPlan::WindowPlan(std::int64_t window, std::int64_t steps, std::int64_t max_position, const Tensor& position_B,
                       const Tensor& lengths_B, torch::ScalarType dtype, const Tensor& seen_BTH)
    : window_(window), steps_(steps), past_(std::min(max_position, window - 1)), ring_(window, position_B, lengths_B) {
  // Much smaller blocks would make the matrix products small. Two blocks of steps have no fewer scores than one of
  // both.
  constexpr std::int64_t kSmallestBlock = 64;
  block_ = std::max(window, kSmallestBlock);
  if (steps <= 2 * block_) block_ = steps;
  blocks_ = (steps + block_ - 1) / block_;
  reach_ = blocks_ == 1 ? past_ : window - 1;

  by_cpu_loops_ = past_ == 0 && !seen_BTH.defined() && cpu::takes(position_B.device(), dtype);
  if (by_cpu_loops_) return;

  const auto options = position_B.options();
  const Tensor position_B1 = position_B.unsqueeze(1);
  if (past_ > 0) past_slot_BP_ = (position_B1 + torch::arange(-past_, 0, options)).remainder(window);

  if (blocks_ > 1 || past_ > 0 || steps > window || seen_BTH.defined()) {
    // Steps count from the first of this call; earlier ones are negative.
    const Tensor first_n = torch::arange(blocks_, options) * block_;
    const Tensor query_nQ1 = (first_n.unsqueeze(1) + torch::arange(block_, options)).unsqueeze(2);
    const Tensor key_n1U = (first_n.unsqueeze(1) + torch::arange(-reach_, block_, options)).unsqueeze(1);
    const Tensor in_window_nQU = (key_n1U <= query_nQ1) & (key_n1U > query_nQ1 - window);
    const Tensor oldest = past_ == 0 ? torch::zeros({1, 1, 1, 1}, options) : -position_B.view({-1, 1, 1, 1});
    Tensor visible_BnhQU = (in_window_nQU & (key_n1U >= oldest)).unsqueeze(2);
    if (seen_BTH.defined()) {
      const Tensor seen_BnQH =
          torch::constant_pad_nd(seen_BTH, {0, 0, 0, blocks_ * block_ - steps}, 1).unflatten(1, {blocks_, block_});
      const Tensor seen_BnHQ1 = seen_BnQH.transpose(2, 3).unsqueeze(4);
      visible_BnhQU = visible_BnhQU & (key_n1U.unsqueeze(1) > query_nQ1.unsqueeze(1) - seen_BnHQ1);
    }
    if (blocks_ > 1) visible_BnhQU = visible_BnhQU.expand({position_B.size(0), -1, -1, -1, -1});
    bias_NhQU_ = attention_bias(visible_BnhQU.flatten(0, 1), dtype);
  }
}

// [B, reach + blocks * block, H, K]: what the ring holds of the past, then the new steps, zeros on either side.
Tensor WindowPlan::with_past(const Tensor& ring_BSHK, const Tensor& new_BTHK) const {
  const Tensor all = past_ == 0 ? new_BTHK : torch::cat({pick_steps(ring_BSHK, past_slot_BP_), new_BTHK}, 1);
  const std::int64_t before = reach_ - past_, behind = blocks_ * block_ - steps_;
  return before == 0 && behind == 0 ? all : torch::constant_pad_nd(all, {0, 0, 0, 0, before, behind});
}

WindowPlan::Output WindowPlan::attend(const Tensor& query_BTHK, const Tensor& key_BTHK, const Tensor& value_BTHV,
                                      const KeyValueRing& ring, const Dropout* weight_dropout) const {
  const KeyValueRing after = {ring_.stored(ring.key_BSHK, key_BTHK), ring_.stored(ring.value_BSHV, value_BTHV)};
  if (by_cpu_loops_) return {cpu::attention(query_BTHK, key_BTHK, value_BTHV, window_, weight_dropout), after};
  const std::int64_t batch = query_BTHK.size(0), heads = query_BTHK.size(2);
  const auto block_queries = [&](const Tensor& x_BTHK) {
    const std::int64_t behind = blocks_ * block_ - steps_;
    const Tensor padded = behind == 0 ? x_BTHK : torch::constant_pad_nd(x_BTHK, {0, 0, 0, 0, 0, behind});
    return padded.reshape({batch * blocks_, block_, heads, x_BTHK.size(3)}).transpose(1, 2);
  };
  // Neighbouring blocks share keys. [B * n, H, U, K]
  const auto block_keys = [&](const Tensor& all_BUHK) {
    return (blocks_ == 1 ? all_BUHK : overlapping_blocks(all_BUHK, reach_, block_)).transpose(1, 2);
  };
  const Tensor output_NHQV =
      softmax_attention(block_queries(query_BTHK), block_keys(with_past(ring.key_BSHK, key_BTHK)),
                        block_keys(with_past(ring.value_BSHV, value_BTHV)), bias_NhQU_, weight_dropout);
  const Tensor output_BTHV =
      output_NHQV.transpose(1, 2).reshape({batch, blocks_ * block_, heads, value_BTHV.size(3)}).narrow(1, 0, steps_);
  return {output_BTHV, after};
}

WindowStepPlan::WindowStepPlan(std::int64_t window, std::int64_t slots, const Tensor& position_B,
                               torch::ScalarType dtype, const Tensor& seen_BH)
    : window_(window), slots_(slots), position_B_(position_B), seen_BH_(seen_BH), dtype_(dtype) {}

const WindowStepPlan::Index& WindowStepPlan::index() const {
  if (!index_) {
    const auto options = position_B_.options();
    const Tensor slot_S = torch::arange(slots_, options), position_B111 = position_B_.view({-1, 1, 1, 1});
    Tensor visible_Bh1S = slot_S <= position_B111;
    if (seen_BH_.defined())
      visible_Bh1S = visible_Bh1S & ((position_B111 - slot_S).remainder(window_) < seen_BH_.unsqueeze(2).unsqueeze(3));
    index_ = {torch::arange(position_B_.size(0), options), position_B_.remainder(window_),
              attention_bias(visible_Bh1S, dtype_)};
  }
  return *index_;
}

Tensor WindowStepPlan::attend(const Tensor& query_BHK, const Tensor& key_BHK, const Tensor& value_BHV,
                              const KeyValueRing& ring, const Dropout* weight_dropout, Tensor* weights_BHA) const {
  if (weights_BHA == nullptr && !seen_BH_.defined() && slots_ == ring.key_BSHK.size(1) &&
      cuda::supports_attention_step(query_BHK, key_BHK, value_BHV, ring))
    return cuda::attention_step(query_BHK, key_BHK, value_BHV, position_B_, ring,
                                weight_dropout == nullptr ? DropoutKey{} : weight_dropout->key(query_BHK.device()));
  Tensor key_BSHK = ring.key_BSHK, value_BSHV = ring.value_BSHV;
  const auto dtype = key_BSHK.scalar_type();
  key_BSHK.index_put_({index().row_B, index().slot_B}, key_BHK.to(dtype));
  value_BSHV.index_put_({index().row_B, index().slot_B}, value_BHV.to(dtype));
  Tensor weights_BH1S;
  const Tensor output_BH1V =
      softmax_attention(query_BHK.to(dtype).unsqueeze(2), key_BSHK.narrow(1, 0, slots_).transpose(1, 2),
                        value_BSHV.narrow(1, 0, slots_).transpose(1, 2), index().bias_Bh1S.to(dtype), weight_dropout,
                        weights_BHA == nullptr ? nullptr : &weights_BH1S);
  if (weights_BHA != nullptr) *weights_BHA = by_age(weights_BH1S.squeeze(2));
  return output_BH1V.squeeze(2).to(query_BHK.scalar_type());
}

Tensor WindowStepPlan::by_age(const Tensor& weights_BHS) const {
  const Tensor age_A = torch::arange(slots_, position_B_.options());
  const Tensor step_BA = position_B_.unsqueeze(1) - age_A;  // negative: before the episode
  const Tensor slot_BA = step_BA.remainder(window_).clamp_max(slots_ - 1);
  return weights_BHS.gather(2, slot_BA.unsqueeze(1).expand_as(weights_BHS)).masked_fill((step_BA < 0).unsqueeze(1), 0);
}

Rotary::Rotary(const Tensor& positions, std::int64_t key_width, torch::ScalarType dtype) {
  TORCH_CHECK(key_width % 2 == 0, "rotary positions need an even head width, not ", key_width);
  const std::int64_t half = key_width / 2;
  // In double, so that late positions keep their angle.
  const auto options = positions.options().dtype(torch::kFloat64);
  const Tensor frequency = torch::pow(10000.0, torch::arange(half, options) * (-2.0 / static_cast<double>(key_width)));
  const Tensor angle = positions.to(torch::kFloat64).unsqueeze(-1).unsqueeze(-1) * frequency;
  const Tensor cos = angle.cos().to(dtype), sin = angle.sin().to(dtype);
  cos_ = torch::cat({cos, cos}, -1);
  sin_ = torch::cat({-sin, sin}, -1);
}

Tensor Rotary::turn(const Tensor& vectors) const {
  return PlainOperations::on() ? plain_turn(vectors, cos_, sin_) : TurnFunction::apply(vectors, cos_, sin_);
}

Tensor l2_normalize(const Tensor& vectors) {
  constexpr double kEpsilon = 1e-6;
  if (cpu::takes(vectors)) {
    const auto channels = static_cast<double>(vectors.size(-1));
    return cpu::rms_norm(vectors, /*weight_C=*/{}, kEpsilon / channels, 1 / std::sqrt(channels));
  }
  if (cuda::takes_rows(vectors)) return cuda::l2_normed(vectors, kEpsilon);
  const Tensor own = vectors.to(at::toOpMathType(vectors.scalar_type()));
  return (own * (own.square().sum(-1, /*keepdim=*/true) + kEpsilon).rsqrt()).to(vectors.scalar_type());
}

}  // namespace engram
