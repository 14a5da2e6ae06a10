#include "nn/cpu/layers.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "nn/cpu/kernels.h"
#include "nn/cpu/rows.h"
#include "nn/device/plain_operations.h"

namespace engram::cpu {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

namespace {

float* data(const Tensor& x) {
  if (!x.defined()) return nullptr;
  TORCH_CHECK(x.is_contiguous(), "a weight of a layer on the CPU has gaps");
  return static_cast<float*>(x.data_ptr());
}

Tensor like(const Tensor& x) {
  return torch::empty_like(x, torch::TensorOptions().requires_grad(false), torch::MemoryFormat::Contiguous);
}

// [..., I] -> [..., O]
Tensor with_channels(const Tensor& x, std::int64_t channels) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = channels;
  return torch::empty(shape, x.options().requires_grad(false));
}

std::int64_t rows_of(const Tensor& x) { return x.numel() / x.size(-1); }

class LinearFunction : public Function<LinearFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias) {
    const Tensor input = x.contiguous(), bias = given_bias.value_or(Tensor());
    context->saved_data["bias"] = bias.defined();
    context->save_for_backward({input, weight});
    const std::int64_t inputs = weight.size(1), outputs = weight.size(0);
    const Tensor y = with_channels(x, outputs);
    in_blocks(
        rows_of(x),
        [&](std::int64_t first, std::int64_t rows, float* scratch) {
          layer({rows, outputs, inputs}, data(input) + first * inputs, data(weight), data(bias),
                data(y) + first * outputs,
                /*relu=*/false, scratch);
        },
        product_scratch(outputs));
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], d_y = gradient[0].contiguous();
    const std::int64_t inputs = weight.size(1), outputs = weight.size(0);
    const bool wants_x = context->needs_input_grad(0);
    const Tensor d_x = wants_x ? like(x) : Tensor();
    const bool has_bias = context->saved_data["bias"].toBool();
    Sums sums({weight.sizes(), has_bias ? at::IntArrayRef(weight.sizes().data(), 1) : at::IntArrayRef()});
    in_parts(rows_of(x), sums, std::max(product_scratch(inputs), product_scratch(outputs)),
             [&](std::int64_t first, std::int64_t rows, float* const* sum, float* scratch) {
               const LayerSizes sizes{rows, outputs, inputs};
               const float* const d = data(d_y) + first * outputs;
               if (wants_x)
                 layer_input_gradient(sizes, d, data(weight), data(d_x) + first * inputs, false, nullptr, scratch);
               add_weight_gradient(sizes, d, data(x) + first * inputs, sum[0], scratch);
               if (has_bias) kernels().add_column_sums(d, rows, outputs, sum[1]);
             });
    const variable_list d = sums.total();
    return {d_x, d[0], has_bias ? d[1] : Tensor()};
  }
};

class DropoutFunction : public Function<DropoutFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& to,
                        const DropoutKey& key) {
    const Tensor residual = to.value_or(Tensor());
    context->saved_data["adds"] = residual.defined();
    const std::int64_t channels = x.size(-1), rows = rows_of(x),
                       groups = (channels + kDropoutGroup - 1) / kDropoutGroup;
    const Tensor input = x.contiguous(), added = residual.defined() ? residual.contiguous() : residual;
    const Tensor y = like(input), bits = torch::empty({rows * groups}, torch::kUInt8);
    auto* const kept = bits.data_ptr<std::uint8_t>();
    at::parallel_for(0, rows, kBlockRows, [&](std::int64_t first, std::int64_t last) {
      const std::int64_t at = first * channels;
      kernels().dropout(key, first, last - first, channels, data(input) + at,
                        added.defined() ? data(added) + at : nullptr, data(y) + at, kept + first * groups);
    });
    context->save_for_backward({bits});
    context->saved_data["scale"] = static_cast<double>(key.scale);
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const Tensor bits = context->get_saved_variables()[0], d_y = gradient[0].contiguous(), d_x = like(d_y);
    const std::int64_t channels = d_y.size(-1), rows = rows_of(d_y), groups = bits.numel() / rows;
    const auto scale = static_cast<float>(context->saved_data["scale"].toDouble());
    const auto* const kept = bits.const_data_ptr<std::uint8_t>();
    at::parallel_for(0, rows, kBlockRows, [&](std::int64_t first, std::int64_t last) {
      const std::int64_t at = first * channels;
      kernels().dropout_backward(scale, last - first, channels, data(d_y) + at, kept + first * groups, data(d_x) + at);
    });
    return {d_x, context->saved_data["adds"].toBool() ? gradient[0] : Tensor(), Tensor()};
  }
};

