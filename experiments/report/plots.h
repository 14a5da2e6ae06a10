// Plots of a comparison for papers and Markdown, drawn by gnuplot as SVG, PNG and PDF. Colours are Okabe and Ito's
// (2008), which people who do not see all colours can tell apart; dashes and markers differ as well, so that a grey
// print does.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/statistics/aggregate.h"

namespace engram {

// A method's look is its place among those of `methods` that a plot shows, and the same in all plots that show the
// same; controls are drawn in greys.
struct PlottedMethod {
  std::string label;
  bool control = false;
};

struct Curve {
  std::size_t method;  // place in the list of methods
  std::vector<std::pair<double, Estimate>> points;
};

struct Level {  // a horizontal line
  std::string label;
  double height;
};

struct Panel {
  std::string title, x_label, y_label;
  std::vector<Curve> curves;
  std::vector<Level> levels;
  bool bands = true;  // intervals as bands; else as bars with markers
};

// A number for each row and column, where there is one.
struct Matrix {
  std::vector<std::string> rows, columns;
  std::vector<std::vector<std::optional<double>>> cells;  // row, column
  std::vector<double> chance = {};                        // of each column, below 1; empty: 0 everywhere
};

// One figure's estimates of each method, a row a method.
struct IntervalPanel {
  std::string title;
  std::vector<std::pair<std::size_t, Estimate>> rows;
};

// Where plots go, which is there, and whether as PDF, too.
struct PlotFolder {
  std::filesystem::path path;
  bool pdf = false;

  PlotFolder(std::filesystem::path folder, bool also_pdf = false) : path(std::move(folder)), pdf(also_pdf) {}
};

// Each of these writes NAME.gp, NAME.dat, NAME.svg, NAME.png and, if asked for, NAME.pdf into `folder`, which exists,
// and reads the pictures back. Heights and numbers are fractions between 0 and 1. Legends name the methods that have
// curves. Where gnuplot is missing or fails, there are script and data alone, and Figure::missing says why.
Figure plot_panels(const PlotFolder& folder, const std::string& name, const std::string& caption,
                   const std::vector<PlottedMethod>& methods, const std::vector<Panel>& panels);
Figure plot_intervals(const PlotFolder& folder, const std::string& name, const std::string& caption,
                      const std::vector<PlottedMethod>& methods, const std::vector<IntervalPanel>& panels);
// Every number as a percentage on a ground that is the darker the higher it is, between its column's chance and 1.
Figure plot_matrix(const PlotFolder& folder, const std::string& name, const std::string& caption, const Matrix& matrix);

// "gnuplot 5.4 patchlevel 4"; nothing where there is none.
std::optional<std::string> gnuplot_version();

}  // namespace engram
