#include "nn/cpu/image_encoder.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nn/cpu/kernels.h"
#include "nn/cpu/rows.h"

namespace engram::cpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kImages = 60;  // of a block; kBlockRows is a multiple of it
constexpr std::int64_t kPatch = 4;    // of 2 x 2

float* floats_of(const Tensor& x) { return static_cast<float*>(x.data_ptr()); }

// Places are the outputs of a convolution, row by row. Activations are [images, places, channels], patches of them
// [images, places, 2, 2, channels]; those of an image [images, places, channels, 2, 2].
struct Convolutions {
  std::int64_t channels, rows, columns, first_channels, second_channels, width;

  std::int64_t pixels() const { return channels * rows * columns; }
  std::int64_t places1() const { return (rows - 1) * (columns - 1); }
  std::int64_t places2() const { return (rows - 2) * (columns - 2); }
  std::int64_t features() const { return places2() * second_channels; }
  LayerSizes layer1(std::int64_t images) const { return {images * places1(), first_channels, channels * kPatch}; }
  LayerSizes layer2(std::int64_t images) const {
    return {images * places2(), second_channels, first_channels * kPatch};
  }
  LayerSizes layer3(std::int64_t images) const { return {images, width, features()}; }
};

// Of one block of images.
struct Buffers {
  float *scratch, *patches1, *active1, *patches2, *active2, *gradient2, *gradient_patches, *gradient1;

  static std::int64_t products(const Convolutions& c) {
    return product_scratch(std::max({c.features(), c.width, c.first_channels * kPatch, c.channels * kPatch}));
  }
  static std::int64_t floats(const Convolutions& c) {
    const std::int64_t one = c.places1() * (c.channels * kPatch + 2 * c.first_channels) +
                             c.places2() * (2 * c.first_channels * kPatch + 2 * c.second_channels);
    return products(c) + kImages * one;
  }
  Buffers(const Convolutions& c, float* memory) {
    const auto take = [&memory](std::int64_t count) {
      float* const own = memory;
      memory += count;
      return own;
    };
    scratch = take(products(c));
    patches1 = take(kImages * c.places1() * c.channels * kPatch);
    active1 = take(kImages * c.places1() * c.first_channels);
    gradient1 = take(kImages * c.places1() * c.first_channels);
    patches2 = take(kImages * c.places2() * c.first_channels * kPatch);
    gradient_patches = take(kImages * c.places2() * c.first_channels * kPatch);
    active2 = take(kImages * c.places2() * c.second_channels);
    gradient2 = take(kImages * c.places2() * c.second_channels);
  }
};

// As the products take them: the second convolution's as [P, 2, 2, N], the linear map's as [D, places, P].
struct Weights {
  Tensor convolution1, bias1, convolution2, bias2, linear, bias;

  Weights(const Convolutions& c, const variable_list& w)
      : convolution1(w[0].contiguous()),
        bias1(w[1]),
        convolution2(w[2].permute({0, 2, 3, 1}).contiguous()),
        bias2(w[3]),
        linear(w[4].view({c.width, c.second_channels, c.places2()}).transpose(1, 2).contiguous()),
        bias(w[5]) {}
};

// Whether a byte's quotient is looked up or computed makes no difference.
const float* quotients() {
  static const std::vector<float> table = [] {
    std::vector<float> all(256);
    for (int i = 0; i < 256; ++i) all[static_cast<std::size_t>(i)] = static_cast<float>(i) / 255.0f;
    return all;
  }();
  return table.data();
}

void patches_of_images(const Convolutions& c, const std::uint8_t* image, std::int64_t images, float* to) {
  const float* const quotient = quotients();
  for (std::int64_t i = 0; i < images; ++i, image += c.pixels())
    for (std::int64_t y = 0; y + 1 < c.rows; ++y)
      for (std::int64_t x = 0; x + 1 < c.columns; ++x)
        for (std::int64_t channel = 0; channel < c.channels; ++channel) {
          const std::uint8_t* const at = image + (channel * c.rows + y) * c.columns + x;
          *to++ = quotient[at[0]];
          *to++ = quotient[at[1]];
          *to++ = quotient[at[c.columns]];
          *to++ = quotient[at[c.columns + 1]];
        }
}

// work(patch's number, place in `active` of each of its four) over the second convolution's patches.
template <class Work>
void each_patch(const Convolutions& c, std::int64_t images, Work work) {
  const std::int64_t across = c.columns - 1;
  std::int64_t patch = 0;
  for (std::int64_t i = 0; i < images; ++i)
    for (std::int64_t y = 0; y + 2 < c.rows; ++y)
      for (std::int64_t x = 0; x + 2 < c.columns; ++x, ++patch) {
        const std::int64_t place = i * c.places1() + y * across + x;
        work(patch * kPatch, place);
        work(patch * kPatch + 1, place + 1);
        work(patch * kPatch + 2, place + across);
        work(patch * kPatch + 3, place + across + 1);
      }
}

