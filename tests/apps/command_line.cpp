#include "apps/command_line.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"

using namespace engram;

namespace {

struct Sample {
  int count = 3;
  double rate = -0.5;
  bool loud = false;
  std::string file;
  OptionList list{""};

  Sample() {
    list.add("count", count, {1, 9}, "how many");
    list.add("rate", rate, {-1, 1}, "how fast");
    list.add("loud", loud, "whether it is heard");
    list.add("file", file, "where to");
  }
  CommandLine parse(const std::vector<std::string>& arguments, const CommandSyntax& syntax = {}) {
    return parse_command_line(arguments, list, syntax);
  }
};

std::string error_of(const std::vector<std::string>& arguments, const CommandSyntax& syntax = {}) {
  Sample sample;
  try {
    sample.parse(arguments, syntax);
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

const CommandSyntax kSettings = {.setting_keys = {"run.seed", "task.penalty"}};

}  // namespace

TEST_CASE("options are set in either form, flags without a value, negative numbers as values") {
  Sample sample;
  const CommandLine line = sample.parse({"--count", "4", "--rate=-1", "--loud", "--file", "a b"});
  CHECK_FALSE(line.help);
  CHECK(sample.count == 4);
  CHECK(sample.rate == -1);
  CHECK(sample.loud);
  CHECK(sample.file == "a b");
  sample.parse({"--rate", "-0.25"});
  CHECK(sample.rate == -0.25);
}

TEST_CASE("settings are collected as text, in order") {
  Sample sample;
  const CommandLine line =
      sample.parse({"--run.seed", "1", "--count=2", "--task.penalty", "-1", "--run.seed=5"}, kSettings);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"run.seed", "1"}, {"task.penalty", "-1"}, {"run.seed", "5"}};
  CHECK(line.settings == expected);
  CHECK(sample.count == 2);
}

TEST_CASE("arguments without dashes") {
  Sample sample;
  CHECK(sample.parse({"a", "--count", "2", "b"}, {.positional = {"X", "Y"}}).positional ==
        std::vector<std::string>{"a", "b"});
  CHECK(error_of({"a"}, {.positional = {"X", "Y"}}) == "the argument Y is missing; see --help");
  CHECK(error_of({"a", "b"}, {.positional = {"X"}}) == "argument 'b' is one too many");
  CHECK(sample.parse({"--help"}, {.positional = {"X"}}).help);
  CHECK(sample.parse({"-h"}).help);
}

TEST_CASE("mistakes are named") {
  CHECK(error_of({"--cuont", "3"}) == "unknown option '--cuont'; did you mean '--count'?");
  CHECK(error_of({"--cuont=3"}) == "unknown option '--cuont'; did you mean '--count'?");
  CHECK(error_of({"--coun", "3"}) == "unknown option '--coun'; did you mean '--count'?");  // no abbreviations
  CHECK(error_of({"--run.sed", "3"}, kSettings) == "unknown option '--run.sed'; did you mean '--run.seed'?");
  CHECK(error_of({"--count", "10"}) == "count = '10' is not allowed; it takes integer 1..9");
  CHECK(error_of({"--count"}).find("--count") != std::string::npos);
  CHECK(error_of({"--loud=maybe"}).find("--loud") != std::string::npos);
}

TEST_CASE("help shows what an option takes and its default") {
  Sample sample;
  std::ostringstream out;
  print_options(out, sample.list, "", 100);
  CHECK(out.str().find("--count                         how many [integer 1..9; default 3]\n") != std::string::npos);
  CHECK(out.str().find("--loud                          whether it is heard\n") != std::string::npos);
  CHECK(out.str().find("--file                          where to [default none]\n") != std::string::npos);

  OptionList all("a");
  all.add("x", sample.count, {1, 9}, "of a");
  all.add("loud", sample.loud, "of a");
  OptionList b("b");
  b.add("y", sample.count, {1, 9}, "of b");
  all.append(b);
  std::ostringstream section;
  print_options(section, all, "a", 100);
  CHECK(section.str().find("--a.x") != std::string::npos);
  CHECK(section.str().find("[false | true; default false]") != std::string::npos);
  CHECK(section.str().find("--b.y") == std::string::npos);
}

TEST_CASE("help fits the columns that it is given, with room for the text") {
  Sample sample;
  double share = 0.5;
  sample.list.add("a_section.an_option_with_a_long_name", share, {0, 1},
                  "the run stops once an evaluation's success rate reaches this; 0: it never does");
  for (std::size_t columns = 40; columns <= 200; ++columns) {
    std::ostringstream out;
    print_options(out, sample.list, "", columns);
    std::istringstream lines(out.str());
    std::size_t longest = 0, count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      CHECK(line.size() <= columns);
      longest = std::max(longest, line.size());
    }
    CHECK(longest > std::min<std::size_t>(columns, 110) - 10);
    CHECK(count <= (columns < 60 ? 12 : columns < 100 ? 9 : 7));
    CHECK(out.str().find("  --a_section.an_option_with_a_long_name\n") != std::string::npos);
  }
}

TEST_CASE("text is wrapped") {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word ";
  std::istringstream lines(wrapped(text, 10, 100));
  std::size_t words = 0, first = 10;
  for (std::string line; std::getline(lines, line); first = 0) {
    CHECK(line.size() + first <= 100);
    for (std::size_t at = line.find("word"); at != std::string::npos; at = line.find("word", at + 1)) ++words;
  }
  CHECK(words == 60);
}
