#include "memory/bench/hadamard_memory.h"

#include <cstdint>
#include <memory>

#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"
#include "kernels/fast_weights/hadamard_memory/reference.h"
#include "memory/bench/kernel_case.h"
#include "memory/ops/hadamard_memory.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr double kLimit = 100;  // shm's

// All rows of full length.
class HadamardMemoryBench {
  // theta, c, v, k and q, and the first M.
  enum Input { kTheta, kC, kValue, kKey, kQuery, kFirst, kInputs };

 public:
  explicit HadamardMemoryBench(const KernelShape& shape)
      : shape_(shape),
        length_B_(torch::full({shape.batch}, shape.time, on_gpu(torch::kInt64))),
        d_h_BTH_(vectors(1)),
        // Calibrations that let a matrix of any length neither grow nor vanish within a float.
        inputs_(leaves({vectors(0.3), vectors(0.3), vectors(1), vectors(1), vectors(1),
                        torch::zeros({shape.batch, shape.width, shape.width}, on_gpu(torch::kFloat32))})),
        checkpoints_(torch::empty({static_cast<std::int64_t>(hadamard_memory_checkpoint_bytes(problem()))},
                                  on_gpu(torch::kUInt8))),
        scratch_(
            torch::empty({static_cast<std::int64_t>(hadamard_memory_scratch_bytes(problem()))}, on_gpu(torch::kUInt8))),
        h_BTH_(torch::empty_like(d_h_BTH_)),
        last_BHH_(torch::empty_like(inputs_[kFirst].detach())) {
    for (const Tensor& input : inputs_) gradients_.push_back(torch::empty_like(input.detach()));
  }

  void forward(cudaStream_t stream) const {
    hadamard_memory_forward(problem(), h_BTH_.data_ptr<float>(), last_BHH_.data_ptr<float>(), checkpoints_.data_ptr(),
                            stream);
  }
  void backward(cudaStream_t stream) const {
    const auto of = [&](Input input) { return gradients_[input].data_ptr<float>(); };
    hadamard_memory_backward(problem(), {checkpoints_.data_ptr(), d_h_BTH_.data_ptr<float>(), nullptr},
                             {of(kTheta), of(kC), of(kValue), of(kKey), of(kQuery), of(kFirst)}, scratch_.data_ptr(),
                             stream);
  }

  ForwardBackward check() const {
    forward(nullptr);
    backward(nullptr);
    const auto some = [&](const Tensor& x) { return all_heads_checked(x.detach(), shape_); };
    const auto some_input = [&](Input input) { return numbers(some(inputs_[input])); };
    const HadamardMemoryReferenceInput input{shape_.checked_rows(),
                                             shape_.time,
                                             shape_.width,
                                             some_input(kTheta),
                                             some_input(kC),
                                             some_input(kValue),
                                             some_input(kKey),
                                             some_input(kQuery),
                                             some_input(kFirst),
                                             std::vector<int>(shape_.checked_rows(), shape_.time),
                                             kLimit};
    const HadamardMemoryReferenceOutput output = hadamard_memory_reference(input);
    const HadamardMemoryReferenceGradient gradient = hadamard_memory_reference_backward(
        input, {numbers(some(d_h_BTH_)), std::vector<double>(output.last_BHH.size())});
    WorstError forward_error(shape_), backward_error(shape_);
    const auto compare = [&](WorstError& error, const Tensor& actual, const std::vector<double>& expected) {
      error.compare(some(actual), tensor_of(expected, some(actual).sizes()));
    };
    compare(forward_error, h_BTH_, output.h_BTH);
    compare(forward_error, last_BHH_, output.last_BHH);
    compare(backward_error, gradients_[kTheta], gradient.theta_BTH);
    compare(backward_error, gradients_[kC], gradient.c_BTH);
    compare(backward_error, gradients_[kValue], gradient.value_BTH);
    compare(backward_error, gradients_[kKey], gradient.key_BTH);
    compare(backward_error, gradients_[kQuery], gradient.query_BTH);
    compare(backward_error, gradients_[kFirst], gradient.first_BHH);
    return {forward_error.get(), backward_error.get()};
  }

  Tensor plain_forward() const {
    return plain_hadamard_memory({inputs_[kTheta], inputs_[kC], inputs_[kValue], inputs_[kKey], inputs_[kQuery]},
                                 inputs_[kFirst], length_B_, kLimit)
        .h_BTH;
  }
  void plain_forward_and_backward() const { torch::autograd::grad({plain_forward()}, inputs_, {d_h_BTH_}); }

 private:
  Tensor vectors(double scale) const {
    return scale * torch::randn({shape_.batch, shape_.time, shape_.width}, on_gpu(torch::kFloat32));
  }
  HadamardMemory problem() const {
    const auto of = [&](Input input) { return inputs_[input].const_data_ptr<float>(); };
    return {shape_.batch,
            shape_.time,
            shape_.width,
            of(kTheta),
            of(kC),
            of(kValue),
            of(kKey),
            of(kQuery),
            of(kFirst),
            length_B_.const_data_ptr<std::int64_t>(),
            static_cast<float>(kLimit)};
  }

  const KernelShape shape_;
  const Tensor length_B_, d_h_BTH_;
  const std::vector<Tensor> inputs_;
  const Tensor checkpoints_, scratch_, h_BTH_, last_BHH_;
  std::vector<Tensor> gradients_;
};

// Operations of an element: forward C's product, tanh and sum, two multiply-adds more; backward C's, E's three, and two
// for each of five sums and for P four. Bytes: vectors and matrices in and out, without checkpoints.
KernelRow hadamard_memory_row(const KernelShape& shape) {
  const auto bench = std::make_shared<HadamardMemoryBench>(shape);
  const double vectors = shape.vectors() * shape.width, elements = vectors * shape.width;
  const double matrices = 1.0 * shape.batch * shape.width * shape.width;
  return with_work(
      {.operation = "Hadamard memory, float",
       .shape = shape.text(),
       .flops = {7 * elements, 20 * elements},
       .bytes = {sizeof(float) * (6 * vectors + 2 * matrices), sizeof(float) * (11 * vectors + 2 * matrices)},
       .bound = {hadamard_memory_output_bound(shape.time), 1e-4}},
      bench);
}

}  // namespace

std::vector<std::function<KernelRow()>> hadamard_memory_rows() {
  return rows_of({{32, 118, 1, 48, 48}, {64, 781, 1, 48, 48}}, hadamard_memory_row);
}

}  // namespace engram
