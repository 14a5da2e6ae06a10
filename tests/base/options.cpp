#include "base/options.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

using namespace engram;

namespace {

enum class Fruit { kApple, kPear };

struct Sample {
  int count = 3;
  double rate = 0.1;
  bool on = false;
  std::string text = "a";
  std::uint64_t seed = 1;
  Fruit fruit = Fruit::kApple;

  OptionList options() {
    OptionList list("sample");
    list.add("count", count, {1, 10}, "how many");
    list.add("rate", rate, {0, 1}, "how fast");
    list.add("on", on, "whether");
    list.add("text", text, "what");
    list.add("seed", seed, "which");
    list.add("fruit", fruit, {{Fruit::kApple, "apple"}, {Fruit::kPear, "pear"}}, "kind");
    return list;
  }
};

std::string message_of(OptionList list, const std::string& name, const std::string& value) {
  try {
    list.set(name, value);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("values are set and read back") {
  Sample sample;
  OptionList list = sample.options();
  list.set("sample.count", "10");
  list.set("sample.rate", "3e-4");
  list.set("sample.on", "true");
  list.set("sample.text", "with spaces");
  list.set("sample.seed", "18446744073709551615");
  list.set("sample.fruit", "pear");
  CHECK(sample.count == 10);
  CHECK(sample.rate == 3e-4);
  CHECK(sample.on);
  CHECK(sample.text == "with spaces");
  CHECK(sample.seed == UINT64_MAX);
  CHECK(sample.fruit == Fruit::kPear);

  Sample copy;
  OptionList copied = copy.options();
  for (const Option& option : list.options()) copied.set(option.name, option.get());
  for (std::size_t i = 0; i < list.options().size(); ++i) CHECK(copied.options()[i].get() == list.options()[i].get());
}

TEST_CASE("values are those of the moment, and two lists of them tell where they differ") {
  Sample sample;
  OptionList list = sample.options();
  const std::vector<OptionValue> before = list.values();
  list.set("sample.fruit", "pear");
  CHECK(value_text(before, "sample.fruit") != "pear");
  CHECK(value_text(list.values(), "sample.fruit") == "pear");
  CHECK(value_text(before, "sample.none").empty());
  CHECK(differences(before, before).empty());
  const std::vector<OptionDifference> changed = differences(before, list.values());
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].name == "sample.fruit");
  CHECK(changed[0].allowed == before.back().allowed);
  CHECK(changed[0].before == value_text(before, "sample.fruit"));
  CHECK(changed[0].now == "pear");
}

TEST_CASE("bad values are refused by name and leave the field alone") {
  for (const std::string bad : {"0", "11", "3.5", "three", "", " 3", "3 ", "99999999999999999999"}) {
    Sample sample;
    const std::string message = message_of(sample.options(), "sample.count", bad);
    CHECK(message == "sample.count = '" + bad + "' is not allowed; it takes integer 1..10");
    CHECK(sample.count == 3);
  }
  for (const std::string bad : {"nan", "inf", "-0.1", "1.1", "0,5"}) {
    Sample sample;
    CHECK(message_of(sample.options(), "sample.rate", bad) != "");
    CHECK(sample.rate == 0.1);
  }
  Sample sample;
  CHECK(message_of(sample.options(), "sample.on", "yes") == "sample.on = 'yes' is not allowed; it takes false | true");
  CHECK(message_of(sample.options(), "sample.fruit", "plum") ==
        "sample.fruit = 'plum' is not allowed; it takes apple | pear");
  CHECK(message_of(sample.options(), "sample.seed", "-1") != "");
}

TEST_CASE("an empty text is refused, unless it has a meaning") {
  Sample sample;
  OptionList list = sample.options();
  std::string note = "x";
  OptionList more("sample");
  more.add("note", note, "of any length", EmptyText::kAllowed);
  list.append(more);
  CHECK(message_of(list, "sample.text", "") == "sample.text = '' is not allowed; it takes text that is not empty");
  CHECK(sample.text == "a");
  list.set("sample.note", "");
  CHECK(note == "");
}

TEST_CASE("whole numbers may be written with a power of ten, exactly and within the bounds") {
  Sample sample;
  std::int64_t steps = 0;
  OptionList list = sample.options();
  OptionList more("sample");
  more.add("steps", steps, {-5'000'000, 9'000'000'000'000'000'000}, "how long");
  list.append(more);
  for (const auto& [text, value] : {std::pair<std::string, std::int64_t>{"1e6", 1'000'000},
                                    {"2M", 2'000'000},
                                    {"1.5M", 1'500'000},
                                    {"10k", 10'000},
                                    {"-5M", -5'000'000},
                                    {"9e18", 9'000'000'000'000'000'000},
                                    {"9007199254740.993k", 9'007'199'254'740'993}}) {
    list.set("sample.steps", text);
    CHECK(steps == value);
  }
  list.set("sample.steps", "2M");
  CHECK(list.options().back().get() == "2000000");  // what is saved
  list.set("sample.count", "1e1");
  CHECK(sample.count == 10);
  list.set("sample.seed", "1.8446744073709551615e19");
  CHECK(sample.seed == UINT64_MAX);
  list.set("sample.rate", "1e-1");  // is no whole number, and need not be one
  CHECK(sample.rate == 0.1);

  for (const std::string bad : {"1.5", "1e-1", "15e-1", "9.1e18", "1e19", "1e400", "-6M", "2m", "1e", "1 M"}) {
    CAPTURE(bad);
    CHECK(message_of(list, "sample.steps", bad) ==
          "sample.steps = '" + bad + "' is not allowed; it takes integer -5000000..9000000000000000000");
    CHECK(steps == 2'000'000);
  }
  CHECK(message_of(list, "sample.seed", "1.8446744073709551616e19") != "");
  CHECK(message_of(list, "sample.count", "1k") != "");
}

TEST_CASE("an unknown key is refused with the nearest known one") {
  Sample sample;
  CHECK(message_of(sample.options(), "sample.cuont", "3") ==
        "unknown key 'sample.cuont'; did you mean 'sample.count'?");
  CHECK(message_of(sample.options(), "elsewhere.entirely.different", "3") ==
        "unknown key 'elsewhere.entirely.different'");
  CHECK(message_of(sample.options(), "rate", "3") == "unknown key 'rate'; did you mean 'sample.rate'?");
}

TEST_CASE("an entry of an earlier format says what it meant by leaving keys out") {
  int width = 3;
  bool skip = true, same = false;
  std::string inner = "x";
  OptionList list("");
  list.add("width", width, {1, 10}, "how wide");
  list.add("skip", skip, "whether");
  list.since(2, "false");
  list.add("same", same, "a default that is what was meant before");
  list.since(2, "false");
  list.add("inner", inner, "another entry");
  list.renewed_by([](const std::string& text, int format) { return text + "@" + std::to_string(format); });
  CHECK(renewed_entry("a:width=4", list, 1) == "a:width=4:skip=false");
  CHECK(renewed_entry("a:skip=true", list, 1) == "a:skip=true");
  CHECK(renewed_entry("a:inner=[b,c]", list, 1) == "a:inner=[b,c@1]:skip=false");
  CHECK(renewed_entry("a:width=4", list, 2) == "a:width=4");
}
