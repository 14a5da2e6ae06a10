#include "experiments/report/text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/text/formatted.h"

namespace engram {

std::string percent(double fraction) {
  const std::string text = formatted("%.1f", 100 * fraction);
  return text == "-0.0" ? "0.0" : text;  // a rounding error's sign says nothing
}

std::string percent(const Estimate& estimate) {
  if (!estimate.interval) return percent(estimate.value);
  const std::string low = percent(estimate.interval->first), high = percent(estimate.interval->second);
  return percent(estimate.value) + (low == high ? "" : " (" + low + " to " + high + ")");
}

std::string count_with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3 + (digits[0] == '-' ? 1 : 0);) digits.insert(i -= 3, 1, ',');
  return digits;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

std::string range_text(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto text = [](double value) {
    return std::abs(value) < 1e15 && value == std::floor(value) ? count_with_commas(static_cast<std::int64_t>(value))
                                                                : formatted("%g", value);
  };
  return values.front() == values.back() ? text(values.front()) : text(values.front()) + " to " + text(values.back());
}

}  // namespace engram
