#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/common/tensor_core.cuh"
#include "kernels/heads/mlp_heads/layout.cuh"
#include "kernels/heads/mlp_heads/tiles.cuh"

namespace engram {

Support supports_mlp_heads_limits(const MlpHeadsShape& s) {
  const auto no = [](std::int64_t value, const char* why) { return Support::no(std::to_string(value) + why); };
  if (s.rows < 1 || s.rows >= std::int64_t{1} << 31) return no(s.rows, " rows are not 1 .. 2^31 - 1");
  if (s.stride > 128) return no(s.stride, " channels are more than 128");
  if (s.stride < 16 || s.stride % 16 != 0) return no(s.stride, " channels are not a multiple of 16");
  if (s.width < 1 || s.width > s.stride) return no(s.width, " channels do not fit their rows");
  if (s.outputs < 1 || s.outputs > mlp::kMostOutputs) return no(s.outputs, " outputs are not 1 .. 16");
  if (s.heads < 1 || s.heads > kMaxMlpHeads) return no(s.heads, " heads are not 1 .. 8");
  if (s.kept < 0 || s.kept > s.heads) return no(s.kept, " kept heads are more than there are");
  return {};
}

Support supports_mlp_heads_sizes(const MlpHeadsShape& s) {
  if (Support limits = supports_mlp_heads_limits(s); !limits) return limits;
  if (s.hidden == mlp::kHidden) return {};
  return Support::no("hidden width " + std::to_string(s.hidden) + " is not 256");
}

namespace mlp {

void check_shape(const MlpHeadsShape& s, const char* what) {
  const Support sizes = supports_mlp_heads_sizes(s);
  if (!sizes) throw std::runtime_error(std::string(what) + ": " + sizes.reason());
}

namespace {

struct PackArguments {
  MlpHeadWeights head[kMaxMlpHeads];
  unsigned char* packed;
  int width, outputs, heads;
};

// Eight elements of a row in the order of hidden units (or of channels) as one vector.
template <typename Element>
__device__ uint4 vector_of(const Element& element) {
  return make_uint4(pack_bf16(element(0), element(1)), pack_bf16(element(2), element(3)),
                    pack_bf16(element(4), element(5)), pack_bf16(element(6), element(7)));
}

// A vector of a forward image: of thread `i` of as many as there are vectors.
template <int kWidth>
__device__ void pack_forward(const MlpHeadWeights& w, int width, int outputs, unsigned char* image, int i) {
  using Image = ForwardImage<kWidth>;
  const int byte = 16 * i;
  uint4 vector;
  if (byte < Image::kBias1) {
    const int n = i % kHidden, k = i / kHidden * 8;
    const float* row = w.weight1_ID + hidden_unit(n) * width;
    vector = vector_of([&](int e) { return channel(k + e) < width ? row[channel(k + e)] : 0.0f; });
  } else if (byte >= Image::kWeight2 && byte < Image::kBias2) {
    const int inside = i - Image::kWeight2 / 16, n = inside % kHidden, k = inside / kHidden * 8;
    const float* row = w.weight2_II + hidden_unit(n) * kHidden;
    vector = vector_of([&](int e) { return row[hidden_unit(k + e)]; });
  } else if (byte >= Image::kWeight3 && byte < Image::kBias3) {  // two lanes' fragments
    vector = vector_of([&](int e) {
      const int fragment = (byte - Image::kWeight3) / 8 + e / 4, lane = fragment % 32, step = fragment / 32 % 16;
      const int output = fragment / (32 * 16) * 8 + lane / 4, k = 16 * step + e / 2 % 2 * 8 + lane % 4 * 2 + e % 2;
      return output < outputs ? w.weight3_AI[output * kHidden + hidden_unit(k)] : 0.0f;
    });
  } else {  // biases, float
    const auto bias = [&](int e) {
      const int number = byte / 4 + e;
      if (byte < Image::kWeight2) return w.bias1_I[hidden_unit(number - Image::kBias1 / 4)];
      if (byte < Image::kWeight3) return w.bias2_I[hidden_unit(number - Image::kBias2 / 4)];
      const int output = number - Image::kBias3 / 4;
      return output < outputs ? w.bias3_A[output] : 0.0f;
    };
    vector = make_uint4(__float_as_uint(bias(0)), __float_as_uint(bias(1)), __float_as_uint(bias(2)),
                        __float_as_uint(bias(3)));
  }
  *reinterpret_cast<uint4*>(image + byte) = vector;
}

// The same of a backward image.
template <int kWidth>
__device__ void pack_backward(const MlpHeadWeights& w, int width, int outputs, unsigned char* image, int i) {
  using Image = BackwardImage<kWidth>;
  uint4 vector;
  if (i < Image::kWeight2 / 16) {  // two lanes' fragments
    vector = vector_of([&](int e) {
      const int fragment = 2 * i + e / 4, lane = fragment % 32, n = fragment / 32 * 8 + lane / 4;
      const int output = e / 2 % 2 * 8 + lane % 4 * 2 + e % 2;
      return output < outputs ? w.weight3_AI[output * kHidden + hidden_unit(n)] : 0.0f;
    });
  } else {
    const int vectors = i - Image::kWeight2 / 16, half = vectors / (Image::kHalfBytes / 16);
    const int inside = vectors % (Image::kHalfBytes / 16), first = half * Image::kHalf;
    if (inside < Image::Weight2::kBytes / 16) {
      const int n = first + inside % Image::kHalf, k = inside / Image::kHalf * 8;
      vector = vector_of([&](int e) { return w.weight2_II[hidden_unit(k + e) * kHidden + hidden_unit(n)]; });
    } else {
      const int place = inside - Image::Weight2::kBytes / 16, n = channel(place % kWidth);
      const int k = first + place / kWidth * 8;
      vector = vector_of([&](int e) { return n < width ? w.weight1_ID[hidden_unit(k + e) * width + n] : 0.0f; });
    }
  }
  reinterpret_cast<uint4*>(image)[i] = vector;
}

// blockIdx.y: the forward images, then the backward ones. One thread for each vector of 16 bytes.
template <int kWidth>
__global__ void pack_kernel(PackArguments a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, image = blockIdx.y;
  constexpr int kForward = ForwardImage<kWidth>::kBytes, kBackward = BackwardImage<kWidth>::kBytes;
  if (image < a.heads) {
    if (i < kForward / 16) pack_forward<kWidth>(a.head[image], a.width, a.outputs, a.packed + image * kForward, i);
  } else {
    const int head = image - a.heads;
    if (i < kBackward / 16)
      pack_backward<kWidth>(a.head[head], a.width, a.outputs, a.packed + a.heads * kForward + head * kBackward, i);
  }
}

}  // namespace
}  // namespace mlp

std::size_t mlp_heads_packed_bytes(const MlpHeadsShape& shape) {
  const int width = mlp::kernel_width(shape.stride);
  return shape.heads * mlp::forward_image_bytes(width) + shape.kept * mlp::backward_image_bytes(width);
}

void mlp_heads_pack(const MlpHeadsShape& shape, const std::vector<MlpHeadWeights>& weights, void* packed,
                    cudaStream_t stream) {
  mlp::check_shape(shape, "mlp_heads_pack");
  if (static_cast<int>(weights.size()) != shape.heads)
    throw std::runtime_error("mlp_heads_pack: weights of " + std::to_string(weights.size()) + " heads, not " +
                             std::to_string(shape.heads));
  mlp::PackArguments arguments{};
  std::copy(weights.begin(), weights.end(), arguments.head);
  arguments.packed = static_cast<unsigned char*>(packed);
  arguments.width = shape.width;
  arguments.outputs = shape.outputs;
  arguments.heads = shape.heads;
  mlp::for_width(shape, [&](auto width) {
    constexpr int kPackThreads = 256;
    constexpr int kVectors = std::max(mlp::ForwardImage<width>::kBytes, mlp::BackwardImage<width>::kBytes) / 16;
    const dim3 grid((kVectors + kPackThreads - 1) / kPackThreads, static_cast<unsigned>(shape.heads + shape.kept));
    mlp::pack_kernel<width><<<grid, kPackThreads, 0, stream>>>(arguments);
  });
  check_cuda(cudaGetLastError(), "mlp_heads_pack");
}

}  // namespace engram
