#include "nn/fused/maps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "nn/fused/linear.h"
#include "nn/fused/rows.h"
#include "nn/fused/support.h"
#include "nn/fused/weights/packed_weights.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Weights, then the biases that there are: in the order of the gradients.
variable_list parameters_of(const std::vector<LinearMap>& maps) {
  variable_list all;
  for (const LinearMap& map : maps) all.push_back(map.weight_OI);
  for (const LinearMap& map : maps)
    if (map.bias_O.defined()) all.push_back(map.bias_O);
  return all;
}

// N: the maps' outputs one behind the other, those of each padded to what the kernels load together.
class MapsPass : public torch::CustomClassHolder {
 public:
  MapsPass(Tensor x_MI, std::vector<LinearMap> maps) : x_MI_(std::move(x_MI)), maps_(std::move(maps)) {}

  variable_list forward() {
    if (!x_MI_.is_cuda()) {
      variable_list weights;
      for (const LinearMap& map : maps_) weights.push_back(map.weight_OI.detach());
      weight_NI_ = joined(weights, 0);
      return parts_of(product(x_MI_, weight_NI_.t()), 1);
    }
    WeightPacking packing(x_MI_.scalar_type());
    weight_NI_ = packing.add(packed_weights());
    const Tensor bias_N = has_biases() ? packing.add(packed_biases()).view({-1}) : Tensor();
    packing.run();
    return parts_of(has_biases() ? affine(x_MI_, weight_NI_, bias_N, /*relu=*/false) : product(x_MI_, weight_NI_.t()),
                    1);
  }

  // The gradients of x (if it is wanted) and of the parameters. d_y: an undefined one is zero.
  variable_list backward(variable_list d_y, bool wants_x) const {
    for (std::size_t i = 0; i < maps_.size(); ++i)
      if (!d_y[i].defined()) d_y[i] = x_MI_.new_zeros({x_MI_.size(0), outputs_of(maps_[i])});
    const Tensor d_y_MN = joined(d_y, 1);
    const auto d_x = [&] { return wants_x ? product(d_y_MN, weight_NI_) : Tensor(); };
    if (!x_MI_.is_cuda()) {  // of maps without biases
      variable_list gradients{d_x()};
      append(gradients, parts_of(product_float(d_y_MN.t(), x_MI_), 0));
      return gradients;
    }
    SideWork side(SideStreamOf::kLayerWeights);
    Tensor d_weight;
    side.run([&] { d_weight = weight_gradient(d_y_MN, x_MI_); });
    variable_list gradients{d_x()};  // beside it
    append(gradients, parts_of(sum_of_parts(d_weight, side), 0));
    const variable_list d_biases = has_biases() ? parts_of(column_sums(d_y_MN, side), 0) : variable_list();
    side.finish(/*gradients=*/{}, /*of_leaves=*/false);
    for (std::size_t i = 0; i < maps_.size(); ++i)
      if (maps_[i].bias_O.defined()) gradients.push_back(d_biases[i]);
    return gradients;
  }

 private:
  static std::int64_t outputs_of(const LinearMap& map) { return map.weight_OI.size(0); }
  static void append(variable_list& to, const variable_list& more) { to.insert(to.end(), more.begin(), more.end()); }
  bool has_biases() const {
    return std::ranges::any_of(maps_, [](const LinearMap& map) { return map.bias_O.defined(); });
  }

  int columns() const {
    int columns = 0;
    for (const LinearMap& map : maps_) columns += round_up(outputs_of(map), kVectorElements);
    return columns;
  }
  PackedWeights packed_weights() const {
    PackedWeights packed(columns(), static_cast<int>(x_MI_.size(1)));
    int first = 0;
    for (const LinearMap& map : maps_) {
      packed.add(map.weight_OI, first, by_output(map), padded_to(x_MI_.size(1), static_cast<int>(x_MI_.size(1))));
      first += by_output(map).padded;
    }
    return packed;
  }
  // [N, 1], zeros where a map has none.
  PackedWeights packed_biases() const {
    PackedWeights packed(columns(), 1);
    int first = 0;
    for (const LinearMap& map : maps_) {
      if (map.bias_O.defined())
        packed.add(map.bias_O, first, by_output(map), padded_to(1, 1));
      else
        packed.add_zeros(first);
      first += by_output(map).padded;
    }
    return packed;
  }
  static PackGroups by_output(const LinearMap& map) {
    return padded_to(outputs_of(map), round_up(outputs_of(map), kVectorElements));
  }

