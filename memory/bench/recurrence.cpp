#include "memory/bench/recurrence.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/recurrences/linear_recurrence/linear_recurrence.h"
#include "kernels/recurrences/linear_recurrence/reference.h"
#include "kernels/recurrences/relu_recurrence/relu_recurrence.h"
#include "memory/bench/kernel_case.h"
#include "memory/ops/recurrences/linear_recurrence.h"
#include "memory/ops/recurrences/relu_recurrence.h"

namespace engram {
namespace {

using torch::Tensor;

struct RecurrenceShape {
  int batch, time, width;
  torch::ScalarType type;
  bool constant;  // a is [D]

  RecurrenceNumber number() const {
    if (type == torch::kFloat32) return RecurrenceNumber::kFloat32;
    return type == torch::kBFloat16 ? RecurrenceNumber::kBfloat16 : RecurrenceNumber::kComplex64;
  }
  bool is_complex() const { return type == torch::kComplexFloat; }
  torch::ScalarType state_type() const { return is_complex() ? type : torch::kFloat32; }
  std::string name() const {
    const char* const numbers = is_complex() ? "complex" : type == torch::kFloat32 ? "float" : "bfloat16";
    return std::string("linear recurrence, ") + numbers + (constant ? ", constant a" : "");
  }
  std::string text() const {
    return "B " + std::to_string(batch) + " T " + std::to_string(time) + " D " + std::to_string(width);
  }
  double elements() const { return 1.0 * batch * time * width; }
  double element_bytes() const { return static_cast<double>(torch::elementSize(type)); }
  // As the kernels' contract has it.
  double bound() const { return type == torch::kBFloat16 ? 0.005 : constant ? 2e-5 : 1e-6; }
};

// |a| at most 0.999.
Tensor random_factors(torch::IntArrayRef sizes, const RecurrenceShape& shape) {
  const auto uniform = [&] { return torch::rand(sizes, on_gpu(torch::kFloat32)); };
  const Tensor modulus = 0.999 * uniform().sqrt();
  return shape.is_complex() ? torch::polar(modulus, 6.2831853 * uniform()) : modulus;
}
Tensor random_numbers(torch::IntArrayRef sizes, torch::ScalarType type) {
  return torch::randn(sizes, on_gpu(type == torch::kComplexFloat ? type : torch::kFloat32)).to(type);
}

ComplexNumbers numbers_of(const Tensor& x) {
  const Tensor wide = x.detach().to(torch::kCPU, torch::kComplexDouble).contiguous();
  const auto* const data = reinterpret_cast<const std::complex<double>*>(wide.const_data_ptr<c10::complex<double>>());
  return {data, data + wide.numel()};
}

template <class Number>
double norm(const std::vector<Number>& x) {
  double squares = 0;
  for (const Number& element : x) squares += std::norm(element);
  return std::sqrt(squares);
}
double difference(ComplexNumbers actual, const ComplexNumbers& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) actual[i] -= expected[i];
  return norm(actual);
}
double worst(std::initializer_list<double> errors) {
  return std::ranges::any_of(errors, [](double x) { return std::isnan(x); }) ? NAN : std::max(errors);
}

class Recurrence {
 public:
  explicit Recurrence(const RecurrenceShape& shape)
      : shape_(shape),
        a_(shape.constant ? random_factors({shape.width}, shape) : random_factors(steps(), shape).to(shape.type)),
        b_BTD_(random_numbers(steps(), shape.type)),
        h0_BD_(random_numbers({shape.batch, shape.width}, shape.state_type())),
        d_h_BTD_(random_numbers(steps(), shape.type)),
        h_BTD_(torch::empty_like(b_BTD_)),
        d_a_(torch::empty_like(a_)),
        d_b_BTD_(torch::empty_like(b_BTD_)),
        d_h0_BD_(torch::empty_like(h0_BD_)),
        scratch_(torch::empty({static_cast<std::int64_t>(linear_recurrence_backward_scratch_bytes(problem()))},
                              on_gpu(torch::kUInt8))),
        inputs_(leaves({a_, b_BTD_, h0_BD_})) {}

  void forward(cudaStream_t stream) const {
    linear_recurrence_forward(problem(), b_BTD_.data_ptr(), h_BTD_.data_ptr(), nullptr, stream);
  }
  void backward(cudaStream_t stream) const {
    linear_recurrence_backward(problem(), {h_BTD_.data_ptr(), d_h_BTD_.data_ptr(), nullptr},
                               {d_a_.data_ptr(), d_b_BTD_.data_ptr(), d_h0_BD_.data_ptr()}, scratch_.data_ptr(),
                               stream);
  }

