#include "agents/study/linear_readout.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace engram {
namespace {

// Strengths of the regression, as fractions of the features' largest squared singular value.
constexpr double kStrengths[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0};

// The classes that ridge regression from x_ND to y_NC reads from read_MD.
torch::Tensor read_by_ridge(const torch::Tensor& x_ND, const torch::Tensor& y_NC, const torch::Tensor& read_MD) {
  const torch::Tensor mean_D = x_ND.mean(0), spread_D = x_ND.std(0, /*unbiased=*/false);
  const torch::Tensor scale_D = torch::where(spread_D > 0, spread_D.reciprocal(), 0);
  const auto standardised = [&](const torch::Tensor& features) { return (features - mean_D) * scale_D; };
  const torch::Tensor mean_C = y_NC.mean(0), centred_NC = y_NC - mean_C;
  const auto [u_NK, s_K, v_KD] = torch::linalg_svd(standardised(x_ND), /*full_matrices=*/false);
  const torch::Tensor projected_KC = u_NK.t().mm(centred_NC), squared_K = s_K.square();
  const double largest = std::max(squared_K.max().item<double>(), std::numeric_limits<double>::min());

  double least = std::numeric_limits<double>::infinity();
  torch::Tensor weights_DC;
  for (const double strength : kStrengths) {
    const torch::Tensor kept_K = squared_K / (squared_K + strength * largest);
    // An example's own share of its fit, the mean's included; without the example it is left with error / (1 - share).
    const torch::Tensor share_N = (u_NK.square() * kept_K).sum(1) + 1.0 / static_cast<double>(x_ND.size(0));
    const torch::Tensor error_NC = centred_NC - u_NK.mm(kept_K.unsqueeze(1) * projected_KC);
    const double left_out = (error_NC / (1 - share_N).unsqueeze(1)).square().sum().item<double>();
    if (weights_DC.defined() && !(left_out < least)) continue;
    least = left_out;
    weights_DC = v_KD.t().mm((s_K / (squared_K + strength * largest)).unsqueeze(1) * projected_KC);
  }
  return (standardised(read_MD).mm(weights_DC) + mean_C).argmax(1);
}

}  // namespace

Readout read_out_linearly(const torch::Tensor& features_ND, const std::vector<std::int64_t>& class_N) {
  const auto count = static_cast<std::int64_t>(class_N.size());
  if (count < 2 || features_ND.dim() != 2 || features_ND.size(0) != count || *std::ranges::min_element(class_N) < 0)
    throw std::invalid_argument("a read-out takes a row of features and a class for each of two or more examples");
  const torch::Tensor x_ND = features_ND.to(torch::kCPU, torch::kFloat64);
  if (!x_ND.isfinite().all().item<bool>()) throw std::invalid_argument("a read-out of features that are not finite");
  const torch::Tensor classes_N = torch::tensor(class_N, torch::kInt64);
  const torch::Tensor y_NC = torch::one_hot(classes_N).to(torch::kFloat64);
  const auto half = [count](const torch::Tensor& all, std::int64_t first) { return all.slice(0, first, count, 2); };

  Readout readout{.count = count, .most_common = y_NC.sum(0).max().to(torch::kInt64).item<std::int64_t>()};
  for (const std::int64_t learnt : {0, 1}) {
    const torch::Tensor read = read_by_ridge(half(x_ND, learnt), half(y_NC, learnt), half(x_ND, 1 - learnt));
    readout.correct += (read == half(classes_N, 1 - learnt)).sum().item<std::int64_t>();
  }
  return readout;
}

}  // namespace engram
