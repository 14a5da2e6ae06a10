#include "video/film_strip.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "envs/shown_observation.h"
#include "tests/video/pictures.h"

namespace engram {
namespace {

using namespace test;

int count_colour(const RgbImage& image, Rgb colour) {
  int count = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) count += image.at(x, y) == colour;
  }
  return count;
}

FrameContents room_moment() {
  FrameContents moment;
  moment.board = board_of({"#######", "#  g  #", "#     #", "##   ##", " # + # ", " ##### "});
  moment.phase = "search";
  moment.observation = crop_of(moment.board, 4, 3, 5);
  moment.seen = show_plainly(crop_spec(5), {}, moment.observation);
  return moment;
}

TEST_CASE("every moment of every row is in the strip, board and observation") {
  const FrameContents moment = room_moment();
  const FilmStripRow one{"one", crop_spec(5), {moment}};
  const RgbImage single = film_strip({one});
  const int goal = count_colour(single, kGoal);
  CHECK(goal > 0);

  const RgbImage strip = film_strip({{"three", crop_spec(5), {moment, moment, moment}}, one});
  CHECK(strip.width > 2 * single.width);
  CHECK(strip.height > single.height);
  CHECK(count_colour(strip, kGoal) == 4 * goal);
  CHECK(count_colour(strip, kPlayer) == 4 * count_colour(single, kPlayer));
  // On the board a cell of 22 pixels with a line at two sides; in the observation one of 26.
  CHECK(count_colour(single, kPlayer) == 21 * 21 + 26 * 26);
}

TEST_CASE("a grid shows the first moment of every episode, in as many columns as asked for") {
  const FilmStripRow episode{"one", crop_spec(5), {room_moment(), room_moment()}};
  const RgbImage single = film_grid({episode}, 1), grid = film_grid({5, episode}, 2);
  CHECK(count_colour(grid, kGoal) == 5 * count_colour(single, kGoal));
  CHECK(count_colour(grid, kPlayer) == 5 * count_colour(single, kPlayer));
  CHECK(single.width == film_strip({{"one", crop_spec(5), {room_moment()}}}).width);
  CHECK(grid.width == film_strip({episode}).width);
  CHECK(grid.height > 2 * single.height);
}

TEST_CASE("a strip of nothing is refused") {
  CHECK_THROWS_AS(film_grid({}, 3), std::invalid_argument);
  CHECK_THROWS_AS(film_grid({{"empty", crop_spec(5), {}}}, 3), std::invalid_argument);
  CHECK_THROWS_AS(film_strip({}), std::invalid_argument);
  CHECK_THROWS_AS(film_strip({{"empty", crop_spec(5), {}}}), std::invalid_argument);
}

}  // namespace
}  // namespace engram
