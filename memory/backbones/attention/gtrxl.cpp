// GTrXL (Parisotto et al. 2020, arXiv:1910.06764, section 3). For each layer, with x the output of the one below:
//   y  = gate(x, relu(Attention(LayerNorm(x)))),   x' = gate(y, relu(MLP(LayerNorm(y)))),
//   gate(x, y) = (1 - z) x + z h,   h = tanh(Wg y + Ug (r x)),
//   r = sigmoid(Wr y + Ur x),   z = sigmoid(Wz y + Uz x - b).
// Attention of Transformer-XL (Dai et al. 2019, arXiv:1901.02860, section 3.3), per head of width K:
//   score of step j at step i = ((q_i + u) . k_j + (q_i + v) . Wr R_{i-j}) / sqrt(K),
// with R the sinusoidal code of a distance. A step sees the last `window` steps, however they came in: the papers'
// steps see their segment and a memory of the one before it, whose layer inputs they keep and pass no gradient to; here
// keys and values are kept, and a gradient reaches as far as a call does.
#include "memory/backbones/attention/gtrxl.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "memory/backbones/attention/attention_layers.h"
#include "memory/ops/attention_maps.h"
#include "nn/layers/dropout.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

using torch::Tensor;

torch::nn::Linear small_map(std::int64_t inputs, std::int64_t outputs, bool bias) {
  torch::nn::Linear map(torch::nn::LinearOptions(inputs, outputs).bias(bias));
  torch::nn::init::normal_(map->weight, 0, kWeightStd);
  if (bias) torch::nn::init::zeros_(map->bias);
  return map;
}

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(kLayerNormEpsilon));
}

// Sine and cosine, [..., F] each, of positions times F frequencies 10000^(-2f/D). In double, so that late positions
// keep their angle.
struct PositionCode {
  PositionCode() = default;
  PositionCode(const Tensor& positions, std::int64_t width, torch::ScalarType dtype) {
    const auto options = positions.options().dtype(torch::kFloat64);
    const Tensor frequency_F =
        torch::pow(10000.0, torch::arange(frequencies(width), options) * (-2.0 / static_cast<double>(width)));
    const Tensor angle = positions.to(torch::kFloat64).unsqueeze(-1) * frequency_F;
    sine = angle.sin().to(dtype);
    cosine = angle.cos().to(dtype);
  }
  static std::int64_t frequencies(std::int64_t width) { return (width + 1) / 2; }
  Tensor sine, cosine;
};

class GtrxlAttention : public torch::nn::Module, public AttentionMaps {
 public:
  explicit GtrxlAttention(const GtrxlOptions& options)
      : heads_(options.heads),
        head_width_(options.width / options.heads),
        query_(register_module("query", small_map(options.width, options.width, false))),
        key_(register_module("key", small_map(options.width, options.width, false))),
        value_(register_module("value", small_map(options.width, options.width, false))),
        position_(
            register_module("position", small_map(2 * PositionCode::frequencies(options.width), options.width, false))),
        output_(register_module("output", small_map(options.width, options.width, false))),
        content_bias_HK_(register_parameter("content_bias", torch::zeros({heads_, head_width_}))),
        position_bias_HK_(register_parameter("position_bias", torch::zeros({heads_, head_width_}))) {}

  // A sine of a distance is a sum of products of sines and cosines of the two positions, so that the whole score is one
  // product of a longer query with a longer key, whose further channels are the code of its position:
  //   a sin(i - j) + b cos(i - j) = (a sin i + b cos i) cos j + (b sin i - a cos i) sin j.
  // code: of the new steps [B or 1, T, F]; ring_code: of the ring's slots [B, S, F], not read where the ring is
  // undefined.
  Tensor forward(const Tensor& x_BTD, const WindowPlan& plan, const PositionCode& code, const PositionCode& ring_code,
                 const KeyValueRing& ring, std::vector<Tensor>& final_state) {
    const auto [query_BTHK, key_BTHK, value_BTHV] = project(x_BTD);
    const auto dtype = key_BTHK.scalar_type();
    const std::vector<Tensor> by_distance = of_distance(query_BTHK).chunk(2, -1);  // a and b, [B, T, H, F]
    const Tensor sine = code.sine.unsqueeze(2).to(dtype), cosine = code.cosine.unsqueeze(2).to(dtype);
    const Tensor long_query = torch::cat(
        {query_BTHK + content_bias_HK_.to(dtype), torch::addcmul(by_distance[0] * sine, by_distance[1], cosine),
         torch::addcmul(by_distance[1] * sine, by_distance[0], cosine, /*value=*/-1)},
        -1);
    // attend() divides by the root of the longer width.
    const double scale = std::sqrt(static_cast<double>(long_query.size(-1)) / static_cast<double>(head_width_));
    const bool keeps_ring = ring.key_BSHK.defined();
    const WindowPlan::Output out =
        plan.attend(long_query * scale, with_code(key_BTHK, code), value_BTHV,
                    {keeps_ring ? with_code(ring.key_BSHK, ring_code) : Tensor(), ring.value_BSHV});
    if (keeps_ring)
      final_state.insert(final_state.end(), {out.ring.key_BSHK.narrow(-1, 0, head_width_), out.ring.value_BSHV});
    return apply_linear(output_, join_heads(out.output_BTHV));
  }

