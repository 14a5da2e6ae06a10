#include "memory/bench/vector_decay.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/fast_weights/vector_decay/reference.h"
#include "kernels/fast_weights/vector_decay/vector_decay.h"
#include "memory/bench/kernel_case.h"
#include "memory/ops/fast_weight_ops.h"
#include "memory/ops/vector_decay_cuda.h"

namespace engram {
namespace {

using torch::Tensor;

// All rows of full length; the shape's width is that of values, keys have half of it, as in the published form.
class VectorDecayBench {
  // q, k, v and the logarithms of decays.
  enum Input { kQuery, kKey, kValue, kLogDecay };

 public:
  explicit VectorDecayBench(const KernelShape& shape)
      : shape_(shape),
        key_width_(shape.width / 2),
        length_B_(torch::full({shape.batch}, shape.time, on_gpu(torch::kInt64))),
        d_output_BTHV_(vectors(shape.width)),
        // A decay keeps some 96% a step, as at the first weights.
        inputs_(leaves(
            {vectors(key_width_), vectors(key_width_), vectors(shape.width), -0.04 * vectors(key_width_).abs()})),
        output_BTHV_(torch::empty_like(d_output_BTHV_)) {
    for (const Tensor& input : inputs_) gradients_.push_back(torch::empty_like(input.detach()));
  }

  void forward(cudaStream_t stream) const { vector_decay_forward(problem(), output_BTHV_.data_ptr<float>(), stream); }
  void backward(cudaStream_t stream) const {
    const auto of = [&](Input input) { return gradients_[input].data_ptr<float>(); };
    vector_decay_backward(problem(), d_output_BTHV_.const_data_ptr<float>(),
                          {of(kQuery), of(kKey), of(kValue), of(kLogDecay)}, stream);
  }

  ForwardBackward check() const {
    forward(nullptr);
    backward(nullptr);
    const auto some = [&](const Tensor& x) { return all_heads_checked(x.detach(), shape_); };
    const auto some_input = [&](Input input) { return numbers(some(inputs_[input])); };
    const VectorDecayReferenceInput input{shape_.checked_rows(),
                                          shape_.time,
                                          shape_.heads,
                                          static_cast<int>(key_width_),
                                          shape_.width,
                                          problem().scale,
                                          some_input(kQuery),
                                          some_input(kKey),
                                          some_input(kValue),
                                          some_input(kLogDecay),
                                          std::vector<int>(shape_.checked_rows(), shape_.time)};
    const VectorDecayReferenceGradient gradient = vector_decay_reference_backward(input, numbers(some(d_output_BTHV_)));
    WorstError forward_error(shape_), backward_error(shape_);
    const auto compare = [&](WorstError& error, const Tensor& actual, const std::vector<double>& expected) {
      error.compare(some(actual), tensor_of(expected, some(actual).sizes()));
    };
    compare(forward_error, output_BTHV_, vector_decay_reference(input));
    compare(backward_error, gradients_[kQuery], gradient.query_BTHK);
    compare(backward_error, gradients_[kKey], gradient.key_BTHK);
    compare(backward_error, gradients_[kValue], gradient.value_BTHV);
    compare(backward_error, gradients_[kLogDecay], gradient.log_decay_BTHK);
    return {forward_error.get(), backward_error.get()};
  }

  Tensor plain_forward() const {
    const Tensor write_BTH = torch::ones_like(inputs_[kValue].detach().select(3, 0));
    const Tensor state_BHKV =
        torch::zeros({shape_.batch, shape_.heads, key_width_, shape_.width}, on_gpu(torch::kFloat32));
    return fast_weights(FastWeightRule{},
                        {inputs_[kQuery], inputs_[kKey], inputs_[kValue], write_BTH, inputs_[kLogDecay]},
                        {state_BHKV, {}, {}}, length_B_)
        .output_BTHV;
  }
  void plain_forward_and_backward() const { torch::autograd::grad({plain_forward()}, inputs_, {d_output_BTHV_}); }

