#include "storage/log/weight_histograms.h"

#include <map>

namespace engram {
namespace {

// Of a network's module; empty: in none.
std::string group_of(const std::string& name) {
  if (name.starts_with("target_critic")) return "";
  if (name.starts_with("critic")) return "weights/critics";
  if (name.starts_with("actor.")) return "weights/actor";
  if (name.starts_with("backbone.")) return "weights/backbone";
  return "weights/encoder";
}

Histogram histogram_of(const torch::Tensor& values) {
  Histogram histogram;
  histogram.min = values.min().item<double>();
  histogram.max = values.max().item<double>();
  histogram.count = static_cast<double>(values.numel());
  histogram.sum = values.sum().item<double>();
  histogram.sum_of_squares = values.square().sum().item<double>();
  const double width = (histogram.max - histogram.min) / kWeightBuckets;
  if (!(width > 0)) {
    histogram.limits = {histogram.max};
    histogram.counts = {histogram.count};
    return histogram;
  }
  const torch::Tensor counts = torch::histc(values, kWeightBuckets, histogram.min, histogram.max);
  for (int bucket = 0; bucket < kWeightBuckets; ++bucket) {
    histogram.limits.push_back(bucket + 1 < kWeightBuckets ? histogram.min + (bucket + 1) * width : histogram.max);
    histogram.counts.push_back(counts[bucket].item<double>());
  }
  return histogram;
}

}  // namespace

std::vector<std::pair<std::string, Histogram>> weight_histograms(const TensorMap& weights) {
  std::map<std::string, std::vector<torch::Tensor>> groups;
  for (const auto& [name, tensor] : weights)
    if (const std::string group = group_of(name); !group.empty())
      groups[group].push_back(tensor.flatten().to(torch::kFloat64));
  std::vector<std::pair<std::string, Histogram>> histograms;
  for (const auto& [group, tensors] : groups) {
    const torch::Tensor values = torch::cat(tensors);
    if (values.isfinite().all().item<bool>()) histograms.emplace_back(group, histogram_of(values));
  }
  return histograms;
}

}  // namespace engram
