#include "agents/study/linear_readout.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

using namespace engram;

namespace {

// 0 1 2 0 1 2 ... in places that both halves see.
std::vector<std::int64_t> cycling(std::int64_t count, std::int64_t classes) {
  std::vector<std::int64_t> class_N;
  for (std::int64_t i = 0; i < count; ++i) class_N.push_back(i * 7 % classes);
  return class_N;
}

torch::Tensor noise(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({rows, columns});
}

}  // namespace

TEST_CASE("features that carry the class are read without a fault, whatever else they hold and however small it is") {
  const auto class_N = cycling(90, 3);
  for (const std::int64_t width : {3, 20, 200}) {
    CAPTURE(width);
    torch::Tensor features = noise(90, width, 1);
    features.narrow(1, 0, 3).copy_(1e-4 * torch::one_hot(torch::tensor(class_N), 3));
    // Among 197 columns of noise and 45 examples of a half the three are found in most cases only.
    const Readout readout = read_out_linearly(features, class_N);
    CHECK(readout.count == 90);
    CHECK(readout.most_common == 30);
    CHECK(readout.correct >= (width < 200 ? 90 : 60));
  }
}

TEST_CASE("noise is read by chance, also with as many features as examples") {
  const auto class_N = cycling(600, 3);
  for (const std::int64_t width : {1, 20, 700}) {
    CAPTURE(width);
    const Readout readout = read_out_linearly(noise(600, width, 2), class_N);
    // Four standard deviations of 600 guesses with a chance of 1/3.
    CHECK(std::abs(readout.correct - 200) < 4 * 11.6);
  }
}

TEST_CASE("features that are always the same tell which class is common, and no more") {
  std::vector<std::int64_t> class_N(40, 1);
  for (std::size_t i = 0; i < 12; ++i) class_N[i] = 0;
  const Readout readout = read_out_linearly(torch::full({40, 5}, 3.0), class_N);
  CHECK(readout.correct == 28);
  CHECK(readout.most_common == 28);
}

TEST_CASE("what no line separates is not read") {
  const torch::Tensor signs = noise(400, 2, 3).sign();
  std::vector<std::int64_t> class_N;
  for (std::int64_t i = 0; i < 400; ++i) class_N.push_back(signs[i].prod().item<float>() > 0);
  CHECK(std::abs(read_out_linearly(signs, class_N).correct - 200) < 4 * 10);
  CHECK(read_out_linearly(torch::cat({signs, signs.prod(1, true)}, 1), class_N).correct == 400);
}

TEST_CASE("a read-out takes two or more examples, a row of finite features each") {
  CHECK_THROWS_AS(read_out_linearly(torch::zeros({1, 3}), {0}), std::invalid_argument);
  CHECK_THROWS_AS(read_out_linearly(torch::zeros({3, 3}), {0, 1}), std::invalid_argument);
  CHECK_THROWS_AS(read_out_linearly(torch::zeros({2, 3}), {0, -1}), std::invalid_argument);
  CHECK_THROWS_AS(read_out_linearly(torch::full({2, 3}, NAN), {0, 1}), std::invalid_argument);
}
