#include "experiments/report/plots.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/report/paper/gnuplot.h"
#include "tests/storage/small_disk.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

// With another PATH while it lives.
class Path {
 public:
  explicit Path(const std::string& path) : before_(std::getenv("PATH")) { setenv("PATH", path.c_str(), 1); }
  ~Path() { setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

const std::string kHostile = "it's `touch here` \"$(touch here)\" %s {/Bold x} \\n\n@ &<b>";
const std::vector<PlottedMethod> kMethods = {{"hqlt", false}, {kHostile, false}, {"none", true}};

bool is_png(const std::string& bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

}  // namespace

TEST_CASE("plots are SVG and PNG with their script and data, and labels are text, whatever they say") {
  const TemporaryFolder folder;
  Panel panel{kHostile, kHostile, kHostile, {}, {{kHostile, 0.5}}};
  for (std::size_t method = 0; method < 3; ++method)
    panel.curves.push_back(
        {method, {{0, {0.1, {}}}, {10, {0.5, std::pair(0.2, 0.9)}}, {20, {1, std::pair(1.0, 1.0)}}}});
  std::vector<Figure> figures = {plot_panels(folder.path(), "bands", "c", kMethods, {panel, panel})};
  panel.bands = false;
  figures.push_back(plot_panels(folder.path(), "bars", "c", kMethods, {panel}));
  figures.push_back(plot_intervals(folder.path(), "rows", "c", kMethods,
                                   {{kHostile, {{0, {0.5, std::pair(0.1, 0.6)}}, {1, {0.2, {}}}}}}));
  figures.push_back(plot_matrix(folder.path(), "matrix", "c", {{"hqlt", kHostile}, {kHostile}, {{1.0}, {0.0}}}));
  for (const Figure& figure : figures) {
    CAPTURE(figure.name);
    CHECK(mentions(figure.svg, "<svg"));
    CHECK(mentions(figure.svg, "</svg>"));
    CHECK(mentions(figure.svg, "\\n @ &amp;&lt;b>"));  // the end of the hostile label
    CHECK(mentions(figure.svg, figure.name == "matrix" ? "rgb(  0,  90, 150)" : "rgb(  0, 114, 178)"));
    CHECK(is_png(figure.png));
    CHECK(read_text(folder / (figure.name + ".svg")) == figure.svg);
    CHECK(read_text(folder / (figure.name + ".png")) == figure.png);
    CHECK(std::filesystem::exists(folder / (figure.name + ".gp")));
    CHECK(std::filesystem::exists(folder / (figure.name + ".dat")));
  }
  CHECK(!std::filesystem::exists(folder / "here"));
}

TEST_CASE("a single point, a single place and a logarithmic sweep can be drawn") {
  const TemporaryFolder folder;
  Panel panel{"", "x", "y", {{0, {{5, {0.5, {}}}}}}, {}};
  CHECK(is_png(plot_panels(folder.path(), "one", "c", kMethods, {panel}).png));
  panel.bands = false;
  panel.curves[0].points = {{1, {0.5, {}}}, {10, {0.5, {}}}, {1000, {0.5, {}}}};
  const Figure figure = plot_panels(folder.path(), "log", "c", kMethods, {panel});
  CHECK(mentions(read_text(folder / "log.gp"), "set logscale x"));
  CHECK(mentions(figure.svg, "> 1000<"));
}

TEST_CASE("a matrix has a number where there is one") {
  const TemporaryFolder folder;
  const Figure figure =
      plot_matrix(folder.path(), "matrix", "c", {{"x", "y"}, {"a", "b"}, {{0.123, std::nullopt}, {1.0, 0.5}}});
  for (const char* const number : {">12<", ">100<", ">50<"}) CHECK(mentions(figure.svg, number));
  CHECK(read_text(folder / "matrix.dat") ==
        "# column, row, number, colour, colour of the number\n0 0 12 0xD9E4EB 0x333333\n0 1 100 0x005A96 0xFFFFFF\n"
        "1 1 50 0x7CA9C7 0x333333\n");
  CHECK_THROWS_AS(plot_matrix(folder.path(), "none", "c", {}), std::invalid_argument);

  // Coloured from chance on: half of the way from 0.5 to 1, and nothing at chance and below it.
  plot_matrix(folder.path(), "chance", "c", {{"x"}, {"a", "b", "c"}, {{0.75, 0.5, 0.4}}, {0.5, 0.5, 0.5}});
  const std::string from_chance = read_text(folder / "chance.dat");
  for (const char* const cell : {"0 0 75 0x7CA9C7 0x333333\n", "1 0 50 0xF7F7F7 ", "2 0 40 0xF7F7F7 "})
    CHECK(mentions(from_chance, cell));

  // Numbers below 0, as normalised ones may be, and more columns than a page is wide.
  const std::vector<std::string> many(60, "task");
  const Figure wide =
      plot_matrix(folder.path(), "wide", "c", {{"x"}, many, {std::vector<std::optional<double>>(60, -0.02)}});
  CHECK(mentions(wide.svg, ">-2<"));
  CHECK(mentions(read_text(folder / "wide.dat"), "0 0 -2 0xF7F7F7 0x333333\n"));
}

TEST_CASE("legends name the methods that have curves, of which no two look the same") {
  const TemporaryFolder folder;
  std::vector<PlottedMethod> methods;
  Panel panel{"", "x", "y", {}, {}};
  for (std::size_t i = 0; i < 10; ++i) {
    methods.push_back({"a name of some length, " + std::to_string(i)});
    if (i != 3) panel.curves.push_back({i, {{0, {0.1, {}}}, {1, {0.5, {}}}}});
  }
  const Figure figure = plot_panels(folder.path(), "many", "c", methods, {panel});
  std::set<std::string> looks;
  std::istringstream script(read_text(folder / "many.gp"));
  for (std::string line; std::getline(script, line) && !mentions(line, "set style line 100");)
    if (const std::size_t look = line.find(" lc rgb"); line.starts_with("set style line "))
      looks.insert(line.substr(look));
  CHECK(looks.size() == 9);
  for (std::size_t i = 0; i < methods.size(); ++i) CHECK(mentions(figure.svg, methods[i].label) == (i != 3));
}

TEST_CASE("without gnuplot there are script and data, and one line says what to install; if it fails, its words") {
  const TemporaryFolder folder;
  CHECK(mentions(gnuplot_version().value(), "gnuplot 5."));
  const Matrix matrix{{"x"}, {"a"}, {{0.5}}};
  CHECK(plot_matrix(folder.path(), "matrix", "c", matrix).missing.empty());
  write_text(folder / "other.svg", "of another plot");
  {
    const Path path(folder.path().string());
    CHECK(!gnuplot_version());
    const Figure figure = plot_matrix(folder.path(), "matrix", "c", matrix);
    CHECK((figure.svg.empty() && figure.png.empty() && figure.caption == "c"));
    CHECK(mentions(figure.missing, "gnuplot-nox"));
    CHECK(!mentions(figure.missing, "\n"));
    for (const char* const file : {"matrix.gp", "matrix.dat", "other.svg"})
      CHECK(std::filesystem::exists(folder / file));
    // A picture of before would be of other numbers.
    for (const char* const file : {"matrix.svg", "matrix.png"}) CHECK(!std::filesystem::exists(folder / file));
  }
  write_text(folder / "bad.gp", "set term svg\nplot nonsense(\n");
  const std::string message = message_of<GnuplotError>([&] { run_gnuplot({"bad.gp"}, folder.path()); });
  CHECK(mentions(message, "gnuplot failed: \"bad.gp\" line 2: "));
  CHECK(!mentions(message, "\n"));
}

TEST_CASE("gnuplot leaves no plot cut off in silence where files may not grow") {
  const TemporaryFolder folder;
  write_text(folder / "long.gp", "set term svg\nset output 'long.svg'\nplot for [i=1:40] sin(i*x)\nset output\n");
  const SmallDisk small(4096);
  const std::string message = message_of<std::runtime_error>([&] { run_gnuplot({"long.gp"}, folder.path()); });
  CHECK(message == "gnuplot failed: File size limit exceeded");
}

TEST_CASE("a gnuplot that cannot draw is as none, and its words are the reason") {
  const TemporaryFolder folder;
  write_text(folder / "gnuplot", "#!/bin/sh\necho '\"x.gp\" line 3: unknown terminal pngcairo'; exit 1\n");
  std::filesystem::permissions(folder / "gnuplot", std::filesystem::perms::owner_all);
  const Path path(folder.path().string() + ":/usr/bin:/bin");
  const Figure figure = plot_matrix(folder.path(), "matrix", "c", {{"x"}, {"a"}, {{0.5}}});
  CHECK(figure.svg.empty());
  CHECK(mentions(figure.missing, "unknown terminal pngcairo"));
}
