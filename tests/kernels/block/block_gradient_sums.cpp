#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/block/gradient_sums.h"
#include "tests/kernels/block/block_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

struct Case {
  int count;
  PackGroups rows, columns;
  int gap, between;  // floats after a row's columns, and after a matrix

  int stride() const { return columns.size() + gap; }
  std::int64_t distance() const { return std::int64_t{rows.size()} * stride() + between; }
};

// Vectors and matrices, whole and in groups, of one part to more than a thread has loads on their way, with gaps that
// leave nothing aligned; elements that fill blocks of either kind, and that do not.
const std::vector<Case> kCases = {{1, {1, 1, 1}, {1, 1, 1}, 0, 0},         {1, {100, 50, 56}, {100, 100, 112}, 0, 0},
                                  {1, {17, 5, 8}, {7, 3, 4}, 3, 1},        {1, {64, 64, 64}, {32, 32, 32}, 0, 0},
                                  {1, {1, 1, 1}, {100, 50, 56}, 0, 0},     {2, {1, 1, 1}, {100, 100, 104}, 0, 0},
                                  {31, {1, 1, 1}, {32, 32, 32}, 0, 0},     {33, {1, 1, 1}, {33, 33, 33}, 5, 7},
                                  {396, {1, 1, 1}, {100, 100, 112}, 0, 0}, {792, {1, 1, 1}, {257, 257, 264}, 1, 0},
                                  {3, {9, 2, 5}, {13, 4, 6}, 3, 11},       {70, {5, 5, 5}, {50, 25, 32}, 0, 3},
                                  {1111, {1, 1, 1}, {7, 7, 7}, 0, 1}};

class Problem {
 public:
  Problem(const Case& c, unsigned seed) : expected(elements(c)), largest(elements(c)), case_(c) {
    Rng rng(1, Purpose::kTest, 12, seed);
    Numbers parts(c.count * c.distance(), kNaN);  // in all that is not to be read
    for (int r = 0; r < c.rows.count; ++r)
      for (int column = 0; column < c.columns.count; ++column)
        for (int i = 0; i < c.count; ++i) {
          const double x = rounded(normal(rng), Dtype::kFloat32);
          parts[i * c.distance() + spread(c.rows, r) * c.stride() + spread(c.columns, column)] = x;
          expected[r * c.columns.count + column] += x;
          largest[r * c.columns.count + column] += std::abs(x);
        }
    parts_ = upload(parts, Dtype::kFloat32);
    poison_output();
  }
  void poison_output() { poison(gradient, expected.size(), Dtype::kFloat32); }
  GradientSum sum() {
    return {.parts = floats(parts_),
            .count = case_.count,
            .stride = case_.stride(),
            .distance = case_.distance(),
            .rows = case_.rows,
            .columns = case_.columns,
            .gradient = floats(gradient)};
  }
  // A sum of n floats in an order of at most n / 32 + 32 additions one after the other: so many roundings of 2^-24 of
  // the sum of what is added. One part is copied.
  void check() const {
    CAPTURE(case_.count);
    CAPTURE(case_.rows.count);
    CAPTURE(case_.columns.count);
    const Numbers actual = download(gradient, Dtype::kFloat32);
    if (case_.count == 1) CHECK(actual == expected);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < actual.size(); ++i)
      wrong += !(std::abs(actual[i] - expected[i]) <= (case_.count / 32 + 33) * std::ldexp(largest[i], -24));
    CHECK(wrong == 0);
  }

  DeviceBytes gradient;

 private:
  static std::size_t elements(const Case& c) { return static_cast<std::size_t>(c.rows.count) * c.columns.count; }
  static std::int64_t spread(const PackGroups& groups, int i) {
    return i / groups.group * groups.padded + i % groups.group;
  }

  Numbers expected, largest;  // sums of the parts, and of their sizes
  Case case_;
  DeviceBytes parts_;
};

std::vector<Problem> problems(std::size_t count) {
  std::vector<Problem> all;
  for (std::size_t i = 0; i < count; ++i) all.emplace_back(kCases[i % kCases.size()], static_cast<unsigned>(i));
  return all;
}

std::vector<GradientSum> sums_of(std::vector<Problem>& problems) {
  std::vector<GradientSum> sums;
  for (Problem& problem : problems) sums.push_back(problem.sum());
  return sums;
}

}  // namespace

TEST_CASE("small shapes: gradients are the sums of their parts, each on its own") {
  if (skip_without_gpu()) return;
  for (Problem& problem : problems(kCases.size())) {
    add_up({problem.sum()}, nullptr);
    problem.check();
  }
  add_up({}, nullptr);
}

TEST_CASE("small shapes: more gradients than a launch makes are made by one call, bit for bit as each on its own") {
  if (skip_without_gpu()) return;
  std::vector<Problem> together = problems(2 * kGradientSumsOfLaunch + 5), alone = problems(together.size());
  add_up(sums_of(together), nullptr);
  for (std::size_t i = 0; i < together.size(); ++i) {
    together[i].check();
    add_up({alone[i].sum()}, nullptr);
    CHECK(together[i].gradient.to_host() == alone[i].gradient.to_host());
  }
}

TEST_CASE("as many sums as parts allow eight each, 32 at most, are added one after the other") {
  if (skip_without_gpu()) return;
  constexpr int kWidth = 40;
  for (const auto& [count, sums] : {std::pair(3, 1), std::pair(8, 1), std::pair(11, 2), std::pair(17, 4),
                                    std::pair(59, 8), std::pair(129, 32), std::pair(999, 32)}) {
    CAPTURE(count);
    Rng rng(1, Purpose::kTest, 13, static_cast<unsigned>(count));
    const Numbers parts = normals(rng, count * kWidth, Dtype::kFloat32);
    std::vector<float> expected(kWidth);
    for (int c = 0; c < kWidth; ++c)
      for (int first = 0; first < sums; ++first) {
        float own = 0;
        for (int i = first; i < count; i += sums) own += static_cast<float>(parts[i * kWidth + c]);
        expected[c] += own;
      }
    const DeviceBytes on_device = upload(parts, Dtype::kFloat32);
    DeviceBytes gradient = poisoned(kWidth, Dtype::kFloat32);
    add_up({vector_sum(floats(on_device), count, kWidth, kWidth, floats(gradient))}, nullptr);
    CHECK(download(gradient, Dtype::kFloat32) == Numbers(expected.begin(), expected.end()));
  }
}

TEST_CASE("the same parts give the same gradients 1,000 times") {
  if (skip_without_gpu()) return;
  std::vector<Problem> all = problems(kCases.size());
  CHECK(different_runs([&] {
          std::vector<Bytes> results;
          for (Problem& problem : all) problem.poison_output();
          add_up(sums_of(all), nullptr);
          for (const Problem& problem : all) results.push_back(problem.gradient.to_host());
          return results;
        }) == 0);
}
