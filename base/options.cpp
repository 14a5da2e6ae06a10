#include "base/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "base/error.h"
#include "base/text/suggest.h"
#include "base/text/text.h"
#include "base/text/whole_number.h"

namespace engram {
namespace {

// Whole numbers may be written as 1e6 or 2M.
template <class Number>
bool parse_number(const std::string& text, Number& value) {
  std::string plain = text;
  if constexpr (std::is_integral_v<Number>) plain = whole_number_digits(text).value_or("");
  const char* const end = plain.data() + plain.size();
  const auto result = std::from_chars(plain.data(), end, value);
  return result.ec == std::errc{} && result.ptr == end;
}

// The shortest text that reads back to the same number.
template <class Number>
std::string number_text(Number value) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

template <class Number>
std::string range_text(const char* kind, Bounds<Number> bounds) {
  return std::string(kind) + " " + number_text(bounds.low) + ".." + number_text(bounds.high);
}

// Parses into `field` only if the value lies in the bounds (which no NaN does).
template <class Field, class Number>
std::function<bool(const std::string&)> bounded_parser(Field& field, Bounds<Number> bounds) {
  return [&field, bounds](const std::string& text) {
    Number value{};
    if (!parse_number(text, value) || !(value >= bounds.low && value <= bounds.high)) return false;
    field = static_cast<Field>(value);
    return true;
  };
}

}  // namespace

void OptionList::add_option(std::string_view key, std::string allowed, std::string_view help,
                            std::function<bool(const std::string&)> parse, std::function<std::string()> get) {
  const std::string name = section_.empty() ? std::string(key) : section_ + "." + std::string(key);
  auto set = [name, allowed, parse = std::move(parse)](const std::string& text) {
    if (parse(text)) return;
    const bool lacks_text = text.empty() && allowed == kAnyText;
    throw UserError(name + " = '" + text + "' is not allowed; it takes " + allowed +
                    (lacks_text ? " that is not empty" : ""));
  };
  options_.push_back({name, std::string(help), std::move(allowed), std::move(set), std::move(get)});
}

void OptionList::add(std::string_view key, int& field, Bounds<std::int64_t> bounds, std::string_view help) {
  add_option(key, range_text("integer", bounds), help, bounded_parser(field, bounds),
             [&field] { return number_text(field); });
}

void OptionList::add(std::string_view key, std::int64_t& field, Bounds<std::int64_t> bounds, std::string_view help) {
  add_option(key, range_text("integer", bounds), help, bounded_parser(field, bounds),
             [&field] { return number_text(field); });
}

void OptionList::add(std::string_view key, std::uint64_t& field, std::string_view help) {
  add_option(key, "integer 0..18446744073709551615", help, bounded_parser(field, Bounds<std::uint64_t>{0, UINT64_MAX}),
             [&field] { return number_text(field); });
}

void OptionList::add(std::string_view key, double& field, Bounds<double> bounds, std::string_view help) {
  add_option(key, range_text("number", bounds), help, bounded_parser(field, bounds),
             [&field] { return number_text(field); });
}

void OptionList::add(std::string_view key, float& field, Bounds<double> bounds, std::string_view help) {
  add_option(key, range_text("number", bounds), help, bounded_parser(field, bounds),
             [&field] { return number_text(field); });
}

void OptionList::add(std::string_view key, bool& field, std::string_view help) {
  add_choice(
      key, {"false", "true"}, [&field](std::size_t index) { field = index == 1; },
      [&field] { return std::string(field ? "true" : "false"); }, help);
}

void OptionList::add(std::string_view key, std::string& field, std::string_view help, EmptyText empty) {
  add_option(
      key, kAnyText, help,
      [&field, empty](const std::string& text) {
        if (text.empty() && empty == EmptyText::kRefused) return false;
        field = text;
        return true;
      },
      [&field] { return field; });
}

void OptionList::add_choice(std::string_view key, const std::vector<std::string>& choices,
                            std::function<void(std::size_t)> choose, std::function<std::string()> get,
                            std::string_view help) {
  std::string allowed;
  for (const std::string& choice : choices) allowed += (allowed.empty() ? "" : " | ") + choice;
  add_option(
      key, allowed, help,
      [choices, choose = std::move(choose)](const std::string& text) {
        const auto found = std::find(choices.begin(), choices.end(), text);
        if (found == choices.end()) return false;
        choose(static_cast<std::size_t>(found - choices.begin()));
        return true;
      },
      std::move(get));
}

std::vector<OptionValue> OptionList::values() const {
  std::vector<OptionValue> values;
  for (const Option& option : options_) values.push_back({option.name, option.get(), option.allowed, option.help});
  return values;
}

void OptionList::set(const std::string& name, const std::string& value) {
  std::vector<std::string> names;
  for (const Option& option : options_) {
    if (option.name == name) return option.set(value);
    names.push_back(option.name);
  }
  throw UserError("unknown key '" + name + "'" + did_you_mean(name, names));
}

void OptionList::since(int format, std::string_view before) {
  options_.back().since = format;
  options_.back().before = before;
}

void OptionList::renewed_by(std::function<std::string(const std::string&, int)> renewed) {
  options_.back().renewed = std::move(renewed);
}

void OptionList::append(OptionList other) {
  for (Option& option : other.options_) options_.push_back(std::move(option));
}

std::string value_text(const std::vector<OptionValue>& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &OptionValue::name);
  return found == values.end() ? "" : found->text;
}

std::vector<OptionDifference> differences(const std::vector<OptionValue>& before, const std::vector<OptionValue>& now) {
  std::vector<OptionDifference> differing;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i].text != now[i].text)
      differing.push_back({before[i].name, before[i].allowed, before[i].text, now[i].text});
  return differing;
}

std::string renewed_entry(const std::string& entry, const OptionList& options, int format) {
  NamedSettings renewed = parse_named_settings(entry);
  for (const Option& option : options.options()) {
    const auto given = std::ranges::find(renewed.settings, option.name, &std::pair<std::string, std::string>::first);
    if (given == renewed.settings.end()) {
      if (format < option.since && option.get() != option.before)
        renewed.settings.emplace_back(option.name, option.before);
    } else if (option.renewed) {
      given->second = option.renewed(given->second, format);
    }
  }
  return named_settings_text(renewed);
}

}  // namespace engram
