// Numbers and lists as a report writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/statistics/aggregate.h"

namespace engram {

// A fraction in percent: "98.7", with its interval, if there is one of any length, "98.7 (95.1 to 100.0)".
std::string percent(double fraction);
std::string percent(const Estimate& estimate);
// "1,234,567"
std::string count_with_commas(std::int64_t number);
std::string joined(const std::vector<std::string>& parts, const char* between = ", ");
// "5", or "5 to 9" where not all are the same; at least one value.
std::string range_text(std::vector<double> values);

}  // namespace engram
