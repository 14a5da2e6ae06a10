#include "experiments/report/plots.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <ostream>
#include <stdexcept>

#include "base/text/formatted.h"
#include "experiments/report/paper/gnuplot.h"
#include "experiments/results/csv.h"
#include "experiments/statistics/score_table.h"
#include "storage/files.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

// Okabe and Ito's, without yellow, which is too light for lines on white. Black and grey are for controls and levels.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
constexpr const char* kDashes[] = {"1", "(14,4)", "(5,3)", "(14,3,3,3)", "(2,3)", "(16,3,2,3,2,3)"};
constexpr int kMarkers[] = {7, 5, 9, 13, 11, 15};  // filled circle, square, triangle, diamond, triangle down, pentagon
constexpr const char* kControlColours[] = {"#7F7F7F", "#000000", "#4D4D4D", "#B0B0B0"};
constexpr const char* kControlDashes[] = {"(3,3)", "(10,4)", "(6,2,2,2)", "(2,5)"};
constexpr int kControlMarkers[] = {6, 4, 8, 12};  // the same, open
const std::string kPercentTics = "('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)";
constexpr const char* kLevelColours[] = {"#444444", "#888888"};
constexpr const char* kLevelDashes[] = {"(1,3)", "(1,5)"};

// Lengths in pixels of the SVG; the PNG has twice as many.
constexpr int kWidth = 960, kHeightsLabel = 36, kNarrowWidth = 760, kLegendRow = 24, kLegendSample = 64,
              kLegendEntry = 190, kCharacter = 8;

using LegendEntries = std::vector<std::pair<std::string, std::string>>;  // label, style

struct Area {
  double left, right, bottom, top;  // fractions of the picture
};

// The script draws its body twice, for the two kinds of file.
struct Plot {
  std::string name;
  int width = kWidth, height = 0;
  std::string body, data;
  int blocks = 0;  // of data so far

  Area area(int left, int right, int top, int bottom) const {  // from the upper left corner
    return {static_cast<double>(left) / width, static_cast<double>(right) / width,
            1 - static_cast<double>(bottom) / height, 1 - static_cast<double>(top) / height};
  }
};

template <std::size_t size, class T>
T cycled(const T (&values)[size], std::size_t index) {
  return values[index % size];
}

std::string text(double number) { return number_text(std::isfinite(number) ? number : 0); }

std::string set_area(const Area& area) {
  return "set lmargin at screen " + text(area.left) + "\nset rmargin at screen " + text(area.right) +
         "\nset bmargin at screen " + text(area.bottom) + "\nset tmargin at screen " + text(area.top) + "\n";
}

// Of numbers of one cycle and the next the same colours meet other dashes and markers.
template <std::size_t size, class T>
T cycled_aside(const T (&values)[size], std::size_t index, std::size_t step) {
  return values[(index + index / size * step) % size];
}

// Pixels that the longest of these takes.
int width_of(const std::vector<std::string>& labels) {
  std::size_t longest = 0;
  for (const std::string& label : labels) longest = std::max(longest, label.size());
  return kCharacter * static_cast<int>(std::min<std::size_t>(longest, 24));
}

// Of each method that is shown the place among those of its kind, controls or others.
std::vector<std::size_t> places_of(const std::vector<PlottedMethod>& methods, const std::vector<bool>& shown) {
  std::vector<std::size_t> places;
  std::size_t controls = 0, others = 0;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    std::size_t& next = methods[i].control ? controls : others;
    places.push_back(shown[i] ? next++ : next);
  }
  return places;
}

// "#RRGGBB"
std::string colour_of(const PlottedMethod& method, std::size_t place) {
  return method.control ? cycled(kControlColours, place) : cycled(kColours, place);
}