  // The matrix whose columns are those of the parts one behind the other, where they stand so in memory already and
  // need no padding; else undefined.
  static Tensor matrix_of(const variable_list& parts) {
    const Tensor& first = parts.front();
    std::int64_t columns = 0;
    for (const Tensor& part : parts) {
      if (part.size(1) % kVectorElements != 0 || part.stride(1) != 1 || part.stride(0) != first.stride(0) ||
          !part.is_alias_of(first) || part.storage_offset() != first.storage_offset() + columns)
        return {};
      columns += part.size(1);
    }
    if (columns != first.stride(0)) return {};
    return first.as_strided({first.size(0), columns}, {columns, 1});
  }
  // The maps' own tensors along `dimension` of N, and back as views.
  static Tensor joined(const variable_list& parts, std::int64_t dimension) {
    if (dimension == 1)
      if (const Tensor whole = matrix_of(parts); whole.defined()) return whole;
    variable_list padded;
    for (const Tensor& part : parts) {
      padded.push_back(part);
      std::vector<std::int64_t> shape = part.sizes().vec();
      auto& size = shape[static_cast<std::size_t>(dimension)];
      size = round_up(size, kVectorElements) - size;
      if (size > 0) padded.push_back(part.new_zeros(shape));
    }
    return padded.size() == 1 ? padded[0].contiguous() : torch::cat(padded, dimension);
  }
  variable_list parts_of(const Tensor& whole, std::int64_t dimension) const {
    variable_list parts;
    std::int64_t first = 0;
    for (const LinearMap& map : maps_) {
      parts.push_back(whole.narrow(dimension, first, outputs_of(map)));
      first += round_up(outputs_of(map), kVectorElements);
    }
    return parts;
  }

  Tensor x_MI_;
  std::vector<LinearMap> maps_;
  Tensor weight_NI_;
};

class MapsFunction : public torch::autograd::Function<MapsFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x_MI, at::TensorList parameters,
                               const c10::intrusive_ptr<MapsPass>& pass) {
    (void)x_MI, (void)parameters;  // what the graph follows; the pass has them
    context->set_materialize_grads(false);
    context->saved_data["pass"] = c10::IValue::make_capsule(pass);
    return pass->forward();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto holder = context->saved_data["pass"].toCapsule();
    variable_list gradients = static_cast<MapsPass&>(*holder).backward(gradient, context->needs_input_grad(0));
    gradients.emplace_back();  // of the pass
    return gradients;
  }
};

class ScaledAddFunction : public torch::autograd::Function<ScaledAddFunction> {
 public:
  // Of contiguous rows [M, D].
  static Tensor forward(AutogradContext* context, const Tensor& z_MD, const Tensor& scale_D, const Tensor& x_MD) {
    context->save_for_backward({scale_D, x_MD});
    const Tensor y_MD = torch::empty_like(x_MD);
    scaled_add(scaled(scale_D, x_MD), z_MD.data_ptr(), y_MD.data_ptr(), current_stream());
    return y_MD;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const ScaledAdd input = scaled(saved[0], saved[1]);
    const Tensor d_y_MD = aligned(gradient[0]), d_x_MD = torch::empty_like(d_y_MD),
                 d_scale_D = torch::empty_like(saved[0], torch::requires_grad(false)),
                 scratch = scratch_bytes(scaled_add_backward_scratch_bytes(input), d_y_MD);
    scaled_add_backward(input, d_y_MD.data_ptr(), d_x_MD.data_ptr(), scratch.data_ptr(), current_stream());
    add_up({scaled_add_sum(input, scratch.data_ptr(), d_scale_D.data_ptr<float>())}, current_stream());
    return {d_y_MD, d_scale_D, d_x_MD};
  }

 private:
  static ScaledAdd scaled(const Tensor& scale_D, const Tensor& x_MD) {
    return {.rows = x_MD.size(0),
            .columns = static_cast<int>(x_MD.size(1)),
            .dtype = kernel_dtype(x_MD),
            .scale = scale_D.data_ptr<float>(),
            .x = x_MD.data_ptr()};
  }
};

}  // namespace

Tensor add_scaled(const Tensor& z, const Tensor& scale_D, const Tensor& x) {
  const auto rows = [](const Tensor& all) { return aligned(all.reshape({-1, all.size(-1)})); };
  return ScaledAddFunction::apply(rows(z), aligned(scale_D), rows(x)).view(x.sizes());
}

std::vector<Tensor> linear_maps(const Tensor& x, const std::vector<LinearMap>& maps) {
  const variable_list parameters = parameters_of(maps);
  const Tensor x_MI = x.reshape({-1, x.size(-1)});
  variable_list outputs =
      MapsFunction::apply(x_MI, at::TensorList(parameters), c10::make_intrusive<MapsPass>(x_MI.detach(), maps));
  std::vector<std::int64_t> shape = x.sizes().vec();
  for (Tensor& output : outputs) {
    shape.back() = output.size(1);
    output = output.view(shape);
  }
  return outputs;
}

Support supports_relu_layers(const std::vector<LinearMap>& maps, torch::ScalarType dtype, torch::Device device) {
  for (const auto& [weight_OI, bias_O] : maps)
    if (Support own = supports_parameters(weight_OI); !own) return own;
  return supports_device(dtype, device);
}

Tensor relu_layers(const Tensor& x, const std::vector<LinearMap>& maps) {
  std::vector<LinearLayer> layers;
  for (const auto& [weight_OI, bias_O] : maps) layers.push_back({weight_OI, bias_O, Activation::kRelu});
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = maps.back().weight_OI.size(0);
  return from_rows(linear_layers(to_rows(x), layers), shape);
}

}  // namespace engram::cuda
