#include "video/memory_panel.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/video/pictures.h"
#include "video/drawing.h"

namespace engram {
namespace {

constexpr int kSteps = 10;

struct Painted {
  MemoryPanel panel;
  RgbImage image{900, 200, palette::kBackground};

  explicit Painted(const std::vector<MemoryStrip>& strips, int known = kSteps) : panel(rows_of(strips), 1) {
    panel.place({10, 5, 880, panel.height()});
    panel.paint(image, strips, known);
  }
  static std::vector<int> rows_of(const std::vector<MemoryStrip>& strips) {
    std::vector<int> rows;
    for (const MemoryStrip& strip : strips) rows.push_back(static_cast<int>(strip.rows.size()));
    return rows;
  }
  // In the middle of a step's place, of `rows` rows.
  Rgb at(int strip, int row, int rows, int step) const {
    const Box area = panel.strip(strip);
    return image.at(area.x + area.width * (2 * step + 1) / (2 * kSteps),
                    area.y + area.height * (2 * row + 1) / (2 * rows));
  }
};

MemoryStrip strip(std::vector<std::vector<float>> rows, Shades shades = Shades::kRange, float low = 0, float high = 1) {
  for (std::vector<float>& row : rows) row.resize(kSteps);
  return {.label = "layer 1", .shades = shades, .low = low, .high = high, .rows = std::move(rows)};
}

Rgb shade(double share) { return memory_shade(Shades::kRange, share); }

int darkness(Rgb colour) { return 3 * 255 - colour.red - colour.green - colour.blue; }

TEST_CASE("every number stands at its step, a row a head, the strip's own range from white to the darkest shade") {
  const Painted painted({strip({{-1, 3, 1}, {1, -1, 3}}, Shades::kRange, -1, 3), strip({{1}})}, 3);
  CHECK(painted.at(0, 0, 2, 0) == Rgb{255, 255, 255});
  CHECK(painted.at(0, 0, 2, 1) == shade(1));
  CHECK(painted.at(0, 1, 2, 2) == shade(1));
  CHECK(painted.at(0, 1, 2, 0) == shade(0.5));
  CHECK(painted.at(0, 0, 2, 2) == shade(0.5));
  CHECK(darkness(shade(1)) > 400);
  for (int step = 3; step < kSteps; ++step) CHECK(painted.at(0, 0, 2, step) == palette::kTrack);  // still to come
  CHECK(painted.at(1, 0, 1, 0) == shade(1));
  CHECK(painted.at(1, 0, 1, 1) == shade(0));
}

TEST_CASE("the root makes small shares of the greatest visible") {
  const Painted painted({strip({{0.01f, 0.25f}}, Shades::kRoot, 0, 0.25f)});
  CHECK(painted.at(0, 0, 1, 0) == shade(0.2));
  CHECK(painted.at(0, 0, 1, 1) == shade(1));
}

TEST_CASE("signed numbers have a colour for each sign, white for 0") {
  const Painted painted({strip({{-4, -2, 0, 2, 4}}, Shades::kSigned, 0, 4)});
  const Rgb least = painted.at(0, 0, 1, 0), greatest = painted.at(0, 0, 1, 4);
  CHECK(least.red > least.blue);
  CHECK(greatest.blue > greatest.red);
  CHECK(painted.at(0, 0, 1, 2) == Rgb{255, 255, 255});
  CHECK(darkness(painted.at(0, 0, 1, 1)) > 100);
  CHECK(darkness(painted.at(0, 0, 1, 1)) < darkness(least));
  CHECK(painted.at(0, 0, 1, 3) == shade(0.5));
}

TEST_CASE("a strip that never changes is of the middle shade, and numbers that are none leave it white") {
  CHECK(Painted({strip({std::vector<float>(kSteps, 2)}, Shades::kRange, 2, 2)}).at(0, 0, 1, 5) == shade(0.5));
  CHECK(Painted({strip({{NAN}})}).at(0, 0, 1, 0) == shade(0));
}

TEST_CASE("many rows make a strip higher, and labels and ranges stand beside it") {
  const Painted painted({strip({{1}}), strip(std::vector<std::vector<float>>(100, {1}))});
  CHECK(painted.panel.strip(0).height >= 24);
  CHECK(painted.panel.strip(1).height >= 50);
  CHECK(painted.panel.strip(1).y > painted.panel.strip(0).bottom());
  const Box area = painted.panel.strip(0);
  const auto inked = [&](int from, int to) {
    for (int x = from; x < to; ++x)
      for (int y = area.y; y < area.bottom(); ++y)
        if (!(painted.image.at(x, y) == palette::kBackground)) return true;
    return false;
  };
  CHECK(inked(10, area.x - 4));
  CHECK(inked(area.right() + 4, 890));
}

TEST_CASE("more numbers than pixels show those of the greatest magnitude") {
  MemoryPanel panel({200}, 1);
  panel.place({0, 0, 804, panel.height()});  // 500 pixels for the numbers
  RgbImage image(804, panel.height(), palette::kBackground);
  MemoryStrip many{.label = "layer 1", .shades = Shades::kSigned};
  many.rows.assign(200, std::vector<float>(5000, 0.0f));
  many.rows[150][1234] = -1;
  many.rows[151][1235] = 0.5f;
  panel.paint(image, {many}, 5000);
  const Box area = panel.strip(0);
  REQUIRE(area.width == 500);
  REQUIRE(area.height == 60);
  for (int x = 0; x < 500; ++x)
    for (int y = 0; y < 60; ++y) {
      CAPTURE(x);
      CAPTURE(y);
      const bool there = x == 123 && y == 45;
      CHECK(image.at(area.x + x, area.y + y) == memory_shade(Shades::kSigned, there ? -1 : 0));
    }
}

TEST_CASE("contents that do not fit the panel are refused") {
  const MemoryStrip one = strip({{}});
  RgbImage image(900, 200, palette::kBackground);
  MemoryPanel panel({1, 2}, 1);
  panel.place({0, 0, 880, panel.height()});
  CHECK_NOTHROW(panel.paint(image, {}, 0));
  CHECK_NOTHROW(panel.paint(image, {one, strip({{}, {}})}, kSteps));
  CHECK_THROWS_AS(panel.paint(image, {one}, 1), std::invalid_argument);
  CHECK_THROWS_AS(panel.paint(image, {one, one}, 1), std::invalid_argument);
  CHECK_THROWS_AS(panel.paint(image, {one, strip({{}, {}})}, kSteps + 1), std::invalid_argument);
  MemoryStrip ragged = strip({{}, {}});
  ragged.rows[1].pop_back();
  CHECK_THROWS_AS(panel.paint(image, {one, ragged}, 1), std::invalid_argument);
}

}  // namespace
}  // namespace engram