// Line style METHOD + 1 of each method that is shown, and 100 + LEVEL of the levels.
std::string line_styles(const std::vector<PlottedMethod>& methods, const std::vector<bool>& shown) {
  std::string styles;
  const std::vector<std::size_t> places = places_of(methods, shown);
  for (std::size_t i = 0; i < methods.size(); ++i) {
    if (!shown[i]) continue;
    const bool control = methods[i].control;
    const std::size_t place = places[i];
    styles += "set style line " + std::to_string(i + 1) + " lc rgb '" + colour_of(methods[i], place) + "' dt " +
              (control ? cycled(kControlDashes, place) : cycled_aside(kDashes, place, 1)) + " lw 2 pt " +
              std::to_string(control ? cycled(kControlMarkers, place) : cycled_aside(kMarkers, place, 2)) + " ps 0.8\n";
  }
  for (std::size_t i = 0; i < std::size(kLevelColours); ++i)
    styles += "set style line " + std::to_string(100 + i) + " lc rgb '" + kLevelColours[i] + "' dt " + kLevelDashes[i] +
              " lw 1.5\n";
  return styles;
}

int legend_rows(const LegendEntries& entries, int width) {
  std::vector<std::string> labels;
  for (const auto& entry : entries) labels.push_back(entry.first);
  const int most = std::max(1, width / std::max(kLegendEntry, kLegendSample + width_of(labels)));
  return (static_cast<int>(entries.size()) + most - 1) / most;
}

// Rows of about the same length.
int legend_columns(const LegendEntries& entries, int width) {
  const int rows = legend_rows(entries, width);
  return (static_cast<int>(entries.size()) + rows - 1) / rows;
}

int legend_height(const LegendEntries& entries, int width) { return legend_rows(entries, width) * kLegendRow + 10; }

// The names in rows above everything.
std::string legend(const Plot& plot, const LegendEntries& entries) {
  std::string script =
      "unset border\nunset tics\nunset xlabel\nunset ylabel\nunset title\nunset logscale\nunset grid\n"
      "set xrange [0:1]\nset yrange [0:1]\n";
  const auto columns = static_cast<std::size_t>(legend_columns(entries, plot.width));
  for (std::size_t begin = 0; begin < entries.size(); begin += columns) {
    const int top = static_cast<int>(begin / columns) * kLegendRow + 6;
    script += set_area(plot.area(0, plot.width, top, top + kLegendRow));
    script += "set key at screen 0.5, screen " + text(1 - (top + kLegendRow / 2.0) / plot.height) +
              " center center horizontal Left reverse samplen 3.5 width 1 maxrows 1\nplot ";
    for (std::size_t i = begin; i < std::min(entries.size(), begin + columns); ++i)
      script += std::string(i == begin ? "" : ", ") + "2 with " + entries[i].second + " title " +
                gnuplot_string(entries[i].first);
    script += "\n";
  }
  return script + "unset key\nset border 3 lc rgb '#333333'\nset tics out scale 0.6\n";
}

// Returns the index of the block.
int add_block(Plot& plot, const std::string& title, const std::vector<std::pair<double, Estimate>>& points) {
  if (plot.blocks > 0) plot.data += "\n\n";
  plot.data += "# " + gnuplot_string(title) + ": place, value, low, high\n";
  for (const auto& [place, estimate] : points) {
    const auto [low, high] = estimate.interval.value_or(std::pair(estimate.value, estimate.value));
    plot.data += text(place) + " " + text(estimate.value) + " " + text(low) + " " + text(high) + "\n";
  }
  return plot.blocks++;
}

void write_file(const fs::path& file, const std::string& contents) {
  replace_file(file, [&](std::ostream& stream) { stream << contents; });
}

std::string read_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string contents{std::istreambuf_iterator<char>(stream), {}};
  if (contents.empty()) throw GnuplotError("gnuplot has not written '" + file.string() + "'");
  return contents;
}