// Fills the buffers up to active2.
void convolve(const Convolutions& c, const Weights& w, const std::uint8_t* image, std::int64_t images,
              const Buffers& b) {
  patches_of_images(c, image, images, b.patches1);
  layer(c.layer1(images), b.patches1, floats_of(w.convolution1), floats_of(w.bias1), b.active1, true, b.scratch);
  const std::int64_t channels = c.first_channels;
  each_patch(c, images, [&](std::int64_t to, std::int64_t from) {
    std::copy_n(b.active1 + from * channels, channels, b.patches2 + to * channels);
  });
  layer(c.layer2(images), b.patches2, floats_of(w.convolution2), floats_of(w.bias2), b.active2, true, b.scratch);
}

class ImageEncoderFunction : public torch::autograd::Function<ImageEncoderFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& image_MX, at::TensorList weights, std::int64_t channels,
                        std::int64_t rows, std::int64_t columns) {
    const Tensor image = image_MX.contiguous();
    const variable_list given = weights.vec();
    const Convolutions c{channels, rows, columns, given[0].size(0), given[2].size(0), given[4].size(0)};
    const Weights w(c, given);
    const std::int64_t all = image.size(0);
    const Tensor y = torch::empty({all, c.width}, torch::kFloat32);
    const auto* const bytes = image.const_data_ptr<std::uint8_t>();
    in_blocks(
        all,
        [&](std::int64_t first, std::int64_t count, float* memory) {
          const Buffers b(c, memory);
          for (std::int64_t at = first; at < first + count; at += kImages) {
            const std::int64_t images = std::min(kImages, first + count - at);
            convolve(c, w, bytes + at * c.pixels(), images, b);
            layer(c.layer3(images), b.active2, floats_of(w.linear), floats_of(w.bias), floats_of(y) + at * c.width,
                  false, b.scratch);
          }
        },
        Buffers::floats(c));
    variable_list saved{image};
    saved.insert(saved.end(), given.begin(), given.end());
    context->save_for_backward(saved);
    context->saved_data["shape"] = std::vector<std::int64_t>{channels, rows, columns};
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const variable_list given(saved.begin() + 1, saved.end());
    const auto shape = context->saved_data["shape"].toIntVector();
    const Convolutions c{shape[0], shape[1], shape[2], given[0].size(0), given[2].size(0), given[4].size(0)};
    const Weights w(c, given);
    const Tensor image = saved[0], d_y = gradient[0].contiguous();
    const auto* const bytes = image.const_data_ptr<std::uint8_t>();
    const std::int64_t channels = c.first_channels;
    Sums sums({w.convolution1.sizes(), w.bias1.sizes(), w.convolution2.sizes(), w.bias2.sizes(), w.linear.sizes(),
               w.bias.sizes()});
    in_parts(image.size(0), sums, Buffers::floats(c),
             [&](std::int64_t first, std::int64_t count, float* const* sum, float* memory) {
               const Buffers b(c, memory);
               for (std::int64_t at = first; at < first + count; at += kImages) {
                 const std::int64_t images = std::min(kImages, first + count - at);
                 convolve(c, w, bytes + at * c.pixels(), images, b);
                 const float* const d = floats_of(d_y) + at * c.width;
                 add_weight_gradient(c.layer3(images), d, b.active2, sum[4], b.scratch);
                 kernels().add_column_sums(d, images, c.width, sum[5]);
                 layer_input_gradient(c.layer3(images), d, floats_of(w.linear), b.gradient2, false, b.active2,
                                      b.scratch);
                 add_weight_gradient(c.layer2(images), b.gradient2, b.patches2, sum[2], b.scratch);
                 kernels().add_column_sums(b.gradient2, images * c.places2(), c.second_channels, sum[3]);
                 layer_input_gradient(c.layer2(images), b.gradient2, floats_of(w.convolution2), b.gradient_patches,
                                      false, nullptr, b.scratch);
                 std::fill_n(b.gradient1, images * c.places1() * channels, 0.0f);
                 each_patch(c, images, [&](std::int64_t from, std::int64_t to) {
                   for (std::int64_t i = 0; i < channels; ++i)
                     b.gradient1[to * channels + i] += b.gradient_patches[from * channels + i];
                 });
                 for (std::int64_t i = 0; i < images * c.places1() * channels; ++i)
                   b.gradient1[i] = b.active1[i] <= 0 ? 0.0f : b.gradient1[i];
                 add_weight_gradient(c.layer1(images), b.gradient1, b.patches1, sum[0], b.scratch);
                 kernels().add_column_sums(b.gradient1, images * c.places1(), channels, sum[1]);
               }
             });
    const variable_list d = sums.total();
    return {Tensor(), d[0],
            d[1],     d[2].permute({0, 3, 1, 2}).contiguous(),
            d[3],     d[4].transpose(1, 2).reshape(given[4].sizes()),
            d[5],     Tensor(),
            Tensor(), Tensor()};
  }
};

}  // namespace

Tensor encode_image(const Tensor& image_MX, const std::array<std::int64_t, 3>& shape, const ImageEncoderWeights& w) {
  const variable_list weights{w.convolution1, w.bias1, w.convolution2, w.bias2, w.linear, w.bias};
  return ImageEncoderFunction::apply(image_MX, at::TensorList(weights), shape[0], shape[1], shape[2]);
}

}  // namespace engram::cpu