  // What the layers of a step share; by slot s of the ring, and by age.
  struct StepPlan {
    StepPlan(const GtrxlOptions& options, const Tensor& position_B, torch::ScalarType dtype)
        : row_B(torch::arange(position_B.size(0), position_B.options())),
          slot_B(position_B.remainder(options.window)),
          position_B1(position_B.unsqueeze(1)) {
      const Tensor index_S = torch::arange(options.window, position_B.options());
      age_BS = (position_B1 - index_S).remainder(options.window);
      unused_B1S = (index_S > position_B1).unsqueeze(1);
      const PositionCode code(index_S, options.width, dtype);
      code_AX = torch::cat({code.sine, code.cosine}, -1);
    }
    Tensor row_B, slot_B, position_B1;
    Tensor age_BS, unused_B1S, code_AX;
  };

  // view: null, or gets the weights by age.
  Tensor step(const Tensor& x_BD, const StepPlan& plan, const KeyValueRing& ring, LayerView* view) {
    Tensor key_BSHK = ring.key_BSHK, value_BSHV = ring.value_BSHV;
    const auto dtype = key_BSHK.scalar_type();
    const auto [query_BHK, key_BHK, value_BHV] = project(x_BD);
    key_BSHK.index_put_({plan.row_B, plan.slot_B}, key_BHK.to(dtype));
    value_BSHV.index_put_({plan.row_B, plan.slot_B}, value_BHV.to(dtype));
    const Tensor content_BHS =
        torch::matmul((query_BHK.to(dtype) + content_bias_HK_).unsqueeze(2), key_BSHK.permute({0, 2, 3, 1})).squeeze(2);
    const Tensor distance_BHA = torch::matmul(of_distance(query_BHK).to(dtype), plan.code_AX.t());
    const Tensor age_BHS = plan.age_BS.unsqueeze(1).expand_as(content_BHS);
    const Tensor score_BHS = (content_BHS.to(dtype) + distance_BHA.to(dtype).gather(2, age_BHS)) /
                             std::sqrt(static_cast<double>(head_width_));
    const Tensor weight_BHS =
        score_BHS.masked_fill(plan.unused_B1S, -std::numeric_limits<double>::infinity()).softmax(-1);
    // Slot s has age (p - s) mod S, and so the other way round.
    if (view != nullptr) view->attention_BHA = weight_BHS.gather(2, age_BHS);
    const Tensor output_BHV = torch::matmul(weight_BHS.unsqueeze(2), value_BSHV.transpose(1, 2)).squeeze(2);
    return apply_linear(output_, join_heads(output_BHV));
  }

 private:
  struct Projected {
    Tensor query, key, value;  // [..., H, D / H]
  };
  Projected project(const Tensor& x) const {
    const std::vector<Tensor> mapped = apply_in_heads({query_, key_, value_}, x, heads_);
    return {mapped[0], mapped[1], mapped[2]};
  }

  // (q + v) Wr: how much of a distance's sine, then cosine, counts. [..., H, K] -> [..., H, 2F]. A product for each
  // head over all rows: a batch of rows would hold the weights once for each of them.
  Tensor of_distance(const Tensor& query) const {
    const Tensor biased = query + position_bias_HK_.to(query.scalar_type());
    const Tensor weight_HKX = position_->weight.unflatten(0, {heads_, head_width_});
    const Tensor coefficient_HMX = torch::bmm(biased.flatten(0, -3).transpose(0, 1), weight_HKX);
    return coefficient_HMX.transpose(0, 1).unflatten(0, query.sizes().slice(0, query.dim() - 2));
  }

  static Tensor with_code(const Tensor& key_BTHK, const PositionCode& code) {
    const Tensor code_BT1X = torch::cat({code.cosine, code.sine}, -1).to(key_BTHK.scalar_type()).unsqueeze(2);
    return torch::cat({key_BTHK, code_BT1X.expand({key_BTHK.size(0), -1, key_BTHK.size(2), -1})}, -1);
  }

