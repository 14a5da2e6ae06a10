#include "apps/cli/command_line.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

struct Sample {
  int count = 3;
  double rate = -0.5;
  bool loud = false;
  std::string file;
  std::string seed;
  std::int64_t first_episode = 0;
  bool dry_run = false;
  OptionList list{""};

  Sample() {
    list.add("count", count, {1, 9}, "how many");
    list.add("rate", rate, {-1, 1}, "how fast");
    list.add("loud", loud, "whether it is heard");
    list.add("file", file, "where to");
    list.add("seed", seed, "short for --run.seed");
    list.add("first_episode", first_episode, {0, 1'000'000}, "from where on");
    list.add("dry-run", dry_run, "only look");
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

const CommandSyntax kSettings = {
    .setting_keys = {"run.seed", "run.max_seconds", "task.penalty", "learner.learning_rate"},
    .short_forms = {{"seed", "run.seed"}}};
const CommandSyntax kOneArgument = {.command = "film", .positional = {"DIR"}};

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
      sample.parse({"--run.seed", "1", "--count=2", "--task.penalty", "-1", "--run.seed=1"}, kSettings);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"run.seed", "1"}, {"task.penalty", "-1"}, {"run.seed", "1"}};
  CHECK(line.settings == expected);
  CHECK(sample.count == 2);
}

TEST_CASE("arguments without dashes") {
  Sample sample;
  CHECK(sample.parse({"a", "--count", "2", "b"}, {.positional = {"X", "Y"}}).positional ==
        std::vector<std::string>{"a", "b"});
  CHECK(error_of({"a"}, {.positional = {"X", "Y"}}) == "the argument Y is missing; see --help");
  CHECK(error_of({"a", "b"}, kOneArgument) == "engram film takes one argument, DIR; 'b' is one too many");
  CHECK(error_of({"a", "b", "c"}, {.command = "join", .positional = {"X", "Y"}}) ==
        "engram join takes two arguments, X, Y; 'c' is one too many");
  CHECK(error_of({"b"}, {.command = "sleep"}) == "engram sleep takes no argument without dashes; 'b' is one too many");
  CHECK(sample.parse({"--help"}, {.positional = {"X"}}).help);
  CHECK(sample.parse({"-h"}).help);
}

TEST_CASE("an empty value is no value") {
  CHECK(error_of({"--file", ""}) == "file = '' is not allowed; it takes text that is not empty");
  CHECK(error_of({"--seed", ""}, kSettings) == "seed = '' is not allowed; it takes text that is not empty");
  CHECK(error_of({"--count", ""}) == "count = '' is not allowed; it takes integer 1..9");
  CHECK(error_of({""}, kOneArgument) == "'' is not allowed as DIR: it is empty");
  CHECK(error_of({""}, {.command = "sleep"}) == "engram sleep takes no argument without dashes; '' is one too many");
}

TEST_CASE("arguments that look like options are taken for ones without dashes") {
  CHECK(error_of({"a", "loud"}, kOneArgument) ==
        "engram film takes one argument, DIR; 'loud' is one too many; did you mean '--loud'?");
  CHECK(error_of({"a", "first-episode=3"}, kOneArgument) ==
        "engram film takes one argument, DIR; 'first-episode=3' is one too many; did you mean '--first_episode=3'?");
  CHECK(error_of({"count=3"}, kOneArgument) == "'count=3' is not allowed as DIR; did you mean '--count=3'?");
  CHECK(error_of({"-count", "3"}, kOneArgument) == "unknown option '-count'; did you mean '--count'?");
  CHECK(error_of({"-x"}, kOneArgument) == "unknown option '-x'");
  Sample sample;
  CHECK(sample.parse({"unknown=3"}, kOneArgument).positional == std::vector<std::string>{"unknown=3"});
  CHECK(sample.parse({"loud"}, kOneArgument).positional == std::vector<std::string>{"loud"});
}

TEST_CASE("names are taken with dashes and with underscores") {
  Sample sample;
  const CommandLine line = sample.parse(
      {"--first-episode", "5", "--dry_run", "--run.max-seconds=7", "--learner.learning-rate", "0.1"}, kSettings);
  CHECK(sample.first_episode == 5);
  CHECK(sample.dry_run);
  CHECK(line.settings ==
        std::vector<std::pair<std::string, std::string>>{{"run.max_seconds", "7"}, {"learner.learning_rate", "0.1"}});
  sample.parse({"--file", "--first-movie"});
  CHECK(sample.file == "--first-movie");  // a value stays as it is
  CHECK(error_of({"--first-episode=7", "--first_episode=8"}) ==
        "--first_episode '7' and --first_episode '8' contradict each other: give one of them");
  CHECK(error_of({"--first-episode="}) == "option '--first-episode=' has no value");
  CHECK(error_of({"--first-episode"}).find("first_episode") != std::string::npos);
  CHECK(error_of({"--dry_run=maybe"}).find("--dry-run") != std::string::npos);
  CHECK(error_of({"--first-episode", "-1"}) == "first_episode = '-1' is not allowed; it takes integer 0..1000000");
}

