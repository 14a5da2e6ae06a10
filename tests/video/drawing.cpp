#include "video/drawing.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace engram {
namespace {

constexpr Rgb kWhite{255, 255, 255};
constexpr Rgb kInk{10, 60, 120};

// The smallest box around all pixels that are not white; width 0 if there are none.
Box ink_box(const RgbImage& image) {
  int left = image.width, right = 0, top = image.height, bottom = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      if (image.at(x, y) == kWhite) continue;
      left = std::min(left, x);
      right = std::max(right, x + 1);
      top = std::min(top, y);
      bottom = std::max(bottom, y + 1);
    }
  }
  return right > left ? Box{left, top, right - left, bottom - top} : Box{};
}

TEST_CASE("boxes are filled exactly and cut at the picture's edge") {
  RgbImage image(20, 10, kWhite);
  fill_box(image, {15, 6, 100, 100}, kInk);
  const Box ink = ink_box(image);
  CHECK(ink.x == 15);
  CHECK(ink.y == 6);
  CHECK(ink.right() == 20);
  CHECK(ink.bottom() == 10);
  CHECK(image.at(15, 6) == kInk);
  CHECK(image.at(14, 6) == kWhite);
  fill_box(image, {30, 30, 5, 5}, kInk);  // wholly outside
}

TEST_CASE("an outline leaves the inside alone") {
  RgbImage image(20, 20, kWhite);
  outline_box(image, {2, 2, 10, 10}, kInk, 2);
  CHECK(image.at(2, 2) == kInk);
  CHECK(image.at(3, 11) == kInk);
  CHECK(image.at(4, 4) == kWhite);
  CHECK(image.at(12, 12) == kWhite);
}

TEST_CASE("a pasted picture is cut at the edge") {
  RgbImage image(10, 10, kWhite);
  paste(image, RgbImage(4, 4, kInk), 8, -2);
  const Box ink = ink_box(image);
  CHECK(ink.x == 8);
  CHECK(ink.width == 2);
  CHECK(ink.height == 2);
}

TEST_CASE("text keeps to its box, its height and its side") {
  const Box box{20, 10, 160, 30};
  for (const Align align : {Align::kLeft, Align::kCentre, Align::kRight}) {
    RgbImage image(200, 50, kWhite);
    draw_text(image, "HELLO", box, {12, kInk}, align);
    const Box ink = ink_box(image);
    CHECK(ink.x >= box.x - 1);
    CHECK(ink.right() <= box.right() + 1);
    CHECK(ink.height == doctest::Approx(12).epsilon(0.35));  // the stroke adds up to a pixel above and below
    CHECK(ink.y + ink.height / 2 == doctest::Approx(box.y + box.height / 2).epsilon(0.1));
    if (align == Align::kLeft) CHECK(ink.x < box.x + 5);
    if (align == Align::kCentre) CHECK(std::abs((ink.x + ink.right()) / 2 - (box.x + box.right()) / 2) <= 2);
    if (align == Align::kRight) CHECK(ink.right() > box.right() - 5);
  }
}

TEST_CASE("text that is too long is shortened to its box") {
  RgbImage image(200, 50, kWhite);
  const Box box{20, 10, 60, 30};
  draw_text(image, "a name that is much too long", box, {12, kInk});
  CHECK(ink_box(image).right() <= box.right() + 1);
  CHECK(ink_box(image).width > 40);
}

TEST_CASE("numbers") {
  CHECK(rounded_number_text(1) == "1");
  CHECK(rounded_number_text(100) == "100");
  CHECK(rounded_number_text(-0.02) == "-0.02");
  CHECK(rounded_number_text(0.12345) == "0.123");
  CHECK(rounded_number_text(-0.0001) == "0");
  CHECK(signed_number_text(5) == "+5");
  CHECK(signed_number_text(0) == "0");
  CHECK(signed_number_text(-1.5) == "-1.5");
  CHECK(fixed_number_text(0.996, 2) == "1.00");
}

}  // namespace
}  // namespace engram
