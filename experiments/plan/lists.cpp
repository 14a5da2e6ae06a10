#include "experiments/plan/lists.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"

namespace engram {
namespace {

constexpr std::size_t kMaxSeeds = 10'000;

}  // namespace

std::string without_blanks_around(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> trimmed_parts(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(without_blanks_around(part));
  return parts;
}

std::vector<std::uint64_t> parse_seeds(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    throw UserError("seeds '" + text + "' are not allowed" + why + "; as in 0-4,8");
  };
  const auto number = [&](std::string_view part) {
    std::uint64_t value = 0;
    const auto result = std::from_chars(part.data(), part.data() + part.size(), value);
    if (result.ec != std::errc{} || result.ptr != part.data() + part.size()) refuse("");
    return value;
  };
  std::vector<std::uint64_t> seeds;
  for (const std::string& part : trimmed_parts(text, ',')) {
    const std::size_t dash = part.find('-');
    const std::uint64_t first = number(std::string_view(part).substr(0, dash));
    const std::uint64_t last = dash == std::string::npos ? first : number(std::string_view(part).substr(dash + 1));
    if (last < first) refuse(", " + part + " is empty");
    if (last - first >= kMaxSeeds || seeds.size() + (last - first) >= kMaxSeeds)
      refuse(", there may be " + std::to_string(kMaxSeeds) + " at most");
    for (std::uint64_t i = 0; i <= last - first; ++i) seeds.push_back(first + i);
  }
  if (seeds.empty()) refuse("");
  std::ranges::sort(seeds);
  if (const auto twice = std::ranges::adjacent_find(seeds); twice != seeds.end())
    refuse(", " + std::to_string(*twice) + " is there twice");
  return seeds;
}

std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
  std::string text;
  for (std::size_t i = 0, end; i < seeds.size(); i = end) {
    for (end = i + 1; end < seeds.size() && seeds[end] == seeds[end - 1] + 1;) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(seeds[i]);
    if (end - i > 1) text.append("-").append(std::to_string(seeds[end - 1]));
  }
  return text;
}

std::vector<std::string> parse_labels(const std::string& text) {
  std::vector<std::string> labels = trimmed_parts(text, ',');
  if (labels.empty() || std::ranges::count(labels, "") > 0)
    throw UserError("'" + text + "' is no list of labels; as in a,b");
  return labels;
}

std::pair<std::string, std::string> first_difference(const std::string& before, const std::string& now) {
  const std::vector<std::string> old_lines = split_text(before, '\n'), new_lines = split_text(now, '\n');
  const auto [in_old, in_new] = std::ranges::mismatch(old_lines, new_lines);
  const auto text = [](const auto& line, const std::vector<std::string>& lines) {
    return line == lines.end() || line->empty() ? std::string("nothing in its place") : *line;
  };
  return {text(in_old, old_lines), text(in_new, new_lines)};
}

}  // namespace engram