 private:
  Tensor vectors(std::int64_t width) const {
    return torch::randn({shape_.batch, shape_.time, shape_.heads, width}, on_gpu(torch::kFloat32));
  }
  VectorDecay problem() const {
    const auto of = [&](Input input) { return inputs_[input].const_data_ptr<float>(); };
    return {.batch = shape_.batch,
            .time = shape_.time,
            .heads = shape_.heads,
            .key_width = static_cast<int>(key_width_),
            .value_width = shape_.width,
            .scale = static_cast<float>(read_scale(AttentionNorm::kNone, key_width_)),
            .query_BTHK = of(kQuery),
            .key_BTHK = of(kKey),
            .value_BTHV = of(kValue),
            .log_decay_BTHK = of(kLogDecay),
            .length_B = length_B_.const_data_ptr<std::int64_t>()};
  }

  const KernelShape shape_;
  const std::int64_t key_width_;
  const Tensor length_B_, d_output_BTHV_;
  const std::vector<Tensor> inputs_;
  const Tensor output_BTHV_;
  std::vector<Tensor> gradients_;
};

// The delta rule, values and keys of one width, as in the published form. What is checked is the whole operation, what
// is timed its kernels, without the copies that make two steps of one.
class VectorDeltaBench {
  enum Input { kQuery, kKey, kValue, kStrength, kLogDecay };

 public:
  explicit VectorDeltaBench(const KernelShape& shape)
      : shape_(shape),
        length_B_(torch::full({shape.batch}, shape.time, on_gpu(torch::kInt64))),
        d_output_BTHV_(vectors()),
        inputs_(leaves(
            {vectors(), unit(vectors()), vectors(), torch::sigmoid(vectors().select(3, 0)), -0.04 * vectors().abs()})),
        output_BTHV_(torch::empty_like(d_output_BTHV_)),
        error_BTHV_(torch::empty_like(d_output_BTHV_)),
        two_steps_BTHX_(torch::randn({shape.batch, 2 * shape.time, shape.heads, shape.width}, output_BTHV_.options())),
        decays_BTHX_(-0.04 * two_steps_BTHX_.abs()) {
    for (Tensor* const gradient : {&d_query_, &d_key_, &d_decay_}) *gradient = torch::empty_like(two_steps_BTHX_);
  }

  void forward(cudaStream_t stream) const {
    vector_delta_forward(problem(), output_BTHV_.data_ptr<float>(), error_BTHV_.data_ptr<float>(), stream);
  }
  void backward(cudaStream_t stream) const {
    vector_delta_backward(problem(), d_output_BTHV_.const_data_ptr<float>(), error_BTHV_.data_ptr<float>(), stream);
    const auto* const vectors = two_steps_BTHX_.const_data_ptr<float>();
    vector_decay_backward(
        {shape_.batch, 2 * shape_.time, shape_.heads, shape_.width, shape_.width, 1, vectors, vectors, vectors,
         decays_BTHX_.const_data_ptr<float>(), lengths_twice_B_.const_data_ptr<std::int64_t>()},
        vectors, {d_query_.data_ptr<float>(), d_key_.data_ptr<float>(), nullptr, d_decay_.data_ptr<float>()}, stream);
  }

  ForwardBackward check() const {
    const auto some = [&](const Tensor& x) { return all_heads_checked(x.detach(), shape_); };
    const Tensor output = cuda::vector_decay({/*delta=*/true, shape_.scale(), inputs_[kQuery], inputs_[kKey],
                                              inputs_[kValue], inputs_[kStrength], inputs_[kLogDecay]},
                                             length_B_);
    const auto gradients = torch::autograd::grad({output}, inputs_, {d_output_BTHV_});
    std::vector<Tensor> exact;
    for (const Tensor& input : inputs_) exact.push_back(some(input));
    exact = leaves(exact);
    const Tensor expected = definition(exact, torch::full({exact[kKey].size(0)}, shape_.time, torch::kInt64));
    const auto expected_gradients = torch::autograd::grad({expected}, exact, {some(d_output_BTHV_)});
    WorstError forward_error(shape_), backward_error(shape_);
    forward_error.compare(some(output), expected.detach());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      backward_error.compare(some(gradients[i]), expected_gradients[i]);
    return {forward_error.get(), backward_error.get()};
  }

