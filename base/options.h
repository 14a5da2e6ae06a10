// Options: one function per options struct, list_options(OptionList&), is the single source of names, defaults,
// bounds and help. Config files, the command line, --help and the saved config all go through the list.
//
//   struct ReplayOptions {
//     std::int64_t capacity_steps = 1'000'000;
//     void list_options(OptionList& list) {
//       list.add("capacity_steps", capacity_steps, {1, 1'000'000'000}, "environment steps kept");
//     }
//   };
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace engram {

// An inclusive range.
template <class T>
struct Bounds {
  T low;
  T high;
};

template <class Enum>
using EnumNames = std::vector<std::pair<Enum, std::string>>;

// What `allowed` is of an option that takes any text.
inline constexpr const char* kAnyText = "text";
// Whether it takes an empty one.
enum class EmptyText { kRefused, kAllowed };

// One option, bound to a field of an options struct that must outlive it.
struct Option {
  std::string name;  // section.key
  std::string help;
  std::string allowed;  // "integer 1..100", "number 0..1", "true | false", "episode | fixed | reference", "text"
  std::function<void(const std::string&)> set;  // throws UserError that names key, value and what is allowed
  std::function<std::string()> get;             // text that set() reads back to the same value

  // Configs of a format before `since` (storage/settings.h) had no such key, and meant `before`.
  int since = 1;
  std::string before = {};
  // Of a text that names things with options of their own: what it said in a config of an earlier format, in today's
  // words. Null: the same.
  std::function<std::string(const std::string& text, int format)> renewed = {};
};

// What an option says of an object at one time, bound to nothing.
struct OptionValue {
  std::string name, text, allowed, help;  // text: as Option::get() gives it
};

// An option that has two values.
struct OptionDifference {
  std::string name, allowed, before, now;
};

class OptionList {
 public:
  // Names get the prefix "section."; an empty section gives plain names.
  explicit OptionList(std::string section) : section_(std::move(section)) {}

  void add(std::string_view key, int& field, Bounds<std::int64_t> bounds, std::string_view help);
  void add(std::string_view key, std::int64_t& field, Bounds<std::int64_t> bounds, std::string_view help);
  void add(std::string_view key, std::uint64_t& field, std::string_view help);
  void add(std::string_view key, double& field, Bounds<double> bounds, std::string_view help);
  void add(std::string_view key, float& field, Bounds<double> bounds, std::string_view help);
  void add(std::string_view key, bool& field, std::string_view help);
  void add(std::string_view key, std::string& field, std::string_view help, EmptyText empty = EmptyText::kRefused);

  template <class Enum>
  requires std::is_enum_v<Enum>
  void add(std::string_view key, Enum& field, EnumNames<Enum> names, std::string_view help) {
    std::vector<std::string> choices;
    for (const auto& [value, name] : names) choices.push_back(name);
    add_choice(
        key, choices, [&field, names](std::size_t index) { field = names[index].first; },
        [&field, names] {
          for (const auto& [value, name] : names)
            if (value == field) return name;
          return std::string{};
        },
        help);
  }

  // Of the option added last: Option::since and before; Option::renewed.
  void since(int format, std::string_view before);
  void renewed_by(std::function<std::string(const std::string& text, int format)> renewed);

  const std::vector<Option>& options() const { return options_; }
  std::vector<OptionValue> values() const;

  // Sets the option called `name` (section.key). Throws UserError for an unknown name (with the nearest known
  // one) or a value that is ill-typed or out of bounds.
  void set(const std::string& name, const std::string& value);

  // Appends the options of another list.
  void append(OptionList other);

 private:
  void add_option(std::string_view key, std::string allowed, std::string_view help,
                  std::function<bool(const std::string&)> parse, std::function<std::string()> get);
  void add_choice(std::string_view key, const std::vector<std::string>& choices,
                  std::function<void(std::size_t)> choose, std::function<std::string()> get, std::string_view help);

  std::string section_;
  std::vector<Option> options_;
};

// The text of the option called `name`; empty where there is none.
std::string value_text(const std::vector<OptionValue>& values, std::string_view name);
// Where two objects of the same options differ, in their order.
std::vector<OptionDifference> differences(const std::vector<OptionValue>& before, const std::vector<OptionValue>& now);

// An entry "name:key=value" (base/text/text.h) from a config of an earlier format in today's words, with what it meant
// by leaving keys out. `options`: those of what it names, with its defaults.
std::string renewed_entry(const std::string& entry, const OptionList& options, int format);

// Throws UserError if a field of an options struct lies outside the bounds that its list_options gives it.
template <class Options>
void check_bounds(Options options, const char* section) {
  OptionList list(section);
  options.list_options(list);
  for (const Option& option : list.options()) option.set(option.get());
}

}  // namespace engram
