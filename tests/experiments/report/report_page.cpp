#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "experiments/report/page.h"
#include "experiments/report/paper/latex.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

std::string page_of(const std::string& label) {
  Json data = {
      {"tasks", Json::array()}, {"backbones", Json::array()}, {"runs", Json::array()}, {"scores", Json::object()}};
  for (int seed = 0; seed < 3; ++seed)
    data["runs"].push_back(
        {{"task", label}, {"seed", seed}, {"score", 1.0 / 3}, {"return", std::numeric_limits<double>::quiet_NaN()}});
  Document document(label);
  document.add(Charts{});
  return report_page(document, data);
}

}  // namespace

TEST_CASE("a page's data ends no element and is no script, whatever labels say") {
  const std::string page = page_of("</script><script>alert(1)</script><!--\xff");
  CHECK(!mentions(page, "<script>alert"));
  CHECK(!mentions(page, "</script><script>alert"));
  CHECK(mentions(page, "\\u003c/script>\\u003cscript>alert(1)\\u003c/script>\\u003c!--"));
  CHECK(mentions(page, "<h1>&lt;/script&gt;"));
}

TEST_CASE("of lists the keys are there once, and numbers as exact as they are shown") {
  const std::string page = page_of("t");
  CHECK(mentions(page, R"({"packed_columns":["task","seed","score","return"],"rows":[["t",0,0.33333,null],["t",1,)"));
}

TEST_CASE("a page loads nothing, and runs the one script whose digest it names") {
  const std::string page = page_of("t");
  CHECK(mentions(page, "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-"));
  for (const char* const outside : {" src=", " href=", "@import", "url("}) CHECK(!mentions(page, outside));
}

TEST_CASE("what LaTeX would take for more than text is escaped") {
  CHECK(latex_escaped("a_b & 50% {x} \\y ~^#$") == "a\\_b \\& 50\\% \\{x\\} \\textbackslash{}y \\~{}\\^{}\\#\\$");
}
