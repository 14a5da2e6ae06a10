#include "envs/action.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/text/formatted.h"

namespace engram {

bool are_actions(const ActionSpec& spec, std::span<const std::int32_t> rows) {
  if (spec.continuous())
    return std::ranges::all_of(rows, [](std::int32_t word) { return std::isfinite(number_of(word)); });
  const auto count = static_cast<std::uint32_t>(spec.names.size());
  return std::ranges::all_of(rows, [count](std::int32_t action) { return static_cast<std::uint32_t>(action) < count; });
}

void draw_action(const ActionSpec& spec, Rng& rng, std::int32_t* row) {
  if (!spec.continuous()) {
    *row = static_cast<std::int32_t>(rng.below(static_cast<std::uint32_t>(spec.names.size())));
    return;
  }
  for (const ActionNumber& number : spec.numbers)
    *row++ = word_of(static_cast<float>(number.least + rng.uniform() * (number.most - number.least)));
}

std::string action_text(const ActionSpec& spec, std::span<const std::int32_t> row) {
  if (!spec.continuous()) return spec.names.at(static_cast<std::size_t>(row[0]));
  std::string text;
  for (std::size_t i = 0; i < spec.numbers.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(spec.numbers[i].name) +
            formatted(" %.3g", static_cast<double>(number_of(row[i])));
  }
  return text;
}

}  // namespace engram