class RmsNormFunction : public Function<RmsNormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& given_weight,
                        double epsilon, double factor) {
    const Tensor input = x.contiguous(), y = like(input), weight = given_weight.value_or(Tensor());
    const std::int64_t channels = x.size(-1), rows = rows_of(x);
    const Tensor inverse = torch::empty({rows}, torch::kFloat32);
    at::parallel_for(0, rows, kBlockRows, [&](std::int64_t first, std::int64_t last) {
      kernels().rms_norm(last - first, channels, data(input) + first * channels, data(weight),
                         static_cast<float>(epsilon), static_cast<float>(factor), data(y) + first * channels,
                         data(inverse) + first);
    });
    context->save_for_backward({input, weight, inverse});
    context->saved_data["factor"] = factor;
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &inverse = saved[2];
    const Tensor d_y = gradient[0].contiguous(), d_x = like(x);
    const std::int64_t channels = x.size(-1);
    const auto factor = static_cast<float>(context->saved_data["factor"].toDouble());
    Sums sums({weight.defined() ? weight.sizes() : at::IntArrayRef()});
    in_parts(rows_of(x), sums, 0, [&](std::int64_t first, std::int64_t rows, float* const* sum, float*) {
      kernels().rms_norm_backward(rows, channels, data(x) + first * channels, data(weight), factor,
                                  data(inverse) + first, data(d_y) + first * channels, data(d_x) + first * channels,
                                  sum[0]);
    });
    return {d_x, weight.defined() ? sums.total()[0] : Tensor(), Tensor(), Tensor()};
  }
};

class SwiGluFunction : public Function<SwiGluFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& gate, const Tensor& up,
                        const Tensor& down) {
    const Tensor input = x.contiguous();
    const std::int64_t width = gate.size(1), inner = gate.size(0), all = rows_of(x);
    const Tensor y = with_channels(x, down.size(0));
    const Tensor gated = torch::empty({all, inner}, torch::kFloat32),
                 raised = torch::empty({all, inner}, torch::kFloat32);
    const std::int64_t outputs = down.size(0), own = product_scratch(std::max(inner, outputs));
    in_blocks(
        all,
        [&](std::int64_t first, std::int64_t rows, float* scratch) {
          float *const g = data(gated) + first * inner, *const u = data(raised) + first * inner,
                       *const s = scratch + own;
          const float* const from = data(input) + first * width;
          layer({rows, inner, width}, from, data(gate), nullptr, g, false, scratch);
          layer({rows, inner, width}, from, data(up), nullptr, u, false, scratch);
          kernels().swiglu(rows * inner, g, u, s);
          layer({rows, outputs, inner}, s, data(down), nullptr, data(y) + first * outputs, false, scratch);
        },
        own + kBlockRows * inner);
    context->save_for_backward({input, gate, up, down, gated, raised});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &gate = saved[1], &up = saved[2], &down = saved[3], &gated = saved[4],
                 &raised = saved[5];
    const Tensor d_y = gradient[0].contiguous(), d_x = like(x);
    const std::int64_t width = gate.size(1), inner = gate.size(0), outputs = down.size(0);
    const std::int64_t own = product_scratch(std::max({width, inner, outputs})), block = kBlockRows * inner;
    Sums sums({gate.sizes(), up.sizes(), down.sizes()});
    in_parts(rows_of(x), sums, own + 4 * block,
             [&](std::int64_t first, std::int64_t rows, float* const* sum, float* scratch) {
               float *const d_s = scratch + own, *const s = d_s + block, *const g = s + block, *const u = g + block;
               const float *const d = data(d_y) + first * outputs, *const from = data(x) + first * width;
               float* const to = data(d_x) + first * width;
               const std::int64_t count = rows * inner;
               std::copy_n(data(gated) + first * inner, count, g);
               std::copy_n(data(raised) + first * inner, count, u);
               layer_input_gradient({rows, outputs, inner}, d, data(down), d_s, false, nullptr, scratch);
               kernels().swiglu_backward(count, d_s, g, u, s);
               add_weight_gradient({rows, outputs, inner}, d, s, sum[2], scratch);
               layer_input_gradient({rows, inner, width}, g, data(gate), to, false, nullptr, scratch);
               layer_input_gradient({rows, inner, width}, u, data(up), to, true, nullptr, scratch);
               add_weight_gradient({rows, inner, width}, g, from, sum[0], scratch);
               add_weight_gradient({rows, inner, width}, u, from, sum[1], scratch);
             });
    const variable_list d = sums.total();
    return {d_x, d[0], d[1], d[2]};
  }
};

