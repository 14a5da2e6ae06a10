#include "nn/fused/encoder.h"

#include <algorithm>
#include <cstddef>

#include "kernels/block/dense_convolution/dense_convolution.h"
#include "kernels/block/observation_rows.h"
#include "nn/device/autocast.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/linear.h"
#include "nn/fused/norm.h"
#include "nn/fused/rows.h"
#include "nn/fused/support.h"
#include "nn/fused/weights/prepared_weights.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A convolution of a small image as a linear layer. (cuDNN's gradient of a convolution's weight is summed in no fixed
// order.)
class DenseConvolutionFunction : public torch::autograd::Function<DenseConvolutionFunction> {
 public:
  // Weight [outputs, inputs] and bias [outputs].
  static variable_list forward(AutogradContext* context, const Tensor& weight, const Tensor& bias,
                               const ConvolutionShape& shape) {
    context->saved_data["shape"] = std::vector<std::int64_t>{shape.outputs, shape.channels,      shape.height,
                                                             shape.width,   shape.kernel_height, shape.kernel_width};
    const auto options = weight.options().requires_grad(false);
    const Tensor dense_weight = torch::empty({shape.rows(), shape.columns()}, options);
    const Tensor dense_bias = torch::empty({shape.rows()}, options);
    const Tensor own_weight = weight.detach().contiguous(), own_bias = bias.detach().contiguous();
    dense_convolution(shape, own_weight.data_ptr<float>(), own_bias.data_ptr<float>(), dense_weight.data_ptr<float>(),
                      dense_bias.data_ptr<float>(), current_stream());
    return {dense_weight, dense_bias};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto sizes = context->saved_data["shape"].toIntVector();
    const auto size = [&](std::size_t i) { return static_cast<int>(sizes[i]); };
    const ConvolutionShape shape{size(0), size(1), size(2), size(3), size(4), size(5)};
    const Tensor d_dense_weight = gradient[0].contiguous(), d_dense_bias = gradient[1].contiguous();
    const Tensor d_weight = torch::empty({shape.outputs, shape.channels, shape.kernel_height, shape.kernel_width},
                                         d_dense_weight.options());
    const Tensor d_bias = torch::empty({shape.outputs}, d_dense_bias.options());
    dense_convolution_backward(shape, d_dense_weight.data_ptr<float>(), d_dense_bias.data_ptr<float>(),
                               d_weight.data_ptr<float>(), d_bias.data_ptr<float>(), current_stream());
    return {d_weight, d_bias, Tensor()};
  }
};

// Of images [channels, height, width] as rows to rows of [outputs, height, width].
ConvolutionShape shape_of(const LayerWeights& convolution, int height, int width) {
  return {.outputs = static_cast<int>(convolution.weight.size(0)),
          .channels = static_cast<int>(convolution.weight.size(1)),
          .height = height,
          .width = width,
          .kernel_height = static_cast<int>(convolution.weight.size(2)),
          .kernel_width = static_cast<int>(convolution.weight.size(3))};
}

// Observations, and what is beside them, float32 with the last `beside_parts` of the parts, as rows [M, P] of `dtype`
// (observation_rows.h).
Tensor input_rows(const Tensor& observation_MX, const std::vector<ObservationRows::Part>& parts,
                  torch::ScalarType dtype, const Tensor& beside_MX = {}, std::size_t beside_parts = 0) {
  const bool bytes = observation_MX.scalar_type() == torch::kUInt8;
  const Tensor x_MX = (bytes ? observation_MX : observation_MX.to(torch::kFloat32)).contiguous(),
               float_beside_MX = beside_parts > 0 ? beside_MX.to(torch::kFloat32).contiguous() : Tensor();
  ObservationRows rows{.rows = x_MX.size(0),
                       .parts = static_cast<int>(parts.size()),
                       .beside_parts = static_cast<int>(beside_parts),
                       .part = {},
                       .bytes = bytes,
                       .x = x_MX.data_ptr(),
                       .beside = float_data(float_beside_MX),
                       .stride = 0,
                       .dtype = {}};
  std::ranges::copy(parts, rows.part);
  std::int64_t columns = 0;
  for (const ObservationRows::Part& part : parts) columns += part.columns();
  rows.stride = round_up(columns, kWidthMultiple);
  const Tensor y_MP = torch::empty({rows.rows, rows.stride}, x_MX.options().dtype(dtype));
  rows.dtype = kernel_dtype(y_MP);
  observation_rows(rows, y_MP.data_ptr(), current_stream());
  return y_MP;
}

