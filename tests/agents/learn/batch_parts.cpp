// How ragged episodes are dealt to parts.
#include "agents/learn/experience/batch_parts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "base/rng.h"

using namespace engram;

namespace {

constexpr std::int64_t kLongest = 605, kPartSteps = 600;

// Most end soon, a few never do.
std::vector<std::int64_t> lengths(int episodes) {
  Rng rng(3, Purpose::kReplay, 0, 0);
  std::vector<std::int64_t> steps(static_cast<std::size_t>(episodes));
  for (std::int64_t& one : steps) one = rng.below(50) == 0 ? kLongest : 1 + rng.below(30);
  return steps;
}

std::vector<BatchPart> dealt(const std::vector<std::int64_t>& steps, torch::Device device) {
  std::vector<std::int64_t> all(steps.size());
  std::iota(all.begin(), all.end(), 0);
  return BatchParts(kLongest, kPartSteps, device).deal(all, [&](std::int64_t episode) {
    return steps.at(static_cast<std::size_t>(episode));
  });
}

// That every episode is in one part, which has room for it; the rows of all parts for each step.
double padded(const std::vector<BatchPart>& parts, const std::vector<std::int64_t>& steps) {
  std::set<std::int64_t> seen;
  double rows = 0;
  for (const BatchPart& part : parts) {
    CHECK_FALSE(part.episodes.empty());
    CHECK(static_cast<std::int64_t>(part.episodes.size()) <= part.rows);
    for (const std::int64_t episode : part.episodes) {
      CHECK(seen.insert(episode).second);
      CHECK(steps.at(static_cast<std::size_t>(episode)) <= part.steps);
    }
    rows += static_cast<double>(part.steps * part.rows);
  }
  CHECK(seen.size() == steps.size());
  return rows / std::accumulate(steps.begin(), steps.end(), 0.0);
}

}  // namespace

TEST_CASE("episodes are ragged where one batch would be padding for more than two thirds") {
  CHECK_FALSE(are_ragged(10, 1000, 100));
  CHECK_FALSE(are_ragged(30, 1000, 100));
  CHECK(are_ragged(31, 1000, 100));
}

TEST_CASE("on a CPU the episodes of a part are more than half as long as its longest") {
  const std::vector<std::int64_t> steps = lengths(500);
  const std::vector<BatchPart> parts = dealt(steps, torch::kCPU);
  CHECK(padded(parts, steps) < 1.5);
  CHECK(parts.size() <= 6);
  for (const BatchPart& part : parts) {
    CHECK(part.rows == static_cast<std::int64_t>(part.episodes.size()));
    for (const std::int64_t episode : part.episodes)
      CHECK(2 * steps.at(static_cast<std::size_t>(episode)) > part.steps);
  }
  CHECK(dealt({1}, torch::kCPU).size() == 1);
  CHECK(dealt({3, 3, 3}, torch::kCPU).size() == 1);
  CHECK(dealt({7, 1, 3, 7}, torch::kCPU).at(0).episodes == std::vector<std::int64_t>{0, 3});
}

TEST_CASE("on a GPU parts come in seven shapes, whatever the episodes are") {
  std::set<std::int64_t> shapes;
  for (int episodes = 1; episodes < 400; episodes += 13) {
    const std::vector<std::int64_t> steps = lengths(episodes);
    const std::vector<BatchPart> parts = dealt(steps, torch::kCUDA);
    const double per_step = padded(parts, steps);
    if (episodes > 200) CHECK(per_step < 3);
    for (const BatchPart& part : parts) {
      shapes.insert(part.steps);
      CHECK(part.rows == (kPartSteps + part.steps - 1) / part.steps);
    }
  }
  for (const std::int64_t steps : shapes)
    CHECK(std::ranges::count(std::vector<std::int64_t>{605, 303, 152, 76, 38, 19, 10}, steps) == 1);
  CHECK(shapes.size() > 2);
  // A task of short episodes has fewer.
  const auto one = [](std::int64_t) { return std::int64_t{1}; };
  CHECK(BatchParts(3, 12, torch::kCUDA).deal({0, 1}, one).at(0).steps == 1);
  CHECK(BatchParts(1, 12, torch::kCUDA).deal({0, 1}, one).at(0).rows == 12);
}