  // Rows do not depend on each other: the first and the last are compared, or all where a's gradient is their sum.
  ForwardBackward check() const {
    forward(nullptr);
    backward(nullptr);
    const int every = shape_.constant ? 1 : std::max(1, shape_.batch - 1);
    const auto some = [&](const Tensor& x) { return numbers_of(x.slice(0, 0, shape_.batch, every)); };
    const int rows = (shape_.batch + every - 1) / every;
    const LinearRecurrenceReferenceInput input{rows,
                                               shape_.time,
                                               shape_.width,
                                               shape_.constant,
                                               shape_.constant ? numbers_of(a_) : some(a_),
                                               some(b_BTD_),
                                               some(h0_BD_),
                                               std::vector<int>(rows, shape_.time)};
    const ComplexNumbers h_BTD = linear_recurrence_reference(input).h_BTD;
    const auto gradient = linear_recurrence_reference_backward(
        input, {some(d_h_BTD_), ComplexNumbers(static_cast<std::size_t>(rows) * shape_.width)});
    const double d_b = norm(gradient.b_BTD);
    const double d_a = difference(shape_.constant ? numbers_of(d_a_) : some(d_a_), gradient.a);
    // h0's gradient is float: what it is rounded to says nothing of bfloat16, and its share of d_b's RMS is its own.
    const double states = static_cast<double>(gradient.h0_BD.size()) / static_cast<double>(gradient.b_BTD.size());
    return {difference(some(h_BTD_), h_BTD) / norm(h_BTD),
            worst({d_a / norm(gradient.a_moduli), difference(some(d_b_BTD_), gradient.b_BTD) / d_b,
                   difference(some(d_h0_BD_), gradient.h0_BD) / (d_b * std::sqrt(states))})};
  }

  // In log2(T) passes, each of which joins every step with what lies twice as far before it (Hillis and Steele 1986): a
  // loop over time would be thousands of launches.
  void plain_forward() const { plain_output(); }
  void plain_forward_and_backward() const { torch::autograd::grad({plain_output()}, inputs_, {d_h_BTD_}); }

 private:
  std::vector<std::int64_t> steps() const { return {shape_.batch, shape_.time, shape_.width}; }
  LinearRecurrence problem() const {
    return {shape_.batch,    shape_.time,   shape_.width,      shape_.number(),
            shape_.constant, a_.data_ptr(), h0_BD_.data_ptr(), nullptr};
  }
  Tensor plain_output() const {
    return plain_linear_recurrence(inputs_[0].to(shape_.type), inputs_[1], inputs_[2].to(shape_.type));
  }

  const RecurrenceShape shape_;
  const Tensor a_, b_BTD_, h0_BD_, d_h_BTD_;
  const Tensor h_BTD_, d_a_, d_b_BTD_, d_h0_BD_, scratch_;
  const std::vector<Tensor> inputs_;
};

// Operations of an element: a multiplication and an addition, backward two and one, of complex numbers eight, fourteen.
// Bytes: an a of every step and b in, h out; backward a, h and its gradient in, a's and b's gradients out.
KernelRow recurrence_row(const RecurrenceShape& shape) {
  const auto recurrence = std::make_shared<Recurrence>(shape);
  const double elements = shape.elements(), bytes = elements * shape.element_bytes();
  return with_work({.operation = shape.name(),
                    .shape = shape.text(),
                    .flops = {(shape.is_complex() ? 8 : 2) * elements, (shape.is_complex() ? 14 : 3) * elements},
                    .bytes = {(shape.constant ? 2 : 3) * bytes, (shape.constant ? 3 : 5) * bytes},
                    .bound = {shape.bound(), shape.bound()}},
                   recurrence);
}

class ReluRecurrenceBench {
 public:
  ReluRecurrenceBench(int batch, int time, int width)
      : weight_D_(2 * torch::rand({width}, on_gpu(torch::kFloat32)) - 1),
        b_BTD_(random_numbers({batch, time, width}, torch::kFloat32)),
        h0_BD_(random_numbers({batch, width}, torch::kFloat32)),
        d_h_BTD_(torch::randn_like(b_BTD_)),
        h_BTD_(torch::empty_like(b_BTD_)),
        d_weight_D_(torch::empty_like(weight_D_)),
        d_b_BTD_(torch::empty_like(b_BTD_)),
        d_h0_BD_(torch::empty_like(h0_BD_)),
        scratch_(torch::empty_like(h0_BD_)),
        inputs_(leaves({weight_D_, b_BTD_, h0_BD_})) {}

  void forward(cudaStream_t stream) const {
    relu_recurrence_forward(problem(), b_BTD_.data_ptr<float>(), h_BTD_.data_ptr<float>(), stream);
  }
  void backward(cudaStream_t stream) const {
    relu_recurrence_backward(problem(), h_BTD_.data_ptr<float>(), d_h_BTD_.data_ptr<float>(),
                             {d_weight_D_.data_ptr<float>(), d_b_BTD_.data_ptr<float>(), d_h0_BD_.data_ptr<float>()},
                             scratch_.data_ptr(), stream);
  }
  ForwardBackward check() const {
    forward(nullptr);
    backward(nullptr);
    const auto exact = [](const Tensor& x) { return x.detach().to(torch::kCPU, torch::kFloat64); };
    const auto error = [&](const Tensor& actual, const Tensor& expected) {
      return ((exact(actual) - expected).norm() / expected.norm()).item<double>();
    };
    const std::vector<Tensor> inputs = leaves({exact(weight_D_), exact(b_BTD_), exact(h0_BD_)});
    const Tensor h_BTD = plain_relu_recurrence(inputs[0], inputs[1], inputs[2]);
    const std::vector<Tensor> gradients = torch::autograd::grad({h_BTD}, inputs, {exact(d_h_BTD_)});
    return {error(h_BTD_, h_BTD.detach()),
            worst({error(d_weight_D_, gradients[0]), error(d_b_BTD_, gradients[1]), error(d_h0_BD_, gradients[2])})};
  }

