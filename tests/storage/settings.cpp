#include "storage/settings.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

SettingsLayer layer_of(const std::string& text) {
  std::istringstream stream(text);
  return read_settings(stream, "it");
}

std::string refusal(const std::string& text) {
  return message_of<UserError>([&] { layer_of(text); });
}

}  // namespace

TEST_CASE("a file of settings: sections, comments, lines") {
  const SettingsLayer layer =
      layer_of("format = 1\n# a comment\n[run]\nmax-steps = 3  # another\n\n[task]\nname=tmaze\r\n  [ a.b. ]\t\n");
  CHECK(layer.settings == Settings{{"format", "1"}, {"run.max_steps", "3"}, {"task.name", "tmaze"}});
  CHECK(config_format(layer.settings) == 1);
  CHECK(config_format({{"run.seed", "3"}}) == kConfigFormat);
  CHECK(layer.name == "it");
  CHECK(layer.lines.at("run.max_steps") == 4);
  CHECK(layer.lines.at("[task]") == 6);
  CHECK(*value_of(layer.settings, "task.name") == "tmaze");
  CHECK(value_of(layer.settings, "task.size") == nullptr);
}

TEST_CASE("every section is there, with keys or without") {
  const SettingsLayer layer = layer_of("x = 1\n[a]\n[b]\nkey = 1\n[a.c]\n# key = 2\n[b]\n[a]\n[d.]\nkey =\n");
  CHECK(layer.sections == std::vector<std::string>{"a", "b", "a.c", "d"});
  CHECK(layer.empty_sections == std::vector<std::string>{"a", "a.c"});
  CHECK(layer.settings == Settings{{"x", "1"}, {"b.key", "1"}, {"d.key", ""}});
}

TEST_CASE("what is no file of settings is refused, with the line") {
  CHECK(refusal("[run]\nseed = 1\n[run]\nseed = 2\n") == "it gives 'run.seed' twice, in lines 2 and 4");
  CHECK(refusal("format = 7\n") == "it is a config of another version: format '7', this program reads formats 1 to 2");
  for (const std::string line : {"seed 1", "[]", "[.]", "= 3", "[run", "[run] x = 1", "x%invalid_line%", "%prefix%"}) {
    CAPTURE(line);
    CHECK(refusal("[run]\n" + line + "\n") ==
          "it, line 2 is malformed: '" + line + "' is neither [section] nor key = value");
  }
  CHECK(mentions(message_of<UserError>([] { read_settings("/no/such/file.ini"); }),
                 "'/no/such/file.ini' cannot be read"));
  const TemporaryFolder folder;
  CHECK(mentions(message_of<UserError>([&] { read_settings(folder.path()); }), "is a folder"));
}

TEST_CASE("a byte order mark before the settings is skipped, and that of another encoding refused") {
  const SettingsLayer layer = layer_of("\xef\xbb\xbf[run]\nseed = 3\n");
  CHECK(layer.settings == Settings{{"run.seed", "3"}});
  CHECK(layer.lines.at("run.seed") == 2);
  CHECK(refusal(std::string("\xff\xfe[\0r\0", 6)) == "it is UTF-16 or UTF-32; save it as UTF-8");
  CHECK(mentions(refusal("[run]\n\xef\xbb\xbfseed 3\n"), "line 2 is malformed"));  // within a text it is no mark
}
