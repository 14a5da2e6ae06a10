#include "video/board_view.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/video/pictures.h"
#include "video/drawing.h"

namespace engram {
namespace {

using namespace test;

const Canvas kRoom = board_of({"#######", "#  g  #", "#     #", "##   ##", " # + # ", " ##### "});

TEST_CASE("cells are square, as large as fits, and where the layout says") {
  BoardLayout layout(6, 7, 300, 200, 44);
  layout.place(10, 20);
  CHECK(layout.box().width == 7 * 33);
  CHECK(layout.box().height == 6 * 33);
  RgbImage image(400, 300, {255, 255, 255});
  draw_board(image, layout, kRoom);
  for (int row = 0; row < 6; ++row) {
    for (int column = 0; column < 7; ++column) {
      const Box cell = layout.cell(row, column);
      CHECK(cell.x == 10 + 33 * column);
      CHECK(cell.y == 20 + 33 * row);
      CHECK(image.at(cell.x + 2, cell.y + 2) == kRoom.at(row, column));
      CHECK(image.at(cell.right() - 1, cell.bottom() - 1) == kRoom.at(row, column));
    }
  }
  CHECK(image.at(9, 20) == Rgb{255, 255, 255});
  CHECK(image.at(layout.box().right(), layout.box().bottom()) == Rgb{255, 255, 255});
}

TEST_CASE("a long corridor is folded and every cell keeps a place of its own") {
  const BoardLayout layout(3, 501, 912, 420, 44);
  CHECK(layout.folded());
  CHECK(layout.box().width <= 912);
  for (int column = 1; column < 501; ++column) {
    const Box before = layout.cell(2, column - 1);
    const Box cell = layout.cell(0, column);
    CHECK(cell.width >= 10);
    CHECK((cell.x == before.right() || (cell.x == 0 && cell.y > before.bottom())));
    CHECK(layout.cell(2, column).bottom() <= layout.box().bottom());
  }
  CHECK(layout.cell(2, 500).bottom() == layout.box().bottom());
  CHECK_FALSE(BoardLayout(3, BoardLayout::kMaxColumns, 912, 420, 44).folded());
}

TEST_CASE("a board of another size is refused") {
  RgbImage image(400, 300, {255, 255, 255});
  CHECK_THROWS_AS(draw_board(image, BoardLayout(5, 7, 300, 200, 44), kRoom), std::invalid_argument);
}

TEST_CASE("the view's centre is found, also at the board's edge, and only where it is certain") {
  for (const auto& [row, column] : {CellPosition{4, 3}, CellPosition{0, 0}, CellPosition{1, 6}}) {
    Canvas board = kRoom;
    board.set(4, 3, kFloor);
    board.set(row, column, kPlayer);
    const auto centre = find_view_centre(board, crop_spec(5), crop_of(board, row, column, 5));
    REQUIRE(centre);
    CHECK(centre->row == row);
    CHECK(centre->column == column);
  }
  // Two walls in an empty hall look alike.
  Canvas hall;
  hall.resize(9, 20, kFloor);
  hall.set(4, 4, kWall);
  hall.set(4, 14, kWall);
  CHECK_FALSE(find_view_centre(hall, crop_spec(3), crop_of(hall, 4, 4, 3)));
  // A picture that is nowhere on the board, and a vector.
  CHECK_FALSE(find_view_centre(kRoom, crop_spec(3), std::vector<std::byte>(27, std::byte{7})));
  CHECK_FALSE(find_view_centre(kRoom, {ElementType::kFloat32, single_part({2})}, bytes_of({0, 1})));
}

TEST_CASE("the view is framed on the board, and nothing but its frame is touched") {
  const BoardLayout layout(6, 7, 300, 300, 42);
  RgbImage plain(300, 300, {255, 255, 255});
  draw_board(plain, layout, kRoom);
  RgbImage marked = plain;
  mark_view(marked, layout, kRoom, crop_spec(5), crop_of(kRoom, 4, 3, 5));
  const Box first = layout.cell(2, 1);
  const Box last = layout.cell(5, 5);
  CHECK(marked.at(first.x, first.y) == palette::kAccent);
  CHECK(marked.at(last.right() - 1, last.bottom() - 1) == palette::kAccent);
  CHECK(middle(marked, layout.cell(4, 3)) == kPlayer);
  int changed_outside = 0;
  for (int y = 0; y < marked.height; ++y) {
    for (int x = 0; x < marked.width; ++x) {
      const bool inside = x >= first.x && x < last.right() && y >= first.y && y < last.bottom();
      if (!inside && !(marked.at(x, y) == plain.at(x, y))) ++changed_outside;
    }
  }
  CHECK(changed_outside == 0);
}

TEST_CASE("an image observation is scaled up by whole pixels") {
  const Box box{10, 10, 64, 64};
  const Box picture = observation_box(crop_spec(5), box);
  CHECK(picture.width == 60);
  CHECK(picture.height == 60);
  RgbImage image(100, 100, {255, 255, 255});
  draw_observation(image, crop_spec(5), crop_of(kRoom, 1, 3, 5), box, 1);
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 5; ++x) {
      const int row = 1 + y - 2, column = 3 + x - 2;
      const Rgb expected = row >= 0 ? kRoom.at(row, column) : kFloor;
      CHECK(image.at(picture.x + 12 * x, picture.y + 12 * y) == expected);
      CHECK(image.at(picture.x + 12 * x + 11, picture.y + 12 * y + 11) == expected);
    }
  }
}