  Tensor plain_forward() const { return definition(inputs_, length_B_); }
  void plain_forward_and_backward() const { torch::autograd::grad({plain_forward()}, inputs_, {d_output_BTHV_}); }

 private:
  Tensor vectors() const {
    return torch::randn({shape_.batch, shape_.time, shape_.heads, shape_.width}, on_gpu(torch::kFloat32));
  }
  static Tensor unit(const Tensor& x) { return x / x.norm(2, {-1}, /*keepdim=*/true); }
  static Tensor definition(const std::vector<Tensor>& x, const Tensor& lengths_B) {
    const Tensor &key = x[kKey], state_BHKV = torch::zeros({key.size(0), key.size(2), key.size(3), key.size(3)},
                                                           key.options().requires_grad(false));
    return fast_weights(FastWeightRule{.delta = true}, {x[kQuery], key, x[kValue], x[kStrength], x[kLogDecay]},
                        {state_BHKV, {}, {}}, lengths_B)
        .output_BTHV;
  }
  VectorDelta problem() const {
    const auto of = [&](Input input) { return inputs_[input].const_data_ptr<float>(); };
    return {{shape_.batch, shape_.time, shape_.heads, shape_.width, shape_.width, shape_.scale(), of(kQuery), of(kKey),
             of(kValue), of(kLogDecay), length_B_.const_data_ptr<std::int64_t>()},
            of(kStrength)};
  }

  const KernelShape shape_;
  const Tensor length_B_, lengths_twice_B_ = 2 * length_B_, d_output_BTHV_;
  const std::vector<Tensor> inputs_;
  const Tensor output_BTHV_, error_BTHV_, two_steps_BTHX_, decays_BTHX_;
  Tensor d_query_, d_key_, d_decay_;
};

// Operations of an element of S: forward a product and two multiply-adds; backward those of three such walks. Bytes:
// vectors in and out.
KernelRow vector_decay_row(const KernelShape& shape) {
  const auto bench = std::make_shared<VectorDecayBench>(shape);
  const double values = shape.vectors() * shape.width, keys = values / 2, elements = keys * shape.width;
  return with_work({.operation = "sum rule, a decay a channel, float",
                    .shape = shape.text(),
                    .flops = {5 * elements, 15 * elements},
                    .bytes = {sizeof(float) * (3 * keys + 2 * values), sizeof(float) * (6 * keys + 3 * values)},
                    .bound = {1e-5, 1e-4}},
                   bench);
}

// Forward a product and three multiply-adds an element of S, backward the same and two of the sum rule's walks of twice
// the steps.
KernelRow vector_delta_row(const KernelShape& shape) {
  const auto bench = std::make_shared<VectorDeltaBench>(shape);
  const double vectors = shape.vectors() * shape.width, elements = vectors * shape.width;
  return with_work({.operation = "delta rule, a decay a channel, float",
                    .shape = shape.text(),
                    .flops = {7 * elements, 27 * elements},
                    .bytes = {sizeof(float) * 6 * vectors, sizeof(float) * 13 * vectors},
                    .bound = {1e-5, 1e-4}},
                   bench);
}

}  // namespace

std::vector<std::function<KernelRow()>> vector_decay_rows() {
  const std::vector<KernelShape> shapes = {{32, 118, 2, 32, 32}, {64, 781, 2, 50, 50}};
  std::vector<std::function<KernelRow()>> rows = rows_of(shapes, vector_decay_row);
  for (const auto& row : rows_of(shapes, vector_delta_row)) rows.push_back(row);
  return rows;
}

}  // namespace engram
