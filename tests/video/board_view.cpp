#include "video/board_view.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "envs/shown_observation.h"
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

TEST_CASE("an arrow points where it faces, within its cell, on the board and in what is seen") {
  BoardLayout layout(6, 7, 300, 200, 44);
  layout.place(0, 0);
  const Box cell = layout.cell(4, 3);
  const Rgb ink = palette::kText;
  for (const Facing facing : {Facing::kRight, Facing::kDown, Facing::kLeft, Facing::kUp}) {
    CAPTURE(static_cast<int>(facing));
    Canvas board = kRoom;
    board.set_arrow({4, 3, facing});
    const ShownObservation seen{board, {}};
    RgbImage with(400, 300, {255, 255, 255}), without = with, picture = with;
    draw_board(without, layout, kRoom);
    draw_board(with, layout, board);
    draw_seen(picture, seen, {0, 0, 7 * cell.width, 6 * cell.width}, 1);
    // How much ink lies on each side of the cell, in its four quarters by the diagonals: the base is opposite the tip.
    int right = 0, left = 0, down = 0, up = 0, differ = 0;
    for (int y = 0; y < with.height; ++y)
      for (int x = 0; x < with.width; ++x) {
        if (with.at(x, y) == without.at(x, y)) continue;
        ++differ;
        REQUIRE(with.at(x, y) == ink);
        REQUIRE(picture.at(x, y) == ink);
        REQUIRE((x > cell.x && x < cell.right() - 1 && y > cell.y && y < cell.bottom() - 1));
        const int dx = 2 * (x - cell.x) + 1 - cell.width, dy = 2 * (y - cell.y) + 1 - cell.height;
        right += dx > 0, left += dx<0, down += dy> 0, up += dy < 0;
      }
    CHECK(differ > cell.width * cell.width / 8);
    board.set_arrow({1, 0, facing});  // on a wall, which is dark
    draw_board(with, layout, board);
    CHECK(middle(with, layout.cell(1, 0)) == palette::kOnColour);
    CHECK((left > 2 * right) == (facing == Facing::kRight));
    CHECK((right > 2 * left) == (facing == Facing::kLeft));
    CHECK((up > 2 * down) == (facing == Facing::kDown));
    CHECK((down > 2 * up) == (facing == Facing::kUp));
  }
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

TEST_CASE("a picture that is seen is scaled up by whole pixels") {
  const Box box{10, 10, 64, 64};
  const ShownObservation seen = show_plainly(crop_spec(5), {}, crop_of(kRoom, 1, 3, 5));
  const Box picture = seen_box(seen, box, 1);
  CHECK(picture.width == 60);
  CHECK(picture.height == 60);
  RgbImage image(100, 100, {255, 255, 255});
  draw_seen(image, seen, box, 1);
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 5; ++x) {
      const int row = 1 + y - 2, column = 3 + x - 2;
      const Rgb expected = row >= 0 ? kRoom.at(row, column) : kFloor;
      CHECK(image.at(picture.x + 12 * x, picture.y + 12 * y) == expected);
      CHECK(image.at(picture.x + 12 * x + 11, picture.y + 12 * y + 11) == expected);
    }
  }
}

TEST_CASE("a large picture is scaled down into its box") {
  ShownObservation seen;
  seen.picture.emplace().resize(400, 200, {90, 90, 90});
  const Box picture = seen_box(seen, {0, 0, 100, 100}, 1);
  CHECK(picture.height == 100);
  CHECK(picture.width == 50);
  RgbImage image(110, 110, {255, 255, 255});
  draw_seen(image, seen, {0, 0, 100, 100}, 1);
  CHECK(image.at(25, 50) == Rgb{90, 90, 90});
}

TEST_CASE("where lines are left out the last one shown says so") {
  const auto drawn = [](const std::vector<std::string>& lines) {
    RgbImage image(100, 60, {255, 255, 255});
    draw_seen(image, {{}, lines}, {0, 0, 100, 34}, 1);  // room for two
    return image.pixels;
  };
  CHECK(drawn({"one", "two", "three"}) == drawn({"one", "two .."}));
  CHECK(drawn({"one", "two"}) != drawn({"one", "two .."}));
}

TEST_CASE("lines that are seen are wrapped, and stay within their box") {
  const ShownObservation one{{}, {"card: spades"}}, long_one{{}, {"row and column, as shares of the size: 0.5 0.25"}};
  ShownObservation many{{}, {}};
  for (int i = 0; i < 20; ++i) many.lines.push_back("bit " + std::to_string(i));
  const Box box{10, 12, 140, 140};
  for (const int scale : {1, 2}) {
    const Box place{scale * box.x, scale * box.y, scale * box.width, scale * box.height};
    CHECK(seen_box(long_one, place, scale).height >= 3 * seen_box(one, place, scale).height);
    CHECK(seen_box(many, place, scale).height == place.height);
    for (const ShownObservation& seen : {one, long_one, many}) {
      RgbImage image(200 * scale, 200 * scale, {255, 255, 255});
      draw_seen(image, seen, place, scale);
      const Box used = seen_box(seen, place, scale);
      int inked = 0, outside = 0;
      for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x) {
          if (image.at(x, y) == Rgb{255, 255, 255}) continue;
          ++inked;
          // A stroke's end or what hangs below a line may reach a little further.
          const int over = 2 * scale;
          outside += x < used.x - over || x >= used.right() + over || y < used.y - over || y >= used.bottom() + over;
        }
      CHECK(inked > 0);
      CHECK(outside == 0);
    }
  }
}

}  // namespace
}  // namespace engram