Figure draw(const PlotFolder& folder, const Plot& plot, const std::string& caption) {
  const auto size = [&](int scale) {
    return std::to_string(scale * plot.width) + "," + std::to_string(scale * plot.height);
  };
  std::string script = "# gnuplot " + plot.name + ".gp draws " + plot.name + ".svg, " + plot.name + ".png" +
                       (folder.pdf ? " and " + plot.name + ".pdf" : "") + "\n";
  const auto draw_as = [&](const std::string& terminal, const std::string& ending) {
    script += "\nreset\nset terminal " + terminal + "\nset output '" + plot.name + ending + "'\nset multiplot\n" +
              plot.body + "unset multiplot\nset output\n";
  };
  draw_as("svg noenhanced size " + size(1) + " font 'Helvetica,13' background rgb 'white'", ".svg");
  draw_as("pngcairo noenhanced size " + size(2) + " font 'Helvetica,20' linewidth 2 pointscale 2", ".png");
  if (folder.pdf)
    draw_as("pdfcairo noenhanced size " + text(plot.width / 96.0) + "in," + text(plot.height / 96.0) +
                "in font 'Helvetica,10'",
            ".pdf");
  write_file(folder.path / (plot.name + ".dat"), plot.data);
  write_file(folder.path / (plot.name + ".gp"), script);
  const fs::path svg = folder.path / (plot.name + ".svg"), png = folder.path / (plot.name + ".png"),
                 pdf = folder.path / (plot.name + ".pdf");
  try {
    run_gnuplot({plot.name + ".gp"}, folder.path);
    return {plot.name, caption, read_file(svg), read_file(png), "", /*paper=*/true};
  } catch (const GnuplotError& error) {
    std::error_code ignored;
    for (const fs::path& picture : {svg, png, pdf}) fs::remove(picture, ignored);  // of another report, or half a one
    return {plot.name, caption, "", "", error.what(), /*paper=*/true};
  }
}

std::pair<double, double> x_range(const Panel& panel) {
  double low = INFINITY, high = -INFINITY;
  for (const Curve& curve : panel.curves)
    for (const auto& point : curve.points) {
      low = std::min(low, point.first);
      high = std::max(high, point.first);
    }
  if (!(low < high)) return std::isfinite(low) ? std::pair(low - 1, low + 1) : std::pair(0.0, 1.0);
  return {low, high};
}

// 1, 2 or 5 times a power of ten, so that about `tics` of them make `range`.
double tic_step(double range, int tics) {
  const double power = std::pow(10, std::floor(std::log10(range / tics)));
  for (const double factor : {1, 2, 5})
    if (factor * power * tics >= range) return factor * power;
  return 10 * power;
}

// A panel's axes and curves; `first_of_row`: it has the label of the heights.
std::string panel_script(Plot& plot, const Panel& panel, const Area& area, bool first_of_row,
                         const std::vector<PlottedMethod>& methods) {
  const auto [low, high] = x_range(panel);
  const bool logarithmic = !panel.bands && low > 0 && high >= 10 * low;
  const double room = panel.bands ? 0 : 0.03 * (high - low);
  const double left = logarithmic ? low / 1.15 : low - room, right = logarithmic ? high * 1.15 : high + room;
  std::string script = set_area(area);
  script += "set title " + gnuplot_string(panel.title) + " offset 0,-0.6\n";
  script += "set xlabel " + gnuplot_string(panel.x_label) + " offset 0,0.4\n";
  script += first_of_row ? "set ylabel " + gnuplot_string(panel.y_label) + " offset 1.2,0\n" : "unset ylabel\n";
  script += "set xrange [" + text(left) + ":" + text(right) + "]\nset yrange [-0.03:1.03]\nset ytics nomirror " +
            kPercentTics + "\n";
  script += "set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7\n";
  script += std::string(logarithmic ? "set" : "unset") + " logscale x\n";
  if (logarithmic) {
    std::string tics;
    for (const auto& point : panel.curves.front().points) tics += (tics.empty() ? "" : ",") + text(point.first);
    script += "set xtics nomirror (" + tics + ")\n";
  } else {
    script += "set xtics nomirror " + text(tic_step(high - low, panel.bands ? 5 : 8)) + "\n";
  }
  std::string bands, lines;
  const std::string file = gnuplot_string(plot.name + ".dat");
  for (std::size_t i = 0; i < panel.levels.size(); ++i)
    lines += (lines.empty() ? "" : ", ") + text(panel.levels[i].height) + " with lines ls " + std::to_string(100 + i) +
             " notitle";
  for (std::size_t i = 0; i < panel.curves.size(); ++i) {
    Curve curve = panel.curves[i];
    if (!panel.bands) {
      // A little aside of each other, so that bars do not hide bars.
      const double aside = (static_cast<double>(i) - (static_cast<double>(panel.curves.size()) - 1) / 2) * 0.0035;
      for (auto& point : curve.points)
        point.first = logarithmic ? point.first * std::pow(right / left, aside) : point.first + aside * (right - left);
    }
    const std::string& label = methods[curve.method].label;
    const std::string source =
        file + " index " + std::to_string(add_block(plot, panel.title + ", " + label, curve.points));
    const std::string style = " ls " + std::to_string(curve.method + 1);
    if (panel.bands) {
      bands += (bands.empty() ? "" : ", ") + source + " using 1:3:4 with filledcurves" + style +
               " fs transparent solid 0.16 noborder notitle";
      const std::size_t every = std::max<std::size_t>(1, curve.points.size() / 6);
      lines += (lines.empty() ? "" : ", ") + source + " using 1:2 with linespoints" + style + " pointinterval " +
               std::to_string(every) + " notitle";
    } else {
      lines += (lines.empty() ? "" : ", ") + source + " using 1:2:3:4 with yerrorbars" + style +
               " dt 1 lw 1.2 notitle, " + source + " using 1:2 with linespoints" + style + " notitle";
    }
  }
  return script + "plot " + bands + (bands.empty() || lines.empty() ? "" : ", ") + lines + "\n";
}

}  // namespace

