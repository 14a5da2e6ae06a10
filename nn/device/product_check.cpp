#include "nn/device/product_check.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "nn/device/gpu_share.h"

namespace engram {
namespace {

using torch::Tensor;

// Products of numbers in [-1, 1] have a standard deviation of a third of the root of their length: the largest of a
// million are under 1.8 of it, and bfloat16 rounds by 2^-9 of that.
constexpr double kBound = 0.02;

double error_of(const Tensor& x_MK, const Tensor& w_KN, const ProductOut& product) {
  // What a kernel leaves unwritten must not pass for a result.
  Tensor out_MN = torch::full({x_MK.size(0), w_KN.size(1)}, std::numeric_limits<double>::quiet_NaN(), x_MK.options());
  product(out_MN, x_MK, w_KN);
  const Tensor exact_MN = x_MK.to(torch::kFloat32).mm(w_KN.to(torch::kFloat32));
  const double error = (out_MN.to(torch::kFloat32) - exact_MN).abs().max().item<double>();
  return std::isfinite(error) ? error / std::sqrt(static_cast<double>(x_MK.size(1)))
                              : std::numeric_limits<double>::infinity();
}

}  // namespace

void library_product(Tensor& out_MN, const Tensor& x_MK, const Tensor& w_KN) { torch::mm_out(out_MN, x_MK, w_KN); }

std::optional<WrongProduct> find_wrong_product(torch::Device device, const ProductOut& product) {
  const torch::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
  const auto numbers = [&](std::int64_t rows, std::int64_t columns) {
    return (torch::rand({rows, columns}, generator, torch::TensorOptions(torch::kCPU).dtype(torch::kFloat32)) * 2 - 1)
        .to(device, torch::kBFloat16);
  };
  for (const std::int64_t rows : {16, 64, 512, 2496})
    for (const std::int64_t inner : {64, 136})
      for (const std::int64_t columns : {136, 528}) {
        const Tensor x_MK = numbers(rows, inner), weight_NK = numbers(columns, inner), dy_MN = numbers(rows, columns);
        // A layer's output, and its gradients by the input and by the weights.
        for (const auto& [left, right] : {std::pair(x_MK, weight_NK.t()), {dy_MN, weight_NK}, {dy_MN.t(), x_MK}})
          if (const double error = error_of(left, right, product); error > kBound)
            return WrongProduct{left.size(0), left.size(1), right.size(1), error};
      }
  return std::nullopt;
}

void check_products_of_share(torch::Device device) {
  const std::optional<std::string> share = gpu_share();
  if (!device.is_cuda() || !share || !has_multi_process_service()) return;
  if (const auto wrong = find_wrong_product(device))
    throw UserError(std::string(kShareVariable) + "=" + *share + ": with this share of " + device.str() +
                    " the GPU's library gets bfloat16 products wrong, among them [" + std::to_string(wrong->rows) +
                    ", " + std::to_string(wrong->inner) + "] x [" + std::to_string(wrong->inner) + ", " +
                    std::to_string(wrong->columns) + "]; 12 and 25 are proven on an H100");
}

}  // namespace engram