// Weights: six of each head.
class HeadsFunction : public Function<HeadsFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, at::TensorList weights,
                               std::int64_t learning) {
    const Tensor input = x.contiguous();
    const auto count = static_cast<std::int64_t>(weights.size()) / 6;
    const std::int64_t width = weights[0].size(1), hidden = weights[0].size(0), actions = weights[4].size(0);
    const std::int64_t all = rows_of(x), own = product_scratch(std::max(hidden, actions));
    const Tensor first_hidden = torch::empty({learning, all, hidden}, torch::kFloat32);
    const Tensor second_hidden = torch::empty({learning, all, hidden}, torch::kFloat32);
    variable_list outputs;
    for (std::int64_t i = 0; i < count; ++i) outputs.push_back(with_channels(x, actions));
    in_blocks(
        all,
        [&](std::int64_t first, std::int64_t rows, float* scratch) {
          for (std::int64_t i = 0; i < count; ++i) {
            const Tensor* const w = &weights[i * 6];
            const bool learns = i < learning;
            float* const h1 = learns ? data(first_hidden) + (i * all + first) * hidden : scratch + own;
            float* const h2 =
                learns ? data(second_hidden) + (i * all + first) * hidden : scratch + own + kBlockRows * hidden;
            layer({rows, hidden, width}, data(input) + first * width, data(w[0]), data(w[1]), h1, true, scratch);
            layer({rows, hidden, hidden}, h1, data(w[2]), data(w[3]), h2, true, scratch);
            layer({rows, actions, hidden}, h2, data(w[4]), data(w[5]), data(outputs[i]) + first * actions, false,
                  scratch);
          }
        },
        own + 2 * kBlockRows * hidden);
    variable_list saved{input, first_hidden, second_hidden};
    for (std::int64_t i = 0; i < learning * 6; ++i) saved.push_back(weights[i]);
    context->save_for_backward(saved);
    context->saved_data["learning"] = learning;
    context->saved_data["weights"] = static_cast<std::int64_t>(weights.size());
    context->mark_non_differentiable({outputs.begin() + learning, outputs.end()});
    return outputs;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t learning = context->saved_data["learning"].toInt();
    const Tensor &x = saved[0], &first_hidden = saved[1], &second_hidden = saved[2];
    const Tensor* const weights = &saved[3];
    const std::int64_t width = weights[0].size(1), hidden = weights[0].size(0), actions = weights[4].size(0);
    const std::int64_t all = rows_of(x), own = product_scratch(std::max({hidden, actions, width}));
    std::vector<Tensor> d_y;
    std::vector<at::IntArrayRef> shapes;
    for (std::int64_t i = 0; i < learning; ++i) {
      d_y.push_back(gradient[i].defined() ? gradient[i].contiguous() : Tensor());
      for (std::int64_t j = 0; j < 6; ++j) shapes.push_back(weights[i * 6 + j].sizes());
    }
    Sums sums(shapes);
    const Tensor d_x = like(x);
    in_parts(all, sums, own + 2 * kBlockRows * hidden,
             [&](std::int64_t first, std::int64_t rows, float* const* sum, float* scratch) {
               float *const d1 = scratch + own, *const d2 = d1 + kBlockRows * hidden;
               float* const to = data(d_x) + first * width;
               bool adds = false;
               for (std::int64_t i = 0; i < learning; ++i) {
                 if (!d_y[i].defined()) continue;
                 const Tensor* const w = weights + i * 6;
                 float* const* const d_w = sum + i * 6;
                 const float* const d = data(d_y[i]) + first * actions;
                 const float *const h1 = data(first_hidden) + (i * all + first) * hidden, *const h2 =
                                                                                              data(second_hidden) +
                                                                                              (i * all + first) *
                                                                                                  hidden;
                 layer_input_gradient({rows, actions, hidden}, d, data(w[4]), d2, false, h2, scratch);
                 layer_input_gradient({rows, hidden, hidden}, d2, data(w[2]), d1, false, h1, scratch);
                 layer_input_gradient({rows, hidden, width}, d1, data(w[0]), to, adds, nullptr, scratch);
                 add_weight_gradient({rows, hidden, width}, d1, data(x) + first * width, d_w[0], scratch);
                 kernels().add_column_sums(d1, rows, hidden, d_w[1]);
                 add_weight_gradient({rows, hidden, hidden}, d2, h1, d_w[2], scratch);
                 kernels().add_column_sums(d2, rows, hidden, d_w[3]);
                 add_weight_gradient({rows, actions, hidden}, d, h2, d_w[4], scratch);
                 kernels().add_column_sums(d, rows, actions, d_w[5]);
                 adds = true;
               }
               if (!adds) std::fill_n(to, rows * width, 0.0f);
             });
    variable_list gradients{d_x};
    const variable_list d_weights = sums.total();
    for (std::int64_t i = 0; i < learning * 6; ++i) gradients.push_back(d_y[i / 6].defined() ? d_weights[i] : Tensor());
    gradients.resize(1 + static_cast<std::size_t>(context->saved_data["weights"].toInt()) + 1);
    return gradients;
  }
};

}  // namespace

