#include "video/memory_panel.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/video/pictures.h"
#include "video/drawing.h"

namespace engram {
namespace {

constexpr int kSteps = 10;

struct Painted {
  MemoryPanel panel{2, kSteps, 1};
  RgbImage image{700, 100, palette::kBackground};

  explicit Painted(const std::vector<MemoryStrip>& strips) {
    panel.place({10, 5, 680, panel.height()});
    panel.paint(image, strips);
  }
  // In the middle of a step's place, of `rows` rows.
  Rgb at(int strip, int row, int rows, int step) const {
    const Box area = panel.strip(strip);
    return image.at(area.x + area.width * (2 * step + 1) / (2 * kSteps),
                    area.y + area.height * (2 * row + 1) / (2 * rows));
  }
};

MemoryStrip strip(std::vector<std::vector<float>> rows) { return {.label = "layer 1", .rows = std::move(rows)}; }

TEST_CASE("every number stands at its step, a row a head, the largest in the darkest shade") {
  MemoryStrip first = strip({{0, 2, 1}, {1, 0, 2}});
  first.darkest = 2;
  const Painted painted({first, strip({{1}})});
  const Rgb light = palette::kTrack, dark = palette::kAccent;
  CHECK(painted.at(0, 0, 2, 0) == light);
  CHECK(painted.at(0, 0, 2, 1) == dark);
  CHECK(painted.at(0, 1, 2, 2) == dark);
  const Rgb middle = painted.at(0, 1, 2, 0);
  CHECK(middle == painted.at(0, 0, 2, 2));
  CHECK((middle.red < light.red && middle.red > dark.red));
  for (int step = 3; step < kSteps; ++step) CHECK(painted.at(0, 0, 2, step) == light);  // still to come
  CHECK(painted.at(1, 0, 1, 0) == dark);
  CHECK(painted.at(1, 0, 1, 1) == light);
}

TEST_CASE("the root makes small shares visible") {
  MemoryStrip rooted = strip({{0.04f}});
  rooted.square_root = true;
  const Painted painted({rooted, strip({{0.2f}})});
  CHECK(painted.at(0, 0, 1, 0) == painted.at(1, 0, 1, 0));
  CHECK(painted.at(0, 0, 1, 0).red < palette::kTrack.red);
}

TEST_CASE("more steps than pixels show their largest, and more heads than fit their mean") {
  MemoryPanel panel(1, 5000, 1);
  panel.place({0, 0, 676, panel.height()});  // 500 pixels for the numbers
  RgbImage image(676, panel.height(), palette::kBackground);
  std::vector<float> values(5000, 0.0f);
  values[1234] = 1;
  panel.paint(image, {strip({values})});
  const Box area = panel.strip(0);
  REQUIRE(area.width == 500);
  for (int x = 0; x < 500; ++x) {
    CAPTURE(x);
    CHECK((image.at(area.x + x, area.y + 3) == palette::kAccent) == (x == 123));
  }

  const Painted many({strip(std::vector<std::vector<float>>(20, {1})), strip({{0.5f}})});
  CHECK(many.at(0, 0, 1, 0) == palette::kAccent);
  std::vector<std::vector<float>> halves(20, {0});
  for (std::size_t i = 0; i < 10; ++i) halves[i] = {1};
  const Painted half({strip(halves), strip({{0.5f}})});
  CHECK(half.at(0, 0, 1, 0) == half.at(1, 0, 1, 0));
}

TEST_CASE("contents that do not fit the panel are refused") {
  CHECK_THROWS_AS(Painted({strip({}), strip({}), strip({})}), std::invalid_argument);
  CHECK_THROWS_AS(Painted({strip({std::vector<float>(kSteps + 1)})}), std::invalid_argument);
  CHECK_THROWS_AS(Painted({strip({{1, 2}, {1}})}), std::invalid_argument);
}

}  // namespace
}  // namespace engram