  std::int64_t heads_, head_width_;
  torch::nn::Linear query_, key_, value_, position_, output_;
  Tensor content_bias_HK_, position_bias_HK_;
};

// The GRU-like gate between what a part was given and what it made of it.
class Gate : public torch::nn::Module {
 public:
  Gate(std::int64_t width, double bias)
      : of_new_(register_module("of_new", small_map(width, 3 * width, false))),
        of_old_(register_module("of_old", small_map(width, 2 * width, false))),
        of_reset_(register_module("of_reset", small_map(width, width, false))),
        bias_D_(register_parameter("bias", torch::full({width}, bias))) {}

  Tensor forward(const Tensor& x, const Tensor& y) {
    const auto dtype = bias_D_.scalar_type();
    const std::vector<Tensor> from_new = apply_linear(of_new_, y).to(dtype).chunk(3, -1);  // r, z, h
    const std::vector<Tensor> from_old = apply_linear(of_old_, x).to(dtype).chunk(2, -1);  // r, z
    const Tensor reset = (from_new[0] + from_old[0]).sigmoid();
    const Tensor update = (from_new[1] + from_old[1] - bias_D_).sigmoid();
    const Tensor candidate = (from_new[2] + apply_linear(of_reset_, reset * x).to(dtype)).tanh();
    return x + update * (candidate - x);
  }

 private:
  torch::nn::Linear of_new_, of_old_, of_reset_;
  Tensor bias_D_;
};

class GtrxlLayer : public torch::nn::Module {
 public:
  explicit GtrxlLayer(const GtrxlOptions& options)
      : attention_norm_(register_module("attention_norm", layer_norm(options.width))),
        attention_(register_module("attention", std::make_shared<GtrxlAttention>(options))),
        attention_gate_(register_module("attention_gate", std::make_shared<Gate>(options.width, options.gate_bias))),
        mlp_norm_(register_module("mlp_norm", layer_norm(options.width))),
        up_(register_module("up", small_map(options.width, options.inner_width(), true))),
        down_(register_module("down", small_map(options.inner_width(), options.width, true))),
        mlp_gate_(register_module("mlp_gate", std::make_shared<Gate>(options.width, options.gate_bias))),
        attention_dropout_(register_module("attention_dropout", std::make_shared<Dropout>(options.dropout))),
        mlp_dropout_(register_module("mlp_dropout", std::make_shared<Dropout>(options.dropout))) {}

  // attend: the attention over sequences or over one step.
  template <class Attend>
  Tensor run(const Tensor& x, Attend attend) {
    const Tensor attended = attention_dropout_->forward(attend(*attention_, apply_layer_norm(attention_norm_, x)));
    const Tensor y = attention_gate_->forward(x, torch::relu(attended));
    const Tensor inner = torch::relu(apply_linear(up_, apply_layer_norm(mlp_norm_, y)));
    return mlp_gate_->forward(y, torch::relu(mlp_dropout_->forward(apply_linear(down_, inner))));
  }
  std::vector<Tensor> mlp_parameters() const { return {up_->weight, up_->bias, down_->weight, down_->bias}; }

 private:
  torch::nn::LayerNorm attention_norm_;
  std::shared_ptr<GtrxlAttention> attention_;
  std::shared_ptr<Gate> attention_gate_;
  torch::nn::LayerNorm mlp_norm_;
  torch::nn::Linear up_, down_;
  std::shared_ptr<Gate> mlp_gate_;
  std::shared_ptr<Dropout> attention_dropout_, mlp_dropout_;
};

class Gtrxl final : public SequenceModel {
 public:
  explicit Gtrxl(const GtrxlOptions& options)
      : options_(options), layers_(register_module("layers", torch::nn::ModuleList())) {
    for (int layer = 0; layer < options.layers; ++layer) layers_->push_back(std::make_shared<GtrxlLayer>(options));
  }

  std::int64_t width() const override { return options_.width; }

  // The position, then keys and values of each layer.
  MemoryState initial_state(std::int64_t batch) const override {
    const auto options = parameters().front().options().requires_grad(false);
    MemoryState state;
    state.tensors.push_back(torch::zeros({batch}, options.dtype(torch::kInt64)));
    for (int i = 0; i < 2 * options_.layers; ++i)
      state.tensors.push_back(
          torch::zeros({batch, options_.window, options_.heads, options_.width / options_.heads}, options));
    return state;
  }