Figure plot_panels(const PlotFolder& folder, const std::string& name, const std::string& caption,
                   const std::vector<PlottedMethod>& methods, const std::vector<Panel>& panels) {
  if (panels.empty()) throw std::invalid_argument("a plot of nothing");
  std::vector<bool> shown(methods.size());
  for (const Panel& panel : panels)
    for (const Curve& curve : panel.curves) shown[curve.method] = true;
  LegendEntries entries;
  for (std::size_t i = 0; i < methods.size(); ++i)
    if (shown[i]) entries.emplace_back(methods[i].label, "linespoints ls " + std::to_string(i + 1));
  for (std::size_t i = 0; i < panels[0].levels.size(); ++i)
    entries.emplace_back(panels[0].levels[i].label, "lines ls " + std::to_string(100 + i));

  const int columns = static_cast<int>(std::min<std::size_t>(panels.size(), panels.size() == 4 ? 2 : 3));
  const int rows = (static_cast<int>(panels.size()) + columns - 1) / columns;
  const int width = columns == 1 ? kNarrowWidth : kWidth, top = legend_height(entries, width);
  const int panel_width = (width - kHeightsLabel) / columns, panel_height = columns == 1   ? 380
                                                                            : columns == 2 ? 290
                                                                                           : 250;
  Plot plot{.name = name, .width = width, .height = top + rows * panel_height, .body = "", .data = ""};
  plot.body = line_styles(methods, shown) + legend(plot, entries);
  for (int i = 0; i < static_cast<int>(panels.size()); ++i) {
    const int x = kHeightsLabel + i % columns * panel_width, y = top + i / columns * panel_height;
    const Area area =
        plot.area(x + 34, x + panel_width - 16, y + (panels[0].title.empty() ? 8 : 24), y + panel_height - 62);
    plot.body += panel_script(plot, panels[static_cast<std::size_t>(i)], area, i % columns == 0, methods);
  }
  return draw(folder, plot, caption);
}

Figure plot_intervals(const PlotFolder& folder, const std::string& name, const std::string& caption,
                      const std::vector<PlottedMethod>& methods, const std::vector<IntervalPanel>& panels) {
  if (panels.empty()) throw std::invalid_argument("a plot of nothing");
  const std::vector<bool> all(methods.size(), true);
  const std::vector<std::size_t> places = places_of(methods, all);
  std::vector<std::string> labels;
  for (const PlottedMethod& method : methods) labels.push_back(method.label);
  const int names = 24 + width_of(labels);
  const auto rows = static_cast<int>(panels[0].rows.size());
  Plot plot{.name = name, .width = kWidth, .height = 80 + 28 * rows, .body = "", .data = ""};
  const int panel_width = (plot.width - names) / static_cast<int>(panels.size());
  plot.body = line_styles(methods, all) +
              "unset key\nset border 1 lc rgb '#333333'\nset tics out scale 0.6\nset grid xtics lc rgb "
              "'#E4E4E4' lt 1 lw 0.7\nset xtics nomirror " +
              kPercentTics + "\nset xrange [-0.03:1.03]\n";
  plot.body += "set yrange [" + text(rows - 0.4) + ":-0.6]\n";
  for (int panel = 0; panel < static_cast<int>(panels.size()); ++panel) {
    const IntervalPanel& shown = panels[static_cast<std::size_t>(panel)];
    const int x = names + panel * panel_width;
    plot.body += set_area(plot.area(x + 8, x + panel_width - 16, 34, plot.height - 34));
    plot.body += "set title " + gnuplot_string(shown.title) + " offset 0,-0.4\n";
    std::string tics, curves;
    for (std::size_t row = 0; row < shown.rows.size(); ++row) {
      const auto& [method, estimate] = shown.rows[row];
      tics +=
          (row == 0 ? "" : ", ") + gnuplot_string(panel == 0 ? methods[method].label : "") + " " + std::to_string(row);
      const int block =
          add_block(plot, shown.title + ", " + methods[method].label, {{static_cast<double>(row), estimate}});
      const std::string source = gnuplot_string(plot.name + ".dat") + " index " + std::to_string(block);
      curves += (row == 0 ? "" : ", ") + source + " using 3:1:($4-$3):(0) with vectors nohead lc rgb '#90" +
                colour_of(methods[method], places[method]).substr(1) + "' lw 9 notitle, " + source +
                " using 2:1 with points ls " + std::to_string(method + 1) + " ps 1 notitle";
    }
    plot.body += "set ytics nomirror (" + tics + ") scale 0\nplot " + curves + "\n";
  }
  return draw(folder, plot, caption);
}

