#include "agents/learn/experience/batch_parts.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace engram {
namespace {

constexpr int kHalvings = 6;  // so that all recordings are kept

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

BatchParts::BatchParts(std::int64_t longest, std::int64_t part_steps, torch::Device device) {
  if (!device.is_cuda()) return;
  for (std::int64_t halving = 0, steps = longest; halving <= kHalvings; ++halving, steps = ceil_div(steps, 2)) {
    shapes_.push_back({steps, ceil_div(part_steps, steps)});
    if (steps == 1) break;
  }
}

std::vector<BatchPart> BatchParts::deal(std::vector<std::int64_t> episodes,
                                        const std::function<std::int64_t(std::int64_t)>& steps_of) const {
  std::ranges::stable_sort(episodes, std::greater(), steps_of);
  std::vector<BatchPart> parts;
  for (auto next = episodes.begin(); next != episodes.end();) {
    const std::int64_t steps = steps_of(*next);
    const auto left = std::distance(next, episodes.end());
    auto end = episodes.end();
    if (shapes_.empty()) {
      // All that are more than half as long.
      end = std::find_if(next, end, [&](std::int64_t episode) { return 2 * steps_of(episode) <= steps; });
      parts.push_back({{next, end}, steps, std::distance(next, end)});
    } else {
      const Shape shape =
          *std::ranges::find_if(shapes_.rbegin(), shapes_.rend(), [&](const Shape& one) { return one.steps >= steps; });
      end = next + std::min(left, shape.rows);
      parts.push_back({{next, end}, shape.steps, shape.rows});
    }
    next = end;
  }
  return parts;
}

}  // namespace engram