 private:
  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows rows) override {
    const auto dtype = input_BTD.scalar_type();
    const std::int64_t steps = input_BTD.size(1);
    const Tensor& position_B = initial.tensors[0];
    const Tensor position_B1 = position_B.unsqueeze(1);
    const std::int64_t max_position = rows == Rows::kFresh ? 0 : position_B.max().item<std::int64_t>();
    const WindowPlan plan(options_.window, steps, max_position, position_B, lengths_B, dtype);
    const PositionCode code(position_B1 + torch::arange(steps, position_B.options()), options_.width, dtype);
    // The slots' youngest steps so far; what stands for a slot that is not in use is never seen.
    const Tensor last_B1 = position_B1 - 1;
    const Tensor in_slot_BS =
        last_B1 - (last_B1 - torch::arange(options_.window, position_B.options())).remainder(options_.window);
    const PositionCode ring_code(in_slot_BS, options_.width, dtype);
    MemoryState final_state{{position_B + lengths_B}};
    Tensor x_BTD = input_BTD;
    for (int layer = 0; layer < options_.layers; ++layer)
      x_BTD = layer_at(layer).run(x_BTD, [&](GtrxlAttention& attention, const Tensor& normed_BTD) {
        return attention.forward(normed_BTD, plan, code, ring_code, ring_of_layer(initial, layer), final_state.tensors);
      });
    return {x_BTD, std::move(final_state)};
  }

  Tensor run_fresh(const Tensor& input_BTD, const Tensor&) override {
    const auto dtype = input_BTD.scalar_type();
    const Tensor step_T =
        torch::arange(input_BTD.size(1), input_BTD.options().dtype(torch::kInt64).requires_grad(false));
    const WindowPlan plan(options_.window, input_BTD.size(1), /*max_position=*/0,
                          torch::zeros({input_BTD.size(0)}, step_T.options()), /*lengths_B=*/{}, dtype);
    const PositionCode code(step_T.unsqueeze(0), options_.width, dtype);
    std::vector<Tensor> no_state;
    Tensor x_BTD = input_BTD;
    for (int layer = 0; layer < options_.layers; ++layer)
      x_BTD = layer_at(layer).run(x_BTD, [&](GtrxlAttention& attention, const Tensor& normed_BTD) {
        return attention.forward(normed_BTD, plan, code, /*ring_code=*/{}, /*ring=*/{}, no_state);
      });
    return x_BTD;
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override { return take_step(input_BD, state, nullptr); }
  Tensor run_viewed_step(const Tensor& input_BD, MemoryState& state, MemoryView& view) override {
    return take_step(input_BD, state, &view);
  }

  // view: null or filled.
  Tensor take_step(const Tensor& input_BD, MemoryState& state, MemoryView* view) {
    if (view != nullptr) view->layers.assign(static_cast<std::size_t>(options_.layers), {});
    const GtrxlAttention::StepPlan plan(options_, state.tensors[0], state.tensors[1].scalar_type());
    Tensor x_BD = input_BD;
    for (int layer = 0; layer < options_.layers; ++layer)
      x_BD = layer_at(layer).run(x_BD, [&](GtrxlAttention& attention, const Tensor& normed_BD) {
        return attention.step(normed_BD, plan, ring_of_layer(state, layer),
                              view == nullptr ? nullptr : &view->layers[static_cast<std::size_t>(layer)]);
      });
    state.tensors[0].add_(1);
    return x_BD;
  }

  std::int64_t multiply_adds_per_step() const override {
    const std::int64_t width = options_.width, code = 2 * PositionCode::frequencies(width);
    // Maps of the attention, the query's product with the position map, scores of content and of distance, values; the
    // two gates.
    const std::int64_t attention =
        4 * width * width + width * code + options_.window * (2 * width + options_.heads * code);
    return options_.layers * (attention + 2 * 6 * width * width) + multiply_adds_of(mlp_parameters());
  }
  std::vector<Tensor> mlp_parameters() const override { return mlp_parameters_of<GtrxlLayer>(layers_); }

  GtrxlLayer& layer_at(int layer) { return layers_->at<GtrxlLayer>(static_cast<std::size_t>(layer)); }

  GtrxlOptions options_;
  torch::nn::ModuleList layers_;
};

}  // namespace

void GtrxlOptions::list_options(OptionList& list) {
  list_sizes(list, *this, "4 times the width");
  list_window(list, window);
  list.add("gate_bias", gate_bias, {-10, 10},
           "how far the gates begin towards letting a layer's input pass as it is (b_g)");
  list_dropout(list, dropout);
}

void GtrxlOptions::check() const {
  check_bounds(*this, kMemorySection);
  check_heads(width, heads);
}

std::shared_ptr<SequenceModel> GtrxlOptions::make(std::int64_t) const {
  check();
  return std::make_shared<Gtrxl>(*this);
}

}  // namespace engram
