// The linear recurrence on a GPU against a loop in double precision on the CPU.
#include "memory/ops/recurrences/linear_recurrence_cuda.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/ops/recurrences/linear_recurrence.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

struct Inputs {
  Tensor a, b_BTD, h0_BD;
  std::vector<Tensor> all() const { return {a, b_BTD, h0_BD}; }
  Inputs mapped(const auto& function) const { return {function(a), function(b_BTD), function(h0_BD)}; }
};

// Numbers of `type` on the CPU, |a| at most 0.999.
Inputs draw(torch::ScalarType type, bool constant, torch::IntArrayRef sizes, torch::ScalarType h0_type) {
  const bool is_complex = type == torch::kComplexFloat;
  const Tensor modulus = 0.999 * torch::rand(sizes).sqrt(), angle = 6.28 * torch::rand(sizes);
  const Tensor a = is_complex ? torch::polar(modulus, angle) : modulus * torch::where(angle < 1, -1.0, 1.0);
  const torch::ScalarType wide = is_complex ? torch::kComplexFloat : torch::kFloat32;
  return {constant ? a[0][0].to(wide).contiguous() : a.to(type), torch::randn(sizes, wide).to(type),
          torch::randn({sizes[0], sizes[2]}, wide).to(h0_type)};
}

Tensor loop(const Inputs& x) {
  const Tensor a_BTD = x.a.expand_as(x.b_BTD);
  std::vector<Tensor> h{x.h0_BD};
  for (std::int64_t t = 0; t < x.b_BTD.size(1); ++t) h.push_back(a_BTD.select(1, t) * h.back() + x.b_BTD.select(1, t));
  h.erase(h.begin());
  return torch::stack(h, 1);
}

Tensor as_leaf(const Tensor& x) { return x.detach().requires_grad_(); }
Tensor in_double(const Tensor& x) {
  return x.detach().to(torch::kCPU, x.is_complex() ? torch::kComplexDouble : torch::kFloat64);
}
double error_of(const Tensor& actual, const Tensor& expected) {
  return ((in_double(actual) - expected).norm() / expected.norm()).abs().item<double>();
}

// PyTorch's gradient of a complex number wants a real loss.
Tensor loss_of(const Tensor& h_BTD, const Tensor& weight_BTD) {
  const Tensor product = h_BTD * weight_BTD.to(h_BTD.device(), h_BTD.scalar_type());
  return product.is_complex() ? torch::real(product).sum() : product.sum();
}

struct Result {
  Tensor h_BTD;
  std::vector<Tensor> gradients;
};
template <class Recurrence>
Result differentiate(const Inputs& inputs, const Tensor& weight_BTD, const Recurrence& recurrence) {
  const Inputs x = inputs.mapped(as_leaf);
  const Tensor h_BTD = recurrence(x);
  return {h_BTD, torch::autograd::grad({loss_of(h_BTD, weight_BTD)}, x.all())};
}

Tensor on_gpu(const Inputs& x) { return cuda::linear_recurrence(x.a, x.b_BTD, x.h0_BD); }
Tensor to_gpu(const Tensor& x) { return x.to(torch::kCUDA); }

void check(torch::ScalarType type, bool constant, torch::IntArrayRef sizes, torch::ScalarType h0_type) {
  CAPTURE(type);
  CAPTURE(constant);
  CAPTURE(sizes);
  const Inputs inputs = draw(type, constant, sizes, h0_type);
  const Tensor weight_BTD = torch::randn_like(inputs.b_BTD);
  const Result expected = differentiate(inputs.mapped(in_double), in_double(weight_BTD), loop);
  const Result actual = differentiate(inputs.mapped(to_gpu), weight_BTD, on_gpu);
  // Rounded once; a constant a's roundings are the same in every step and add up.
  const double bound = type == torch::kBFloat16 ? 0.005 : constant ? 2e-5 : 2e-6;
  const auto same_type = [](const Tensor& x, torch::ScalarType wanted) { return x.scalar_type() == wanted; };
  CHECK(same_type(actual.h_BTD, type));
  CHECK(error_of(actual.h_BTD, in_double(expected.h_BTD)) < bound);
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(actual.gradients[i].sizes() == inputs.all()[i].sizes());
    CHECK(same_type(actual.gradients[i], inputs.all()[i].scalar_type()));
    CHECK(error_of(actual.gradients[i], in_double(expected.gradients[i])) < bound);
  }
}

