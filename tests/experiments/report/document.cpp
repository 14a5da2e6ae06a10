#include "experiments/report/document.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

const std::string kHostile = "<script>alert(\"1\")</script> & 'x' | `y` *z* _w_ [a](b)\x1b[2J";

Document hostile_document() {
  Document document(kHostile);
  document.add(Heading{2, kHostile});
  document.add(Paragraph{kHostile});
  document.add(BulletList{{kHostile}});
  document.add(TextTable{kHostile, {kHostile, "n"}, {{kHostile, "1"}}});
  document.add(Figure{"name", kHostile, "<svg onload=\"x\"/>", "png"});
  document.add(CodeBlock{kHostile + "\n```\n", kHostile});
  document.add(FoldBegin{kHostile});
  document.add(Charts{});
  document.add(FoldEnd{});
  return document;
}

}  // namespace

TEST_CASE("what comes from files is text in HTML, whatever it says") {
  const std::string html = hostile_document().to_html();
  CHECK(!mentions(html, "<script"));
  CHECK(!mentions(html, "onload"));
  CHECK(!mentions(html, "\x1b"));
  CHECK(mentions(html, "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;"));
  CHECK(mentions(html, "<img src=\"data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9IngiLz4=\" alt=\"&lt;script"));
  for (const char* outside : {"http:", "https:", "//", "@import", "url("}) CHECK(!mentions(html, outside));
}

TEST_CASE("what comes from files is text in Markdown") {
  const std::string markdown = hostile_document().to_markdown("figures");
  CHECK(!mentions(markdown, "<script>alert(\"1\")</script> & 'x' | `y` *z*\n"));
  CHECK(mentions(markdown,
                 "| &lt;script&gt;alert(\"1\")&lt;/script&gt; &amp; 'x' \\| \\`y\\` \\*z\\* \\_w\\_ \\[a\\](b) "));
  CHECK(mentions(markdown, "](<figures/name.svg>)"));
  CHECK(mentions(markdown, "\n````\n<script>"));  // longer than the fence inside
}

TEST_CASE("a table's text columns are left, its numbers right") {
  Document document("d");
  document.add(TextTable{"c", {"a", "b", "n"}, {{"x", "y", "1"}}, 2});
  CHECK(mentions(document.to_markdown("f"), "| a | b | n |\n|---|---|---:|\n| x | y | 1 |\n"));
  CHECK(mentions(document.to_html(), "<tr><td class=\"text\">x</td><td class=\"text\">y</td><td>1</td></tr>"));
}

TEST_CASE("a figure for papers is in Markdown alone") {
  Document document("d");
  document.add(Figure{"plot", "of that", "<svg/>", "png", "", /*paper=*/true});
  CHECK(!mentions(document.to_html(), "of that"));
  CHECK(mentions(document.to_markdown("f"), "](<f/plot.svg>)"));
}

TEST_CASE("a figure without SVG is its PNG") {
  Document document("d");
  document.add(Figure{"film", "c", "", "png"});
  CHECK(mentions(document.to_html(), "data:image/png;base64,cG5n"));
  CHECK(mentions(document.to_markdown("f"), "](<f/film.png>)"));
}

TEST_CASE("a figure without a picture says why, with its caption") {
  Document document("d");
  CHECK(document.why_figures_are_missing().empty());
  document.add(Figure{"film", "c", "", "png"});
  CHECK(document.why_figures_are_missing().empty());
  document.add(Figure{"plot", "of <that>", "", "", "no gnuplot <here>"});
  document.add(Figure{"plot2", "c", "", "", "the same"});
  CHECK(document.why_figures_are_missing() == "no gnuplot <here>");
  for (const std::string& text : {document.to_html(), document.to_markdown("f")}) {
    CHECK(mentions(text, "This figure is left out: no gnuplot &lt;here&gt;"));
    CHECK(mentions(text, "of &lt;that&gt;"));
    CHECK(!mentions(text, "plot.png"));
    CHECK(!mentions(text, "base64,\""));
  }
}
