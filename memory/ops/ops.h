// The operations of the backbones that are more than a matrix product: attention over a window, rotary positions (fast
// weights: fast_weight_ops.h). A form over whole sequences, differentiable and parallel in time, and a form of one
// step, in place on its state.
//
// Shapes: B batch, T time, H heads, K key width, V value width, S slots of a ring. Any floating dtype, any device,
// which tensors of one call share; a ring may be in a wider dtype than the rest, and keeps it, as in a scope of
// nn/device/autocast.h. Lengths and positions are int64 on that device. Row b takes the steps t < lengths_B[b]; inputs
// after them must be finite and influence no valid output and no state.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>

#include "nn/layers/dropout.h"

namespace engram {

// Causal softmax attention over the last `window` steps, the current one included:
//   o_t = sum over t - window < u <= t of softmax(q_t . k_u / sqrt(K)) v_u.
// Full causal attention is a window that holds the whole sequence. Keys and values of past steps live in a ring of
// S = window slots: the step at position p stands in slot p mod window, so a position of 0 says that the ring is empty.
struct KeyValueRing {
  torch::Tensor key_BSHK;
  torch::Tensor value_BSHV;
};

// 0 where the bool `visible`, else -inf: what is added to the scores of keys.
torch::Tensor attention_bias(const torch::Tensor& visible, torch::ScalarType dtype);

// softmax(q k^T / sqrt(K)) v by LibTorch's fused operations, all [N, H, ., .]; on a GPU as reproducible_attention.h
// says. `mask`, unless undefined, is added to the scores, or where it is bool says which keys count.
torch::Tensor dot_product_attention(const torch::Tensor& query_NHQK, const torch::Tensor& key_NHUK,
                                    const torch::Tensor& value_NHUV, const torch::Tensor& mask, bool causal = false);

// Rows of x_BSHX picked by index_BI: result[b, i] = x[b, index[b, i]].
torch::Tensor pick_steps(const torch::Tensor& x_BSHX, const torch::Tensor& index_BI);

// How a ring takes up the steps of one call.
class RingPlan {
 public:
  // position_B, lengths_B: the steps that each row has taken before this call, and takes in it; lengths_B is undefined
  // where nobody takes the ring after the call.
  RingPlan(std::int64_t slots, const torch::Tensor& position_B, const torch::Tensor& lengths_B);

  // The ring after the call, from what it was before and the new steps; undefined where nobody takes it.
  torch::Tensor stored(const torch::Tensor& ring_BSHX, const torch::Tensor& new_BTHX) const {
    if (!store_BS11_.defined()) return {};
    return torch::where(store_BS11_, pick_steps(new_BTHX, step_BS_).to(ring_BSHX.scalar_type()), ring_BSHX);
  }

 private:
  torch::Tensor step_BS_;     // the step that each slot holds in the end ...
  torch::Tensor store_BS11_;  // ... if true; else it keeps what it held
};

// Where the rows of one call stand in time, and all that follows from it; shared by the layers of a model.
class WindowPlan {
 public:
  // position_B: steps that each row has taken before this call, none beyond `max_position`; 0: all rows are fresh.
  // lengths_B: as RingPlan's.
  // seen_BTH: how many steps each head sees, the current one included, 1 .. window: [B or 1, T, H]; undefined:
  // `window`.
  WindowPlan(std::int64_t window, std::int64_t steps, std::int64_t max_position, const torch::Tensor& position_B,
             const torch::Tensor& lengths_B, torch::ScalarType dtype, const torch::Tensor& seen_BTH = {});

  struct Output {
    torch::Tensor output_BTHV;
    KeyValueRing ring;  // of row b after lengths_B[b] steps; undefined without lengths
  };
  // weight_dropout: of the attention weights, as rows [B, H, T] of T channels (if that is one block: a window of T
  // steps or more, no past); null: none. ring: not read where all rows are fresh and nobody takes it after the call.
  Output attend(const torch::Tensor& query_BTHK, const torch::Tensor& key_BTHK, const torch::Tensor& value_BTHV,
                const KeyValueRing& ring, const Dropout* weight_dropout = nullptr) const;

 private:
  torch::Tensor with_past(const torch::Tensor& ring_BSHK, const torch::Tensor& new_BTHK) const;

  std::int64_t window_, steps_;
  std::int64_t past_;           // steps taken from the ring: no row sees more
  std::int64_t block_;          // queries are taken in blocks of this many steps ...
  std::int64_t blocks_;         // ... this many of them
  std::int64_t reach_;          // keys that a block sees before its first step
  bool by_cpu_loops_;           // memory/ops/cpu_attention.h computes it, which needs no bias
  torch::Tensor bias_NhQU_;     // 0 where visible, else -inf; N rows or rows x blocks, 1 or H; undefined: plain causal
  torch::Tensor past_slot_BP_;  // the ring's slots in the order of time; undefined without a past
  RingPlan ring_;
};

// The same for one step; on a GPU by kernels/attention where its contract holds and no weights are asked for.
class WindowStepPlan {
 public:
  // `slots`: how many of the ring's slots, from the first, are in use after this step (at most the window).
  // seen_BH: as WindowPlan's.
  WindowStepPlan(std::int64_t window, std::int64_t slots, const torch::Tensor& position_B, torch::ScalarType dtype,
                 const torch::Tensor& seen_BH = {});

  // Returns o [B, H, V]; writes the step into the ring. Without gradients. `weights_BHA`, unless null, gets the
  // attention weights before dropout by age (memory_view.h), for as many ages as slots. weight_dropout: of the
  // attention weights, as rows [B, H] of as many channels as slots; null: none.
  torch::Tensor attend(const torch::Tensor& query_BHK, const torch::Tensor& key_BHK, const torch::Tensor& value_BHV,
                       const KeyValueRing& ring, const Dropout* weight_dropout = nullptr,
                       torch::Tensor* weights_BHA = nullptr) const;

 private:
  // What LibTorch's operations need as well, made by the first layer that uses them.
  struct Index {
    torch::Tensor row_B, slot_B;
    torch::Tensor bias_Bh1S;
  };
  const Index& index() const;
  // From the order of the slots to that of age.
  torch::Tensor by_age(const torch::Tensor& weights_BHS) const;

  std::int64_t window_, slots_;
  torch::Tensor position_B_, seen_BH_;
  torch::ScalarType dtype_;
  mutable std::optional<Index> index_;
};

// Rotary positions (Su et al. 2021): channels i and i + K/2 of a vector at position p are turned by the angle
// p * 10000^(-2i/K). K must be even.
class Rotary {
 public:
  // positions: int64, any shape [...].
  Rotary(const torch::Tensor& positions, std::int64_t key_width, torch::ScalarType dtype);

  // [..., H, K] -> the same; the leading shape may broadcast against that of the positions.
  torch::Tensor turn(const torch::Tensor& vectors) const;

 private:
  torch::Tensor cos_, sin_;  // [..., 1, K]; the sine negated in the first half
};

// x / sqrt(|x|^2 + 1e-6) over the last dimension.
torch::Tensor l2_normalize(const torch::Tensor& vectors);

}  // namespace engram