TEST_CASE("a large image observation is scaled down into its box") {
  const Box picture = observation_box({ElementType::kUint8, single_part({1, 400, 200})}, {0, 0, 100, 100});
  CHECK(picture.height == 100);
  CHECK(picture.width == 50);
  RgbImage image(110, 110, {255, 255, 255});
  draw_observation(image, {ElementType::kUint8, single_part({1, 400, 200})},
                   std::vector<std::byte>(80000, std::byte{90}), {0, 0, 100, 100}, 1);
  CHECK(image.at(25, 50) == Rgb{90, 90, 90});
}

TEST_CASE("a vector observation is shown by bars from the middle") {
  const ObservationSpec spec{ElementType::kFloat32, single_part({2})};
  RgbImage image(200, 100, {255, 255, 255});
  draw_observation(image, spec, bytes_of({1, -0.5}), {0, 0, 180, 100}, 1);
  const auto accents_in_row = [&image](int y) {
    int count = 0;
    for (int x = 0; x < image.width; ++x) count += image.at(x, y) == palette::kAccent;
    return count;
  };
  const int full = accents_in_row(14);               // rows of 28 pixels
  CHECK(full == doctest::Approx(50).epsilon(0.05));  // the track is 100 wide; the zero line takes one of them
  CHECK(accents_in_row(28 + 14) == doctest::Approx(25).epsilon(0.05));
}

TEST_CASE("of several parts the first image is shown, and numbers where there is none") {
  ObservationSpec spec = crop_spec(5);
  std::vector<std::byte> bytes(75, std::byte{120});
  RgbImage alone(100, 100, {255, 255, 255}), behind = alone;
  const Box box{0, 0, 60, 60};
  draw_observation(alone, spec, bytes, box, 1);
  spec.parts.insert(spec.parts.begin(), {"levels", PartKind::kTokens, {2}, 9});
  bytes.insert(bytes.begin(), 2, std::byte{3});
  draw_observation(behind, spec, bytes, box, 1);
  CHECK(alone.pixels == behind.pixels);
  CHECK(has_image(spec));
  // A channel too few for a picture.
  const ObservationSpec two_channels{ElementType::kUint8, single_part({2, 3, 3})};
  CHECK_FALSE(has_image(two_channels));
  CHECK(observation_box(two_channels, box).width == box.width);
  draw_observation(behind, two_channels, std::vector<std::byte>(18), box, 1);
  CHECK(alone.pixels != behind.pixels);
}

TEST_CASE("an observation of the wrong size is refused") {
  RgbImage image(100, 100, {255, 255, 255});
  CHECK_THROWS_AS(draw_observation(image, crop_spec(5), std::vector<std::byte>(74), {0, 0, 60, 60}, 1),
                  std::invalid_argument);
}

}  // namespace
}  // namespace engram