ObservationRows::Part part_of(const EncodedPart& part) {
  return {static_cast<int>(part.elements), part.table_VE.defined() ? static_cast<int>(part.table_VE.size(0)) : 0};
}
ObservationRows::Part part_of(const ObservationPart& part) {
  return {static_cast<int>(part.elements()), part.kind == PartKind::kTokens ? static_cast<int>(part.values) : 0};
}
template <class Part>
std::vector<ObservationRows::Part> parts_of(const std::vector<Part>& parts) {
  std::vector<ObservationRows::Part> all;
  for (const Part& part : parts) all.push_back(part_of(part));
  return all;
}

// [D, F], F of the parts as the linear map reads them, as a map [D, K] of one-hot vectors and quantities. float32, in
// whatever type products are computed around it: it is packed as a parameter is.
Tensor one_hot_weight(const Tensor& weight_DF, const std::vector<EncodedPart>& parts) {
  const ComputeIn own(weight_DF.device(), torch::kFloat32);
  std::vector<std::int64_t> widths;
  for (const auto& [elements, table_VE] : parts)
    widths.push_back(elements * (table_VE.defined() ? table_VE.size(1) : 1));
  std::vector<Tensor> all = weight_DF.split_with_sizes(widths, 1);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (const Tensor& table_VE = parts[i].table_VE; table_VE.defined())
      all[i] = all[i].unflatten(1, {parts[i].elements, table_VE.size(1)}).matmul(table_VE.t()).flatten(1);
  return all.size() == 1 ? all[0] : torch::cat(all, 1);
}

}  // namespace

Support supports_encoder(const EncoderSizes& sizes, torch::ScalarType dtype, torch::Device device) {
  if (Support on_device = supports_device(dtype, device); !on_device) return on_device;
  if (Support own = at_most("an observation's number of parts", sizes.parts, kMaxObservationParts); !own) return own;
  for (const std::int64_t outputs : sizes.convolution_outputs)
    if (Support own = at_most("a convolution's number of outputs", outputs, kMaxConvolutionOutputs); !own) return own;
  return {};
}

Tensor encode_image(const Tensor& image_MX, torch::ScalarType dtype, const std::vector<std::int64_t>& shape,
                    const std::vector<LayerWeights>& convolutions, const LayerWeights& linear) {
  std::vector<LinearLayer> layers;
  auto height = static_cast<int>(shape[1]), width = static_cast<int>(shape[2]);
  for (const LayerWeights& convolution : convolutions) {
    const ConvolutionShape own = shape_of(convolution, height, width);
    const variable_list dense = PreparedWeights::made({convolution.weight, convolution.bias}, [convolution, own] {
      return DenseConvolutionFunction::apply(convolution.weight, convolution.bias, own);
    });
    layers.push_back({dense[0], dense[1], Activation::kRelu});
    height = own.output_height();
    width = own.output_width();
  }
  layers.push_back({linear.weight, linear.bias, Activation::kNone});
  return from_rows(linear_layers(input_rows(image_MX, {{static_cast<int>(image_MX.size(1)), 0}}, dtype), layers),
                   {image_MX.size(0), linear.weight.size(0)});
}

Tensor encode_parts(const Tensor& observation_MX, torch::ScalarType dtype, const std::vector<EncodedPart>& parts,
                    const LayerWeights& linear) {
  Tensor weight_DK = linear.weight;
  std::vector<Tensor> of{linear.weight};
  for (const EncodedPart& part : parts)
    if (part.table_VE.defined()) of.push_back(part.table_VE);
  if (of.size() > 1)
    weight_DK = PreparedWeights::made(
        of, [weight = linear.weight, parts] { return std::vector<Tensor>{one_hot_weight(weight, parts)}; })[0];
  return from_rows(
      linear_layers(input_rows(observation_MX, parts_of(parts), dtype), {{weight_DK, linear.bias, Activation::kRelu}}),
      {observation_MX.size(0), linear.weight.size(0)});
}

Tensor encode_jointly(const SeenParts& observation, const SeenParts& beside, torch::ScalarType dtype,
                      const LayerWeights& to_hidden, const LayerWeights& to_width) {
  std::vector<ObservationRows::Part> parts = parts_of(observation.parts);
  for (const ObservationPart& part : beside.parts) parts.push_back(part_of(part));
  const Tensor rows = input_rows(observation.x_MX, parts, dtype, beside.x_MX, beside.parts.size());
  const std::int64_t count = rows.size(0), hidden = to_hidden.weight.size(0);
  const Tensor features = linear_layers(rows, {{to_hidden.weight, to_hidden.bias, Activation::kNone}});
  const Tensor normal = to_rows(layer_normed(from_rows(features, {count, hidden})));
  return from_rows(linear_layers(normal, {{to_width.weight, to_width.bias, Activation::kLeakyRelu}}),
                   {count, to_width.weight.size(0)});
}

}  // namespace engram::cuda
