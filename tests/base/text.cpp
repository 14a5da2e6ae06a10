#include "base/text/text.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

using namespace engram;

namespace {

using Words = std::vector<std::string>;
using Settings = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("a list is split at its separators, but not inside square brackets") {
  CHECK(split_list("a,b") == Words{"a", "b"});
  CHECK(split_list("") == Words{""});
  CHECK(split_list(",a,") == Words{"", "a", ""});
  CHECK(split_list("a,s:list=[b,c:d=1],e") == Words{"a", "s:list=[b,c:d=1]", "e"});
  CHECK(split_list("[a,[b,c]],d") == Words{"[a,[b,c]]", "d"});
  CHECK(split_list("s:list=[b:d=1]:e=2", ':') == Words{"s", "list=[b:d=1]", "e=2"});
  for (const std::string text : {"a,[b", "a],b", "a][b", "[[a]"})
    CHECK_THROWS_WITH_AS(split_list(text), ("'" + text + "' has a square bracket without its other one").c_str(),
                         UserError);
}

TEST_CASE("a setting may be a list in square brackets") {
  const NamedSettings parsed = parse_named_settings("stack:stack=[deltanet:heads=1,window:window=3]:width=8");
  CHECK(parsed.name == "stack");
  CHECK(parsed.settings == Settings{{"stack", "deltanet:heads=1,window:window=3"}, {"width", "8"}});
  CHECK(parse_named_settings("a").settings.empty());
  CHECK(parse_named_settings("a:b=[c]").settings == Settings{{"b", "c"}});
  CHECK(parse_named_settings("a:b=[c],[d]").settings == Settings{{"b", "[c],[d]"}});
  CHECK(parse_named_settings("a:b=c[d]").settings == Settings{{"b", "c[d]"}});
  CHECK(parse_named_settings("a:b=[[c,d]]").settings == Settings{{"b", "[c,d]"}});
  for (const char* text : {"a", "a:b=c:d=e", "a:b=[c,d:e=f]", "a:b=[[c],[d]]"})
    CHECK(named_settings_text(parse_named_settings(text)) == text);
  CHECK_THROWS_WITH_AS(parse_named_settings("a:b"), "'b' in 'a:b' is not key=value", UserError);
  CHECK_THROWS_AS(parse_named_settings("a:b="), UserError);
  CHECK_THROWS_AS(parse_named_settings("a:b=[c"), UserError);
}

TEST_CASE("a byte order mark is skipped where it is that of UTF-8, and refused where it is another") {
  using namespace std::string_view_literals;
  CHECK(without_byte_order_mark("\xef\xbb\xbfkey = 1", "it") == "key = 1");
  CHECK(without_byte_order_mark("key\xef\xbb\xbf", "it") == "key\xef\xbb\xbf");
  CHECK(without_byte_order_mark("", "it") == "");
  for (const std::string_view text : {"\xff\xfek\0"sv, "\xfe\xff\0k"sv, "\xff\xfe\0\0"sv, "\0\0\xfe\xff"sv})
    CHECK_THROWS_WITH_AS(without_byte_order_mark(text, "it"), "it is UTF-16 or UTF-32; save it as UTF-8", UserError);
}

TEST_CASE("UTF-8 is told from other bytes") {
  for (const std::string text : {"", "plain", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8e\xb2", "\xed\x9f\xbf",
                                 "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbd"})
    CHECK_MESSAGE(is_utf8(text), text.size());
  // Latin-1; a byte alone; cut; more bytes than needed; a surrogate; behind U+10FFFF; never a byte of UTF-8.
  for (const std::string text :
       {"caf\xe9", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x8e", "\xc3(", "\xe2(\x82", "\xc0\xaf", "\xe0\x9f\xbf",
        "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"})
    CHECK_MESSAGE(!is_utf8(text), one_line(text));
}