bool takes(const Tensor& x) { return takes(x.device(), x.scalar_type()) && x.numel() > 0; }

bool takes(torch::Device device, torch::ScalarType dtype) {
  return !PlainOperations::on() && device.is_cpu() && dtype == torch::kFloat32;
}

Tensor linear(const Tensor& x, const Tensor& weight_OI, const Tensor& bias_O) {
  return LinearFunction::apply(x, weight_OI, given(bias_O));
}

Tensor dropout(const Tensor& x, const Tensor& residual, const DropoutKey& key) {
  return DropoutFunction::apply(x, given(residual), key);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight_C, double epsilon, double factor) {
  return RmsNormFunction::apply(x, given(weight_C), epsilon, factor);
}

Tensor swiglu(const Tensor& x, const Tensor& gate_ID, const Tensor& up_ID, const Tensor& down_DI) {
  return SwiGluFunction::apply(x, gate_ID, up_ID, down_DI);
}

std::vector<Tensor> heads(const Tensor& features, const std::vector<HeadWeights>& learning,
                          const std::vector<HeadWeights>& targets) {
  variable_list weights;
  for (const auto* group : {&learning, &targets})
    for (const HeadWeights& head : *group)
      weights.insert(weights.end(), {head.weight1, head.bias1, head.weight2, head.bias2, head.weight3, head.bias3});
  return HeadsFunction::apply(features, at::TensorList(weights), static_cast<std::int64_t>(learning.size()));
}

}  // namespace engram::cpu