Figure plot_matrix(const PlotFolder& folder, const std::string& name, const std::string& caption,
                   const Matrix& matrix) {
  if (matrix.rows.empty() || matrix.columns.empty()) throw std::invalid_argument("a plot of nothing");
  constexpr int kRow = 24, kNarrowest = 28, kWidest = 92;
  const int names = 24 + width_of(matrix.rows), slanted = 24 + width_of(matrix.columns) * 2 / 3;
  const auto rows = static_cast<int>(matrix.rows.size()), columns = static_cast<int>(matrix.columns.size());
  const int cell = std::clamp((kWidth - names - slanted) / columns, kNarrowest, kWidest);
  Plot plot{.name = name,
            .width = names + columns * cell + slanted,
            .height = slanted + rows * kRow + 12,
            .body = "",
            .data = "# column, row, number, colour, colour of the number\n"};
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const auto& number = matrix.cells[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
      if (!number) continue;
      // From near white to the blue of the curves.
      const double chance = matrix.chance.empty() ? 0 : matrix.chance[static_cast<std::size_t>(column)];
      const double height = std::clamp((*number - chance) / (1 - chance), 0.0, 1.0);
      const auto mixed = [&](int light, int dark) {
        return static_cast<int>(std::lround(light + height * (dark - light)));
      };
      plot.data += formatted("%d %d %.0f 0x%02X%02X%02X 0x%s\n", column, row, 100 * *number, mixed(247, 0),
                             mixed(247, 90), mixed(247, 150), height > 0.5 ? "FFFFFF" : "333333");
    }
  std::string tics;
  for (int row = 0; row < rows; ++row)
    tics +=
        (row == 0 ? "" : ", ") + gnuplot_string(matrix.rows[static_cast<std::size_t>(row)]) + " " + std::to_string(row);
  plot.body = "unset key\nunset border\nset xrange [-0.5:" + text(columns - 0.5) + "]\nset yrange [" +
              text(rows - 0.5) + ":-0.5]\nunset xtics\nset ytics nomirror (" + tics + ") scale 0\n";
  plot.body += set_area(plot.area(names, names + columns * cell, slanted, slanted + rows * kRow));
  for (int column = 0; column < columns; ++column)
    plot.body += "set label " + gnuplot_string(matrix.columns[static_cast<std::size_t>(column)]) + " at " +
                 text(column - 0.1) + ",-0.8 rotate by 40 left\n";
  const std::string source = gnuplot_string(plot.name + ".dat");
  plot.body += "plot " + source + " using 1:2:(0.49):(0.47):4 with boxxyerror fs solid noborder lc rgb variable, " +
               source + " using 1:2:3:5 with labels tc rgb variable\n";
  return draw(folder, plot, caption);
}

std::optional<std::string> gnuplot_version() {
  try {
    const std::string said = run_gnuplot({"--version"}, ".");
    return said.substr(0, said.find('\n'));
  } catch (const GnuplotError&) {
    return {};
  }
}

}  // namespace engram