std::string reason(const Tensor& a, const Tensor& b_BTD, const Tensor& h0_BD) {
  const std::string text = cuda::supports_linear_recurrence(a, b_BTD, h0_BD).reason();
  if (!text.empty()) CHECK_THROWS_AS(cuda::linear_recurrence(a, b_BTD, h0_BD), c10::Error);
  return text;
}

}  // namespace

TEST_CASE("the linear recurrence on a GPU and its gradients equal a loop in double precision") {
  if (skip_without_gpu()) return;
  torch::manual_seed(1);
  for (const bool constant : {false, true})
    for (const std::vector<std::int64_t>& sizes :
         std::vector<std::vector<std::int64_t>>{{5, 1, 100}, {3, 70, 33}, {2, 300, 64}}) {
      check(torch::kFloat32, constant, sizes, torch::kFloat32);
      check(torch::kBFloat16, constant, sizes, torch::kFloat32);
      check(torch::kBFloat16, constant, sizes, torch::kBFloat16);
      check(torch::kComplexFloat, constant, sizes, torch::kComplexFloat);
    }
}

// A sum's gradient is one number with strides of 0; conj() and a negated imaginary part change flags, not memory.
TEST_CASE("the linear recurrence on a GPU takes gradients and inputs as autograd leaves them") {
  if (skip_without_gpu()) return;
  torch::manual_seed(2);
  for (const torch::ScalarType type : {torch::kFloat32, torch::kComplexFloat}) {
    CAPTURE(type);
    const Inputs inputs = draw(type, /*constant=*/false, {2, 50, 40}, type);
    const auto gradients = [](const Inputs& given, const auto& recurrence) {
      const Inputs x = given.mapped(as_leaf);
      const Inputs conjugated = x.mapped([](const Tensor& tensor) { return tensor.conj(); });
      const Tensor sum = recurrence(conjugated).sum();
      return torch::autograd::grad({sum.is_complex() ? torch::imag(sum) : sum}, x.all());
    };
    const std::vector<Tensor> expected = gradients(inputs.mapped(in_double), loop);
    const std::vector<Tensor> actual = gradients(inputs.mapped(to_gpu), on_gpu);
    for (int i = 0; i < 3; ++i) CHECK(error_of(actual[i], in_double(expected[i])) < 2e-6);
  }
}