TEST_CASE("contradictions are refused with both names and values, and the same said twice is taken") {
  CHECK(error_of({"--seed", "1", "--run.seed", "2"}, kSettings) ==
        "--seed '1' and --run.seed '2' contradict each other: give one of them");
  CHECK(error_of({"--run.seed=2", "--seed=1"}, kSettings) ==
        "--run.seed '2' and --seed '1' contradict each other: give one of them");
  CHECK(error_of({"--count", "1", "--count", "2"}) ==
        "--count '1' and --count '2' contradict each other: give one of them");
  CHECK(error_of({"--task.penalty=-1", "--task.penalty=0"}, kSettings) ==
        "--task.penalty '-1' and --task.penalty '0' contradict each other: give one of them");
  CHECK(error_of({"--file", "1k", "--file", "1000"}) ==
        "--file '1k' and --file '1000' contradict each other: give one of them");
  Sample sample;
  sample.parse({"--seed", "1000", "--run.seed", "1k", "--count", "2", "--count=2", "--loud", "--loud", "--file", "a",
                "--file", "a"},
               kSettings);
  CHECK(sample.count == 2);
  CHECK(sample.file == "a");
  CHECK(sample.seed == "1000");
}

TEST_CASE("the words of a list set another list to the same values") {
  Sample before;
  before.parse({"--count=4", "--rate=-1", "--dry-run", "--file=a b", "--first_episode=1k"});
  const std::vector<std::string> words = command_line_words(before.list);
  CHECK(words == std::vector<std::string>{"--count=4", "--rate=-1", "--file=a b", "--first_episode=1000", "--dry-run"});
  Sample after;
  after.parse(words);
  for (std::size_t i = 0; i < before.list.options().size(); ++i)
    CHECK(after.list.options()[i].get() == before.list.options()[i].get());
}

TEST_CASE("a file that is there is replaced only by force") {
  const TemporaryFolder folder;
  const auto refusal = [&](const char* name, bool force) {
    return message_of<UserError>([&] { check_not_there("output", folder / name, force); });
  };
  write_text(folder / "film.mp4", "x");
  std::filesystem::create_symlink("nowhere", folder / "link");
  CHECK(refusal("film.mp4", false) ==
        "--output would overwrite '" + (folder / "film.mp4").string() + "': choose another name, or give --force");
  CHECK(mentions(refusal("link", false), "would overwrite"));
  CHECK(refusal("film.mp4", true) == "nothing was thrown");
  CHECK(refusal("new.mp4", false) == "nothing was thrown");
  CHECK(read_text(folder / "film.mp4") == "x");
}

TEST_CASE("mistakes are named") {
  CHECK(error_of({"--cuont", "3"}) == "unknown option '--cuont'; did you mean '--count'?");
  CHECK(error_of({"--cuont=3"}) == "unknown option '--cuont'; did you mean '--count'?");
  CHECK(error_of({"--coun", "3"}) == "unknown option '--coun'; did you mean '--count'?");  // no abbreviations
  CHECK(error_of({"--run.sed", "3"}, kSettings) == "unknown option '--run.sed'; did you mean '--run.seed'?");
  CHECK(error_of({"--count", "10"}) == "count = '10' is not allowed; it takes integer 1..9");
  CHECK(error_of({"--count"}).find("--count") != std::string::npos);
  CHECK(error_of({"--file", "--count", "3"}) == "option '--file' has no value; '--count' is an option");
  CHECK(error_of({"--file", "--first-episode=3"}) == "option '--file' has no value; '--first-episode=3' is an option");
  CHECK(error_of({"--loud=maybe"}).find("--loud") != std::string::npos);
  CHECK(error_of({"--learning-rate", "1"}, kSettings) ==
        "unknown option '--learning-rate'; did you mean '--learner.learning_rate'?");
  CHECK(error_of({"--learning_rate=1"}, kSettings) ==
        "unknown option '--learning_rate'; did you mean '--learner.learning_rate'?");
  CHECK(error_of({"--lr", "1"}, kSettings) == "unknown option '--lr'; did you mean '--learner.learning_rate'?");
  CHECK(error_of({"--nothing-like-it", "1"}, kSettings) == "unknown option '--nothing-like-it'");
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
  int count_option = 3;
  double rate = -0.5, share = 0.5;
  bool loud = false;
  std::string file;
  OptionList list("");
  list.add("count", count_option, {1, 9}, "how many");
  list.add("rate", rate, {-1, 1}, "how fast");
  list.add("loud", loud, "whether it is heard");
  list.add("file", file, "where to");
  list.add("a_section.an_option_with_a_long_name", share, {0, 1},
           "the run stops once an evaluation's success rate reaches this; 0: it never does");
  for (std::size_t columns = 40; columns <= 200; ++columns) {
    std::ostringstream out;
    print_options(out, list, "", columns);
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

TEST_CASE("help begins with a line a usage and a paragraph a text, all wrapped") {
  CHECK(help_head({"engram x DIR", "engram x FILE"}, {"Does x.", "Or y."}) ==
        "engram x DIR\nengram x FILE\n\nDoes x.\n\nOr y.\n\n");
  const std::string words(300, 'x');
  std::istringstream lines(help_head({words}, {words}));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= help_columns());
}
