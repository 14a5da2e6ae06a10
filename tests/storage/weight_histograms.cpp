#include "storage/log/weight_histograms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

using namespace engram;

TEST_CASE("weights are counted by the part of the agent that they belong to") {
  const TensorMap weights = {{"observation.weight", torch::tensor({{0.0f, 1.0f}, {2.0f, 3.0f}})},
                             {"convolution1.bias", torch::tensor({30.0f})},
                             {"backbone.blocks.0.mixer.query.weight", torch::linspace(-3, 3, 61)},
                             {"backbone.norm.weight", torch::ones({4})},
                             {"actor.output.bias", torch::full({7}, 0.5f)},
                             {"critic1.output.bias", torch::tensor({1.0f})},
                             {"critic2.output.bias", torch::tensor({-1.0f, -1.0f})},
                             {"target_critic1.output.bias", torch::tensor({100.0f})}};
  const auto histograms = weight_histograms(weights);
  std::vector<std::string> tags;
  for (const auto& [tag, histogram] : histograms) {
    CAPTURE(tag);
    tags.push_back(tag);
    REQUIRE(histogram.limits.size() == histogram.counts.size());
    CHECK(histogram.limits.back() == histogram.max);
    CHECK(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0) == histogram.count);
    CHECK(std::ranges::is_sorted(histogram.limits));
  }
  REQUIRE(tags == std::vector<std::string>{"weights/actor", "weights/backbone", "weights/critics", "weights/encoder"});

  const Histogram &actor = histograms[0].second, &critics = histograms[2].second, &encoder = histograms[3].second;
  CHECK(actor.limits == std::vector<double>{0.5});  // all equal
  CHECK(actor.counts == std::vector<double>{7});
  CHECK(histograms[1].second.count == 65);
  CHECK(critics.min == -1);
  CHECK(critics.max == 1);
  CHECK(critics.sum == -1);
  CHECK(critics.counts.front() == 2);
  CHECK(critics.counts.back() == 1);
  REQUIRE(encoder.limits.size() == kWeightBuckets);
  CHECK(encoder.sum == 36);
  CHECK(encoder.sum_of_squares == 914);
  for (int bucket = 0; bucket < kWeightBuckets; ++bucket) {  // of width 1, the last one closed
    CHECK(encoder.limits[bucket] == doctest::Approx(bucket + 1));
    CHECK(encoder.counts[bucket] == (bucket <= 3 || bucket == 29 ? 1 : 0));
  }
}

TEST_CASE("weights that are not finite have no histogram, and spoil no other") {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto histograms = weight_histograms({{"actor.output.bias", torch::tensor({1.0f, infinity})},
                                             {"critic1.output.bias", torch::tensor({1.0f, 2.0f})},
                                             {"observation.bias", torch::tensor({std::nanf(""), 2.0f})}});
  REQUIRE(histograms.size() == 1);
  CHECK(histograms[0].first == "weights/critics");
}