  void plain_forward() const { plain_output(); }
  void plain_forward_and_backward() const { torch::autograd::grad({plain_output()}, inputs_, {d_h_BTD_}); }

 private:
  ReluRecurrence problem() const {
    return {static_cast<int>(b_BTD_.size(0)), static_cast<int>(b_BTD_.size(1)), static_cast<int>(b_BTD_.size(2)),
            weight_D_.data_ptr<float>(), h0_BD_.data_ptr<float>()};
  }
  Tensor plain_output() const { return plain_relu_recurrence(inputs_[0], inputs_[1], inputs_[2]); }

  const Tensor weight_D_, b_BTD_, h0_BD_, d_h_BTD_;
  const Tensor h_BTD_, d_weight_D_, d_b_BTD_, d_h0_BD_, scratch_;
  const std::vector<Tensor> inputs_;
};

// b in, h out; backward h and its gradient in, b's out. Rounding may open or close a unit, but for a while.
KernelRow relu_recurrence_row(int batch, int time, int width) {
  const double elements = 1.0 * batch * time * width, bytes = sizeof(float) * elements;
  return with_work(
      {.operation = "relu recurrence, float",
       .shape = "B " + std::to_string(batch) + " T " + std::to_string(time) + " D " + std::to_string(width),
       .flops = {2 * elements, 3 * elements},
       .bytes = {2 * bytes, 3 * bytes},
       .bound = {1e-5, 1e-4}},
      std::make_shared<ReluRecurrenceBench>(batch, time, width));
}

// Float states in and out, a and b in, the output out, which are float as well.
KernelRow recurrence_step_row(int rows, int width) {
  struct Step {
    Tensor a, b, h, output;
  };
  const auto random = [&] { return random_numbers({rows, width}, torch::kFloat32); };
  const auto step = std::make_shared<Step>(Step{random().sigmoid(), random(), random(), random()});
  const auto forward = [step, rows, width](cudaStream_t stream) {
    linear_recurrence_step({rows, width, RecurrenceNumber::kFloat32, /*constant=*/false, step->a.data_ptr(),
                            step->b.data_ptr(), step->h.data_ptr(), step->output.data_ptr()},
                           stream);
  };
  const double elements = 1.0 * rows * width;
  return {.operation = "linear recurrence step, float",
          .shape = "N " + std::to_string(rows) + " D " + std::to_string(width),
          .flops = {2 * elements, NAN},
          .bytes = {5 * sizeof(float) * elements, NAN},
          .bound = {1e-6, 1e-6},
          .check =
              [step, forward, rows, width] {
                const LinearRecurrenceReferenceInput input{rows,
                                                           1,
                                                           width,
                                                           false,
                                                           numbers_of(step->a),
                                                           numbers_of(step->b),
                                                           numbers_of(step->h),
                                                           std::vector<int>(rows, 1)};
                forward(nullptr);
                const ComplexNumbers expected = linear_recurrence_reference(input).last_BD;
                return ForwardBackward{worst({difference(numbers_of(step->h), expected) / norm(expected),
                                              difference(numbers_of(step->output), expected) / norm(expected)}),
                                       NAN};
              },
          .forward = forward,
          .backward = {},
          .torch_forward = [step] { Tensor(step->output).copy_(Tensor(step->h).mul_(step->a).add_(step->b)); },
          .torch_forward_and_backward = {}};
}

}  // namespace

std::vector<std::function<KernelRow()>> recurrence_rows() {
  constexpr RecurrenceShape kShapes[] = {
      {64, 781, 128, torch::kFloat32, false},      {8, 8192, 512, torch::kFloat32, false},
      {64, 781, 128, torch::kBFloat16, false},     {8, 8192, 512, torch::kBFloat16, false},
      {64, 781, 128, torch::kComplexFloat, false}, {64, 781, 128, torch::kComplexFloat, true},
  };
  std::vector<std::function<KernelRow()>> rows;
  for (const RecurrenceShape& shape : kShapes) rows.push_back([shape] { return recurrence_row(shape); });
  rows.push_back([] { return recurrence_step_row(1024, 512); });
  rows.push_back([] { return relu_recurrence_row(64, 781, 128); });
  return rows;
}

}  // namespace engram
