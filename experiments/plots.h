// Plots of a comparison, drawn by gnuplot as SVG and PNG. Colours are Okabe and Ito's (2008), which people who do not
// see all colours can tell apart; dashes and markers differ as well, so that a grey print does.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/aggregate.h"
#include "experiments/document.h"

namespace engram {

// A method's look is its place among `methods` and the same in all plots; controls are drawn in greys.
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

// One figure's estimates of each method, a row a method.
struct IntervalPanel {
  std::string title;
  std::vector<std::pair<std::size_t, Estimate>> rows;
};

// Each of these writes NAME.gp, NAME.dat, NAME.svg and NAME.png into `folder`, which exists, and reads the pictures
// back. Heights are fractions between 0 and 1. Throw UserError if there is no gnuplot, std::runtime_error with its
// words if it fails.
Figure plot_panels(const std::filesystem::path& folder, const std::string& name, const std::string& caption,
                   const std::vector<PlottedMethod>& methods, const std::vector<Panel>& panels);
Figure plot_intervals(const std::filesystem::path& folder, const std::string& name, const std::string& caption,
                      const std::vector<PlottedMethod>& methods, const std::vector<IntervalPanel>& panels);

// Throws UserError, which says how to get it, if there is no gnuplot. Returns its version, "gnuplot 5.4 patchlevel 4".
std::string gnuplot_version();

}  // namespace engram