// Complex numbers in bfloat16, of rows that end sooner and of one without steps.
TEST_CASE("the linear recurrence of pairs on a GPU and its gradients equal a loop in double precision") {
  if (skip_without_gpu()) return;
  torch::manual_seed(4);
  const Inputs inputs = draw(torch::kComplexFloat, /*constant=*/true, {4, 90, 36}, torch::kComplexFloat);
  const Tensor lengths_B = torch::tensor({90, 0, 31, 89}, torch::kInt64),
               b_BTD2 = torch::view_as_real(inputs.b_BTD).to(torch::kBFloat16),
               of_h_BTD2 = torch::randn({4, 90, 36, 2}).to(torch::kBFloat16), of_last_BD2 = torch::randn({4, 36, 2});
  const Tensor valid_BT1 = (torch::arange(90) < lengths_B.unsqueeze(1)).unsqueeze(2);

  const Inputs x = Inputs{inputs.a, torch::view_as_complex(b_BTD2.to(torch::kFloat64)), inputs.h0_BD}.mapped(
      [](const Tensor& tensor) { return as_leaf(in_double(tensor)); });
  const Tensor h_BTD = loop(x) * valid_BT1, last_BD = state_after(loop(x), x.h0_BD, lengths_B);
  const auto inner = [](const Tensor& a, const Tensor& b) { return (a.to(torch::kFloat64) * b).sum(); };
  const std::vector<Tensor> expected = torch::autograd::grad(
      {inner(of_h_BTD2, torch::view_as_real(h_BTD)) + inner(of_last_BD2, torch::view_as_real(last_BD))}, x.all());

  const Tensor a = as_leaf(to_gpu(inputs.a)), b = as_leaf(to_gpu(b_BTD2)), h0 = as_leaf(to_gpu(inputs.h0_BD));
  const auto [h, last] = cuda::paired_linear_recurrence(a, b, h0, to_gpu(lengths_B));
  CHECK(error_of(torch::view_as_complex(in_double(h)), h_BTD.detach()) < 0.005);
  CHECK(error_of(last, last_BD.detach()) < 2e-5);
  const std::vector<Tensor> actual = torch::autograd::grad(
      {(h * to_gpu(of_h_BTD2)).sum(torch::kFloat32) + (torch::view_as_real(last) * to_gpu(of_last_BD2)).sum()},
      {a, b, h0});
  CHECK(error_of(actual[0], expected[0]) < 0.005);
  CHECK(error_of(torch::view_as_complex(in_double(actual[1])), expected[1]) < 0.005);
  CHECK(error_of(actual[2], expected[2]) < 0.005);
  CHECK(cuda::supports_paired_linear_recurrence(a, b.to(torch::kFloat32), h0, to_gpu(lengths_B)).reason() ==
        "b, a, h0 and the lengths are Float, ComplexFloat, ComplexFloat and Long, not bfloat16, complex64 and int64");
  CHECK(cuda::supports_paired_linear_recurrence(a, b, h0, lengths_B).reason() == "the tensors are not on one GPU");
  CHECK(cuda::supports_paired_linear_recurrence(a, b[0], h0, to_gpu(lengths_B)).reason() ==
        "a [36], b [90, 36, 2], h0 [4, 36] and lengths [4] are not [D], [B, T, D, 2], [B, D] and [B]");
}

TEST_CASE("the linear recurrence on a GPU says what it does not take") {
  if (skip_without_gpu()) return;
  const auto zeros = [](torch::IntArrayRef sizes, torch::ScalarType type) {
    return torch::zeros(sizes, torch::TensorOptions(torch::kCUDA).dtype(type));
  };
  const Tensor a = zeros({2, 5, 4}, torch::kFloat32), h0 = zeros({2, 4}, torch::kFloat32);
  CHECK(reason(a, a, h0) == "");
  CHECK(reason(a[0][0], a, h0) == "");
  CHECK(reason(a, a.cpu(), h0) == "the tensors are not on one GPU");
  CHECK(reason(a, a, h0.t()) ==
        "a [2, 5, 4], b [2, 5, 4] and h0 [4, 2] are not [B, T, D] or [D], [B, T, D] and [B, D]");
  CHECK(reason(a[0][0].expand({2, 5, 4}), a, h0) == "a, b and h0 are not all contiguous");
  CHECK(reason(zeros({2, 0, 4}, torch::kFloat32), zeros({2, 0, 4}, torch::kFloat32), h0) == "b [2, 0, 4] is empty");
  CHECK(reason(a.to(torch::kFloat64), a.to(torch::kFloat64), h0) == "b is Double, not float32, bfloat16 or complex64");
  CHECK(reason(a, a.to(torch::kBFloat16), h0) == "a is Float, not BFloat16");
  CHECK(reason(a[0][0].to(torch::kBFloat16), a.to(torch::kBFloat16), h0) == "a is BFloat16, not Float");
  CHECK(reason(a, a, h0.to(torch::kFloat64)) == "h0 is Double, not Float");
}

TEST_CASE("the linear recurrence on a GPU refuses a second derivative") {
  if (skip_without_gpu()) return;
  const Tensor a = torch::rand({1, 3, 2}, torch::kCUDA).requires_grad_();
  const Tensor h_BTD = cuda::linear_recurrence(a, torch::ones_like(a), torch::zeros({1, 2}, torch::kCUDA));
  CHECK_THROWS_AS(torch::autograd::grad({h_BTD.sum()}, {a}, {}, /*retain_graph=*/true, /*create_graph=*/true),
                  c10::Error);
}
